package towline_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
)

// memoryIsTrue compares what the writer keeps with the tables and the log (L-3).
func (w *workshop) memoryIsTrue() {
	w.t.Helper()
	differences, err := w.e.CompareMemory(context.Background())
	require.NoError(w.t, err)
	require.Empty(w.t, differences)
}

// busy is a workshop in which everything is under way: a run that is planned, one with a reference unit at work, and
// one whose units all are.
type busy struct {
	*workshop
	planned, ending events.RunID
	reference       towline.Lease
	leases          []towline.Lease
}

func newBusy(t *testing.T) busy {
	t.Helper()
	s := tiered()
	s.Datasets = append(s.Datasets, towline.Dataset{Name: "years", Window: towline.Year}, towline.Dataset{Name: "all",
		Snapshot: true})
	s.PostSync = towline.PostSync{Targets: []towline.Target{{Name: "index", SQL: "SELECT 1"}}}
	w := newWorkshop(t, s)
	b := busy{workshop: w}
	cascade := w.started(towline.RunSpec{Sync: "tracker", Sources: []string{"a"}})
	b.reference = w.claim(w.unit(cascade.Run, 2).Unit)
	b.ending = w.started(towline.RunSpec{Sync: "tracker", Sources: []string{"b"}, Datasets: []string{"all", "words",
		"work", "years"}}).Run
	for _, u := range w.units(b.ending) {
		b.leases = append(b.leases, w.claim(u.Unit))
	}
	require.Len(t, b.leases, 4)
	b.planned = w.plan(towline.RunSpec{Sync: "tracker"}).Run
	return b
}

func (b busy) settle(tx *towline.Tx, l towline.Lease, r events.Result) error {
	_, err := tx.Execute(decider.CompleteUnit{
		Unit: l.Unit.Unit, At: tx.Now(), RunOpen: true, Attempt: l.Unit.Attempt, Token: l.Token, Result: r,
	})
	return err
}

// works are what a transaction can hold, up to all of it.
var works = []struct {
	name  string
	rests bool // on the works before it
	do    func(busy, *towline.Tx) error
}{
	{"a dispatch", false, func(b busy, tx *towline.Tx) error {
		_, err := tx.Dispatch(b.planned)
		return err
	}},
	{"a failure with its cascade", false, func(b busy, tx *towline.Tx) error {
		l := b.reference
		_, err := tx.Execute(decider.FailUnit{Unit: l.Unit.Unit, At: tx.Now(), RunOpen: true, Attempt: 1,
			Token: l.Token, Category: events.Auth})
		return err
	}},
	{"an expiry", false, func(b busy, tx *towline.Tx) error {
		_, err := tx.Execute(decider.ExpireLease{Unit: b.leases[1].Unit.Unit, At: tx.Now().Add(1e9), RunOpen: true})
		return err
	}},
	{"a settle with a watermark", false, func(b busy, tx *towline.Tx) error {
		return b.settle(tx, b.leases[2],
			events.Result{})
	}},
	{"a settle that leaves a state", false, func(b busy, tx *towline.Tx) error {
		return b.settle(tx, b.leases[0], events.Result{State: []byte(`{"a":1}`)})
	}},
	{"the settle of a period", false, func(b busy, tx *towline.Tx) error {
		return b.settle(tx, b.leases[3], events.Result{Fingerprint: "f", Rows: 3})
	}},
	{"the end of a run", true, func(b busy, tx *towline.Tx) error {
		done, err := tx.Finalize(b.ending)
		require.True(b.t, done)
		return err
	}},
	{"a claimed and marked wakeup", true, func(b busy, tx *towline.Tx) error {
		token := tx.NewToken()
		_, err := tx.Execute(
			decider.ClaimWakeup{Owner: b.planned, Kind: events.KindUnit, At: tx.Now(), Token: token,
				ExpiresAt: tx.Now().Add(1e6), Messages: 2, MaxAttempts: 20},
			decider.MarkWakeup{Owner: b.planned, Kind: events.KindUnit, At: tx.Now(), N: 1, Token: token,
				Transport: events.TransportLocal, Messages: 2})
		return err
	}},
	{"the end of a node", false, func(b busy, tx *towline.Tx) error {
		_, err := tx.Execute(decider.StopNode{Node: b.e.Node()})
		return err
	}},
}

