// Package sinktest holds the laws that every fenced sink passes, whatever it writes to.
package sinktest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sink"
)

// Bench is one destination under test, empty at first.
type Bench struct {
	// Open is a handle to it, as a process of its own would have one. With takeOver a store goes on where another wrote.
	Open func(takeOver bool) sink.Opener
	// Rows is what is visible of a surface now, in any order.
	Rows func(surface string) []Row
	// State is what is visible of the state of a dataset of a source now; nil: nothing.
	State func(source, dataset string) json.RawMessage
}

// Row is one visible row.
type Row struct {
	Source, Key, Window string
	Data                json.RawMessage
}

// Run proves the laws. open makes a new bench; what it starts it ends with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Bench) {
	for _, law := range []struct {
		name string
		hold func(bench)
	}{
		{"a commit shows everything at once", together},
		{"several surfaces are one commit", surfaces},
		{"an older attempt is refused", older},
		{"an older run is refused, and an older life of its store", olderRun},
		{"a fence guards one scope", scopes},
		{"an equal fence is the same attempt", again},
		{"a running attempt learns that it was overtaken", overtaken},
		{"of racing attempts the newer stays", race},
		{"a window is replaced, and no other", window},
		{"an empty attempt empties its window", empty},
		{"an attempt at all there is replaces the source", snapshot},
		{"the later put of a key counts", twice},
		{"an undeclared surface takes nothing", undeclared},
		{"a bad row is refused alone", badRow},
		{"any name is a name", odd},
		{"an aborted attempt leaves nothing", abort},
		{"a context that has ended harms nothing", ended},
		{"who stages holds up nobody", staging},
		{"many write at once", many},
		{"the state follows the newest attempt", state},
		{"a second dataset cannot replace a surface", owner},
		{"another store is refused at every window", foreign},
		{"of two stores that race the first stays", twoStores},
		{"a store that takes over is the one store from then on", takeOver},
		{"a take-over that fails takes nothing", failedTakeOver},
		{"a store that is not known is compared by its fence", unknownStore},
	} {
		t.Run(law.name, func(t *testing.T) {
			b := bench{Bench: open(t), t: t}
			b.opener = b.Open(false)
			law.hold(b)
		})
	}
}

// bench is a Bench with the words of the laws.
type bench struct {
	Bench
	t      *testing.T
	opener sink.Opener
}

// The windows of the laws.
var (
	day     = events.NewWindow(time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC), time.Date(2024, 3, 2, 0, 0, 0, 0, time.UTC))
	nextDay = events.NewWindow(day.To, day.To.AddDate(0, 0, 1))
	month   = events.NewWindow(day.From, day.From.AddDate(0, 1, 0))
	all     = events.NewWindow(time.Time{}, day.To)
)

const surface = "readings"

// at is attempt n at the readings of one station. A higher n has a higher fence.
func at(n int, w events.Window) sink.Scope {
	return sink.Scope{
		Source: "harbour", Dataset: surface, Window: w, Run: events.RunID{15: 1}, Unit: events.UnitID{15: 2},
		Attempt: n, Fence: events.NewFence(1, events.Position(n)), Surfaces: []string{surface},
	}
}

func of(store string, s sink.Scope) sink.Scope {
	s.Store = store
	return s
}

func from(source string, s sink.Scope) sink.Scope {
	s.Source = source
	return s
}

// value is the only field of the rows of the laws.
type value struct {
	Value int `json:"value"`
}

func (b bench) open(s sink.Scope) sink.Writer {
	b.t.Helper()
	w, err := b.opener.Open(context.Background(), s)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = w.Abort() })
	return w
}

func (b bench) put(w sink.Writer, n int, keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		require.NoError(b.t, w.Put(context.Background(), surface, k, value{n}))
	}
}

// commit is a whole attempt.
func (b bench) commit(s sink.Scope, n int, keys ...string) {
	b.t.Helper()
	w := b.open(s)
	b.put(w, n, keys...)
	require.NoError(b.t, w.Commit(context.Background()))
}

// refuses: the attempt is refused with an error, at its begin.
func (b bench) refuses(s sink.Scope, want error) {
	b.t.Helper()
	_, err := b.opener.Open(context.Background(), s)
	require.ErrorIs(b.t, err, want)
}

// shows requires the rows of a surface: source/key/window=value.
func (b bench) shows(surface string, want ...string) {
	b.t.Helper()
	got := []string{}
	for _, r := range b.Rows(surface) {
		var v value
		require.NoError(b.t, json.Unmarshal(r.Data, &v))
		got = append(got, fmt.Sprintf("%s/%s/%s=%d", r.Source, r.Key, r.Window, v.Value))
	}
	slices.Sort(got)
	require.ElementsMatch(b.t, want, got)
}

