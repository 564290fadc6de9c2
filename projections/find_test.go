package projections_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// chosen is a search and, beside it, what it means of a row.
type chosen[T any] struct {
	terms []projections.Term
	holds func(T) bool
}

func term(field string, op projections.Op, values ...any) projections.Term {
	return projections.Term{Field: field, Op: op, Values: values}
}

func not(t projections.Term) projections.Term { t.Not = true; return t }

// Surfaces 5, HC-46, HC-55: a search finds what its terms hold of, page by page, each row exactly once and in the order of
// the list, however small the pages are.
func TestASearchFindsWhatHoldsEachRowOnce(t *testing.T) {
	for _, seed := range []byte{3, 11} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			h := grown(t, seed, 400)
			a := h.asked()
			require.NoError(t, h.e.View(context.Background(), func(v projections.View) error {
				runs, err := v.Runs(events.RunID{}, 10_000)
				require.NoError(t, err)
				searchesRuns(t, v, a, runs)
				units := map[events.RunID][]projections.SyncRunUnit{}
				for _, r := range runs {
					units[r.Run], err = v.Units(r.Run, 0, 10_000)
					require.NoError(t, err)
				}
				searchesUnits(t, v, a, runs, units)
				searchesRegisters(t, v, runs)
				searchesJobs(t, v, a)
				return nil
			}))
		})
	}
}

func searchesRuns(t *testing.T, v projections.View, a asked, runs []projections.SyncRun) {
	t.Helper()
	middle := a.from + (a.to-a.from)/2
	short := runs[len(runs)/2].Run.Short()
	list := []chosen[projections.SyncRun]{
		{nil, func(projections.SyncRun) bool { return true }},
		{[]projections.Term{term("sync", projections.Is, "plain", "linear")}, func(r projections.SyncRun) bool { return r.Sync != "calendar" && r.Sync != "nothing" }},
		{[]projections.Term{not(term("sync", projections.Is, "plain"))}, func(r projections.SyncRun) bool { return r.Sync != "plain" }},
		{[]projections.Term{term("run", projections.Is, short)}, func(r projections.SyncRun) bool { return r.Run.Short() == short }},
		{[]projections.Term{term("since", projections.Less, int64(middle))}, func(r projections.SyncRun) bool { return events.MicrosOf(r.PlannedAt) < middle }},
		{[]projections.Term{not(term("reason", projections.Is, "nobody"))}, func(projections.SyncRun) bool { return true }},
	}
	for _, s := range []events.RunStatus{
		events.RunIsPlanned, events.RunIsDispatching, events.RunIsRunning, events.RunSucceeded, events.RunPartialFailed, events.RunFailed, events.RunIsCancelled,
	} {
		list = append(list, chosen[projections.SyncRun]{[]projections.Term{term("state", projections.Is, string(s))}, func(r projections.SyncRun) bool { return r.Status == s }})
	}
	for _, c := range list {
		got := pages(t, func(at events.RunID) (projections.Found[projections.SyncRun, events.RunID], error) {
			return v.FindRuns(c.terms, at, 3)
		})
		require.Equal(t, keep(runs, c.holds), got, "%v", c.terms)
	}
}

func searchesUnits(t *testing.T, v projections.View, a asked, runs []projections.SyncRun, of map[events.RunID][]projections.SyncRunUnit) {
	t.Helper()
	syncOf := map[events.RunID]string{}
	var all []projections.SyncRunUnit
	for _, r := range runs {
		syncOf[r.Run] = r.Sync
		all = append(all, of[r.Run]...)
	}
	slices.SortFunc(all, func(a, b projections.SyncRunUnit) int { return b.Unit.Compare(a.Unit) })
	w := all[len(all)/2].Window
	list := []chosen[projections.SyncRunUnit]{
		{nil, func(projections.SyncRunUnit) bool { return true }},
		{[]projections.Term{term("sync", projections.Is, "plain"), term("source", projections.Is, "north")}, func(u projections.SyncRunUnit) bool { return syncOf[u.Run] == "plain" && u.Source == "north" }},
		{[]projections.Term{not(term("error", projections.Is, "network", "worker_lost"))}, func(u projections.SyncRunUnit) bool {
			return u.ErrorCategory != events.Network && u.ErrorCategory != events.WorkerLost
		}},
		{[]projections.Term{term("window", projections.Is, w)}, func(u projections.SyncRunUnit) bool {
			return !u.Window.From.IsZero() && !u.Window.From.Before(w.From) && !u.Window.To.After(w.To)
		}},
		{[]projections.Term{term("window", projections.Less, w)}, func(u projections.SyncRunUnit) bool { return !u.Window.To.After(w.From) }},
		{[]projections.Term{term("window", projections.AtLeast, w)}, func(u projections.SyncRunUnit) bool { return !u.Window.From.IsZero() && !u.Window.From.Before(w.From) }},
		{[]projections.Term{term("state", projections.Is, "succeeded", "failed"), term("tier", projections.Is, "reference")}, func(u projections.SyncRunUnit) bool {
			return u.Tier == events.TierReference && (u.Status == events.UnitHasSucceeded || u.Status == events.UnitHasFailed)
		}},
	}
	for _, c := range list {
		got := pages(t, func(at events.UnitID) (projections.Found[projections.SyncRunUnit, events.UnitID], error) {
			return v.FindUnits(c.terms, at, 7)
		})
		require.Equal(t, keep(all, c.holds), got, "%v", c.terms)
		for _, r := range runs {
			got := pages(t, func(at int) (projections.Found[projections.SyncRunUnit, int], error) {
				return v.FindUnitsOf(r.Run, c.terms, at, 2)
			})
			require.Equal(t, keep(of[r.Run], c.holds), got, "%v", c.terms)
		}
	}
}

