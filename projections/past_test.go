package projections_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
)

// openStore opens a store without an engine.
func openStore(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{Inline: true, Synchronous: "normal"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// cut is a store whose log ends at a position, with views made from what is left.
func cut(t *testing.T, closed string, p events.Position) *sqlite.Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cut.db")
	data, err := os.ReadFile(closed)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o644))
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	for _, q := range []string{`DROP TRIGGER events_no_delete`, fmt.Sprintf(`DELETE FROM events WHERE position > %d`, p)} {
		_, err := db.Exec(q)
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
	s := openStore(t, path)
	require.NoError(t, s.Write(context.Background(), rebuildAll))
	return s
}

// grown is a history of at least so many events, however many steps they take.
func grown(t *testing.T, seed byte, n int) *history {
	t.Helper()
	return toldUntil(t, seed, func(h *history) bool { return enginetest.Head(t, h.e) >= events.Position(n) })
}

func newPast(t *testing.T, log projections.Log, p events.Position) *projections.Past {
	t.Helper()
	scratch, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "scratch.db"), sqlite.Options{Inline: true, Synchronous: "normal"})
	require.NoError(t, err)
	past, err := projections.NewPast(context.Background(), log, scratch, p)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, past.Close()) })
	return past
}

// AS-1, AS-2, AS-3: at every position of every history, every query of View answers as a store does whose log ends there:
// in whatever order they are asked, alone or behind others that have folded less or more. In the middle of a transaction
// too.
func TestAPastAnswersLikeACutLog(t *testing.T) {
	for seed := range byte(enginetest.Fewer(3)) {
		seed += 21
		random := rand.New(rand.NewChaCha8([32]byte{seed}))
		h := grown(t, seed, 500)
		all := questions(h.asked())
		head := h.asked().head
		closed := filepath.Join(t.TempDir(), "closed.db")
		_, err := h.file.DB().Exec(`VACUUM INTO $1`, closed)
		require.NoError(t, err)
		for n := range enginetest.Fewer(6) + 2 {
			p := events.Position(random.Int64N(int64(head)) + 1)
			switch n {
			case 0:
				p = 0
			case 1:
				p = head
			}
			ended := cut(t, closed, p)
			past := newPast(t, h.file, p)
			random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			// Most orders fold the log early on, so half of the pasts are asked what they fold in part first.
			if n%2 == 0 {
				slices.SortStableFunc(all, func(a, b question) int { return folds(a) - folds(b) })
			}
			for _, q := range all {
				want := ask(t, q, func(fn func(projections.View) error) error {
					return ended.Read(context.Background(), func(r store.Reader) error { return fn(projections.NewView(r)) })
				})
				got := ask(t, q, func(fn func(projections.View) error) error { return past.View(context.Background(), fn) })
				require.Equal(t, want, got, "seed %d, as of %d of %d: %s(%v)", seed, p, head, q.query, q.about)
			}
		}
	}
}

// counted is a log that counts what is read of it.
type counted struct {
	projections.Log
	streams, events int
	pages           []int // events of each page
	longest         int   // events read in one snapshot
}

func (c *counted) Read(ctx context.Context, fn func(store.Reader) error) error {
	return c.Log.Read(ctx, func(r store.Reader) error {
		before := c.events
		defer func() { c.longest = max(c.longest, c.events-before) }()
		return fn(countedReader{r, c})
	})
}

type countedReader struct {
	store.Reader
	c *counted
}

func (r countedReader) Stream(id events.StreamID) ([]events.Envelope, error) {
	out, err := r.Reader.Stream(id)
	r.c.streams, r.c.events = r.c.streams+1, r.c.events+len(out)
	return out, err
}

func (r countedReader) After(p events.Position, limit int) ([]events.Envelope, error) {
	out, err := r.Reader.After(p, limit)
	r.c.events, r.c.pages = r.c.events+len(out), append(r.c.pages, len(out))
	return out, err
}

var errTouched = errors.New("a past asks nothing of the live tables")

func (r countedReader) Query(func(store.Row) error, string, ...any) error { return errTouched }

