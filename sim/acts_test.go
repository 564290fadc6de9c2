package sim_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
)

// The acts of a scenario without a fault, and how often.
var actsOf = map[string]map[events.Type]int{
	"holding": {
		events.TypeEnginePaused: 1, events.TypeEngineResumed: 1, events.TypeSourcePaused: 1, events.TypeSourceResumed: 1,
		events.TypeUnitRetryScheduled: 1, events.TypeUnitSucceeded: 4,
	},
	"stopping": {
		events.TypeRunCancelled: 1, events.TypeUnitCancelled: 2, events.TypeUnitLeaseExpired: 1, events.TypeUnitRetryScheduled: 1,
		events.TypeUnitFailed: 1, events.TypeRunPlanned: 3, events.TypeRunFinalized: 2, events.TypePostSyncCompleted: 1,
		events.TypeUnitLateResult: 1, // of the unit that was taken from its worker; who is told of a cancel offers nothing
	},
	"registering": {
		events.TypeOutboxParked: 4, events.TypeMessageSubmitted: 3, events.TypeMessageHandled: 2, events.TypePostSyncCompleted: 2,
		events.TypePostSyncStarted: 0, events.TypeRunFinalized: 1,
	},
}

// RL-5, O-18, O-21, M-1, M-6, M-11, SC-354: without a fault the scenarios do what they are for.
// Nothing is left for the net to find, and nobody waits for anything but for what somebody asked to wait.
func TestTheActsHappen(t *testing.T) {
	for _, s := range acts() {
		t.Run(s.name, func(t *testing.T) { measureActs(t, s) })
	}
}

// measureActs runs one of the scenarios `acts` without a fault.
func measureActs(t *testing.T, s scenario) baseline {
	t.Helper()
	b := baseline{scenario: s, template: emptyStore(t)}
	v := judge(t.TempDir(), func(v *verdict) {
		w := b.world(v)
		e := b.finish(v, w)
		e.acted(v)
		life := w.Lives()[0]
		b.boundaries = life.Boundaries
		require.LessOrEqual(v, life.Waited, s.waits, "nobody waits but for what somebody asked to wait")
		require.Empty(v, life.Materialized, "without a fault nothing is materialized")
		require.Empty(v, e.losses)
		counts := map[events.Type]int{}
		for _, env := range e.log {
			counts[env.Event.EventType()]++
		}
		for what, n := range actsOf[s.name] {
			require.Equal(v, n, counts[what], "%s", what)
		}
	})
	if len(v.problems) > 0 {
		t.Fatalf("without a fault: %s", v)
	}
	return b
}

// G-1, C-20, C-25, C-32 to C-36, C-40, X-1 to, RL-5, O-17, O-18, O-21, M-1, M-4, M-6, M-12, SC-354: one crash
// at every boundary of the scenarios `acts`. Each time every run ends, and every message is handled or visibly parked;
// every effect is as it was promised, no invariant breaks, and the net finds nothing that no row of the crash table names.
// All of it within what was asked to wait, and once more the backoff of a lost worker (C-13).
func TestCrashAtEveryBoundaryOfActs(t *testing.T) {
	for _, s := range acts() {
		t.Run(s.name, func(t *testing.T) { crashActs(t, s) })
	}
}

func crashActs(t *testing.T, s scenario) {
	b := measureActs(t, s)
	every := sample * thin()
	enumerate(t, "crash windows of "+s.name, len(b.boundaries), every, func(v *verdict, i int) {
		at := b.boundaries[i]
		if *window != 0 && at.N != *window {
			v.left = true
			return
		}
		v.name = fmt.Sprintf("crash at %s, seed %d: go test ./sim -run TestCrashAtEveryBoundaryOfActs/%s -seed %[2]d -window %[4]d", at, s.seed, s.name, at.N)
		w := b.world(v, at.N)
		e := b.finish(v, w)
		require.Len(v, w.Crashes(), 1)
		require.Equal(v, at, w.Crashes()[0].At, "the same seed takes the same way")
		e.acted(v)
		life := w.Lives()[1]
		require.LessOrEqual(v, life.Waited, s.waits+retryBackoff, "waited behind the restart")
		o := newOracle(s, w.Crashes()[0], e.log, w.Settings(), w.Outside())
		b.materialized(v, e, w.Crashes()[0], life, o.armable(), o)
	})
	if !t.Failed() && *window == 0 && sample == 1 && s.seed == goldenSeed {
		rowsOfActs(t, b, s)
	}
}

// rowsOfActs: the boundaries of a scenario, all of them, are every row of the crash table that it is there for. To know that
// nobody needs to recover.
func rowsOfActs(t *testing.T, b baseline, s scenario) {
	var mu sync.Mutex
	seen := map[string]int{}
	enumerate(t, "crashes of "+s.name+", by their rows", len(b.boundaries), 1, func(v *verdict, i int) {
		ctx := context.Background()
		w := b.world(v, b.boundaries[i].N)
		require.ErrorIs(v, w.Live(ctx), sim.ErrDead)
		if v.left = w.Engine() == nil; v.left {
			return // it has died before there was anything to lose
		}
		log, err := w.Log(ctx)
		require.NoError(v, err)
		rows := ids(newOracle(s, w.Crashes()[0], log, w.Settings(), w.Outside()).rows())
		mu.Lock()
		defer mu.Unlock()
		for _, id := range rows {
			seen[id]++
			reach("crash %s", id)
		}
	})
	for _, id := range s.windows {
		require.Positive(t, seen[id], "no window of the scenario is row %s of the crash table", id)
	}
}

// acted checks what must be true of a world in which operators and applications have acted.
func (e *ending) acted(v *verdict) {
	happened := map[events.RunID]int{}
	for _, f := range e.w.Outside().Destination.Effects() {
		happened[f.Run]++
	}
	for _, run := range e.fold.Runs() {
		if run.Policy.PostSync == events.ExactlyOnce && run.PostSyncOwed {
			require.Equal(v, len(run.Policy.Targets), happened[run.ID], "effects of the run of %s", run.Sync)
			require.Equal(v, "done", run.Effects(), "run of %s", run.Sync)
		}
	}
	for _, u := range e.units {
		if u.Status == events.UnitHasSucceeded {
			require.NotEmpty(v, e.w.Outside().Destination.Rows(place(u)), "content of %s", e.name(u))
		}
	}
	e.messages(v)
}

// messages: each has committed with its row, and is handled once or visibly parked.
func (e *ending) messages(v *verdict) {
	if len(e.fold.Messages()) == 0 {
		return
	}
	ctx := context.Background()
	sent, err := e.w.Sent(ctx)
	require.NoError(v, err)
	handled, err := e.w.Handled(ctx)
	require.NoError(v, err)
	effects := 0
	for _, m := range e.fold.Messages() {
		r := e.register(events.RunID(m.ID), events.KindMessage)
		switch {
		case m.Status == check.MessageHandled:
			effects++
		default:
			require.Equal(v, check.Parked, r.State, "message of %s is %s", m.Topic, m.Status)
			require.Equal(v, "letters", m.Topic, "only what nobody consumes is parked for good")
		}
	}
	require.Len(v, sent, len(e.fold.Messages()), "M-1: a message commits with its row")
	require.Len(v, handled, effects)
	for name, n := range handled {
		require.Equal(v, 1, n, "M-12: effects of %s", name)
	}
}

func (e *ending) register(owner events.RunID, k events.Kind) (register check.Register) {
	for _, r := range e.fold.Registers() {
		if r.Owner == owner && r.Kind == k {
			return r
		}
	}
	return register
}