// failures are the ways in which a transaction fails when its work is done.
var failures = map[string]func(busy, func(*towline.Tx) error){
	"an error": func(b busy, work func(*towline.Tx) error) {
		require.ErrorIs(b.t, b.transact(func(tx *towline.Tx) error {
			require.NoError(b.t, work(tx))
			return errPlanted
		}), errPlanted)
	},
	"a panic": func(b busy, work func(*towline.Tx) error) {
		require.PanicsWithValue(b.t, "planted", func() {
			_ = b.transact(func(tx *towline.Tx) error {
				require.NoError(b.t, work(tx))
				panic("planted")
			})
		})
	},
	"its commit": func(b busy, work func(*towline.Tx) error) {
		b.store.lose = errPlanted
		require.ErrorIs(b.t, b.transact(work), errPlanted)
	},
}

// L-2, L-3, SC-014, SC-369: whatever a transaction has done when it fails, by an error, by a panic or with its commit,
// log, tables and memory are those of before. The works pile up, so the last transaction holds all of them.
func TestAFailedTransactionLeavesNothing(t *testing.T) {
	b := newBusy(t)
	for n := range works {
		for how, fail := range failures {
			b.unchanged(func() {
				fail(b, func(tx *towline.Tx) error {
					for _, w := range works[:n+1] {
						if err := w.do(b, tx); err != nil {
							return fmt.Errorf("%s: %w", w.name, err)
						}
					}
					return nil
				})
			})
			b.memoryIsTrue()
			require.False(t, t.Failed(), "%s in %s", how, works[n].name)
		}
		if works[n].rests {
			continue
		}
		for how, fail := range failures {
			b.unchanged(func() { fail(b, func(tx *towline.Tx) error { return works[n].do(b, tx) }) })
			b.memoryIsTrue()
			require.False(t, t.Failed(), "%s in %s alone", how, works[n].name)
		}
	}
}

// L-2: the same works, committed one by one, leave a true memory; so does a memory that is forgotten at any point.
func TestACommittedTransactionIsInMemory(t *testing.T) {
	b := newBusy(t)
	b.o.unverified = true // the works are no lawful history
	for _, w := range works {
		require.NoError(t, b.transact(func(tx *towline.Tx) error { return w.do(b, tx) }), w.name)
		b.memoryIsTrue()
		b.e.ForgetMemory()
		b.memoryIsTrue()
	}
}

// L-9, SC-334: callers that share a commit do not undo each other; one error and one panic among them are their own.
func TestCallersOfOneCommitAreIndependent(t *testing.T) {
	w := openWorkshop(t, options{grouped: true})
	var wg sync.WaitGroup
	const callers = 24
	errs := make([]error, callers)
	for i := range callers {
		wg.Go(func() {
			switch i % 3 {
			case 0:
				_, errs[i] = w.e.Plan(context.Background(), towline.RunSpec{Sync: "reports"})
			case 1:
				errs[i] = w.transact(func(*towline.Tx) error { return errPlanted })
			case 2:
				defer func() { errs[i] = fmt.Errorf("%v", recover()) }()
				_ = w.transact(func(*towline.Tx) error { panic("planted") })
			}
		})
	}
	wg.Wait()
	for i := range callers {
		switch i % 3 {
		case 0:
			require.NoError(t, errs[i])
		case 1:
			require.ErrorIs(t, errs[i], errPlanted)
		case 2:
			require.EqualError(t, errs[i], "planted")
		}
	}
	require.Len(t, openRuns(w), callers/3)
}

// R-10, L-2: more reactions than any rule can have are a defect, and panic with the command; nothing of it stays.
func TestTheReactionLimitPanics(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{tiered()},
		Knobs: daily(towline.Knobs{}), ReactionLimit: 10}})
	p := w.started(days("tracker", 20))
	lease := w.claim(w.unit(p.Run, 1).Unit)
	w.unchanged(func() {
		defer func() {
			p := fmt.Sprint(recover())
			require.Contains(t, p, "reactions without end")
			require.Contains(t, p, "fail_reference of unit/")
		}()
		_ = w.e.Fail(context.Background(), lease, events.Auth, "no entry")
		t.Error("no panic")
	})
	w.memoryIsTrue()
	w.complete(lease)
	w.deliver(w.complete)
}

