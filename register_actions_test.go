package towline_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/transport"
)

func dispatchOf(run events.RunID) towline.RegisterKey {
	return towline.RegisterKey{Owner: run, Kind: events.KindDispatch}
}

// held counts what waits for a person, as a pass reports it.
func (w *workshop) held() int {
	w.t.Helper()
	return w.pass().Held
}

// O-21, O-18, O-S7a, O-S8, REC-12, X-7, K-3, SC-013, SC-031: what an operator parks is not published, materialized or
// forgotten; a redrive publishes it under a new id, and the run goes on.
func TestAParkedWakeupWaitsForItsRedrive(t *testing.T) {
	w := newWorkshop(t)
	p := w.plan(towline.RunSpec{Sync: "reports"})
	before := w.head()
	require.NoError(t, w.e.Park(context.Background(), dispatchOf(p.Run), towline.Actor{Name: "ada", Reason: "wait for the migration"}))
	log := w.since(before)
	require.Len(t, log, 1)
	require.Equal(t, events.OutboxParked{N: 1, Cause: events.ParkOperator, Text: "wait for the migration"}, log[0].Event)
	require.Equal(t, "ada", log[0].Actor)

	w.unchanged(func() {
		for range 3 {
			w.advance(time.Hour)
			require.Equal(t, 1, w.held())
		}
	})
	require.Empty(t, w.broker.take())
	r, _ := w.register(p.Run, events.KindDispatch)
	require.Equal(t, [2]string{"operator", "wait for the migration"}, [2]string{r.LastCause, r.LastText})

	before = w.head()
	require.NoError(t, w.e.Redrive(context.Background(), r.Key(), towline.Actor{Name: "bob", Reason: "it is done"}))
	log = w.since(before)
	require.Len(t, log, 1)
	require.Equal(t, events.OutboxArmed{
		N: 2, AvailableAt: events.MicrosOf(w.now.Now()), Cause: events.ArmRedriven, Reason: "it is done",
	}, log[0].Event)
	require.Equal(t, "bob", log[0].Actor)
	w.step()
	sent := w.broker.take()
	require.Len(t, sent, 1)
	require.Equal(t, p.Run.String()+".dispatch_sync_run.2", sent[0].id)
	require.Zero(t, w.held())
	w.dispatch(p.Run)
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
}

// O-15, O-18, I-27: a parked finalize keeps its run open, in sight, until it is redriven.
func TestAParkedFinalizeKeepsItsRunOpen(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	for _, u := range w.units(p.Run) {
		w.complete(w.claim(u.Unit))
	}
	key := towline.RegisterKey{Owner: p.Run, Kind: events.KindFinalize}
	require.NoError(t, w.e.Park(context.Background(), key, ada))
	w.advance(24 * time.Hour)
	require.Equal(t, 1, w.held())
	require.False(t, w.run(p.Run).Status.Terminal())
	w.view(func(v projections.View) {
		held, err := v.HeldRegisters(10)
		require.NoError(t, err)
		require.Len(t, held, 1)
		require.Equal(t, key, held[0].Key())
	})
	require.NoError(t, w.e.Redrive(context.Background(), key, towline.Actor{Name: "ada"}))
	w.broker.take()
	w.deliver(nil)
	require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
}

// O-S8: a new change of the run arms a parked register, too.
func TestANewChangeArmsAParkedRegister(t *testing.T) {
	s := single("north")
	s.Datasets[0].Retry = towline.Retry{Max: 1, Backoff: time.Second, On: []events.Category{events.Network}}
	w := newWorkshop(t, s)
	p := w.plan(towline.RunSpec{Sync: "north"})
	w.dispatch(p.Run)
	require.NoError(t, w.e.Park(context.Background(), dispatchOf(p.Run), ada))
	w.fail(w.claim(w.unit(p.Run, 1).Unit), events.Network)
	require.Equal(t, 2, w.pending(p.Run, events.KindDispatch).Current)
	w.advance(time.Second)
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
}

