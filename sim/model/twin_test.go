package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// twin is the world of a configuration once more, with the rules of the engine in place of the model's: streams in memory,
// a clock, and the shells around the commands, as thin as they can be.
type twin struct {
	*rules
	streams map[events.StreamID]decider.State
	heads   map[events.StreamID]events.Version
	head    events.Position
	now     events.Micros
	node    events.NodeID
	gone    map[events.NodeID]bool
	relays  [maxRelays]twinRelay
	tokens  int

	freed []events.RunID // in this transaction
}

// twinRelay is what a relay remembers between its transactions.
type twinRelay struct {
	run   events.RunID
	kind  events.Kind
	n     int
	token events.Token
}

// Each time is far enough from the others that none is overtaken while it waits (see jump).
var (
	span = struct{ backoff, countdown, claim, redrive, stale, lease, lifetime, far, neverStarted events.Span }{
		backoff: events.SpanOf(time.Second), countdown: events.SpanOf(2 * time.Second), claim: events.SpanOf(time.Minute),
		redrive: events.SpanOf(5 * time.Minute), stale: events.SpanOf(15 * time.Minute), lease: events.SpanOf(30 * time.Minute),
		lifetime: events.SpanOf(1_000_000 * time.Hour), far: events.SpanOf(10 * time.Hour), neverStarted: events.SpanOf(time.Hour),
	}
	kindNames = [kinds]events.Kind{events.KindDispatch, events.KindUnit, events.KindFinalize, events.KindPostSync}
)

func runID(run int) events.RunID { return events.RunID{0: 1, 15: byte(run + 1)} }
func unitID(i int) events.UnitID { return events.UnitID{0: 2, 15: byte(i + 1)} }
func jobID(run int) events.JobID { return events.JobID{0: 3, 15: byte(run + 1)} }
func targetName(t int) string    { return fmt.Sprint("target", t) }
func sourceName(source uint8) string {
	return fmt.Sprint("source", source)
}

func newTwin(r *rules) *twin {
	w := &twin{
		rules: r, streams: map[events.StreamID]decider.State{}, heads: map[events.StreamID]events.Version{},
		now: 1_772_438_400_000_000, gone: map[events.NodeID]bool{},
	}
	w.start()
	w.transact(func() {
		for run := range r.Runs {
			w.plan(run)
		}
	})
	return w
}

// plan is.
func (w *twin) plan(run int) {
	policy := events.Policy{
		Lease: span.lease, Lifetime: span.lifetime, Countdown: span.countdown, RunCap: maxUnits, PostSync: w.mode(),
		MaxDeliveries: int(w.MaxFailures), Retry: []events.RetryPolicy{decider.Linear(int(w.MaxRetries), span.far)},
	}
	for t := range w.Targets {
		policy.Targets = append(policy.Targets, targetName(t))
	}
	n := 0
	for range w.unitsOf(run) {
		n++
	}
	w.execute(
		decider.OpenJob{Job: jobID(run), Opened: events.JobOpened{Sync: "sync"}},
		decider.PlanRun{Run: runID(run), Plan: events.RunPlanned{Job: jobID(run), Sync: "sync", Mode: events.Backfill, TotalUnits: n, Policy: policy}},
	)
	for i := range w.unitsOf(run) {
		tier := events.TierWorkItem
		if w.Units[i].Reference {
			tier = events.TierReference
		}
		w.execute(decider.PlanUnit{Unit: unitID(i), Plan: events.UnitPlanned{
			Run: runID(run), Ordinal: i + 1, Source: sourceName(w.Units[i].Source), Provider: "linear", Dataset: "work-items", Tier: tier,
			Cost: events.CostMedium, Mode: events.Backfill, Surfaces: []string{"work-items"},
		}})
	}
	w.execute(w.arm(run, events.KindDispatch, w.now, events.ArmPlanned), decider.LinkJob{Job: jobID(run), Run: runID(run)})
}

func (w *twin) mode() events.DeliveryMode {
	if w.Mode == ExactlyOnce {
		return events.ExactlyOnce
	}
	return events.AtMostOnce
}

func (w *twin) arm(run int, k events.Kind, at events.Micros, cause events.ArmCause) decider.ArmWakeup {
	return decider.ArmWakeup{Owner: runID(run), Kind: k, Mode: w.mode(), At: at, Cause: cause}
}

