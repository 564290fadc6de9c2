package store_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// ledger is a Committer that keeps names instead of events, so that these tests show only what a Batcher does. That
// the real stores keep their side is for storetest.
type ledger struct {
	kept    []string   // what was committed
	commits [][]string // the same, by commit
	open    []string   // the commit in the making
	beginE  error      // of the next Begin
	commitE []error    // of the next Commits
}

func (l *ledger) Begin() error {
	err := l.beginE
	l.beginE, l.open = nil, nil
	return err
}

func (l *ledger) Transact(fn func(store.Tx) error) (err error) {
	before := len(l.open)
	kept := false
	defer func() {
		if !kept {
			l.open = l.open[:before]
		}
	}()
	err = fn(nil)
	kept = err == nil
	return err
}

func (l *ledger) Appended() bool { return len(l.open) > 0 }

func (l *ledger) Commit() error {
	if len(l.commitE) > 0 {
		err := l.commitE[0]
		l.commitE = l.commitE[1:]
		if err != nil {
			return err
		}
	}
	if len(l.open) > 0 {
		l.kept, l.commits = append(l.kept, l.open...), append(l.commits, l.open)
	}
	return nil
}

func (l *ledger) Rollback() { l.open = nil }

// put is a transaction that writes a name.
func (l *ledger) put(name string) func(store.Tx) error {
	return func(store.Tx) error {
		l.open = append(l.open, name)
		return nil
	}
}

var ctx = context.Background()

// L-2: what is queued becomes one commit, in order. Nothing happens before somebody calls Commit: a simulator decides.
func TestABatcherCommitsWhatIsQueued(t *testing.T) {
	l := &ledger{}
	b := store.NewBatcher(l)
	first, second := b.Add(l.put("a")), b.Add(l.put("b"))
	require.Empty(t, l.kept)
	require.Equal(t, 2, b.Queued())
	b.Commit()
	require.NoError(t, first.Wait(ctx))
	require.NoError(t, second.Wait(ctx))
	require.Equal(t, [][]string{{"a", "b"}}, l.commits)
	b.Commit() // of nothing
	require.Len(t, l.commits, 1)
}

// The bound of a group is a promise to those in it: nobody waits for more than so many others.
func TestAGroupIsBounded(t *testing.T) {
	l := &ledger{}
	b := store.NewBatcher(l)
	for i := range store.MaxGroup + 10 {
		b.Add(l.put(fmt.Sprint(i)))
	}
	b.Commit()
	require.Equal(t, 10, b.Queued())
	b.Commit()
	require.Len(t, l.commits[0], store.MaxGroup)
	require.Len(t, l.commits[1], 10)
	require.Equal(t, "256", l.commits[1][0])
}

// L-11: who left the queue is passed over.
func TestALeaverIsNotRun(t *testing.T) {
	l := &ledger{}
	b := store.NewBatcher(l)
	leaver, stayer := b.Add(l.put("leaver")), b.Add(l.put("stayer"))
	gone, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, leaver.Wait(gone), context.Canceled)
	b.Commit()
	require.NoError(t, stayer.Wait(gone), "an outcome that is there counts more than a context")
	require.Equal(t, []string{"stayer"}, l.kept)
}

// A commit that cannot begin has run nothing, so there is nothing to void.
func TestABeginThatFailsAnswersAll(t *testing.T) {
	l := &ledger{beginE: store.ErrUnavailable}
	b := store.NewBatcher(l)
	b.Attach(store.Hooks{OnVoid: func() { t.Error("void") }})
	first, second := b.Add(l.put("a")), b.Add(l.put("b"))
	b.Commit()
	require.ErrorIs(t, first.Wait(ctx), store.ErrUnavailable)
	require.ErrorIs(t, second.Wait(ctx), store.ErrUnavailable)
	require.NoError(t, writeOne(b, l.put("c")))
	require.Equal(t, []string{"c"}, l.kept)
}

func writeOne(b *store.Batcher, fn func(store.Tx) error) error {
	r := b.Add(fn)
	b.Commit()
	return r.Wait(ctx)
}

// L-9: what one transaction is guilty of voids the group, and then each transaction is on its own.
func TestTheFaultOfOneRunsTheGroupOneByOne(t *testing.T) {
	for _, fault := range []error{
		&store.ConflictError{Stream: events.EngineControlStream(), Expected: 0, Actual: 1},
		fmt.Errorf("exec: %w", store.ErrRolledBack),
	} {
		l := &ledger{commitE: []error{fault, nil, fault, nil}}
		b := store.NewBatcher(l)
		voids := 0
		b.Attach(store.Hooks{OnVoid: func() { voids++ }})
		a, guilty, c := b.Add(l.put("a")), b.Add(l.put("guilty")), b.Add(l.put("c"))
		b.Commit()
		require.NoError(t, a.Wait(ctx))
		require.Equal(t, fault, guilty.Wait(ctx))
		require.NoError(t, c.Wait(ctx))
		require.Equal(t, [][]string{{"a"}, {"c"}}, l.commits)
		require.Equal(t, 2, voids, "the group, and the guilty")
	}
}

