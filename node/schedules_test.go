package node_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// slow is a sync whose runs take 24 s.
func slow() node.Sync {
	return works(func(ctx context.Context, _ provider.Unit, _ sink.Sink) (provider.Result, error) {
		select {
		case <-time.After(24 * time.Second):
		case <-ctx.Done():
		}
		return provider.Result{}, context.Cause(ctx)
	})
}

func ledger(t *testing.T, n *node.Node, name string) (out []string) {
	t.Helper()
	require.NoError(t, n.Engine().View(t.Context(), func(v projections.View) error {
		rows, err := v.Occurrences(name, projections.OccurrenceCursor{}, 100)
		for _, o := range rows {
			out = append([]string{o.Instant.Format("04:05") + " " + string(o.Status)}, out...)
		}
		return err
	}))
	return out
}

// HC-26, S-6, SC-306: due every ten seconds, and a run takes 24: a whole process skips what lies between; one that queues has
// at most one waiting, which is planned when the run ends.
func TestANodeKeepsItsSchedules(t *testing.T) {
	for overlap, want := range map[events.Overlap][]string{
		towline.OverlapSkip: {
			"00:10 triggered", "00:20 skipped", "00:30 skipped", "00:40 triggered", "00:50 skipped", "01:00 skipped",
		},
		towline.OverlapQueue: {
			"00:10 triggered", "00:20 triggered", "00:30 skipped", "00:40 triggered", "00:50 skipped", "01:00 queued",
		},
	} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			n := start(t, open(t, node.Config{
				Store: filepath.Join(dir, "towline.db"), Syncs: []node.Sync{slow()}, VerifyEvery: -1,
				Schedules: []towline.Schedule{{Sync: "days", Cron: "*/10 * * * * *", Overlap: overlap}},
			}))
			<-time.After(66 * time.Second)
			require.Equal(t, want, ledger(t, n.Node, "days"))
			for _, run := range enginetest.Only[events.RunPlanned](logOf(t, n.Node)) {
				require.Equal(t, events.TriggerSchedule, run.TriggeredBy)
			}
			require.NoError(t, n.Engine().PauseSchedule(t.Context(), "days", towline.Actor{Name: "ada", Reason: "enough"}))
			<-time.After(time.Minute)
			requireGood(t, n.Node)
			n.end()
		})
	}
}

// CLK-6, HC-23, S-5: a wall clock that steps an hour forward is seen within an interval, and catches one time up; one that
// steps back mints nothing twice.
func TestANodeSeesItsClockStep(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64 // ns, of the wall clock
		began := time.Now()
		n := start(t, open(t, node.Config{
			Store: filepath.Join(dir, "towline.db"), Syncs: []node.Sync{works(nothingToDo)}, VerifyEvery: -1,
			Schedules: []towline.Schedule{{Name: "minutely", Sync: "days", Cron: "* * * * *"}},
			Now:       func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
			Monotonic: func() time.Duration { return time.Since(began) },
		}))
		<-time.After(150 * time.Second)
		synctest.Wait()
		ahead.Store(int64(time.Hour))
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"01:00 triggered", "02:00 triggered", "03:00 triggered"}, ledger(t, n.Node, "minutely"))
		missed := enginetest.Only[events.OccurrencesMissed](logOf(t, n.Node))
		require.Len(t, missed, 1)
		require.Equal(t, 60, missed[0].Count)
		ahead.Store(0)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		require.Len(t, ledger(t, n.Node, "minutely"), 3, "those of the hour are decided")
		requireGood(t, n.Node)
		n.end()
	})
}

// CFG-3: a reload that makes the interval shorter holds for the loops of schedules, too: a clock that steps is seen within it.
func TestASchedulesLoopGoesByTheIntervalInForce(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64 // ns, of the wall clock
		began := time.Now()
		n := start(t, open(t, node.Config{
			Store: filepath.Join(dir, "towline.db"), Syncs: []node.Sync{works(nothingToDo)}, VerifyEvery: -1,
			Schedules: []towline.Schedule{{Name: "hourly", Sync: "days", Cron: "0 * * * *"}},
			Now:       func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
			Monotonic: func() time.Duration { return time.Since(began) },
		}))
		<-time.After(90 * time.Second)
		require.NoError(t, n.Engine().Reload(t.Context(), towline.Knobs{ReconcileInterval: 5 * time.Second}, towline.Actor{Name: "ada"}))
		<-time.After(time.Minute) // the wait of before is over
		synctest.Wait()
		ahead.Store(int64(time.Hour))
		<-time.After(6 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"00:00 triggered"}, ledger(t, n.Node, "hourly"))
		n.end()
	})
}

// HC-56, S-1: a schedule that is not due for long writes nothing.
func TestAnIdleScheduleWritesNothing(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, open(t, node.Config{
			Store: filepath.Join(dir, "towline.db"), Syncs: []node.Sync{works(nothingToDo)}, VerifyEvery: -1,
			Schedules: []towline.Schedule{{Name: "yearly", Sync: "days", Cron: "0 0 1 7 *"}},
		}))
		<-time.After(time.Minute)
		before := len(logOf(t, n.Node))
		<-time.After(10 * time.Hour)
		require.Len(t, logOf(t, n.Node), before)
		n.end()
	})
}