// start is the next incarnation. Those before it are gone (N-1, N-3).
func (w *twin) start() {
	if w.node != (events.NodeID{}) {
		w.gone[w.node] = true
	}
	w.node = events.NodeID{0: 4, 15: byte(len(w.gone) + 1), 14: byte((len(w.gone) + 1) >> 8)}
	w.transact(func() {
		w.execute(decider.StartNode{Node: w.node, Started: events.NodeStarted{StoreMode: events.StoreExclusive}})
	})
}

// transact is one transaction: what fn decides, and the refill of the slots that it frees (B-6).
func (w *twin) transact(fn func()) {
	w.freed = nil
	fn()
	w.refill()
}

// execute decides commands, and what follows from them, breadth first.
func (w *twin) execute(cmds ...decider.Command) (results []decided) {
	type reaction struct {
		event events.Envelope
		after decider.State
	}
	var queue []reaction
	one := func(c decider.Command) decided {
		id := c.Stream()
		state, known := w.streams[id]
		if !known {
			state = decider.Zero(id)
		}
		evs, rejection := decider.Decide(state, c)
		for _, e := range evs {
			w.head++
			w.heads[id]++
			env := events.Envelope{
				Position: w.head, Tx: w.head, Stream: id, Version: w.heads[id], At: w.now,
				Meta: events.Meta{Command: c.Name(), Node: w.node}, Event: e,
			}
			before := state
			state = decider.Evolve(state, env)
			if run, ok := decider.Freed(before, state); ok {
				w.freed = append(w.freed, run)
			}
			queue = append(queue, reaction{env, state})
		}
		w.streams[id] = state
		return decided{evs, rejection}
	}
	for _, c := range cmds {
		results = append(results, one(c))
	}
	for i := 0; i < len(queue); i++ {
		for _, c := range decider.React(queue[i].event, queue[i].after, facts{w}) {
			one(c)
		}
	}
	return results
}

type decided struct {
	events    []events.Event
	rejection *decider.Rejection
}

func (w *twin) run(run int) decider.Run {
	return w.streams[events.RunStream(runID(run))].(decider.Run)
}
func (w *twin) unit(i int) decider.Unit {
	return w.streams[events.UnitStream(unitID(i))].(decider.Unit)
}
func (w *twin) reg(run int, k events.Kind) decider.Register {
	r, _ := w.streams[events.RegisterStream(runID(run), k)].(decider.Register)
	return r
}

func (w *twin) paused(id events.StreamID) bool {
	c, _ := w.streams[id].(decider.Control)
	return c.Paused
}

// place is which of the runs an id names.
func place(id events.RunID) int { return int(id[15]) - 1 }

// The facts that rules ask for, read from the folds one by one: the engine keeps them in views.

func (w *twin) OpenUnits(id events.RunID) (n int) {
	for i := range w.unitsOf(place(id)) {
		if w.unit(i).Open() {
			n++
		}
	}
	return n
}

func (w *twin) WaitingFor(id events.RunID, source string) (waiting []events.UnitID) {
	for i := range w.unitsOf(place(id)) {
		if u := w.unit(i); u.Plan.Source == source && u.Plan.Tier == events.TierWorkItem && u.Status == events.UnitIsPlanned {
			waiting = append(waiting, unitID(i))
		}
	}
	return waiting
}

// facts are the twin as reactions see it.
type facts struct{ *twin }

func (f facts) Mode(events.RunID) events.DeliveryMode { return f.mode() }

func (w *twin) Later(id events.RunID) (later decider.Later) {
	if !w.run(place(id)).Open() {
		return later
	}
	for i := range w.unitsOf(place(id)) {
		u := w.unit(i)
		if u.Status == events.UnitIsRetrying && u.AvailableAt > w.now && !w.held(i) {
			later = decider.Later{At: events.Earliest(later.At, u.AvailableAt), Cause: events.ArmDeferred}
		}
	}
	return later
}

func (w *twin) counts(run int) (c events.Counts) {
	for i := range w.unitsOf(run) {
		switch w.unit(i).Status {
		case events.UnitHasSucceeded:
			c.Succeeded++
		case events.UnitHasFailed:
			c.Failed++
		case events.UnitIsCancelled:
			c.Cancelled++
		}
	}
	return c
}

func (w *twin) held(i int) bool {
	return w.paused(events.EngineControlStream()) || w.paused(events.SourceControlStream(sourceName(w.Units[i].Source)))
}