// A fault is the same for all. Only that of one is worth another try, and only for more than one.
func TestAFaultIsNotTriedAgain(t *testing.T) {
	for _, fault := range []error{errors.New("fault"), &store.ConflictError{Actual: -1}, store.ErrRolledBack} {
		l := &ledger{commitE: []error{fault}}
		b := store.NewBatcher(l)
		require.Equal(t, fault, writeOne(b, l.put("a")))
		require.Empty(t, l.kept)
	}
	fault := errors.New("fault")
	l := &ledger{commitE: []error{fault}}
	b := store.NewBatcher(l)
	first, second := b.Add(l.put("a")), b.Add(l.put("b"))
	b.Commit()
	require.Equal(t, fault, first.Wait(ctx))
	require.Equal(t, fault, second.Wait(ctx))
	require.Empty(t, l.commits)
}

// In a run one by one, a transaction that ends its goroutine still leaves nobody waiting.
func TestNobodyIsForgottenWhenTheGoroutineEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{}
		w := store.NewWriter(l)
		runs := 0
		ends := make(chan string, 4)
		write := func(name string, fn func(store.Tx) error) {
			go func() {
				end := name + " exited"
				defer func() { ends <- end }()
				err := w.Write(ctx, fn)
				end = fmt.Sprint(name, " ", errors.Is(err, store.ErrUnavailable))
			}()
			synctest.Wait()
		}
		gate := make(chan struct{})
		write("held", func(store.Tx) error { <-gate; return nil })
		l.commitE = []error{nil, &store.ConflictError{}}
		write("a", l.put("a"))
		write("b", func(store.Tx) error {
			if runs++; runs > 1 {
				runtime.Goexit() // as t.FailNow does
			}
			return nil
		})
		write("c", l.put("c"))
		close(gate)
		synctest.Wait()
		require.Len(t, ends, 4)
		require.ElementsMatch(t, []string{"held false", "a false", "b exited", "c true"}, []string{<-ends, <-ends, <-ends, <-ends})
		require.Equal(t, []string{"a"}, l.kept)
		require.NoError(t, w.Write(ctx, l.put("d")), "the writer goes on")
		w.Close()
	})
}

// L-9: what queues while a commit is under way shares the next one; there is no timer.
func TestTheWriterGroupsWhatQueuedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{}
		w := store.NewWriter(l)
		gate := make(chan struct{})
		done := make(chan error, 10)
		write := func(fn func(store.Tx) error) {
			go func() { done <- w.Write(ctx, fn) }()
			synctest.Wait()
		}
		write(func(store.Tx) error { <-gate; return l.put("first")(nil) })
		for _, name := range []string{"a", "b", "c"} {
			write(l.put(name))
		}
		require.Equal(t, 3, w.Queued())
		close(gate)
		for range 4 {
			require.NoError(t, <-done)
		}
		require.Equal(t, [][]string{{"first"}, {"a", "b", "c"}}, l.commits)
		// The bubble ends only when every goroutine has: an idle writer has none.
	})
}

// L-9: callers who were answered together come back together. It rests on the order in which Go's scheduler runs what it
// has, which Go does not promise: this is to notice when that changes. A commit takes no time here, so that nothing else
// groups them. Counted of 64 callers: 15 to 63 transactions a commit, and one without letOthersRun.
func TestCallersComeBackTogether(t *testing.T) {
	const callers, rounds = 64, 200
	l := &ledger{}
	w := store.NewWriter(l)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range rounds {
				if err := w.Write(ctx, l.put("a")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, l.kept, callers*rounds)
	require.LessOrEqual(t, len(l.commits), callers*rounds/4)
}

// Close waits for the commit that is under way, and answers those behind it at once.
func TestCloseWaitsForTheCommitInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{}
		w := store.NewWriter(l)
		gate := make(chan struct{})
		running, waiting, closed := make(chan error, 1), make(chan error, 1), make(chan struct{})
		go func() { running <- w.Write(ctx, func(store.Tx) error { <-gate; return l.put("running")(nil) }) }()
		synctest.Wait()
		go func() { waiting <- w.Write(ctx, l.put("waiting")) }()
		synctest.Wait()
		go func() { w.Close(); close(closed) }()
		require.ErrorIs(t, <-waiting, store.ErrClosed)
		synctest.Wait()
		require.Empty(t, running)
		select {
		case <-closed:
			require.Fail(t, "closed too early")
		default:
		}
		close(gate)
		require.NoError(t, <-running)
		<-closed
		require.ErrorIs(t, w.Write(ctx, l.put("late")), store.ErrClosed)
		require.Equal(t, []string{"running"}, l.kept)
		w.Close()
	})
}

// Inline is one commit per transaction, in the goroutine of the caller, which keeps its panics and its end.
func TestInlineRunsInItsCaller(t *testing.T) {
	l := &ledger{}
	i := store.NewInline(l)
	require.NoError(t, i.Write(ctx, l.put("a")))
	require.PanicsWithValue(t, "bug", func() { _ = i.Write(ctx, func(store.Tx) error { panic("bug") }) })
	ended := make(chan bool)
	go func() {
		defer close(ended)
		_ = i.Write(ctx, func(store.Tx) error { runtime.Goexit(); return nil })
	}()
	<-ended
	require.NoError(t, i.Write(ctx, l.put("b")))
	require.Equal(t, [][]string{{"a"}, {"b"}}, l.commits)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, i.Write(gone, l.put("c")), context.Canceled)
	i.Close()
	require.ErrorIs(t, i.Write(ctx, l.put("d")), store.ErrClosed)
	require.Len(t, l.commits, 2)
}