func (b bench) left(want string) {
	b.t.Helper()
	if want == "" {
		require.Nil(b.t, b.State("harbour", surface))
		return
	}
	require.JSONEq(b.t, want, string(b.State("harbour", surface)))
}

func together(b bench) {
	w := b.open(of("one", at(7, day)))
	b.put(w, 1, "a", "b")
	w.State(json.RawMessage(`{"cursor":9007199254740993}`))
	b.shows(surface)
	b.left("")
	require.False(b.t, w.Committed())
	require.NoError(b.t, w.Commit(context.Background()))
	require.True(b.t, w.Committed())
	require.Equal(b.t, 2, w.Rows())
	require.JSONEq(b.t, `{"cursor":9007199254740993}`, string(w.Left()))
	b.shows(surface, "harbour/a/2024-03-01=1", "harbour/b/2024-03-01=1")
	require.Contains(b.t, string(b.State("harbour", surface)), "9007199254740993", "no digit of a number changes")
}

func surfaces(b bench) {
	both := func(n int) sink.Scope {
		s := at(n, day)
		s.Surfaces = []string{"gauges", surface}
		return s
	}
	w := b.open(both(1))
	require.NoError(b.t, w.Put(context.Background(), "gauges", "a", value{1}))
	b.put(w, 1, "a")
	require.NoError(b.t, w.Commit(context.Background()))
	b.shows("gauges", "harbour/a/2024-03-01=1")
	b.shows(surface, "harbour/a/2024-03-01=1")
	b.commit(both(2), 2, "b") // puts to one of them, and replaces both
	b.shows("gauges")
	b.shows(surface, "harbour/b/2024-03-01=2")
}

func older(b bench) {
	late := b.open(at(1, day))
	b.put(late, 1, "a", "zombie")
	late.State(json.RawMessage(`"old"`))
	b.commit(at(2, day), 2, "a")
	require.ErrorIs(b.t, late.Commit(context.Background()), sink.ErrFenced)
	require.False(b.t, late.Committed())
	require.NoError(b.t, late.Abort())
	b.shows(surface, "harbour/a/2024-03-01=2")
	b.left("")
	b.refuses(at(1, day), sink.ErrFenced)
}

func olderRun(b bench) {
	newer := at(9, day)
	newer.Run, newer.Attempt = events.RunID{15: 8}, 1
	b.commit(newer, 9, "a")
	behind := at(3, day) // the third attempt of an older run: more attempts, lower fence
	behind.Attempt = 3
	b.refuses(behind, sink.ErrFenced)
	restored := at(1, day)
	restored.Fence = events.NewFence(2, 1) // a restore raised the epoch, positions start again
	b.commit(restored, 1, "b")
	b.refuses(newer, sink.ErrFenced)
	b.shows(surface, "harbour/b/2024-03-01=1")
}

func scopes(b bench) {
	b.commit(at(9, day), 9, "a")
	b.commit(at(1, nextDay), 1, "b")
	b.commit(from("ridge", at(1, day)), 1, "a")
	b.shows(surface, "harbour/a/2024-03-01=9", "harbour/b/2024-03-02=1", "ridge/a/2024-03-01=1")
}

func again(b bench) {
	b.commit(at(1, day), 1, "a", "b")
	w := b.open(at(1, day))
	b.put(w, 1, "a", "b")
	require.NoError(b.t, w.Commit(context.Background()))
	require.NoError(b.t, w.Commit(context.Background()), "a second call does nothing")
	require.NoError(b.t, w.Abort())
	b.shows(surface, "harbour/a/2024-03-01=1", "harbour/b/2024-03-01=1")
}

// overtakenWithin is how many rows an attempt may put for nothing.
const overtakenWithin = 10_000

func overtaken(b bench) {
	late := b.open(at(1, day))
	more := func(n int) (err error) {
		for i := 0; err == nil && i < n; i++ {
			err = late.Put(context.Background(), surface, fmt.Sprint(i), value{1})
		}
		return err
	}
	require.NoError(b.t, more(overtakenWithin+overtakenWithin/2))
	b.commit(at(2, day), 2, "a")
	require.ErrorIs(b.t, more(overtakenWithin), sink.ErrFenced)
}

func race(b bench) {
	for n := 1; n < 20; n += 2 {
		a, c := b.open(at(n, day)), b.open(at(n+1, day))
		b.put(a, n, "a", "only-old")
		b.put(c, n+1, "a")
		var group sync.WaitGroup
		var errOld, errNew error
		group.Go(func() { errOld = a.Commit(context.Background()) })
		group.Go(func() { errNew = c.Commit(context.Background()) })
		group.Wait()
		require.NoError(b.t, errNew)
		if errOld != nil {
			require.ErrorIs(b.t, errOld, sink.ErrFenced)
		}
		b.shows(surface, fmt.Sprintf("harbour/a/2024-03-01=%d", n+1))
	}
}

