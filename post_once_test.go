package towline_test

import (
	"context"
	"slices"
	"strings"
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

// keeper is a sync whose two effects are to be done exactly once.
func keeper() towline.Sync {
	s := tracker()
	s.Name, s.PostSync.Mode = "keeper", towline.ExactlyOnce
	return s
}

// followed is a workshop with a run of a keeper that has ended, and whose post_sync was sent.
func followed(t *testing.T, k towline.Knobs) (*workshop, events.RunID) {
	t.Helper()
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{keeper()}, Knobs: k}})
	p := w.plan(towline.RunSpec{Sync: "keeper", Datasets: []string{"words"}})
	w.deliver(w.complete)
	return w, p.Run
}

// do is what a handler does with the effect of a target.
func (w *workshop) do(run events.RunID, target string, err events.Category) (done bool) {
	w.t.Helper()
	p, taken, startErr := w.e.StartPost(context.Background(), run, target)
	require.NoError(w.t, startErr)
	switch {
	case !taken:
	case err != "":
		require.NoError(w.t, w.e.FailPost(context.Background(), p, err, "it broke"))
	default:
		require.NoError(w.t, w.e.CompletePost(context.Background(), p, "done"))
	}
	return taken
}

// sent are the targets of the post_sync messages that a pass publishes, and their ids.
func (w *workshop) sent() (targets, ids []string) {
	w.t.Helper()
	w.pass()
	for _, m := range w.broker.take() {
		require.Equal(w.t, events.KindPostSync, m.notice.Kind)
		targets, ids = append(targets, m.notice.Target), append(ids, m.id)
	}
	return targets, ids
}

// HP-3, K-4, K-8, REC-10, O-8: the fan-out is published and then marked, under one generation; what is not done is published
// again after post_sync.redrive_after, and only that, under a new id and the old generation; when all is done nothing is.
func TestAnEffectIsSentUntilItIsDone(t *testing.T) {
	w, run := followed(t, towline.Knobs{})
	require.Len(t, w.posts, 2)
	for _, m := range w.posts {
		require.Equal(t, run.String()+".1", m.notice.Post.Generation)
	}
	marked := enginetest.Only[events.OutboxDispatched](w.since(0))
	require.Equal(t, events.PublishFirst, marked[len(marked)-1].Order)

	require.True(t, w.do(run, "mail", ""))
	require.False(t, w.do(run, "mail", ""), "it is done")
	w.advance(15*time.Minute - time.Microsecond)
	w.unchanged(func() { w.pass() })
	w.advance(time.Microsecond)
	targets, ids := w.sent()
	require.Equal(t, []string{"index"}, targets, "K-8: what is done is not sent again")
	require.Equal(t, []string{run.String() + ".post_sync.2.index"}, ids)
	p, taken, err := w.e.StartPost(context.Background(), run, "index")
	require.NoError(t, err)
	require.True(t, taken)
	require.Equal(t, run.String()+".1", p.Generation)
	require.Equal(t, run.String()+".1.index", p.Key(), "K-6: the key stays the same")
	require.Equal(t, ids[0], p.MessageID)

	w.advance(15 * time.Minute)
	require.NoError(t, w.e.Transact(t.Context(), "", func(tx *towline.Tx) error { // armed, and done before it is claimed
		_, err := tx.Execute(decider.ArmWakeup{
			Owner: run, Kind: events.KindPostSync, Mode: events.ExactlyOnce, At: tx.Now(), Cause: events.ArmMaterialized,
		})
		return err
	}))
	require.NoError(t, w.e.CompletePost(t.Context(), p, ""))
	r := w.pass()
	require.Equal(t, 1, r.Dropped)
	require.Empty(t, w.broker.take())
	require.Equal(t, decider.EffectsDone, w.run(run).PostSync.Effects)
	w.advance(time.Hour)
	w.unchanged(func() { w.pass() })
}

// HP-1: in exactly_once mode a message is faster than its mark; one that no claim announced is unexpected.
func TestAMessageMayBeFasterThanItsMark(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{keeper()}}})
	p := w.plan(towline.RunSpec{Sync: "keeper", Datasets: []string{"words"}})
	w.step()
	w.dispatch(p.Run)
	for _, u := range w.units(p.Run) {
		w.complete(w.claim(u.Unit))
	}
	w.finalize(p.Run)
	w.unchanged(func() { require.False(t, w.do(p.Run, "mail", ""), "its wakeup is pending") })
	require.EqualValues(t, 1, w.e.Tally().UnexpectedPosts)
	w.broker.script = func(s sent) transport.Receipt {
		if s.notice.Kind == events.KindPostSync {
			require.True(t, w.do(p.Run, s.notice.Target, ""), "claimed, and not marked yet")
		}
		return transport.Accepted("")
	}
	w.step()
	require.Equal(t, decider.EffectsDone, w.run(p.Run).PostSync.Effects)
	reg, _ := w.register(p.Run, events.KindPostSync)
	require.Equal(t, decider.RegisterIdle, reg.Status)
}