// K-1, O-18: units that a parked wakeup announced travel with the one that is redriven.
func TestARedriveTakesAlongWhatWasParked(t *testing.T) {
	w := newWorkshop(t)
	p := w.plan(towline.RunSpec{Sync: "reports"})
	w.step()
	w.dispatch(p.Run)
	w.broker.take()
	key := towline.RegisterKey{Owner: p.Run, Kind: events.KindUnit}
	require.NoError(t, w.e.Park(context.Background(), key, ada))
	w.step()
	require.Empty(t, w.broker.take())
	require.NoError(t, w.e.Redrive(context.Background(), key, ada))
	w.step()
	require.Len(t, w.broker.sent, 2)
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
}

// O-15: a parked wakeup of a run that has ended waits for nobody: it is no longer counted, and not redriven.
func TestAParkedWakeupOfAnEndedRunIsOver(t *testing.T) {
	w := newWorkshop(t)
	p := w.plan(towline.RunSpec{Sync: "reports"})
	require.NoError(t, w.e.Park(context.Background(), dispatchOf(p.Run), ada))
	require.Equal(t, 1, w.held())
	w.cancelRun(p.Run)
	require.Zero(t, w.held())
	w.view(func(v projections.View) {
		held, err := v.HeldRegisters(10)
		require.NoError(t, err)
		require.Empty(t, held)
	})
	w.requireConflict("register", func() error { return w.e.Redrive(context.Background(), dispatchOf(p.Run), ada) })

	late := w.plan(towline.RunSpec{Sync: "reports"})
	w.cancelRun(late.Run)
	w.requireConflict("register", func() error { return w.e.Park(context.Background(), dispatchOf(late.Run), ada) })
}

// O-21, O-18, SC-070: what is not pending is not parked, what is not parked is not redriven, and what is published at most
// once is neither.
func TestWhatIsNeitherParkedNorRedriven(t *testing.T) {
	ctx := context.Background()
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	for _, u := range w.units(p.Run) {
		w.complete(w.claim(u.Unit))
	}
	w.step()
	key := dispatchOf(p.Run)
	post := towline.RegisterKey{Owner: p.Run, Kind: events.KindPostSync}
	w.requireConflict("register", func() error { return w.e.Park(ctx, key, ada) })
	w.requireConflict("register", func() error { return w.e.Redrive(ctx, key, ada) })
	w.requireRefused("register", towline.ErrNotFound, func() error { return w.e.Park(ctx, post, ada) })
	w.finalize(p.Run)
	w.pending(p.Run, events.KindPostSync)
	w.requireConflict("register", func() error { return w.e.Park(ctx, post, ada) })
	w.requireConflict("register", func() error { return w.e.Redrive(ctx, post, ada) })
	w.requireRefused("register", towline.ErrNotFound, func() error { return w.e.Redrive(ctx, dispatchOf(events.RunID{1}), ada) })
	w.requireRefused("register", towline.ErrNotFound, func() error {
		return w.e.Redrive(ctx, towline.MessageRegister(events.MessageID{1}), ada)
	})
	w.requireRefused("kind", towline.ErrInvalid, func() error {
		return w.e.Park(ctx, towline.RegisterKey{Owner: p.Run, Kind: "fax"}, ada)
	})
}

// unresolved is a run of two targets whose broker gave no answer to either.
func unresolved(t *testing.T) (*workshop, events.RunID, towline.RegisterKey) {
	t.Helper()
	w := newWorkshop(t, tracker())
	p := w.plan(towline.RunSpec{Sync: "tracker", Datasets: []string{"words"}})
	w.broker.script = func(m sent) transport.Receipt {
		if m.notice.Kind == events.KindPostSync {
			return transport.Unknown(errors.New("no confirm"))
		}
		return transport.Accepted("")
	}
	w.deliver(w.complete)
	key := towline.RegisterKey{Owner: p.Run, Kind: events.KindPostSync}
	r, _ := w.register(p.Run, events.KindPostSync)
	require.Equal(t, decider.RegisterUnresolved, r.Status)
	require.Equal(t, 1, w.held())
	return w, p.Run, key
}