func window(b bench) {
	b.commit(from("ridge", at(1, day)), 1, "a", "b")
	b.commit(at(1, nextDay), 1, "c")
	b.commit(at(2, day), 1, "a", "b")
	b.commit(at(3, day), 2, "b", "d")
	b.shows(surface, "harbour/b/2024-03-01=2", "harbour/c/2024-03-02=1", "harbour/d/2024-03-01=2", "ridge/a/2024-03-01=1", "ridge/b/2024-03-01=1")
}

func empty(b bench) {
	b.commit(at(1, day), 1, "a", "b")
	b.commit(at(2, day), 0)
	b.shows(surface)
	b.refuses(at(1, day), sink.ErrFenced)
}

func snapshot(b bench) {
	b.commit(at(1, day), 1, "a")
	b.commit(from("ridge", at(1, day)), 1, "a")
	b.commit(at(2, all), 2, "b", "c")
	b.commit(at(3, events.NewWindow(time.Time{}, nextDay.To)), 3, "c")
	b.shows(surface, "harbour/c/-=3", "ridge/a/2024-03-01=1")
}

func twice(b bench) {
	w := b.open(at(1, day))
	b.put(w, 1, "a", "b")
	b.put(w, 2, "a")
	require.NoError(b.t, w.Commit(context.Background()))
	b.shows(surface, "harbour/a/2024-03-01=2", "harbour/b/2024-03-01=1")
}

func undeclared(b bench) {
	w := b.open(at(1, day))
	require.ErrorIs(b.t, w.Put(context.Background(), "secrets", "a", value{}), sink.ErrUndeclared)
	require.Zero(b.t, w.Rows())
	require.NoError(b.t, w.Commit(context.Background()))
	b.shows("secrets")
}

func badRow(b bench) {
	w := b.open(at(1, day))
	b.put(w, 1, "a")
	for _, row := range []any{nil, 7, "text", []int{1}, func() {}} {
		require.Error(b.t, w.Put(context.Background(), surface, "bad", row))
	}
	b.put(w, 1, "b")
	require.Equal(b.t, 2, w.Rows())
	require.NoError(b.t, w.Commit(context.Background()))
	b.shows(surface, "harbour/a/2024-03-01=1", "harbour/b/2024-03-01=1")
}

func odd(b bench) {
	const name = `../50% "é" a\b`
	s := from(name, at(1, day))
	s.Surfaces, s.Dataset = []string{name}, name
	w := b.open(s)
	keys := []string{"", "a\nb", `"`, "é", "<b>", "../a"}
	for _, k := range keys {
		require.NoError(b.t, w.Put(context.Background(), name, k, map[string]any{"value": 1, "text": "<b>\u2028"}))
	}
	require.NoError(b.t, w.Commit(context.Background()))
	var found []string
	for _, r := range b.Rows(name) {
		require.Equal(b.t, name, r.Source)
		require.JSONEq(b.t, `{"value": 1, "text": "<b>\u2028"}`, string(r.Data))
		found = append(found, r.Key)
	}
	require.ElementsMatch(b.t, keys, found)
}

func abort(b bench) {
	for n := range 5 {
		w := b.open(at(n+1, day))
		b.put(w, 1, "a")
		require.NoError(b.t, w.Abort())
		require.NoError(b.t, w.Abort())
		require.Error(b.t, w.Put(context.Background(), surface, "b", value{}))
		require.Error(b.t, w.Commit(context.Background()))
		require.False(b.t, w.Committed())
	}
	b.shows(surface)
	b.commit(at(1, day), 1, "a") // no fence is left
}

func ended(b bench) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := b.opener.Open(over, at(1, day))
	require.ErrorIs(b.t, err, context.Canceled)
	w := b.open(at(1, day))
	b.put(w, 1, "a")
	require.ErrorIs(b.t, w.Put(over, surface, "b", value{}), context.Canceled)
	require.ErrorIs(b.t, w.Commit(over), context.Canceled)
	require.False(b.t, w.Committed())
	b.put(w, 1, "c")
	require.NoError(b.t, w.Commit(context.Background()))
	b.shows(surface, "harbour/a/2024-03-01=1", "harbour/c/2024-03-01=1")
}

func staging(b bench) {
	b.commit(at(1, day), 1, "a")
	slow := b.open(at(2, day))
	b.put(slow, 2, "a", "b")
	b.commit(at(2, nextDay), 2, "c")
	other := b
	other.opener = b.Open(false)
	other.commit(from("ridge", at(1, day)), 1, "a")
	b.shows(surface, "harbour/a/2024-03-01=1", "harbour/c/2024-03-02=2", "ridge/a/2024-03-01=1")
	b.put(slow, 2, "d")
	require.NoError(b.t, slow.Commit(context.Background()))
	b.shows(surface, "harbour/a/2024-03-01=2", "harbour/b/2024-03-01=2", "harbour/d/2024-03-01=2", "harbour/c/2024-03-02=2", "ridge/a/2024-03-01=1")
}

