package towline_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
)

// asOf is the state at a position.
func (w *workshop) asOf(p events.Position) *towline.Past {
	w.t.Helper()
	scratch, err := openFile(filepath.Join(w.t.TempDir(), "scratch.db"))
	require.NoError(w.t, err)
	past, err := w.e.AsOf(context.Background(), p, scratch)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, past.Close()) })
	return past
}

// AS-1: a run, its units and its job as they were when it was planned, at work and over; before it there was none.
func TestARunAsOfItsPast(t *testing.T) {
	w := newWorkshop(t)
	before := w.head()
	run := w.plan(towline.RunSpec{Sync: "reports"}).Run
	planned := w.head()
	w.advance(time.Minute)
	w.dispatch(run)
	first, other := w.claim(w.unit(run, 1).Unit), w.claim(w.unit(run, 2).Unit)
	working := w.head()
	w.advance(time.Second)
	w.complete(first)
	w.complete(other)
	require.True(t, w.finalize(run))

	for p, want := range map[events.Position]struct {
		status events.RunStatus
		unit   events.UnitStatus
	}{
		planned:  {events.RunIsPlanned, events.UnitIsPlanned},
		working:  {events.RunIsRunning, events.UnitIsRunning},
		w.head(): {events.RunSucceeded, events.UnitHasSucceeded},
	} {
		require.NoError(t, w.asOf(p).View(context.Background(), func(v projections.View) error {
			r, ok, err := v.Run(run)
			require.True(t, ok)
			require.Equal(t, want.status, r.Status)
			require.NoError(t, err)
			j, ok, err := v.Job(r.Job)
			require.True(t, ok)
			require.Equal(t, want.status, j.Status, "the job shows the status that its run had (J-1)")
			require.NoError(t, err)
			units, err := v.Units(run, 0, 10)
			require.Len(t, units, 2)
			require.Equal(t, want.unit, units[0].Status)
			return err
		}))
	}
	for _, p := range []events.Position{0, before} {
		require.NoError(t, w.asOf(p).View(context.Background(), func(v projections.View) error {
			_, ok, err := v.Run(run)
			require.False(t, ok)
			return err
		}))
	}
}

// AS-1: a position that the log does not have is refused by its name, and not replaced by another one.
func TestAPositionBeyondTheLogIsRefused(t *testing.T) {
	w := newWorkshop(t)
	w.plan(towline.RunSpec{Sync: "reports"})
	scratch, err := openFile(filepath.Join(t.TempDir(), "scratch.db"))
	require.NoError(t, err)
	defer scratch.Close()
	for p, kind := range map[events.Position]error{w.head() + 1: towline.ErrNotFound, -1: towline.ErrInvalid} {
		_, err := w.e.AsOf(context.Background(), p, scratch)
		var refused *towline.RequestError
		require.ErrorAs(t, err, &refused)
		require.ErrorIs(t, err, kind)
		require.Equal(t, "position", refused.Field)
		require.NotEmpty(t, refused.Fix)
	}
	past, err := w.e.AsOf(context.Background(), w.head(), scratch)
	require.NoError(t, err, "a refusal leaves the scratch store as it was")
	require.NoError(t, past.View(context.Background(), func(v projections.View) error { return second(v.Watermarks()) }))
}

func second[T any](_ T, err error) error { return err }

// AS-4, G-19, HC-30: a past writes nothing to its store and fires nothing, however much of it is folded.
func TestAPastChangesNothing(t *testing.T) {
	w := storied(t)
	w.broker.take()
	before, head := tables(w), w.head()
	for _, p := range []events.Position{0, 1, head / 2, head} {
		past := w.asOf(p)
		require.NoError(t, past.View(context.Background(), func(v projections.View) error {
			if _, err := v.Runs(events.RunID{}, 100); err != nil {
				return err
			}
			return second(v.DueOf(projections.Wakeups{Kinds: events.Kinds[:]}, events.MicrosOf(w.now.Now().AddDate(1, 0, 0)), projections.DueCursor{}, 100))
		}))
		for _, err := range past.Trace(context.Background(), nil) {
			require.NoError(t, err)
		}
	}
	require.Equal(t, head, w.head())
	require.Equal(t, before, tables(w))
	require.Empty(t, w.broker.sent)
	w.memoryIsTrue()
	require.Equal(t, head, w.head())
}

// AS-2, L-8: a past is a fold of the log, so tables that have drifted do not reach it.
func TestAPastDoesNotTrustTheTables(t *testing.T) {
	w := openWorkshop(t, options{unverified: true})
	run := w.plan(towline.RunSpec{Sync: "reports"}).Run
	w.sql(`UPDATE runs SET sync = 'drift'`, `DELETE FROM units`)
	require.NoError(t, w.asOf(w.head()).View(context.Background(), func(v projections.View) error {
		r, _, err := v.Run(run)
		require.NoError(t, err)
		require.Equal(t, "reports", r.Sync)
		units, err := v.Units(run, 0, 10)
		require.Len(t, units, 2)
		return err
	}))
}

// AS-3: a time leads to the end of a transaction, so nothing half done is shown; a time before the log to nothing, one
// ahead to the newest.
func TestAPastTime(t *testing.T) {
	w := newWorkshop(t)
	begun := w.head()
	w.now.Step(time.Hour)
	w.plan(towline.RunSpec{Sync: "reports"})
	planned := w.head()
	w.now.Step(time.Hour)
	w.pass()
	for at, want := range map[time.Time]events.Position{
		{}:                          0,
		start.Add(-time.Second):     0,
		start.Add(-time.Nanosecond): 0,
		start:                       begun,
		start.Add(59 * time.Minute): begun,
		start.Add(time.Hour):        planned,
		start.Add(90 * time.Minute): planned,
		start.AddDate(1, 0, 0):      w.head(),
		time.Unix(1<<60, 0):         w.head(), // further than a number of microseconds can say
		time.Unix(-1<<60, 0):        0,
	} {
		p, err := w.e.PositionAt(context.Background(), at)
		require.NoError(t, err)
		require.Equal(t, want, p, at)
	}
	log := enginetest.Since(t, w.e, planned-1)
	require.NotEqual(t, log[0].Tx, log[1].Tx)
}