// O-17, O-S10, X-7, SC-054: each unknown target is resolved by itself, with who and why; the last ends the wait, the word
// is in the view, and nothing is ever sent.
func TestAnUnknownPostSyncIsResolved(t *testing.T) {
	w, run, key := unresolved(t)
	w.broker.take()
	before := w.head()
	require.NoError(t, w.e.Resolve(context.Background(), key, "mail", events.ResolvedDelivered, towline.Actor{Name: "ada", Reason: "it arrived"}))
	log := w.since(before)
	require.Len(t, log, 1)
	require.Equal(t, events.OutboxResolved{
		N: 1, Target: "mail", Outcome: events.ResolvedDelivered, Actor: "ada", Reason: "it arrived",
	}, log[0].Event)
	require.Equal(t, "ada", log[0].Actor)
	require.Equal(t, 1, w.held(), "one is still unknown")
	w.requireConflict("register", func() error {
		return w.e.Resolve(context.Background(), key, "mail", events.ResolvedLost, ada)
	})

	require.NoError(t, w.e.Resolve(context.Background(), key, "index", events.ResolvedLost, towline.Actor{Name: "bob", Reason: "no trace"}))
	require.Zero(t, w.held())
	r, _ := w.register(run, events.KindPostSync)
	require.Equal(t, decider.RegisterIdle, r.Status)
	require.Equal(t, []decider.Resolution{
		{Target: "mail", Outcome: events.ResolvedDelivered, Actor: "ada", Reason: "it arrived"},
		{Target: "index", Outcome: events.ResolvedLost, Actor: "bob", Reason: "no trace"},
	}, r.Resolved)
	w.advance(time.Hour)
	w.unchanged(func() { w.pass() })
	require.Empty(t, w.broker.take())
}

// O-17, O-12, SC-055: what is not unresolved is not resolved; neither is a target that is not unknown, or not there.
func TestOnlyWhatIsUnknownIsResolved(t *testing.T) {
	ctx := context.Background()
	w, run, key := unresolved(t)
	w.requireRefused("target", towline.ErrNotFound, func() error {
		return w.e.Resolve(ctx, key, "fax", events.ResolvedLost, ada)
	})
	w.requireRefused("outcome", towline.ErrInvalid, func() error { return w.e.Resolve(ctx, key, "mail", "perhaps", ada) })
	w.requireConflict("register", func() error { return w.e.Resolve(ctx, dispatchOf(run), "mail", events.ResolvedLost, ada) })
	w.requireConflict("register", func() error { return w.e.Redrive(ctx, key, ada) })

	w.broker.script = nil
	fine := w.plan(towline.RunSpec{Sync: "tracker", Mode: towline.FullResync, Datasets: []string{"words"}})
	w.deliver(w.complete)
	w.requireConflict("register", func() error {
		return w.e.Resolve(ctx, towline.RegisterKey{Owner: fine.Run, Kind: events.KindPostSync}, "mail", events.ResolvedLost, ada)
	})
}

// O-12, O-17: of a resolve and a late outcome the log decides. While an outcome may come nothing is resolved; behind the
// resolve it is counted, and not stored.
func TestOfAResolveAndALateOutcomeTheLogDecides(t *testing.T) {
	ctx := context.Background()
	w := newWorkshop(t, tracker())
	p := w.plan(towline.RunSpec{Sync: "tracker", Datasets: []string{"words"}})
	key := towline.RegisterKey{Owner: p.Run, Kind: events.KindPostSync}
	w.broker.script = func(m sent) transport.Receipt {
		if m.notice.Kind == events.KindPostSync { // the mark is on disk, the publish under way
			require.ErrorIs(t, w.e.Resolve(ctx, key, "mail", events.ResolvedLost, ada), towline.ErrConflict)
			return transport.Unknown(errors.New("no confirm"))
		}
		return transport.Accepted("")
	}
	w.deliver(w.complete)
	require.NoError(t, w.e.Resolve(ctx, key, "mail", events.ResolvedLost, ada))
	w.unchanged(func() {
		require.NoError(t, w.transact(func(tx *towline.Tx) error {
			_, err := tx.Execute(decider.RecordOutcome{
				Owner: p.Run, Kind: events.KindPostSync, N: 1, Target: "mail", Outcome: events.Accepted,
			})
			return err
		}))
	})
}