// HP-3, REC-10: a target that fails is tried again wakeup by wakeup, as often as handler.max_deliveries says; then it is held
// and shown, and the others go on. The bound is that of the plan.
func TestATargetThatFailsTooOftenIsHeld(t *testing.T) {
	w, run := followed(t, towline.Knobs{MaxDeliveries: 3})
	w.o.config.Knobs.MaxDeliveries = 1
	w.crash()
	for n := 1; n <= 3; n++ {
		before := w.head()
		for range 5 { // as often as a transport delivers it
			require.True(t, w.do(run, "mail", events.HandlerFailed))
		}
		require.Equal(t, []string{"PostSyncFailed"}, enginetest.Types(w.since(before)), "one failure for each wakeup")
		require.Equal(t, n == 3, w.run(run).PostSync.Targets[0].Held)
		w.advance(15 * time.Minute)
		targets, _ := w.sent()
		require.Equal(t, []string{"mail", "index"}, targets, "held or not, it goes along while another is sent")
	}
	require.True(t, w.do(run, "index", ""))
	state := w.run(run).PostSync
	require.Equal(t, decider.EffectsHeld, state.Effects)
	require.True(t, state.Over())
	w.advance(time.Hour)
	w.unchanged(func() {
		require.Equal(t, 1, w.pass().Held, "it is shown")
		w.view(func(v projections.View) {
			held, err := v.HeldEffects(events.RunID{}, 10)
			require.NoError(t, err)
			require.Len(t, held, 1)
		})
	})
	key := towline.RegisterKey{Owner: run, Kind: events.KindPostSync}
	require.NoError(t, w.e.Redrive(context.Background(), key, towline.Actor{Name: "ada"}), "O-18: a person redrives it")
	targets, _ := w.sent()
	require.Equal(t, []string{"mail"}, targets)
	require.True(t, w.do(run, "mail", ""))
	require.Equal(t, decider.EffectsDone, w.run(run).PostSync.Effects)
}

// C-25, N-3: what an in-process transport had taken died with its process, and is sent again by the next one at once.
func TestAnEffectThatDiedWithItsProcessIsSentAtOnce(t *testing.T) {
	for name, local := range map[string]bool{"in-process": true, "broker": false} {
		t.Run(name, func(t *testing.T) {
			w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{keeper()}}})
			w.broker.name = "nats"
			if local {
				w.broker.name = events.TransportLocal
			}
			run := w.plan(towline.RunSpec{Sync: "keeper", Datasets: []string{"words"}}).Run
			w.deliver(w.complete)
			w.crash()
			w.broker.name = "nats"
			if local {
				targets, _ := w.sent()
				require.Equal(t, []string{"mail", "index"}, targets)
			} else {
				w.unchanged(func() { w.pass() })
				w.advance(15 * time.Minute)
				targets, _ := w.sent()
				require.Equal(t, []string{"mail", "index"}, targets)
			}
			require.True(t, w.do(run, "mail", ""))
			require.True(t, w.do(run, "index", ""))
		})
	}
}

// CFG-2: mode and targets are those of the plan, whatever is configured when the run ends.
func TestTheModeIsThatOfThePlan(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{keeper()}}})
	run := w.plan(towline.RunSpec{Sync: "keeper", Datasets: []string{"words"}}).Run
	s := keeper()
	s.PostSync = towline.PostSync{Targets: []towline.Target{{Name: "other", SQL: "SELECT 1"}}}
	w.o.config.Syncs = []towline.Sync{s}
	w.crash()
	w.deliver(w.complete)
	require.Len(t, w.posts, 2)
	p, taken, err := w.e.StartPost(t.Context(), run, "mail")
	require.NoError(t, err)
	require.True(t, taken)
	require.Equal(t, events.ExactlyOnce, p.Mode)
	require.False(t, p.Target.HasAction(), "it is no longer configured")
	require.False(t, w.do(run, "other", ""))
}

// HP-1, HP-3: a word on an effect that nobody was asked for is counted, and changes nothing; so does one on a Post that its
// caller has made up.
func TestAnUnexpectedWordOnAnEffectIsCounted(t *testing.T) {
	w, run := followed(t, towline.Knobs{})
	forged := towline.Post{Run: run, Target: towline.Target{Name: "mail"}, MessageID: strings.Repeat("x", 1000)}
	w.unchanged(func() {
		require.NoError(t, w.e.CompletePost(t.Context(), forged, ""), "its mode is another")
		forged.Mode, forged.Target.Name = towline.ExactlyOnce, "nobody"
		require.NoError(t, w.e.CompletePost(t.Context(), forged, ""))
		require.NoError(t, w.e.FailPost(t.Context(), towline.Post{Run: events.RunID{1}}, events.HandlerFailed, ""))
	})
	require.EqualValues(t, 3, w.e.Tally().UnexpectedPosts)
	forged.Target.Name = "mail"
	require.NoError(t, w.e.CompletePost(t.Context(), forged, ""))
	posts := w.run(run).PostSync.Posts
	require.Equal(t, run.String()+".post_sync.1.mail", posts[0].MessageID, "the log holds the id that it knows")
}

