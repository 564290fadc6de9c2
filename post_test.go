package towline_test

import (
	"context"
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

// tracker is a sync with two post_sync targets.
func tracker() towline.Sync {
	return towline.Sync{
		Name: "tracker", Provider: "p", Sources: []string{"b", "a"},
		Datasets: []towline.Dataset{{Name: "words"}, {Name: "all", Snapshot: true}, {Name: "lost"}},
		PostSync: towline.PostSync{Targets: []towline.Target{{Name: "mail", SQL: "SELECT 2"}, {Name: "index",
			SQL: "SELECT 1"}}},
	}
}

// K-3, K-4, K-5, K-8, SC-064, SC-065: a post_sync says what the run has brought, of its succeeded units alone, to every
// target in declared order, under one generation.
func TestAPostSyncSaysWhatTheRunHasBrought(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	spec := towline.RunSpec{Sync: "tracker", Mode: towline.Backfill, Since: day(1), Before: day(5),
		Datasets: []string{"words", "lost"}}
	for name, c := range map[string]struct {
		spec towline.RunSpec
		fail func(projections.SyncRunUnit) bool
		want transport.PostNotice
	}{
		"smallest from, largest to": {
			spec, func(u projections.SyncRunUnit) bool {
				return u.Dataset == "lost" || u.Window.From.Equal(day(1)) || u.Source == "b" && u.Window.From.Equal(day(4))
			},
			transport.PostNotice{Provider: "p", Sources: []string{"a", "b"}, Datasets: []string{"words"}, From: day(2),
				To: day(5)},
		},
		"one source failed": {
			spec, func(u projections.SyncRunUnit) bool { return u.Source == "a" || u.Window.From.Before(day(3)) },
			transport.PostNotice{Provider: "p", Sources: []string{"b"}, Datasets: []string{"lost", "words"},
				From: day(3), To: day(5)},
		},
		"one open start": {
			towline.RunSpec{Sync: "tracker"}, func(u projections.SyncRunUnit) bool { return u.Dataset == "lost" },
			transport.PostNotice{Provider: "p", Sources: []string{"a", "b"}, Datasets: []string{"all", "words"}, To: start},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{tracker()},
				Knobs: daily(towline.Knobs{})}})
			p := w.plan(c.spec)
			w.deliver(func(l towline.Lease) {
				if c.fail(l.Unit) {
					w.fail(l, events.Auth)
					return
				}
				w.complete(l)
			})
			require.Len(t, w.posts, 2)
			c.want.Generation = p.Run.String() + ".1"
			for i, target := range []string{"mail", "index"} {
				require.Equal(t, p.Run.String()+".post_sync.1."+target, w.posts[i].id)
				require.Equal(t, target, w.posts[i].notice.Target)
				require.Equal(t, c.want, *w.posts[i].notice.Post)
			}
		})
	}
}

// HP-4, OD-16, C-24, C-46: a target that was sent and of which nothing has been heard does not look like a delivered one.
func TestASilentTargetIsShownAsUnconfirmed(t *testing.T) {
	ctx := context.Background()
	w := newWorkshop(t, tracker())
	p := w.plan(towline.RunSpec{Sync: "tracker"})
	unconfirmed := func() (names string) {
		row := w.file.DB().QueryRow(`SELECT coalesce(unconfirmed, '') FROM runs_view WHERE run_id = $1`, p.Run.String())
		require.NoError(t, row.Scan(&names))
		return names
	}
	require.Empty(t, unconfirmed())
	w.deliver(w.complete)
	require.Equal(t, "mail, index", unconfirmed(), "sent and accepted, never begun")
	mail, _, err := w.e.StartPost(ctx, p.Run, "mail")
	require.NoError(t, err)
	index, _, err := w.e.StartPost(ctx, p.Run, "index")
	require.NoError(t, err)
	require.Equal(t, "mail, index", unconfirmed(), "begun, and not known to have ended")
	require.NoError(t, w.e.CompletePost(ctx, mail, ""))
	require.Equal(t, "index", unconfirmed())
	require.NoError(t, w.e.FailPost(ctx, index, events.SinkError, "no such table"))
	require.Empty(t, unconfirmed())
}

