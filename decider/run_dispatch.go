package decider

import (
	"math"

	"github.com/towline-dev/towline/events"
)

// Dispatch is what the dispatch decision reads, all in one transaction (spec 10.1). It ends in commands for the units
// taken and for the registers of the run.
type Dispatch struct {
	Run        Run
	Now        events.Micros
	Paused     bool    // the engine
	Waiting    Waiting // without what is held: by a paused source, a cooldown, or a configuration that lacks it
	Room       Room
	Later      Later
	OpenUnits  int
	Wakeup     int         // of run_sync_unit: Register.Announce
	StaleAfter events.Span // dispatch.stale
	Limit      int         // most units to take; 0: as many as fit. A refill takes as many as were freed (B-6)
	Refill     bool        // the decision of a transition that freed slots, not of the handler
}

// Later is the time ahead at which units of a run that nothing holds can be dispatched, and what they wait for (HD-6).
type Later struct {
	At    events.Micros   // the earliest; 0: none waits for a time
	Cause events.ArmCause // deferred: its retry is due then; cooldown: a cooldown ends (RL-5)
}

// DispatchCode says what a dispatch came to; it is logged.
type DispatchCode string

const (
	DispatchMissing    DispatchCode = "missing"
	DispatchTerminal   DispatchCode = "terminal"
	DispatchPaused     DispatchCode = "paused"
	DispatchDispatched DispatchCode = "dispatched"
	DispatchCapped     DispatchCode = "capped"
	DispatchDeferred   DispatchCode = "deferred"
	DispatchWaiting    DispatchCode = "waiting"
	DispatchFinalizing DispatchCode = "finalizing"
)

// Plan decides HD-1 and HD-3 to HD-8. Units that were never started have been failed before (HD-2).
func (d Dispatch) Plan() ([]Command, DispatchCode) {
	switch {
	case !d.Run.Exists():
		return nil, DispatchMissing
	case !d.Run.Open():
		return nil, DispatchTerminal
	case d.Paused:
		return nil, DispatchPaused // resume arms it again
	}
	limit := d.Limit
	if limit == 0 {
		limit = math.MaxInt
	}
	taken, left := Choose(d.Waiting.InOrder(), d.Room, limit)
	cmds := d.take(taken)
	code := DispatchWaiting
	if len(taken) > 0 {
		code = DispatchDispatched
	}

	// HD-6: the earliest of the countdown, the next retry and the end of a cooldown. While a wakeup is open and due no later, the arm
	// appends nothing, so the safety net costs one event per countdown, not one per settle.
	switch next := d.next(left); {
	case next == 0 && len(taken) == 0 && d.OpenUnits == 0 && !d.Refill:
		return append(cmds, d.arm(events.KindFinalize, d.Now, events.ArmSettled)), DispatchFinalizing // HD-7
	case next == 0:
		return cmds, code
	case left && next == d.Now.Add(d.Run.Plan.Policy.Countdown):
		cmds = append(cmds, d.arm(events.KindDispatch, next, events.ArmCapped))
		if len(taken) == 0 {
			code = DispatchCapped
		}
	default:
		cmds = append(cmds, d.arm(events.KindDispatch, next, d.Later.Cause))
		if len(taken) == 0 {
			code = DispatchDeferred
		}
	}
	return cmds, code
}

func (d Dispatch) take(taken []Candidate) []Command {
	if len(taken) == 0 {
		return nil
	}
	cmds := make([]Command, 0, len(taken)+3)
	for _, c := range taken {
		cmds = append(cmds, DispatchUnit{
			Unit: c.Unit, At: d.Now, RunOpen: true, Wakeup: d.Wakeup, StaleAfter: d.StaleAfter, MessageGone: c.MessageGone,
		})
	}
	if d.Run.Status == events.RunIsPlanned {
		cmds = append(cmds, StartRun{Run: d.Run.ID})
	}
	return append(cmds, d.arm(events.KindUnit, d.Now, events.ArmDispatched))
}

// next is the time at which the run must be looked at again; 0: a settle, a resume or the configuration goes on by
// itself (HD-8).
func (d Dispatch) next(left bool) events.Micros {
	next := d.Later.At
	if left {
		next = events.Earliest(next, d.Now.Add(d.Run.Plan.Policy.Countdown))
	}
	return next
}

func (d Dispatch) arm(k events.Kind, at events.Micros, cause events.ArmCause) Command {
	return ArmWakeup{Owner: d.Run.ID, Kind: k, Mode: d.Run.Plan.Policy.PostSync, At: at, Cause: cause}
}