func searchesRegisters(t *testing.T, v projections.View, runs []projections.SyncRun) {
	t.Helper()
	all := pages(t, func(at projections.Key) (projections.Found[projections.Register, projections.Key], error) {
		return v.FindRegisters(nil, at, 5)
	})
	for _, r := range runs {
		of, err := v.RegistersOf(r.Run)
		require.NoError(t, err)
		got := keep(all, func(g projections.Register) bool { return g.Owner == r.Run })
		slices.SortFunc(got, func(a, b projections.Register) int { return strings.Compare(string(a.Kind), string(b.Kind)) })
		require.Equal(t, of, got)
	}
	seen := 0
	for _, o := range []events.Outcome{events.Accepted, events.Refused, events.Unknown} {
		terms := []projections.Term{term("outcome", projections.Is, string(o))}
		got := pages(t, func(at projections.Key) (projections.Found[projections.Register, projections.Key], error) {
			return v.FindRegisters(terms, at, 5)
		})
		require.Equal(t, keep(all, func(g projections.Register) bool { return g.LastOutcome() == o }), got, o)
		seen += len(got)
	}
	require.NotZero(t, seen)
	idle := []projections.Term{term("state", projections.Is, "idle"), not(term("kind", projections.Is, "message"))}
	got := pages(t, func(at projections.Key) (projections.Found[projections.Register, projections.Key], error) {
		return v.FindRegisters(idle, at, 5)
	})
	require.Equal(t, keep(all, func(g projections.Register) bool { return g.Status == "idle" && g.Kind != events.KindMessage }), got)
}

func searchesJobs(t *testing.T, v projections.View, a asked) {
	t.Helper()
	all, err := v.Jobs(events.JobID{}, 10_000)
	require.NoError(t, err)
	require.Len(t, all, len(a.jobs))
	for _, s := range []events.RunStatus{events.RunIsRunning, events.RunSucceeded, events.RunIsPlanned} {
		terms := []projections.Term{term("state", projections.Is, string(s))}
		got := pages(t, func(at events.JobID) (projections.Found[projections.JobRun, events.JobID], error) {
			return v.FindJobs(terms, at, 2)
		})
		require.Equal(t, keep(all, func(j projections.JobRun) bool { return j.Status == s }), got)
	}
}

// pages reads a search to its end.
func pages[T, K any](t *testing.T, page func(K) (projections.Found[T, K], error)) (out []T) {
	t.Helper()
	var at K
	for {
		found, err := page(at)
		require.NoError(t, err)
		out = append(out, found.Rows...)
		if !found.More {
			return out
		}
		at = found.Next
	}
}

func keep[T any](all []T, holds func(T) bool) (out []T) {
	for _, x := range all {
		if holds(x) {
			out = append(out, x)
		}
	}
	return out
}

// A search for what no field is called is a fault of the caller, and finds nothing.
func TestASearchForAnUnknownFieldFails(t *testing.T) {
	h := grown(t, 3, 50)
	require.NoError(t, h.e.View(context.Background(), func(v projections.View) error {
		_, err := v.FindRuns([]projections.Term{term("colour", projections.Is, "red")}, events.RunID{}, 1)
		require.EqualError(t, err, `search: there is no field "colour"`)
		_, err = v.FindUnits([]projections.Term{term("window", projections.Is, "2025")}, events.UnitID{}, 1)
		require.ErrorContains(t, err, "search: window:")
		return nil
	}))
}