// HP-2, SC-058, SC-059: an effect is taken once per target, before it runs; a duplicate finds it taken, also when it
// failed.
func TestAnEffectIsTakenOnce(t *testing.T) {
	ctx := context.Background()
	w := newWorkshop(t, tracker())
	p := w.plan(towline.RunSpec{Sync: "tracker", Datasets: []string{"words"}})
	w.deliver(w.complete)

	before := w.head()
	post, taken, err := w.e.StartPost(ctx, p.Run, "mail")
	require.NoError(t, err)
	require.True(t, taken)
	require.Equal(t, []string{"PostSyncStarted"}, enginetest.Types(w.since(before)))
	require.Equal(t, towline.Target{Name: "mail", SQL: "SELECT 2"}, post.Target)
	require.Equal(t, p.Run.String()+".1", post.Generation)
	require.Equal(t, []string{"a", "b"}, post.Payload.Sources)

	again := func() {
		w.unchanged(func() {
			_, taken, err := w.e.StartPost(ctx, p.Run, "mail")
			require.NoError(t, err)
			require.False(t, taken)
		})
	}
	again()
	require.NoError(t, w.e.FailPost(ctx, post, events.SinkError, "password=hunter2"))
	again()
	w.unchanged(func() {
		require.NoError(t, w.e.FailPost(ctx, post, events.SinkError, "again"))
		require.NoError(t, w.e.CompletePost(ctx, post, "again"))
	})
	other, taken, err := w.e.StartPost(ctx, p.Run, "index")
	require.NoError(t, err)
	require.True(t, taken)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	require.NoError(t, w.e.CompletePost(cancelled, other, "done"), "L-11: it outlives its request")

	posts := w.run(p.Run).PostSync.Posts
	require.Len(t, posts, 2)
	require.Equal(t, decider.Post{Target: "mail", MessageID: p.Run.String() + ".post_sync.1.mail",
		Status: decider.PostFailed, Category: events.SinkError, Text: "password=***", Failures: 1, At: posts[0].At}, posts[0])
	require.Equal(t, decider.PostCompleted, posts[1].Status)
	require.EqualValues(t, 2, w.e.Tally().Absorbed)
}

// HP-1, K-8: a message for a run that has not ended, whose wakeup was never marked, for an unknown run, or for a target
// that the run does not have, is unexpected: it is counted, and nothing runs or is written.
func TestAnUnexpectedPostSyncIsCounted(t *testing.T) {
	ctx := context.Background()
	w := newWorkshop(t, tracker())
	open := w.plan(towline.RunSpec{Sync: "tracker", Datasets: []string{"words"}})
	ended := w.plan(towline.RunSpec{Sync: "tracker", Datasets: []string{"words"}})
	w.step()
	w.dispatch(ended.Run)
	for _, u := range w.units(ended.Run) {
		w.complete(w.claim(u.Unit))
	}
	w.finalize(ended.Run)
	want := int64(0)
	refused := func(run events.RunID, target string) {
		t.Helper()
		w.unchanged(func() {
			_, taken, err := w.e.StartPost(ctx, run, target)
			require.NoError(t, err)
			require.False(t, taken)
		})
		want++
		require.Equal(t, want, w.e.Tally().UnexpectedPosts)
	}
	refused(open.Run, "mail")
	refused(ended.Run, "mail") // its wakeup is pending
	refused(events.RunID{1}, "mail")
	w.step()
	refused(ended.Run, "nobody")
	refused(ended.Run, "")
	refused(ended.Run, strings.Repeat("x", 1<<16))
	_, taken, err := w.e.StartPost(ctx, ended.Run, "mail")
	require.NoError(t, err)
	require.True(t, taken)
}

// CFG-2, HP-2: a target that is no longer configured has no script; the handler is told so by an empty one.
func TestATargetThatIsNoLongerConfigured(t *testing.T) {
	w := newWorkshop(t, tracker())
	p := w.plan(towline.RunSpec{Sync: "tracker", Datasets: []string{"words"}})
	w.deliver(w.complete)
	s := tracker()
	s.PostSync.Targets = nil
	w.o.config.Syncs = []towline.Sync{s}
	w.crash()
	post, taken, err := w.e.StartPost(context.Background(), p.Run, "mail")
	require.NoError(t, err)
	require.True(t, taken)
	require.Equal(t, towline.Target{Name: "mail"}, post.Target)
}