// HP-4, C-46: WaitPostSync returns when nothing is under way any more, in both modes, and at once where nothing is owed.
func TestWaitPostSync(t *testing.T) {
	ctx := t.Context()
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{keeper(), renamed(tracker(), "once")}}})
	var runs []events.RunID
	for _, name := range []string{"keeper", "once"} {
		runs = append(runs, w.plan(towline.RunSpec{Sync: name, Datasets: []string{"words"}}).Run)
	}
	got := make(chan projections.SyncRun, len(runs))
	for _, id := range runs {
		go func() {
			run, err := w.e.WaitPostSync(ctx, id)
			if err == nil {
				got <- run
			}
		}()
	}
	w.broker.script = func(s sent) transport.Receipt {
		if s.notice.Target == "index" && s.notice.Run == runs[1] {
			return transport.Refused(errPlanted)
		}
		return transport.Accepted("")
	}
	w.deliver(w.complete)
	require.True(t, w.do(runs[1], "mail", events.SinkError))
	once := <-got
	require.Equal(t, runs[1], once.Run, "one has failed, the other is lost")
	require.True(t, w.do(runs[0], "mail", ""))
	require.True(t, w.do(runs[0], "index", ""))
	require.Equal(t, runs[0], (<-got).Run)
	none, err := w.e.WaitPostSync(ctx, w.plan(towline.RunSpec{Sync: "once", Datasets: []string{}}).Run)
	require.NoError(t, err)
	require.False(t, none.PostSync.Owed)
}

// O-18, WHY-3, WHY-5, K-4: an exactly_once effect that has failed says so, with the failure and the time at which it is sent
// again, and a person need not wait for that: a redrive sends it at once, under the same generation.
func TestAFailedEffectIsToldAndRedriven(t *testing.T) {
	ctx := t.Context()
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{keeper()}}})
	run := w.plan(towline.RunSpec{Sync: "keeper", Datasets: []string{"words"}}).Run
	w.deliver(w.complete)
	key := towline.RegisterKey{Owner: run, Kind: events.KindPostSync}
	w.requireConflict("register", func() error { return w.e.Redrive(ctx, key, ada) })
	sentAt := w.now.Now()
	require.True(t, w.do(run, "index", ""))
	w.advance(time.Minute)
	require.True(t, w.do(run, "mail", events.SinkError))

	why, err := w.e.Why(ctx, run.String())
	require.NoError(t, err)
	require.Equal(t, decider.Reason{
		Why: decider.WaitEffectFailed, On: "mail", Kind: events.KindPostSync, Since: events.MicrosOf(w.now.Now()),
		Next: events.MicrosOf(sentAt.Add(16 * time.Minute)),
	}, why.Reason)
	require.Equal(t, events.RunStream(run).String(), why.Evidence.Stream)
	require.Contains(t, why.Evidence.Text, "PostSyncFailed")

	before := w.head()
	w.posts = nil
	require.NoError(t, w.e.Redrive(ctx, key, towline.Actor{Name: "ada", Reason: "the table is there"}))
	log := w.since(before)
	require.Equal(t, []string{"OutboxArmed"}, enginetest.Types(log))
	require.Equal(t, "ada", log[0].Actor)
	require.Equal(t, "the table is there", log[0].Event.(events.OutboxArmed).Reason)
	w.deliver(nil)
	require.Len(t, w.posts, 1, "what is done is not asked for again")
	require.Equal(t, run.String()+".post_sync.2.mail", w.posts[0].id)
	require.Equal(t, run.String()+".1", w.posts[0].notice.Post.Generation)
	why, err = w.e.Why(ctx, run.String())
	require.NoError(t, err)
	require.Equal(t, decider.WaitForWorker, why.Reason.Why, "it was sent since")
	require.True(t, w.do(run, "mail", ""))
	w.requireConflict("register", func() error { return w.e.Redrive(ctx, key, ada) })
}

// renamed is a sync under another name, over sources of its own.
func renamed(s towline.Sync, name string) towline.Sync {
	s.Name = name
	s.Sources = slices.Clone(s.Sources)
	for i := range s.Sources {
		s.Sources[i] += " of " + name
	}
	return s
}
