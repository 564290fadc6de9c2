package projections_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
)

// asked is what queries are asked about: all that a history has come to hold.
type asked struct {
	runs    []events.RunID
	units   []events.UnitID
	jobs    []events.JobID
	nodes   []events.NodeID
	streams []events.StreamID
	sent    []projections.MessageRow
	keys    [][2]string // topic and key
	pairs   [][2]string // source and dataset
	head    events.Position
	from    events.Micros
	to      events.Micros
}

// question is one query with its arguments.
type question struct {
	query  string // the method of View
	about  any
	answer func(projections.View) (any, error)
}

// several puts the results of a query into one value.
func several(err error, results ...any) (any, error) { return results, err }

// listed is a list of which it does not matter how its emptiness is spelled.
func listed(list []events.Envelope, err error) (any, error) { return slices.Concat(list), err }

// narrow are the queries that fold the streams of one thing. Every other folds the log.
var narrow = []string{"Run", "Unit", "Units", "Brought", "RegistersOf", "Job"}

// free are those that fold nothing: they read the log.
var free = []string{"Head", "Stream", "After", "PositionAt", "StreamsOf"}

// questions ask every query of View about everything.
func questions(a asked) (out []question) {
	add := func(query string, about any, answer func(projections.View) (any, error)) {
		out = append(out, question{query, about, answer})
	}
	middle := a.from + (a.to-a.from)/2
	add("Head", nil, func(v projections.View) (any, error) {
		p, at, err := v.Head()
		return several(err, p, at)
	})
	for _, p := range []events.Position{-1, 0, a.head / 2, a.head - 1, a.head, a.head + 7} {
		add("After", p, func(v projections.View) (any, error) { return listed(v.After(p, 40)) })
	}
	for _, t := range []events.Micros{0, a.from - 1, a.from, middle, a.to, a.to + 1} {
		add("PositionAt", t, func(v projections.View) (any, error) { return v.PositionAt(t) })
	}
	for _, id := range a.streams {
		add("Stream", id, func(v projections.View) (any, error) { return listed(v.Stream(id)) })
	}
	for _, id := range a.runs {
		add("StreamsOf", id, func(v projections.View) (any, error) { return v.StreamsOf(id) })
		add("Run", id, func(v projections.View) (any, error) {
			r, ok, err := v.Run(id)
			return several(err, r, ok)
		})
		add("RetriesOf", id, func(v projections.View) (any, error) { return v.RetriesOf(id, 50) })
		add("Units", id, func(v projections.View) (any, error) { return v.Units(id, 1, 3) })
		add("Unsucceeded", id, func(v projections.View) (any, error) { return v.Unsucceeded(id) })
		add("Brought", id, func(v projections.View) (any, error) { return v.Brought(id) })
		add("RegistersOf", id, func(v projections.View) (any, error) { return v.RegistersOf(id) })
		add("Owing", id, func(v projections.View) (any, error) {
			o, rows, err := v.Owing(id, middle, events.SpanOf(time.Minute), projections.Holds{})
			return several(err, o, rows)
		})
	}
	for _, id := range a.runs {
		add("RunsEnding", id, func(v projections.View) (any, error) { return v.RunsEnding(id.Short()) })
		add("UnitsNamed", id, func(v projections.View) (any, error) { return v.UnitsNamed(id, "north/commits/2026-03") })
	}
	term := func(field string, values ...any) []projections.Term {
		return []projections.Term{{Field: field, Op: projections.Is, Values: values}}
	}
	add("FindRuns", nil, func(v projections.View) (any, error) {
		return v.FindRuns(term("state", "running", "succeeded"), events.RunID{}, 5)
	})
	add("FindUnits", nil, func(v projections.View) (any, error) {
		return v.FindUnits(term("sync", "plain"), events.UnitID{}, 5)
	})
	for _, id := range a.runs {
		add("FindUnitsOf", id, func(v projections.View) (any, error) { return v.FindUnitsOf(id, term("state", "planned"), 0, 5) })
	}
	add("FindRegisters", nil, func(v projections.View) (any, error) {
		return v.FindRegisters(term("outcome", "unknown", "accepted"), projections.Key{}, 5)
	})
	add("FindJobs", nil, func(v projections.View) (any, error) { return v.FindJobs(term("state", "running"), events.JobID{}, 5) })
	for _, id := range a.units[:1] {
		add("UnitsEnding", id, func(v projections.View) (any, error) { return v.UnitsEnding(id.Short()) })
	}
	for _, id := range a.jobs[:1] {
		add("JobsEnding", id, func(v projections.View) (any, error) { return v.JobsEnding(id.String()) })
	}
	for _, m := range a.sent[:1] {
		add("MessagesEnding", m.Message, func(v projections.View) (any, error) { return v.MessagesEnding(m.Message.String()[15:]) })
	}
	for _, id := range a.units {
		add("Unit", id, func(v projections.View) (any, error) {
			u, ok, err := v.Unit(id)
			return several(err, u, ok)
		})
	}
	for _, m := range a.sent {
		add("Message", m.Message, func(v projections.View) (any, error) {
			m, ok, err := v.Message(m.Message)
			return several(err, m, ok)
		})
		add("MessageRow", m.Message, func(v projections.View) (any, error) {
			row, ok, err := v.MessageRow(m.Message)
			return several(err, row, ok)
		})
		add("Submitted", m.Message, func(v projections.View) (any, error) {
			if _, ok, err := v.MessageRow(m.Message); err != nil || !ok {
				return nil, err // it is asked of a row that is there
			}
			return v.Submitted(m)
		})
	}
	for _, k := range a.keys {
		add("KeyedMessage", k, func(v projections.View) (any, error) {
			row, ok, err := v.KeyedMessage(k[0], k[1])
			return several(err, row, ok)
		})
	}
	for _, id := range []events.MessageID{{}, a.sent[len(a.sent)/2].Message} {
		add("Messages", id, func(v projections.View) (any, error) { return v.Messages(id, 5) })
		add("RejectedMessages", id, func(v projections.View) (any, error) { return v.RejectedMessages(id, 5) })
		add("LostMessages", id, func(v projections.View) (any, error) { return v.LostMessages(middle, id, 50) })
	}
	add("UnarmedMessages", nil, func(v projections.View) (any, error) { return v.UnarmedMessages(50) })
	for _, id := range a.jobs {
		add("Job", id, func(v projections.View) (any, error) {
			j, ok, err := v.Job(id)
			return several(err, j, ok)
		})
	}
	for _, id := range []events.RunID{{}, a.runs[len(a.runs)/2]} {
		add("Runs", id, func(v projections.View) (any, error) { return v.Runs(id, 5) })
		add("OpenRuns", id, func(v projections.View) (any, error) { return v.OpenRuns(id, 5) })
		for _, k := range []events.Kind{events.KindDispatch, events.KindFinalize} {
			add("Unwoken", []any{k, id}, func(v projections.View) (any, error) { return v.Unwoken(k, middle, decider.Redrive{}, id, 50) })
		}
		add("UnwokenPosts", id, func(v projections.View) (any, error) { return v.UnwokenPosts(decider.Redrive{}, id, 50) })
		add("HeldEffects", id, func(v projections.View) (any, error) { return v.HeldEffects(id, 50) })
		add("Unannounced", id, func(v projections.View) (any, error) { return v.Unannounced(id, 50) })
	}
	for _, s := range []string{"plain", "calendar", "linear"} {
		add("OpenRunOf", s, func(v projections.View) (any, error) {
			id, ok, err := v.OpenRunOf(s)
			return several(err, id, ok)
		})
	}
	for n := range 20 {
		add("KeyedJob", n, func(v projections.View) (any, error) {
			job, run, fingerprint, found, err := v.KeyedJob("plain", fmt.Sprint("key-", 5*n), a.from)
			return several(err, job, run, fingerprint, found)
		})
	}
	for _, n := range a.nodes {
		add("LastConfigured", n, func(v projections.View) (any, error) {
			syncs, known, err := v.LastConfigured(n)
			return several(err, syncs, known)
		})
	}
	for _, n := range a.nodes {
		add("Started", n, func(v projections.View) (any, error) { return v.Started(n) })
	}
	all := projections.Wakeups{Kinds: events.Kinds[:], Suspects: projections.AlsoSuspects}
	add("NewestNode", nil, func(v projections.View) (any, error) {
		id, known, err := v.NewestNode()
		return several(err, id, known)
	})
	add("InMemory", nil, func(v projections.View) (any, error) { return v.InMemory() })
	add("DueOf", nil, func(v projections.View) (any, error) { return v.DueOf(all, middle, projections.DueCursor{}, 50) })
	add("NextDueOf", nil, func(v projections.View) (any, error) { return v.NextDueOf(all) })
	add("CountDue", nil, func(v projections.View) (any, error) { return v.CountDue(all, middle) })
	add("NextExpiry", nil, func(v projections.View) (any, error) { return v.NextExpiry() })
	add("OpenBreakers", nil, func(v projections.View) (any, error) { return v.OpenBreakers() })
	add("ClockBehind", nil, func(v projections.View) (any, error) { return v.ClockBehind() })
	add("Paused", nil, func(v projections.View) (any, error) { return v.Paused() })
	add("Schedules", nil, func(v projections.View) (any, error) { return v.Schedules() })
	for _, name := range []string{"often", "hourly", "none"} {
		add("Schedule", name, func(v projections.View) (any, error) {
			s, ok, err := v.Schedule(name)
			return several(err, s, ok)
		})
		add("Occurrences", name, func(v projections.View) (any, error) {
			return v.Occurrences(name, projections.OccurrenceCursor{Instant: middle}, 10)
		})
		add("Occurrence", name, func(v projections.View) (any, error) {
			o, ok, err := v.Occurrence(name, "2026-03-14T10:00+00:00")
			return several(err, o, ok)
		})
		add("QueuedOccurrences", name, func(v projections.View) (any, error) { return v.QueuedOccurrences(name, 10) })
		add("Decided", name, func(v projections.View) (any, error) { return v.Decided(name, middle) })
		add("Missed", name, func(v projections.View) (any, error) { return v.Missed(name, 0, 10) })
	}
	add("Cooldowns", nil, func(v projections.View) (any, error) { return v.Cooldowns(middle) })
	add("Holds", nil, func(v projections.View) (any, error) { return v.Holds(middle, nil) })
	add("Jobs", nil, func(v projections.View) (any, error) { return v.Jobs(events.JobID{}, 50) })
	add("LostEffects", nil, func(v projections.View) (any, error) { return v.LostEffects(projections.Begun{}, 50) })
	add("HeldRegisters", nil, func(v projections.View) (any, error) { return v.HeldRegisters(50) })
	add("OpenRegisters", nil, func(v projections.View) (any, error) { return v.OpenRegisters(50) })
	add("Watermarks", nil, func(v projections.View) (any, error) { return v.Watermarks() })
	add("FirstNode", nil, func(v projections.View) (any, error) {
		id, found, err := v.FirstNode()
		return several(err, id, found)
	})
	add("Nodes", nil, func(v projections.View) (any, error) { return v.Nodes(50) })
	add("AliveNodes", nil, func(v projections.View) (any, error) { return v.AliveNodes() })
	add("ExpiredLeases", nil, func(v projections.View) (any, error) { return v.ExpiredLeases(a.to, projections.LeaseCursor{}, 50) })
	add("OrphanedLeases", nil, func(v projections.View) (any, error) { return v.OrphanedLeases(projections.LeaseCursor{}, 50) })
	add("DeadClaims", nil, func(v projections.View) (any, error) { return v.DeadClaims(a.to, projections.Key{}, 50) })
	add("Held", nil, func(v projections.View) (any, error) { return v.Held() })
	for _, p := range a.pairs {
		add("Covered", p, func(v projections.View) (any, error) { return v.Covered(p[0], p[1]) })
		add("LeftState", p, func(v projections.View) (any, error) {
			state, err := v.LeftState(p[0], p[1])
			return string(state), err
		})
	}
	return out
}