func (w *twin) messageGone(i int) bool {
	u := w.unit(i)
	return u.Status == events.UnitIsDispatching && w.gone[w.reg(w.runNumber(i), events.KindUnit).MessageIn(u.Wakeup)]
}

func (w *twin) runNumber(i int) int { return int(w.Units[i].Run) }

func (w *twin) isStale(i int) bool { return w.unit(i).Stale(w.now, span.stale, w.messageGone(i)) }

func (w *twin) leaseLive(i int) bool {
	u := w.unit(i)
	return u.LeaseLive(w.now, w.gone[u.Lease.Node], decider.Grace{})
}

// room is B-1 and B-2: one bucket, over all runs.
func (w *twin) room() decider.Room {
	used, suspects := 0, 1
	for i := range w.Units {
		u := w.unit(i)
		dispatching := u.Status == events.UnitIsDispatching && !w.isStale(i)
		if dispatching || w.leaseLive(i) {
			used++
		}
		if u.Suspect && (dispatching || u.Status == events.UnitIsRunning) {
			suspects = 0
		}
	}
	free := int(w.Cap) - used
	return decider.Room{Engine: maxUnits, Run: maxUnits, Bucket: func(events.Bucket) int { return free }, Suspects: suspects}
}

// offers reports a unit that could be dispatched if there were room (HD-3).
func (w *twin) offers(i int) bool {
	u := w.unit(i)
	if w.held(i) {
		return false
	}
	switch u.Status {
	case events.UnitIsPlanned:
		for j := range w.unitsOf(w.runNumber(i)) {
			if w.waitsFor(i, j) && w.unit(j).Status != events.UnitHasSucceeded {
				return false
			}
		}
		return true
	case events.UnitIsRetrying:
		return u.AvailableAt <= w.now
	case events.UnitIsDispatching:
		return w.isStale(i)
	}
	return false
}

func (w *twin) waiting(run int) (waiting decider.Waiting) {
	var planned []decider.Candidate
	for _, reference := range [...]bool{true, false} {
		for i := range w.unitsOf(run) {
			u := w.unit(i)
			c := decider.Candidate{
				Unit: unitID(i), Ordinal: i + 1, Bucket: u.Bucket(), AvailableAt: u.AvailableAt, Dispatches: u.AttemptDispatches,
				FirstDispatchedAt: u.FirstDispatchedAt, MessageGone: w.messageGone(i), Suspect: u.Suspect,
			}
			if !w.offers(i) || w.Units[i].Reference != reference {
				continue
			}
			switch u.Status {
			case events.UnitIsPlanned:
				planned = append(planned, c)
			case events.UnitIsRetrying:
				waiting.Retries = append(waiting.Retries, c)
			case events.UnitIsDispatching:
				waiting.Stale = append(waiting.Stale, c)
			}
		}
	}
	waiting.Planned = slices.Values(planned)
	return waiting
}

func (w *twin) offersAny(run int) bool {
	for i := range w.unitsOf(run) {
		if w.offers(i) {
			return true
		}
	}
	return false
}

func (w *twin) fitsIn(run int) bool {
	if !w.run(run).Open() {
		return false
	}
	room := w.room()
	for i := range w.unitsOf(run) {
		if u := w.unit(i); w.offers(i) && room.Admits(u.Bucket(), u.Suspect) {
			return true
		}
	}
	return false
}

func (w *twin) oldestWithRoom() (int, bool) {
	for run := range w.Runs {
		if w.fitsIn(run) {
			return run, true
		}
	}
	return 0, false
}

func (w *twin) owing(run, n int) decider.Owing {
	r := w.run(run)
	o := decider.Owing{
		RunOpen: r.Open(), RunTerminal: r.Status.Terminal(), PostSync: r.PostSyncOwed, OpenUnits: w.OpenUnits(runID(run)),
		Effects: r.Effects(), Dispatchable: r.Open() && w.offersAny(run),
	}
	closed := w.reg(run, events.KindUnit).Closed
	for i := range w.unitsOf(run) {
		u := w.unit(i)
		if u.Status != events.UnitIsDispatching {
			continue
		}
		if u.Wakeup > closed && u.Wakeup <= n {
			o.Announced++
		}
		o.UnitLost = o.UnitLost || w.messageGone(i) && !w.held(i)
	}
	return o
}