// HP-4, HP-5, C-24, SC-060: an effect whose process died is never run again. The next start says that nobody knows its end:
// nobody waits for it any more, Why says so with that event, and a person resolves it.
func TestAnEffectWhoseProcessDiedIsUnknown(t *testing.T) {
	ctx := context.Background()
	s := tracker()
	s.PostSync.Targets = s.PostSync.Targets[:1]
	w := newWorkshop(t, s)
	p := w.plan(towline.RunSpec{Sync: "tracker", Datasets: []string{"words"}})
	w.deliver(w.complete)
	post, taken, err := w.e.StartPost(ctx, p.Run, "mail")
	require.NoError(t, err)
	require.True(t, taken)
	before := w.head()
	w.crash()
	lost := enginetest.Only[events.OutboxOutcome](w.since(before))
	require.Equal(t, []events.OutboxOutcome{{N: 1, Target: "mail", Outcome: events.Unknown, Cause: "process_died"}}, lost)
	w.unchanged(func() {
		_, taken, err = w.e.StartPost(ctx, p.Run, "mail")
		require.NoError(t, err)
		require.False(t, taken)
	})

	run, err := w.e.WaitPostSync(ctx, p.Run)
	require.NoError(t, err)
	require.Equal(t, projections.PostTarget{
		Target: "mail", Outcome: events.Unknown, Cause: "process_died", Effect: decider.PostStarted,
		At: run.PostSync.Targets[0].At, Unconfirmed: true,
	}, run.PostSync.Targets[0])
	why, err := w.e.Why(ctx, p.Run.String())
	require.NoError(t, err)
	require.Equal(t, decider.WaitUnresolved, why.Reason.Why)
	require.Contains(t, why.Evidence.Text, "process_died")
	w.view(func(v projections.View) {
		held, err := v.HeldRegisters(10)
		require.NoError(t, err)
		require.Len(t, held, 1)
		require.Equal(t, decider.RegisterUnresolved, held[0].Status)
	})
	key := towline.RegisterKey{Owner: p.Run, Kind: events.KindPostSync}
	require.NoError(t, w.e.Resolve(ctx, key, "mail", events.ResolvedLost, towline.Actor{Name: "ada", Reason: "it is not there"}))
	require.False(t, w.run(p.Run).PostSync.Targets[0].Unconfirmed)
	why, err = w.e.Why(ctx, p.Run.String())
	require.NoError(t, err)
	require.Zero(t, why.Reason)
	require.NoError(t, w.e.CompletePost(ctx, post, "an end that comes late is still one"))
	require.Equal(t, decider.PostCompleted, w.run(p.Run).PostSync.Posts[0].Status)
	before = w.head()
	w.crash()
	require.Empty(t, enginetest.Only[events.OutboxOutcome](w.since(before)))
}

// HP-5, C-46, N-3: what was accepted and never begun is no effect whose process died; and in shared mode a process is known
// to be gone only when it has stopped, which the pass of another one sees.
func TestOnlyAnEffectOfAGoneProcessIsGivenUp(t *testing.T) {
	ctx := context.Background()
	clock := enginetest.NewClock(start)
	a := openWorkshop(t, options{shared: true, clock: clock, unverified: true, config: towline.Config{Syncs: []towline.Sync{tracker()}}})
	b := openWorkshop(t, options{path: a.o.path, shared: true, clock: clock, unverified: true,
		config: towline.Config{Syncs: []towline.Sync{tracker()}, Entropy: seeded(2)}})
	p := a.plan(towline.RunSpec{Sync: "tracker", Datasets: []string{"words"}})
	a.deliver(a.complete)
	_, taken, err := a.e.StartPost(ctx, p.Run, "mail")
	require.NoError(t, err)
	require.True(t, taken)
	targets := func() (out []events.Outcome) {
		for _, t := range b.run(p.Run).PostSync.Targets {
			out = append(out, t.Outcome)
		}
		return out
	}
	b.pass()
	require.Equal(t, []events.Outcome{events.Accepted, events.Accepted}, targets())
	require.NoError(t, a.e.Stop(ctx, "test"))
	b.pass()
	require.Equal(t, []events.Outcome{events.Unknown, events.Accepted}, targets())
}

// L-12, I-26: the name of a worker comes from outside; whatever it is, the view and its rebuild agree.
func TestAWorkerNameIsStoredAsTheLogGivesItBack(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	_, err := w.e.Claim(context.Background(), w.unit(p.Run, 1).Unit, towline.Worker{Name: "\xff" + strings.Repeat("w",
		5000)})
	require.NoError(t, err)
	require.LessOrEqual(t, len(w.unit(p.Run, 1).Worker), 2000)
}