func many(b bench) {
	const writers, each = 24, 20
	handles := []sink.Opener{b.opener, b.Open(false)}
	errs := make([]error, writers)
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			errs[i] = func() error {
				w, err := handles[i%2].Open(context.Background(), from(fmt.Sprint("station-", i), at(i+1, day)))
				if err != nil {
					return err
				}
				defer func() { _ = w.Abort() }()
				for k := range each {
					if err := w.Put(context.Background(), surface, fmt.Sprint(k), value{1}); err != nil {
						return err
					}
				}
				return w.Commit(context.Background())
			}()
		})
	}
	group.Wait()
	for _, err := range errs {
		require.NoError(b.t, err)
	}
	require.Len(b.t, b.Rows(surface), writers*each)
}

func state(b bench) {
	older, newer := b.open(at(1, day)), b.open(at(2, nextDay))
	older.State(json.RawMessage(`"older"`))
	newer.State(json.RawMessage(`"newer"`))
	require.NoError(b.t, newer.Commit(context.Background()))
	require.NoError(b.t, older.Commit(context.Background()))
	b.left(`"newer"`)
	b.commit(at(3, day), 1, "a") // leaves no state, and so changes none
	b.left(`"newer"`)
}

func owner(b bench) {
	other := at(2, day)
	other.Dataset = "corrections"
	b.commit(at(1, day), 1, "a")
	w := b.open(other)
	b.put(w, 2, "b")
	require.ErrorContains(b.t, w.Commit(context.Background()), "would replace rows of dataset "+surface)
	require.False(b.t, w.Committed())
	b.shows(surface, "harbour/a/2024-03-01=1")
}

func foreign(b bench) {
	b.commit(of("one", at(5, day)), 5, "a")
	for _, w := range []events.Window{day, nextDay, month, all} {
		b.refuses(of("two", at(9, w)), sink.ErrForeign)
	}
	b.commit(of("two", from("ridge", at(1, day))), 1, "a") // another source is nobody's yet
	b.commit(of("one", at(6, day)), 6, "a")
	b.shows(surface, "harbour/a/2024-03-01=6", "ridge/a/2024-03-01=1")
}

func twoStores(b bench) {
	one, two := b.open(of("one", at(1, day))), b.open(of("two", at(9, nextDay)))
	b.put(one, 1, "a")
	b.put(two, 9, "b")
	require.NoError(b.t, one.Commit(context.Background()))
	err := two.Commit(context.Background())
	require.ErrorIs(b.t, err, sink.ErrForeign)
	require.NotErrorIs(b.t, err, sink.ErrFenced)
	b.shows(surface, "harbour/a/2024-03-01=1")
}

func takeOver(b bench) {
	w := b.open(of("lost", at(9, day)))
	b.put(w, 9, "a", "b")
	w.State(json.RawMessage(`"lost"`))
	require.NoError(b.t, w.Commit(context.Background()))
	b.commit(of("lost", at(8, nextDay)), 8, "c")

	heir := b
	heir.opener = b.Open(true)
	w = heir.open(of("heir", at(1, day)))
	b.put(w, 1, "a")
	w.State(json.RawMessage(`"heir"`))
	require.NoError(b.t, w.Commit(context.Background()))
	b.left(`"heir"`)
	heir.refuses(of("heir", at(0, day)), sink.ErrFenced) // its own fences count

	b.shows(surface, "harbour/a/2024-03-01=1", "harbour/c/2024-03-02=8")
	b.refuses(of("lost", at(10, nextDay)), sink.ErrForeign)
	b.commit(of("heir", at(2, nextDay)), 2, "d") // also without the option
	b.shows(surface, "harbour/a/2024-03-01=1", "harbour/d/2024-03-02=2")
}

func failedTakeOver(b bench) {
	b.commit(of("old", at(9, day)), 9, "a")
	heir := b
	heir.opener = b.Open(true)
	w := heir.open(of("heir", at(1, day)))
	b.put(w, 1, "b")
	require.NoError(b.t, w.Abort())
	b.refuses(of("heir", at(1, day)), sink.ErrForeign)
	b.commit(of("old", at(10, day)), 10, "c")
	b.shows(surface, "harbour/c/2024-03-01=10")
}

func unknownStore(b bench) {
	b.commit(at(5, day), 5, "a")
	b.refuses(of("one", at(4, day)), sink.ErrFenced)
	b.commit(of("one", at(6, day)), 6, "a")
	b.refuses(at(5, day), sink.ErrFenced)
	b.commit(at(7, day), 7, "a")
	b.shows(surface, "harbour/a/2024-03-01=7")
}