// AS-2: what a query about one thing reads does not grow with the log: its own streams, once, however often it is asked.
// None touches the live tables.
func TestAPastOfOneThingReadsItsStreamsOnly(t *testing.T) {
	h := grown(t, 25, enginetest.Fewer(2000))
	a := h.asked()
	own := map[any]int{} // events in the streams of a thing
	h.view(func(v projections.View) {
		for _, run := range a.runs {
			streams, err := v.StreamsOf(run)
			require.NoError(t, err)
			for _, id := range streams {
				history, err := v.Stream(id)
				require.NoError(t, err)
				if unit, ok := id.Unit(); ok {
					own[unit] = len(history)
				}
				own[run] += len(history)
			}
			job, _ := streams[0].Job()
			own[job] = own[run]
		}
	})
	asks := 0
	for _, q := range questions(a) {
		if !slices.Contains(narrow, q.query) || asks > enginetest.Fewer(60) {
			continue
		}
		asks++
		log := &counted{Log: h.file}
		past := newPast(t, log, a.head)
		ask(t, q, func(fn func(projections.View) error) error { return past.View(t.Context(), fn) })
		// To know its units, the run and the transaction that planned it are read as well.
		require.Less(t, log.events, 2*own[q.about]+10, "%s(%v)", q.query, q.about)
		once := log.events
		ask(t, q, func(fn func(projections.View) error) error { return past.View(t.Context(), fn) })
		require.Equal(t, once, log.events, "%s(%v): a second time", q.query, q.about)
	}
}

// AS-2, AS-4, DUR-4: the fold of a long log goes page by page, says how far it is, holds no snapshot for longer than a page,
// and is done once. One that is broken off is gone on with.
func TestAPastFoldsALongLogInPages(t *testing.T) {
	h := grown(t, 26, enginetest.Fewer(1000))
	long := events.Position(5000 + enginetest.Fewer(5000))
	for enginetest.Head(t, h.e) < long { // 960 units each
		_, err := h.e.Plan(t.Context(), planOf(h, 160))
		require.NoError(t, err)
	}
	head := enginetest.Head(t, h.e)
	log := &counted{Log: h.file}
	past := newPast(t, log, long)
	ctx, cancel := context.WithCancel(t.Context())
	var told []events.Position
	past.Report(func(folded, of events.Position) {
		require.Equal(t, long, of)
		if told = append(told, folded); len(told) == 3 {
			cancel()
		}
	})
	var runs []projections.SyncRun
	list := func(v projections.View) (err error) { runs, err = v.Runs(events.RunID{}, 10_000); return err }
	require.ErrorIs(t, past.View(ctx, list), context.Canceled)
	require.Len(t, told, 3)
	require.NoError(t, past.View(t.Context(), list))
	require.NotEmpty(t, runs)
	require.True(t, slices.IsSorted(told))
	require.Len(t, told, int(long)/1000, "no page twice")
	require.Equal(t, long, told[len(told)-1])
	require.LessOrEqual(t, slices.Max(log.pages), 1000)
	require.LessOrEqual(t, log.longest, 1000, "events in one snapshot")
	read := log.events
	for _, q := range questions(h.asked()) {
		if q.query == "Watermarks" || slices.Contains(narrow, q.query) {
			ask(t, q, func(fn func(projections.View) error) error { return past.View(t.Context(), fn) })
		}
	}
	require.Equal(t, read, log.events, "everything is there")
	require.Equal(t, head, enginetest.Head(t, h.e))
}

// planOf asks for six units a day.
func planOf(h *history, days int) towline.RunSpec {
	return towline.RunSpec{Sync: "plain", Mode: towline.Backfill, Since: h.now.AddDate(0, 0, -days), Before: h.now}
}

// AS-1: a past has bounds: nothing is behind its position, and there is none behind the head.
func TestAPastEndsAtItsPosition(t *testing.T) {
	h := grown(t, 27, 60)
	head := enginetest.Head(t, h.e)
	scratch := openStore(t, filepath.Join(t.TempDir(), "scratch.db"))
	_, err := projections.NewPast(t.Context(), h.file, scratch, head+1)
	var beyond *projections.BeyondHeadError
	require.ErrorAs(t, err, &beyond)
	require.Equal(t, projections.BeyondHeadError{Position: head + 1, Head: head}, *beyond)
	_, err = projections.NewPast(t.Context(), h.file, scratch, -1)
	require.ErrorContains(t, err, "the log begins at 1")
	_, err = projections.NewPast(t.Context(), h.file, h.file, head)
	require.ErrorContains(t, err, "the scratch store has a log", "its tables would be folded anew")

	past := newPast(t, h.file, head-5)
	require.Equal(t, head-5, past.Position())
	var last events.Envelope
	n := 0
	require.NoError(t, past.Log(t.Context(), head-15, func(env events.Envelope) error {
		last = env
		n++
		return nil
	}))
	require.Equal(t, 10, n)
	require.Equal(t, head-5, last.Position)
	require.Equal(t, last.At, past.At())
	require.NoError(t, past.Log(t.Context(), head, func(events.Envelope) error { return errPlanted }))
	require.ErrorIs(t, past.Log(t.Context(), 0, func(events.Envelope) error { return errPlanted }), errPlanted)

	h.step() // the past stays as it is
	later := newPast(t, h.file, head-5)
	for _, p := range []*projections.Past{past, later} {
		require.NoError(t, p.View(t.Context(), func(v projections.View) error {
			p, _, err := v.Head()
			require.Equal(t, head-5, p)
			return err
		}))
	}
	require.NoError(t, past.Close())
	require.ErrorIs(t, past.View(t.Context(), func(v projections.View) error { return second(v.Watermarks()) }), store.ErrClosed)
}

