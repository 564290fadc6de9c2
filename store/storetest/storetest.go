// Package storetest is the conformance suite of package store. Whatever it accepts, the engine can run on.
package storetest

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// Options say which store a test wants.
type Options struct {
	// Dir belongs to one test. Stores that are opened with the same Dir, one after the other, are the same store.
	Dir string
	// Now is the clock of the store. nil: the wall clock.
	Now func() events.Micros
}

// Queue is what a store must offer beside store.Store, so that a test can bring several transactions into one commit
// without waiting for time to pass.
type Queue interface {
	Queued() int // transactions that wait for a commit to take them
}

// Run runs the suite. open opens a store for the test that it is given, and fails it if it cannot.
func Run(t *testing.T, open func(t *testing.T, o Options) store.Store) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, opener)
	}{
		{"an append is given its place", testPlace},
		{"every kind of event comes back as it went in", testEveryEvent},
		{"a transaction has one tx number", testTxNumber},
		{"the node of an event is kept", testNode},
		{"an append that cannot be stored is refused alone", testInvalidAppend},
		{"nothing appended is nothing written", testNothing},
		{"a transaction sees what it has appended", testOwnAppends},
		{"the version of a stream is known without its history", testVersion},
		{"a thousand events of one moment keep their order", testOneMoment},
		{"time never goes back", testTime},
		{"a fan-out is one transaction", testFanOut},
		{"the log is the same after reopening", testReopen},
		{"the log cannot be edited", testNoEdits},

		{"a failing transaction undoes itself only", testAtomicInGroup},
		{"a panic is the caller's own", testPanic},
		{"a function that ends its goroutine does not end the writer", testGoexit},
		{"a rolled back append leaves no gap", testNoGap},

		{"an expectation that is too low or too high conflicts", testConflict},
		{"a swallowed conflict still fails", testSwallowedConflict},
		{"a stream is fresh once", testFreshOnce},
		{"in a group only the guilty conflicts", testConflictInGroup},
		{"a conflict that only the commit finds fails the guilty alone", testLateConflict},
		{"many writers with one expectation lose nothing", testExpectationRace},

		{"a caller may leave the queue", testCancelQueued},
		{"a transaction that runs is waited for", testCancelRunning},
		{"a context's error means that nothing was written", testCancelAnywhere},
		{"a context that has ended writes nothing", testCancelBefore},

		{"the hook sees the whole commit and is part of it", testBeforeCommit},
		{"a commit without events has no hook", testNoHook},
		{"the clock of an engine is that of its store", testHookClock},
		{"a failed commit is void as a whole", testVoid},
		{"a failed commit of a fan-out is void as a whole", testVoidFanOut},
		{"a panic of the hook reaches every caller", testHookPanic},

		{"tables change with the log", testTables},
		{"a query reads, and its errors come back", testQuery},
		{"a read keeps its snapshot", testSnapshot},
		{"a read does not block the writer", testReadBlocksNobody},
		{"the log is read to its end", testLog},
		{"reading the log can be given up", testLogEndsEarly},

		{"a closed store refuses", testClosed},
		{"closing answers those who wait", testCloseAnswers},

		{"a random history is the one that a model has", testRandom},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open) })
	}
}

// opener is what Run was given.
type opener func(*testing.T, Options) store.Store

// fresh is an empty store that is closed when the test ends.
func (open opener) fresh(t *testing.T) store.Store {
	t.Helper()
	return open.at(t, Options{Dir: t.TempDir()})
}

