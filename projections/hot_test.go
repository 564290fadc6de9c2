package projections_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// hotKnobs are those of a history.
func hotKnobs() projections.HotKnobs {
	return projections.HotKnobs{StaleAfter: events.SpanOf(15 * time.Minute), CapEngine: 5,
		CapBucket: func(events.Bucket) int { return 3 }}
}

// follower folds a log into a hot view of its own, transaction by transaction.
type follower struct {
	t       tester
	h       *history
	starts  byte // lives of it so far
	hot     *projections.Hot
	folds   map[events.StreamID]decider.State
	at      events.Position
	changes []change
	undone  int
}

type change struct {
	event         events.Envelope
	before, after decider.State
}

func newFollower(t tester, h *history) *follower {
	return &follower{t: t, h: h, starts: h.starts, hot: projections.NewHot(h.hotKnobs()), folds: map[events.StreamID]decider.State{}}
}

// again folds everything anew.
func (f *follower) again() {
	f.hot = projections.NewHot(f.h.hotKnobs())
	f.apply(f.changes)
	f.hot.Forget()
}

// follow folds what is new.
func (f *follower) follow(r store.Reader, now events.Micros) {
	f.t.Helper()
	page, err := r.After(f.at, 100_000)
	require.NoError(f.t, err)
	if f.starts != f.h.starts { // another catalogue, perhaps
		f.starts = f.h.starts
		f.again()
	}
	for len(page) > 0 {
		n := slices.IndexFunc(page, func(e events.Envelope) bool { return e.Tx != page[0].Tx })
		if n < 0 {
			n = len(page)
		}
		f.transaction(page[:n], now)
		f.at = page[n-1].Position
		page = page[n:]
	}
}

// transaction is the law of Rollback: undoing a transaction restores the view, and doing it again gives what it gave.
// One that cannot be undone in place says so, and the view is folded anew.
func (f *follower) transaction(envs []events.Envelope, now events.Micros) {
	f.t.Helper()
	first := len(f.changes)
	for _, e := range envs {
		before, ok := f.folds[e.Stream]
		if !ok {
			before = decider.Zero(e.Stream)
		}
		after := decider.Evolve(before, e)
		f.folds[e.Stream] = after
		f.changes = append(f.changes, change{e, before, after})
	}
	was := f.hot.Dump(now)
	mark := f.hot.Mark()
	f.apply(f.changes[first:])
	is := f.hot.Dump(now)
	if f.hot.Rollback(mark) {
		f.undone++
		require.Equal(f.t, was, f.hot.Dump(now))
		require.Empty(f.t, f.hot.Miscounted(now))
		f.apply(f.changes[first:])
	} else {
		f.again()
	}
	require.Equal(f.t, is, f.hot.Dump(now))
	f.hot.Forget()
	require.Equal(f.t, is, f.hot.Dump(now))
	require.Empty(f.t, f.hot.Miscounted(now))
}

func (f *follower) apply(changes []change) {
	for _, c := range changes {
		f.hot.Apply(c.event, c.before, c.after)
	}
}

// I-26, L-3, L-4, B-1, B-6: in any lawful history the view that is folded event by event equals the one that is loaded from
// the tables, after every step, and counts what is on offer as a walk does; and every transaction can be undone.
func TestTheHotViewEqualsTheTablesAtEveryStep(t *testing.T) {
	undone := 0
	check(t, 12, func(rt *rapid.T) {
		h := newHistory(rt, t.TempDir(), func(label string, n int) int { return rapid.IntRange(0, n-1).Draw(rt, label) })
		defer h.close()
		f := newFollower(rt, h)
		for range rapid.IntRange(20, 80).Draw(rt, "steps") {
			h.step()
			h.follow()
			h.read(func(r store.Reader) {
				now := h.e.Now()
				f.follow(r, now)
				loaded, err := projections.LoadHot(r, h.hotKnobs())
				require.NoError(rt, err)
				require.Equal(rt, loaded.Dump(now), f.hot.Dump(now))
			})
		}
		undone += f.undone
	})
	require.Positive(t, undone)
}

// REC-4, REC-7, REC-9, REC-10, REC-11, O-8: what the scans of the reconciler say in SQL is what the deciding transaction says
// of the same moment: nothing owed is overlooked.
func TestTheScansOverlookNothing(t *testing.T) {
	check(t, 8, func(rt *rapid.T) {
		h := newHistory(rt, t.TempDir(), func(label string, n int) int { return rapid.IntRange(0, n-1).Draw(rt, label) })
		defer h.close()
		for range rapid.IntRange(20, 60).Draw(rt, "steps") {
			h.step()
			h.follow()
			h.read(func(r store.Reader) { scansAgree(rt, h, r, h.e.Now()) })
		}
	})
}

