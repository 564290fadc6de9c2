package decider

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// offering is the decision for a run at t0 with so many planned units and room for so many.
func offering(run Run, units, fit int) Dispatch {
	var cs []Candidate
	for n := 1; n <= units; n++ {
		cs = append(cs, candidate(n, "b"))
	}
	return Dispatch{
		Run: run, Now: t0, Waiting: Waiting{Planned: slices.Values(cs)}, Room: room(64, 16, fit), OpenUnits: max(units, 1), Wakeup: 3,
		StaleAfter: staleAfter,
	}
}

func dispatchOf(n int) DispatchUnit {
	return DispatchUnit{Unit: candidate(n, "b").Unit, At: t0, RunOpen: true, Wakeup: 3, StaleAfter: staleAfter}
}

func armOf(k events.Kind, after events.Span, cause events.ArmCause) ArmWakeup {
	return ArmWakeup{Owner: theRun, Kind: k, Mode: events.AtMostOnce, At: t0.Add(after), Cause: cause}
}

// HD-1, HD-5 to HD-8, B-5, X-3, RL-5, SC-117, SC-118, SC-122, SC-144 to SC-147, SC-152: what a dispatch comes to, and what it arms.
func TestWhatADispatchComesTo(t *testing.T) {
	planned := givenRun(at(-hour, plannedRun(10)))
	under := givenRun(at(-hour, plannedRun(10)), at(-minute, events.RunDispatchStarted{}))
	over := givenRun(endedRun()...)
	with := func(d Dispatch, change func(*Dispatch)) Dispatch {
		change(&d)
		return d
	}
	fanOut := armOf(events.KindUnit, 0, events.ArmDispatched)
	capped := armOf(events.KindDispatch, minute, events.ArmCapped)
	for name, tt := range map[string]struct {
		dispatch Dispatch
		code     DispatchCode
		commands []Command
	}{
		"missing":                 {offering(Run{}, 2, 2), DispatchMissing, nil},
		"terminal":                {offering(over, 2, 2), DispatchTerminal, nil},
		"all fit, first dispatch": {offering(planned, 2, 2), DispatchDispatched, []Command{dispatchOf(1), dispatchOf(2), StartRun{Run: theRun}, fanOut}},
		"all fit, later dispatch": {offering(under, 2, 2), DispatchDispatched, []Command{dispatchOf(1), dispatchOf(2), fanOut}},
		"some are left over":      {offering(under, 3, 1), DispatchDispatched, []Command{dispatchOf(1), fanOut, capped}},
		"none fits":               {offering(under, 3, 0), DispatchCapped, []Command{capped}},
		"left over, a retry is due earlier": {
			with(offering(under, 3, 1), func(d *Dispatch) { d.Later = Later{t0.Add(30 * second), events.ArmDeferred} }), DispatchDispatched,
			[]Command{dispatchOf(1), fanOut, armOf(events.KindDispatch, 30*second, events.ArmDeferred)},
		},
		"left over, a retry is due later": {
			with(offering(under, 3, 1), func(d *Dispatch) { d.Later = Later{t0.Add(hour), events.ArmDeferred} }), DispatchDispatched,
			[]Command{dispatchOf(1), fanOut, capped},
		},
		"none fits, a retry is due earlier": {
			with(offering(under, 3, 0), func(d *Dispatch) { d.Later = Later{t0.Add(second), events.ArmDeferred} }), DispatchDeferred,
			[]Command{armOf(events.KindDispatch, second, events.ArmDeferred)},
		},
		"only future retries": {
			with(offering(under, 0, 8), func(d *Dispatch) { d.Later = Later{t0.Add(hour), events.ArmDeferred} }), DispatchDeferred,
			[]Command{armOf(events.KindDispatch, hour, events.ArmDeferred)},
		},
		"all fit, a retry is due later": {
			with(offering(under, 1, 8), func(d *Dispatch) { d.Later = Later{t0.Add(hour), events.ArmDeferred} }), DispatchDispatched,
			[]Command{dispatchOf(1), fanOut, armOf(events.KindDispatch, hour, events.ArmDeferred)},
		},
		"a retry is due exactly with the countdown": {
			with(offering(under, 0, 8), func(d *Dispatch) { d.Later = Later{t0.Add(minute), events.ArmDeferred} }), DispatchDeferred,
			[]Command{armOf(events.KindDispatch, minute, events.ArmDeferred)},
		},
		"what was taken is not finalized": {
			with(offering(under, 1, 8), func(d *Dispatch) { d.OpenUnits = 0 }), DispatchDispatched, []Command{dispatchOf(1), fanOut},
		},
		"nor what waits for a retry": {
			with(offering(under, 0, 8), func(d *Dispatch) { d.OpenUnits, d.Later = 0, Later{t0.Add(hour), events.ArmDeferred} }), DispatchDeferred,
			[]Command{armOf(events.KindDispatch, hour, events.ArmDeferred)},
		},
		"a cooldown ends later": {
			with(offering(under, 0, 8), func(d *Dispatch) { d.Later = Later{t0.Add(hour), events.ArmCooldown} }), DispatchDeferred,
			[]Command{armOf(events.KindDispatch, hour, events.ArmCooldown)},
		},
		"left over, a cooldown ends earlier": {
			with(offering(under, 3, 1), func(d *Dispatch) { d.Later = Later{t0.Add(second), events.ArmCooldown} }), DispatchDispatched,
			[]Command{dispatchOf(1), fanOut, armOf(events.KindDispatch, second, events.ArmCooldown)},
		},
		"the engine is paused": {
			with(offering(under, 3, 8), func(d *Dispatch) { d.Paused, d.Later = true, Later{t0.Add(second), events.ArmDeferred} }),
			DispatchPaused, nil,
		},
		"it is paused, and nothing is open": {
			with(offering(under, 0, 8), func(d *Dispatch) { d.Paused, d.OpenUnits = true, 0 }), DispatchPaused, nil,
		},
		"units are in flight": {offering(under, 0, 8), DispatchWaiting, nil},
		"nothing is open":     {with(offering(under, 0, 8), func(d *Dispatch) { d.OpenUnits = 0 }), DispatchFinalizing, []Command{armOf(events.KindFinalize, 0, events.ArmSettled)}},
		"nothing is open, but this is a refill": {
			with(offering(under, 0, 8), func(d *Dispatch) { d.OpenUnits, d.Refill, d.Limit = 0, true, 1 }), DispatchWaiting, nil,
		},
		"a refill takes what was freed": {
			with(offering(under, 3, 8), func(d *Dispatch) { d.Refill, d.Limit = true, 2 }), DispatchDispatched,
			[]Command{dispatchOf(1), dispatchOf(2), fanOut, capped},
		},
	} {
		t.Run(name, func(t *testing.T) {
			commands, code := tt.dispatch.Plan()
			require.Equal(t, tt.code, code)
			require.Equal(t, tt.commands, commands)
		})
	}
}