func (open opener) at(t *testing.T, o Options) store.Store {
	t.Helper()
	s := open(t, o)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

var errUndo = errors.New("undo")

func unit(n byte) events.StreamID { return events.UnitStream(events.UnitID{15: n}) }
func run(n byte) events.StreamID  { return events.RunStream(events.RunID{15: n}) }

// renewed is a small event that shows a number.
func renewed(n int) events.Event { return events.UnitLeaseRenewed{Attempt: n, Token: "t"} }

// appendTo is a transaction that appends events to one stream.
func appendTo(id events.StreamID, expected events.Version, evs ...events.Event) func(store.Tx) error {
	return func(tx store.Tx) error {
		_, err := tx.Append(id, expected, events.Meta{}, evs...)
		return err
	}
}

func write(t *testing.T, s store.Store, fn func(store.Tx) error) {
	t.Helper()
	require.NoError(t, s.Write(context.Background(), fn))
}

// readLog is the log from its beginning.
func readLog(t *testing.T, s store.Store) []events.Envelope {
	t.Helper()
	var all []events.Envelope
	require.NoError(t, s.Read(context.Background(), func(r store.Reader) error {
		for e, err := range r.Log(context.Background(), 0) {
			if err != nil {
				return err
			}
			all = append(all, e)
		}
		return nil
	}))
	return all
}

func readStream(t *testing.T, s store.Store, id events.StreamID) []events.Envelope {
	t.Helper()
	var all []events.Envelope
	require.NoError(t, s.Read(context.Background(), func(r store.Reader) (err error) {
		all, err = r.Stream(id)
		return err
	}))
	return all
}

// requireDense checks what holds of every log (I-1).
func requireDense(t *testing.T, log []events.Envelope) {
	t.Helper()
	versions := map[events.StreamID]events.Version{}
	for i, e := range log {
		require.EqualValues(t, i+1, e.Position, "positions are dense")
		versions[e.Stream]++
		require.Equal(t, versions[e.Stream], e.Version, "versions of %s are dense", e.Stream)
		require.LessOrEqual(t, e.Tx, e.Position)
		if i > 0 {
			require.GreaterOrEqual(t, e.At, log[i-1].At, "time does not go back")
			require.GreaterOrEqual(t, e.Tx, log[i-1].Tx)
		}
	}
}

// ended is how a Write ended for its caller.
type ended struct {
	err      error
	panicked any
	exited   bool
}

// writeOn writes in a goroutine of its own.
func writeOn(ctx context.Context, s store.Store, fn func(store.Tx) error) <-chan ended {
	out := make(chan ended, 1)
	go func() {
		end := ended{exited: true}
		defer func() {
			if p := recover(); p != nil {
				end = ended{panicked: p}
			}
			out <- end
		}()
		err := s.Write(ctx, fn)
		end = ended{err: err}
	}()
	return out
}

// hold occupies the writer until release is called: what is written meanwhile queues, and shares the next commit.
func hold(t *testing.T, s store.Store) (release func()) {
	t.Helper()
	entered := make(chan struct{})
	gate, openGate := newGate(t)
	var once sync.Once
	held := writeOn(context.Background(), s, func(store.Tx) error {
		once.Do(func() { close(entered) })
		<-gate
		return nil
	})
	receive(t, entered)
	return func() {
		t.Helper()
		openGate()
		require.NoError(t, receive(t, held).err)
	}
}

// newGate is a channel that is closed by open, at the latest when the test ends: a test that fails at a closed gate
// would never get past the Close of its store.
func newGate(t *testing.T) (gate chan struct{}, open func()) {
	gate = make(chan struct{})
	open = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	return gate, open
}

// awaitQueued waits until so many transactions are queued.
func awaitQueued(t *testing.T, s store.Store, n int) {
	t.Helper()
	q, ok := s.(Queue)
	require.True(t, ok, "a store under test must offer storetest.Queue")
	for q.Queued() != n {
		runtime.Gosched()
	}
}

// group writes transactions as one commit, in the order given.
func group(t *testing.T, s store.Store, fns ...func(store.Tx) error) []ended {
	t.Helper()
	release := hold(t, s)
	outs := make([]<-chan ended, len(fns))
	for i, fn := range fns {
		outs[i] = writeOn(context.Background(), s, fn)
		awaitQueued(t, s, i+1)
	}
	release()
	ends := make([]ended, len(fns))
	for i, out := range outs {
		ends[i] = receive(t, out)
	}
	return ends
}

// receive waits for a value, but not for ever.
func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(30 * time.Second):
		require.FailNow(t, "nothing came within 30 s")
		panic("unreachable")
	}
}