// L-7: an event that this release cannot read ends the fold with its position, and only that of those who need it.
func TestAPastStopsAtAnUnreadableEvent(t *testing.T) {
	h := grown(t, 28, 60)
	a := h.asked()
	h.sql(`INSERT INTO events (position, tx, stream, version, at, type, schema, data)
		SELECT max(position) + 1, max(position) + 1, x'0102030405060708090a0b0c0d0e0f1011', 1, max(at), 9999, 1, '{}' FROM events`)
	past := newPast(t, h.file, a.head)
	require.NoError(t, past.View(t.Context(), func(v projections.View) error { return second(v.Runs(events.RunID{}, 1)) }))
	var bad *events.DecodeError
	scratch := openStore(t, filepath.Join(t.TempDir(), "scratch.db"))
	_, err := projections.NewPast(t.Context(), h.file, scratch, a.head+1)
	require.ErrorAs(t, err, &bad)
	require.Equal(t, a.head+1, bad.Position)
}

// CLK-2: the last event at or before a time, whatever the time is: that of a transaction's last event.
func TestPositionAt(t *testing.T) {
	h := grown(t, 29, 100)
	log := enginetest.Since(t, h.e, 0)
	want := func(at events.Micros) (p events.Position) {
		for _, env := range log {
			if env.At <= at {
				p = env.Position
			}
		}
		return p
	}
	h.view(func(v projections.View) {
		for _, env := range log {
			for _, at := range []events.Micros{env.At - 1, env.At, env.At + 1} {
				got, err := v.PositionAt(at)
				require.NoError(t, err)
				require.Equal(t, want(at), got, at)
			}
		}
		got, err := v.PositionAt(-1)
		require.NoError(t, err)
		require.Zero(t, got)
	})
	empty := openStore(t, filepath.Join(t.TempDir(), "empty.db"))
	require.NoError(t, empty.Read(t.Context(), func(r store.Reader) error {
		p, err := projections.NewView(r).PositionAt(log[0].At)
		require.Zero(t, p)
		return err
	}))
}

// AS-2, CLK-4: the grace of a clock step is in the stream of a node, and the unit that it covers shows it in a past, too.
func TestAPastUnitShowsTheGraceOfItsClock(t *testing.T) {
	var h *history
	running := func(seen func(projections.SyncRunUnit)) {
		h.view(func(v projections.View) {
			for _, id := range h.asked().units {
				if u, _, err := v.Unit(id); err == nil && u.Status == events.UnitIsRunning && u.LeaseExpiresAt.After(h.now) {
					seen(u)
				}
			}
		})
	}
	h = toldUntil(t, 25, func(now *history) (seen bool) {
		h = now
		running(func(projections.SyncRunUnit) { seen = true })
		return seen
	})
	h.now = h.now.AddDate(0, 0, 14) // no lease outlives that by itself
	_, err := h.e.Submit(context.Background(), towline.Message{Topic: "t", Payload: []byte("{}")})
	require.NoError(t, err)
	graced := events.UnitID{}
	running(func(u projections.SyncRunUnit) { graced = u.Unit })
	require.NotZero(t, graced)
	past := newPast(t, h.file, h.asked().head)
	h.view(func(v projections.View) {
		want, _, err := v.Unit(graced)
		require.NoError(t, err)
		for _, got := range asUnits(t, past, graced, want.Run, want.Ordinal) {
			require.Equal(t, want, got)
		}
	})
}

// asUnits is what a past says of a unit, asked for alone and in the list of its run.
func asUnits(t *testing.T, past *projections.Past, id events.UnitID, run events.RunID, ordinal int) (units []projections.SyncRunUnit) {
	t.Helper()
	require.NoError(t, past.View(context.Background(), func(v projections.View) error {
		alone, _, err := v.Unit(id)
		require.NoError(t, err)
		listed, err := v.Units(run, ordinal-1, 1) // behind that ordinal
		units = append(listed, alone)
		return err
	}))
	require.Len(t, units, 2)
	return units
}