// L-3, SC-373: a cache of a few folds gives the same histories as one that holds them all.
func TestASmallCacheDecidesTheSame(t *testing.T) {
	log := func(size int) []events.Envelope {
		w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{tiered(), single("north")},
			Knobs: daily(towline.Knobs{}), FoldCache: size}})
		for i := range 3 {
			w.plan(towline.RunSpec{Sync: "tracker"})
			w.plan(days("north", 5+i))
			w.advance(time.Second)
		}
		n := 0
		w.deliver(func(l towline.Lease) {
			if n++; n%5 == 0 {
				w.fail(l, events.Auth)
				return
			}
			w.complete(l)
		})
		if size > 0 {
			require.LessOrEqual(t, w.e.CachedFolds(), size)
		}
		return w.since(0)
	}
	require.Equal(t, log(0), log(4))
}

// L-3: a memory that cannot be read completely is not used: the next transaction reads it again.
func TestAHalfReadMemoryIsNotUsed(t *testing.T) {
	w := newWorkshop(t, single("north"))
	old := w.started(towline.RunSpec{Sync: "north"})
	oldLease := w.claim(w.unit(old.Run, 1).Unit)
	w.advance(10 * time.Second)
	w.plan(towline.RunSpec{Sync: "north"})
	w.deliver(w.complete)
	require.Equal(t, start.Add(10*time.Second), watermark(w, "north", "north-articles"))

	for _, table := range []string{"FROM watermarks", "FROM left_state", "FROM nodes", "FROM runs", "JOIN units",
		"JOIN outbox"} {
		w.e.ForgetMemory()
		w.store.failQuery = table
		require.ErrorIs(t, w.e.Complete(context.Background(), oldLease, events.Result{}), errPlanted, table)
		w.store.failQuery = ""
		w.memoryIsTrue()
	}
	before := w.head()
	w.complete(oldLease)
	require.Empty(t, enginetest.Only[events.UnitSucceeded](w.since(before))[0].Watermarks, "WM-3: the watermark in force was known")
}

// L-3, N-3: the same in shared mode, when what another process has done cannot be read, wherever in it that is.
func TestAHalfFollowedLogIsNotUsed(t *testing.T) {
	a, b := pair(t, towline.Knobs{}, reports())
	for n := 1; ; n++ {
		p := b.started(towline.RunSpec{Sync: "reports", Mode: towline.FullResync})
		a.e.ForgetMemory()
		a.memoryIsTrue()
		for _, u := range b.units(p.Run) {
			b.complete(b.claim(u.Unit))
		}
		a.store.failRead = n
		err := a.transact(func(*towline.Tx) error { return nil })
		if err == nil {
			require.Greater(t, n, 3, "a page, and a stream or more behind events that were followed")
			break
		}
		require.ErrorIs(t, err, errPlanted)
		a.memoryIsTrue()
		b.deliver(b.complete)
	}
	a.store.failRead = 0
}