// asked is everything that the history holds.
func (h *history) asked() (a asked) {
	h.tb.Helper()
	streams, pairs := map[events.StreamID]bool{}, map[[2]string]bool{}
	for _, env := range enginetest.Since(h.tb, h.e, 0) {
		if a.from == 0 {
			a.from = env.At
		}
		a.head, a.to = env.Position, env.At
		if !streams[env.Stream] {
			streams[env.Stream] = true
			a.streams = append(a.streams, env.Stream)
		}
		switch e := env.Event.(type) {
		case events.NodeStarted:
			id, _ := env.Stream.Node()
			a.nodes = append(a.nodes, id)
		case events.MessageSubmitted:
			topic, _ := env.Stream.Topic()
			a.sent = append(a.sent, projections.MessageRow{Message: e.Message, Topic: topic, Position: env.Position})
			if e.Key != "" {
				a.keys = append(a.keys, [2]string{topic, e.Key})
			}
		case events.RunPlanned:
			id, _ := env.Stream.Run()
			a.runs, a.jobs = append(a.runs, id), append(a.jobs, e.Job)
		case events.UnitPlanned:
			id, _ := env.Stream.Unit()
			a.units = append(a.units, id)
			if p := [2]string{e.Source, e.Dataset}; !pairs[p] {
				pairs[p] = true
				a.pairs = append(a.pairs, p)
			}
		}
	}
	return a
}

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
	require.NoError(t, s.Write(context.Background(), projections.Rebuild))
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

// ask is the answer to a question, and what went wrong with it.
func ask(t *testing.T, q question, view func(func(projections.View) error) error) any {
	t.Helper()
	var answer any
	require.NoError(t, view(func(v projections.View) (err error) {
		answer, err = q.answer(v)
		return err
	}), "%s(%v)", q.query, q.about)
	return answer
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

// folds is 0 for a question that folds nothing or a part, 1 for one that folds the log.
func folds(q question) int {
	if slices.Contains(narrow, q.query) || slices.Contains(free, q.query) {
		return 0
	}
	return 1
}

// AS-2: no query is forgotten: whoever adds one to View adds it to the questions of this file, which prove what it needs
// of the log.
func TestEveryQueryIsAskedOfThePast(t *testing.T) {
	h := grown(t, 24, 100)
	known := map[string]bool{}
	for _, q := range questions(h.asked()) {
		known[q.query] = true
	}
	view := reflect.TypeFor[projections.View]()
	for i := range view.NumMethod() {
		name := view.Method(i).Name
		require.True(t, known[name], "View.%s: ask it in questions()", name)
		delete(known, name)
	}
	require.Empty(t, known)
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
