package handlers_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/transport"
)

func (s *shop) post(id events.RunID) error {
	s.t.Helper()
	return s.deliver(transport.Notice{Kind: events.KindPostSync, Run: id, Wakeup: 1, Target: "index"})
}

// expired are the leases that have ended.
func (s *shop) expired() (found []projections.LeaseCursor) {
	s.t.Helper()
	require.NoError(s.t, s.e.View(context.Background(), func(v projections.View) (err error) {
		found, err = v.ExpiredLeases(s.e.Now(), projections.LeaseCursor{}, 1000)
		return err
	}))
	return found
}

// HP-2, K-4, SC-058: an effect runs once, with run and generation, and that it was taken is on record before it begins.
func TestAnEffectRunsOnce(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		id := s.marked()
		s.sink.breakAt("script", func(context.Context) error {
			all := s.events(0)
			require.Equal(t, "PostSyncStarted", all[len(all)-1].Event.EventType().String())
			return nil
		})
		for range 3 {
			require.NoError(t, s.post(id))
		}
		ran := s.sink.ran()
		require.Len(t, ran, 1)
		require.Contains(t, ran[0], "UPDATE x")
		require.Contains(t, ran[0], id.String())
		require.Contains(t, ran[0], decider.Generation(id))
		posts := s.run(id).PostSync.Posts
		require.Len(t, posts, 1)
		require.Equal(t, decider.PostCompleted, posts[0].Status)
		require.Equal(t, decider.TargetMessageID(id, 1, "index"), posts[0].MessageID)
	})
}

// HP-2, E-3, SC-059: an effect that fails, or panics, is on record as failed and is not tried again.
func TestAnEffectThatFailsIsNotTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		o        options
		script   func(context.Context) error
		category events.Category
	}{
		"an error": {script: func(context.Context) error { return errPlanted }, category: events.SinkError},
		"a panic":  {script: func(context.Context) error { panic("password=hunter2") }, category: events.SinkError},
		"an exit":  {script: func(context.Context) error { runtime.Goexit(); return nil }, category: events.SinkError},
		"no script": {o: options{syncs: func(s []towline.Sync) { s[0].PostSync.Targets[0].SQL = "" }},
			category: events.Configuration},
		"no SQL": {o: options{noScripts: true}, category: events.Configuration},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, c.o, func(t *testing.T, s *shop) {
				id := s.marked()
				s.sink.breakAt("script", c.script)
				for range 3 {
					require.NoError(t, s.post(id))
				}
				posts := s.run(id).PostSync.Posts
				require.Len(t, posts, 1)
				require.Equal(t, decider.PostFailed, posts[0].Status)
				require.Equal(t, c.category, posts[0].Category)
				require.NotContains(t, posts[0].Text+s.log.String(), "hunter2")
				require.LessOrEqual(t, len(s.sink.ran()), 1)
			})
		})
	}
}

// HP-2, L-11: the record of an effect is tried again while the store is away: the effect does not run a second time.
func TestTheRecordOfAnEffectOutlivesAStoreThatIsAway(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		id := s.marked()
		s.sink.breakAt("script", func(context.Context) error {
			s.store.gone.Store(true)
			return nil
		})
		done := make(chan error, 1)
		go func() { done <- s.post(id) }()
		wait(10 * time.Second)
		s.store.gone.Store(false)
		wait(time.Second)
		require.NoError(t, <-done)
		require.Equal(t, decider.PostCompleted, s.run(id).PostSync.Posts[0].Status)
		require.Len(t, s.sink.ran(), 1)
	})
}

// HP-4, C-24: one that cannot be recorded stays unconfirmed; its message is refused, and a redelivery does not run it
// again.
func TestAnEffectThatCannotBeRecordedStaysUnconfirmed(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		id := s.marked()
		s.sink.breakAt("script", func(context.Context) error {
			s.store.gone.Store(true)
			return nil
		})
		require.ErrorIs(t, s.post(id), towline.ErrUnavailable)
		s.store.gone.Store(false)
		require.NoError(t, s.post(id))
		require.Equal(t, decider.PostStarted, s.run(id).PostSync.Posts[0].Status)
		require.Equal(t, 1, strings.Count(strings.Join(s.sink.ran(), "\n"), "UPDATE x"))
	})
}