// L-11, SC-333: a caller that leaves while it waits leaves nothing behind, and the writer is usable.
func TestACallerThatLeavesLeavesNothing(t *testing.T) {
	w := newWorkshop(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w.unchanged(func() {
		_, err := w.e.Plan(ctx, towline.RunSpec{Sync: "reports"})
		require.ErrorIs(t, err, context.Canceled)
	})
	w.plan(towline.RunSpec{Sync: "reports"})
}

// SC-088, L-2: the run of a message is always there, because nothing is published before its commit; a nudge comes
// after it.
func TestANudgeComesAfterTheCommit(t *testing.T) {
	w := newWorkshop(t)
	<-drained(w.e.Nudged())
	nudged := func() bool {
		select {
		case <-w.e.Nudged():
			return true
		default:
			return false
		}
	}
	w.store.lose = errPlanted
	_, err := w.e.Plan(context.Background(), towline.RunSpec{Sync: "reports"})
	require.ErrorIs(t, err, errPlanted)
	require.False(t, nudged())
	p := w.plan(towline.RunSpec{Sync: "reports"})
	require.True(t, nudged())
	require.False(t, nudged(), "nudges coalesce")
	w.step()
	<-drained(w.e.Nudged())
	w.dispatch(p.Run)
	require.True(t, nudged(), "a dispatch leaves a register due")
	w.claim(w.unit(p.Run, 1).Unit)
	require.False(t, nudged(), "a claim does not")
	w.e.Nudge()
	require.True(t, nudged())
}

// drained empties a channel that may hold a signal, and is closed.
func drained[T any](c <-chan T) <-chan struct{} {
	select {
	case <-c:
	default:
	}
	done := make(chan struct{})
	close(done)
	return done
}

// REC-1, SC-235: a commit makes the earliest time ahead known; an earlier one takes its place, a later one does not.
func TestTheEarliestTimeAheadIsKnown(t *testing.T) {
	s := towline.Sync{Name: "north", Provider: "p", Sources: []string{"north"}, Datasets: []towline.Dataset{
		{Name: "a", Retry: towline.Retry{Max: 1, Backoff: 50 * time.Second, On: []events.Category{events.Network}}},
		{Name: "b", Retry: towline.Retry{Max: 1, Backoff: 7 * time.Second, On: []events.Category{events.Network}}},
		{Name: "c", Retry: towline.Retry{Max: 1, Backoff: 90 * time.Second, On: []events.Category{events.Network}}},
	}}
	w := newWorkshop(t, s)
	p := w.started(towline.RunSpec{Sync: "north"})
	<-drained(w.e.Alarms())
	for i := 1; i <= 3; i++ {
		w.fail(w.claim(w.unit(p.Run, i).Unit), events.Network)
	}
	require.Equal(t, events.MicrosOf(start.Add(7*time.Second)), <-w.e.Alarms())
}

// L-7, SC-330, HC-25: an event that this release cannot read stops the start, with its position; nothing is changed by
// the attempt.
func TestAnUnknownEventStopsTheStart(t *testing.T) {
	for name, row := range map[string]string{
		"unknown type":   `9999, 1, '{}'`,
		"newer schema":   `1, 9, '{}'`,
		"truncated JSON": `1, 1, '{"job_id":'`,
	} {
		t.Run(name, func(t *testing.T) {
			w := openWorkshop(t, options{unverified: true})
			p := w.plan(towline.RunSpec{Sync: "reports"})
			head := w.head()
			w.sql(fmt.Sprintf(`INSERT INTO events (position, tx, stream, version, at, type, schema, data)
				SELECT %d, %d, stream, version + 1, at, %s FROM events WHERE stream = x'01%X' ORDER BY version DESC LIMIT 1`, head+1, head+1, row, p.Run[:]))
			require.NoError(t, w.file.Close())
			err := w.open()
			var bad *events.DecodeError
			require.ErrorAs(t, err, &bad)
			require.Equal(t, head+1, bad.Position)
			require.NoError(t, w.reopenFile())
		})
	}
}

// reopenFile opens the store alone, so that what follows can look at it.
func (w *workshop) reopenFile() error {
	var err error
	w.file, err = openFile(w.o.path)
	return err
}

// D-22, SC-350, L-6: ids that are made in one frozen instant sort in the order of their making.
func TestIDsOfOneInstantSortAsTheyWereMade(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")},
		Knobs: daily(towline.Knobs{})}})
	var last events.UnitID
	for range 3 {
		p := w.plan(days("north", 100))
		for _, u := range w.units(p.Run) {
			require.Positive(t, u.Unit.Compare(last))
			last = u.Unit
		}
	}
}

// CFG-2, I-17: what a node decided by is on record, so a later configuration does not make its decisions wrong.
func TestALaterConfigurationDoesNotMakeTheLogWrong(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: daily(towline.Knobs{
		NeverStartedAfter: -1, MaxAttempts: 30, CapBuckets: map[events.Bucket]int{"press/medium": 12},
	})}})
	w.plan(days("north", 20))
	w.deliver(w.complete)
	w.o.config.Knobs = daily(towline.Knobs{CapBucket: 1, CapRun: 1, CapEngine: 1, MaxUnits: 2, MaxAttempts: 1,
		Stale: time.Second, NeverStartedAfter: time.Second, BackoffBase: time.Millisecond})
	w.crash() // and the proof at the end
}

// L-8, I-26: views and log of one snapshot agree while transactions go on.
func TestAViewIsOneSnapshot(t *testing.T) {
	w := newWorkshop(t)
	p := w.plan(towline.RunSpec{Sync: "reports"})
	require.NoError(t, w.e.View(context.Background(), func(v projections.View) error {
		head, _, err := v.Head()
		require.NoError(t, err)
		w.step()
		w.dispatch(p.Run)
		units, err := v.Units(p.Run, 0, 10)
		require.NoError(t, err)
		require.Equal(t, events.UnitIsPlanned, units[0].Status)
		again, _, err := v.Head()
		require.NoError(t, err)
		require.Equal(t, head, again)
		return nil
	}))
}