// U-4, N-4: what is known of a lost message reaches the rule that decides the unit.
func TestALostMessageIsPassedOn(t *testing.T) {
	d := offering(givenRun(at(-hour, plannedRun(1)), at(-minute, events.RunDispatchStarted{})), 0, 8)
	lost := candidate(1, "b")
	lost.MessageGone = true
	d.Waiting.Stale = []Candidate{lost}
	commands, _ := d.Plan()
	want := dispatchOf(1)
	want.MessageGone = true
	require.Equal(t, want, commands[0])
}

// HD-6, CFG-2: the countdown is the one that the run has frozen.
func TestTheCountdownIsFrozenInTheRun(t *testing.T) {
	plan := plannedRun(3)
	plan.Policy.Countdown = 7 * second
	commands, _ := offering(givenRun(at(-hour, plan)), 3, 0).Plan()
	require.Equal(t, []Command{armOf(events.KindDispatch, 7*second, events.ArmCapped)}, commands)
}

// HD-6, O-4, SC-368: while the safety net of a run hangs, further dispatches append nothing for it.
func TestTheSafetyNetIsHungOnce(t *testing.T) {
	net := givenRegister(events.KindDispatch, at(0, armed(1, minute)))
	for _, after := range []events.Span{0, second, 59 * second} {
		requireNothing(t, net, armOf(events.KindDispatch, after+minute, events.ArmCapped))
	}
}
