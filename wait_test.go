package towline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
)

// waiting starts a Wait and returns how it ends.
func waiting(ctx context.Context, w *workshop, run events.RunID) <-chan waited {
	out := make(chan waited, 1)
	go func() {
		row, err := w.e.Wait(ctx, run)
		out <- waited{row, err}
	}()
	return out
}

type waited struct {
	run projections.SyncRun
	err error
}

// REC-1, J-1: a wait ends with the commit that ends the run, and does nothing until then: it neither polls nor wakes.
func TestAWaitEndsWithItsRun(t *testing.T) {
	w := newWorkshop(t)
	p := w.plan(towline.RunSpec{Sync: "reports"})
	other := w.plan(towline.RunSpec{Sync: "reports", Sources: []string{}})
	ended, err := w.e.Wait(context.Background(), other.Run)
	require.NoError(t, err)
	require.Equal(t, events.RunFailed, ended.Status, "one that has ended already is answered at once")

	first, second := waiting(context.Background(), w, p.Run), waiting(context.Background(), w, p.Run)
	w.deliver(w.complete)
	for _, c := range []<-chan waited{first, second} {
		got := <-c
		require.NoError(t, got.err)
		require.Equal(t, events.RunSucceeded, got.run.Status)
	}
}

// REC-1: a waiting caller reads once, and then nothing for as long as nothing happens.
func TestAWaitNeverPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkshop(t)
		p := w.plan(towline.RunSpec{Sync: "reports"})
		ctx, cancel := context.WithCancelCause(context.Background())
		w.store.reads.Store(0)
		end := waiting(ctx, w, p.Run)
		<-time.After(24 * time.Hour) // of the bubble
		require.EqualValues(t, 1, w.store.reads.Load())
		cancel(errPlanted)
		got := <-end
		require.ErrorIs(t, got.err, errPlanted, "the cause of its context")
		require.Equal(t, events.RunIsPlanned, got.run.Status, "with the run as it was last seen")
		require.EqualValues(t, 1, w.store.reads.Load())
	})
}

// N-6: nobody waits for a run that this process will not end any more.
func TestAWaitEndsWithItsEngine(t *testing.T) {
	w := newWorkshop(t)
	p := w.plan(towline.RunSpec{Sync: "reports"})
	end := waiting(context.Background(), w, p.Run)
	require.NoError(t, w.e.Stop(context.Background(), "test"))
	require.ErrorIs(t, (<-end).err, towline.ErrStopped)
	w.crash()
}

// REC-2: a run that another process ends is found by the pass, which wakes whoever waits.
func TestAWaitEndsWithARunThatEndsElsewhere(t *testing.T) {
	clock := enginetest.NewClock(start)
	a := openWorkshop(t, options{shared: true, clock: clock})
	b := openWorkshop(t, options{path: a.o.path, shared: true, clock: clock, unverified: true,
		config: towline.Config{Entropy: seeded(2)}})
	p := a.plan(towline.RunSpec{Sync: "reports"})
	end := waiting(context.Background(), a, p.Run)
	b.deliver(b.complete)
	require.Equal(t, events.RunSucceeded, b.run(p.Run).Status)
	for done := false; !done; {
		a.pass()
		select {
		case got := <-end:
			require.NoError(t, got.err)
			require.Equal(t, events.RunSucceeded, got.run.Status)
			done = true
		default:
		}
	}
}

// A run that does not exist is not waited for (P-4: its field is named).
func TestAWaitForNoRun(t *testing.T) {
	w := newWorkshop(t)
	_, err := w.e.Wait(context.Background(), events.RunID{1})
	require.ErrorIs(t, err, towline.ErrNotFound)
	var request *towline.RequestError
	require.True(t, errors.As(err, &request))
	require.Equal(t, "run", request.Field)
}
