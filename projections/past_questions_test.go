package projections_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
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
	add("Archivable", nil, func(v projections.View) (any, error) { return v.Archivable(a.to, projections.Finished{}, 50) })
	add("Head", nil, func(v projections.View) (any, error) {
		p, at, err := v.Head()
		return several(err, p, at)
	})
	add("LeftOut", nil, func(v projections.View) (any, error) { return v.LeftOut() })
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
		add("MayBeArchived", id, func(v projections.View) (any, error) { return v.MayBeArchived(id) })
		add("Archivable", id, func(v projections.View) (any, error) {
			return v.Archivable(a.to, projections.Finished{Run: id, CompletedAt: middle}, 2)
		})
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
	add("CountOpen", nil, func(v projections.View) (any, error) {
		runs, units, err := v.CountOpen()
		return several(err, runs, units)
	})
	add("CountUnits", nil, func(v projections.View) (any, error) { return v.CountUnits(middle) })
	add("CountDue", nil, func(v projections.View) (any, error) { return v.CountDue(all, middle) })
	add("NextExpiry", nil, func(v projections.View) (any, error) { return v.NextExpiry() })
	add("OpenBreakers", nil, func(v projections.View) (any, error) { return v.OpenBreakers() })
	add("ClockBehind", nil, func(v projections.View) (any, error) { return v.ClockBehind() })
	add("Restored", nil, func(v projections.View) (any, error) { return v.Restored() })
	add("CountPending", nil, func(v projections.View) (any, error) { return v.CountPending() })
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
	add("CountGaps", nil, func(v projections.View) (any, error) { return v.CountGaps() })
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