// O-17, O-18, O-21, L-9: two operators at once: one acts, the other is told that there is nothing left to do.
func TestTwoOperatorsAtOnce(t *testing.T) {
	ctx := context.Background()
	w := openWorkshop(t, options{grouped: true})
	for range enginetest.Fewer(20) {
		p := w.plan(towline.RunSpec{Sync: "reports", Mode: towline.FullResync})
		for _, act := range []func() error{
			func() error { return w.e.Park(ctx, dispatchOf(p.Run), ada) },
			func() error { return w.e.Redrive(ctx, dispatchOf(p.Run), ada) },
		} {
			done := make(chan error, 2)
			for range 2 {
				go func() { done <- act() }()
			}
			first, second := <-done, <-done
			if first != nil {
				first, second = second, first
			}
			require.NoError(t, first)
			require.ErrorIs(t, second, towline.ErrConflict)
		}
		w.deliver(w.complete)
		require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
	}
}

// O-15, O-18, O-21, K-8: a post_sync in exactly_once mode may be parked and redriven behind the end of its run: its effect
// is still owed, so it waits in sight.
func TestAnExactlyOncePostSyncIsParkedAndRedriven(t *testing.T) {
	s := tracker()
	s.PostSync.Mode = towline.ExactlyOnce
	w := newWorkshop(t, s)
	p := w.started(towline.RunSpec{Sync: "tracker", Datasets: []string{"words"}})
	for _, u := range w.units(p.Run) {
		w.complete(w.claim(u.Unit))
	}
	w.finalize(p.Run)
	key := towline.RegisterKey{Owner: p.Run, Kind: events.KindPostSync}
	require.NoError(t, w.e.Park(context.Background(), key, ada))
	w.broker.take()
	w.advance(time.Hour)
	require.Equal(t, 1, w.held())
	require.Empty(t, w.broker.take(), "neither published nor materialized")
	require.NoError(t, w.e.Redrive(context.Background(), key, ada))
	w.deliver(nil)
	require.Len(t, w.posts, 2, "one for each target")
	require.Contains(t, w.posts[0].id, ".post_sync.2.")
}

// O-15, O-18, O-21: an exactly_once post_sync whose effects are done waits for nobody: what is parked of it is not redriven,
// and what is pending is not parked.
func TestADonePostSyncIsNeitherParkedNorRedriven(t *testing.T) {
	ctx := context.Background()
	s := tracker()
	s.PostSync.Mode = towline.ExactlyOnce
	for _, parked := range []bool{true, false} {
		w := newWorkshop(t, s)
		w.broker.script = func(m sent) transport.Receipt {
			if m.notice.Kind == events.KindPostSync {
				return transport.Unknown(errors.New("no confirm")) // it arrived
			}
			return transport.Accepted("")
		}
		p := w.started(towline.RunSpec{Sync: "tracker", Datasets: []string{"words"}})
		for _, u := range w.units(p.Run) {
			w.complete(w.claim(u.Unit))
		}
		w.finalize(p.Run)
		w.step()
		key := w.pending(p.Run, events.KindPostSync).Key()
		if parked {
			require.NoError(t, w.e.Park(ctx, key, ada))
			require.Equal(t, 1, w.held())
		}
		for _, target := range s.PostSync.Targets {
			require.NoError(t, w.e.CompletePost(ctx, towline.Post{Run: p.Run, Mode: towline.ExactlyOnce, Target: target}, "done"))
		}
		require.Zero(t, w.held())
		if parked {
			w.requireConflict("register", func() error { return w.e.Redrive(ctx, key, ada) })
		} else {
			w.requireConflict("register", func() error { return w.e.Park(ctx, key, ada) })
		}
	}
}