// scansAgree compares the tables with the folds of the log, for every open run.
func scansAgree(t tester, h *history, r store.Reader, now events.Micros) {
	v := projections.NewView(r)
	hot, err := projections.LoadHot(r, h.hotKnobs())
	require.NoError(t, err)
	d := decider.Redrive{Now: now, Countdown: events.SpanOf(time.Minute), RedriveAfter: events.SpanOf(time.Minute)}
	holds, err := v.Holds(now, h.missing)
	require.NoError(t, err)
	open, err := v.OpenRuns(events.RunID{}, 1000)
	require.NoError(t, err)
	for _, run := range open {
		state := fold[decider.Run](t, r, events.RunStream(run.Run))
		owing := hot.Owing(state, 0, now)
		read, _, err := v.Owing(run.Run, now, events.SpanOf(15*time.Minute), holds)
		require.NoError(t, err)
		require.Equal(t, owing.Dispatchable, read.Dispatchable, "run %s", run.Run)
		require.Equal(t, owing.OpenUnits, read.OpenUnits, "run %s", run.Run)
		require.Equal(t, owing.UnitLost, read.UnitLost, "run %s", run.Run)
		for _, k := range []events.Kind{events.KindDispatch, events.KindFinalize} {
			reg := fold[decider.Register](t, r, events.RegisterStream(run.Run, k))
			d.CloserGone, d.UnitLost, d.Room = hot.Gone(reg.ClosedBy), owing.UnitLost, hot.Fits(run.Run, now)
			found, err := v.Unwoken(k, now, d, events.RunID{}, 1000)
			require.NoError(t, err)
			if d.Materialize(k, reg) {
				i := slices.IndexFunc(found, func(u projections.Unwoken) bool { return u.Run == run.Run })
				require.GreaterOrEqual(t, i, 0, "%s of run %s: %+v", k, run.Run, reg)
				require.True(t, owing.UnitLost || !found[i].IfLost, "%s of run %s: %+v", k, run.Run, reg)
			}
		}
	}
	due, err := v.DueOf(projections.Wakeups{Kinds: events.Kinds[:]}, now, projections.DueCursor{}, 1000)
	require.NoError(t, err)
	for _, d := range due {
		reg := fold[decider.Register](t, r, events.RegisterStream(d.Key.Owner, d.Key.Kind))
		require.Equal(t, decider.RegisterPending, reg.Status)
		require.LessOrEqual(t, reg.AvailableAt, now)
	}
	messageScansAgree(t, r, hot, now)
}

// messageScansAgree does so for every message.
func messageScansAgree(t tester, r store.Reader, hot *projections.Hot, now events.Micros) {
	v := projections.NewView(r)
	stale := events.SpanOf(15 * time.Minute)
	lost, err := v.LostMessages(now.Add(-stale), events.MessageID{}, 1000)
	require.NoError(t, err)
	unarmed, err := v.UnarmedMessages(1000)
	require.NoError(t, err)
	require.Len(t, unarmed, hot.Unarmed())
	all, err := v.Messages(events.MessageID{}, 1000)
	require.NoError(t, err)
	for _, m := range all {
		topic := fold[decider.Topic](t, r, events.AppStream(m.Topic)).Message(m.Message)
		over := topic.Status != decider.MessageOpen
		require.Equal(t, over, m.State == projections.MessageHandled || m.State == projections.MessageRejected)
		reg := fold[decider.Register](t, r, events.MessageStream(m.Message))
		d := decider.Redrive{Now: now, Stale: stale, CloserGone: hot.Gone(reg.ClosedBy), CloserShared: hot.Shared(reg.ClosedBy)}
		require.Equal(t, !over && d.Materialize(events.KindMessage, reg), slices.Contains(lost, m.Message), "%+v", m)
		require.Equal(t, reg.Newest == 0, slices.ContainsFunc(unarmed, func(u projections.MessageRow) bool { return u.Message == m.Message }))
	}
}

func fold[S decider.State](t tester, r store.Reader, id events.StreamID) S {
	history, err := r.Stream(id)
	require.NoError(t, err)
	return decider.Fold(id, history).(S)
}
