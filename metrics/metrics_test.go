package metrics_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/metrics"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/transport"
	"github.com/towline-dev/towline/transport/pull"
)

// world is a node with its metrics.
type world struct {
	t       *testing.T
	node    *node.Node
	metrics *metrics.Handler
}

func open(t *testing.T, does provider.Func, change ...func(*node.Config)) *world {
	t.Helper()
	c := node.Config{
		Store: filepath.Join(t.TempDir(), "towline.db"), Unsynced: true, Logger: slog.New(slog.DiscardHandler),
		Syncs: []node.Sync{{Name: "days", Sources: []string{"north"}, Datasets: []towline.Dataset{{Name: "a"}}, Provider: does, ProviderName: "fake"}},
		Knobs: towline.Knobs{BackfillChunk: 24 * time.Hour},
	}
	for _, f := range change {
		f(&c)
	}
	n, err := node.Open(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	h, err := metrics.New(t.Context(), metrics.Config{Node: n, Store: c.Store, Version: "1.2.3", Logger: c.Logger})
	require.NoError(t, err)
	return &world{t, n, h}
}

// byWorkers leaves the units to those who ask.
func byWorkers(c *node.Config) {
	c.Workers, c.Routes = 1, map[events.Kind]transport.Publisher{events.KindUnit: pull.Publisher{}}
}

// scrape is what Prometheus would have, by series; and the type of each family.
func (w *world) scrape() (series map[string]float64, types map[string]string) {
	w.t.Helper()
	answer := httptest.NewRecorder()
	w.metrics.ServeHTTP(answer, httptest.NewRequestWithContext(w.t.Context(), "GET", "/metrics", nil))
	require.Equal(w.t, "text/plain; version=0.0.4; charset=utf-8", answer.Header().Get("Content-Type"))
	body, err := io.ReadAll(answer.Body)
	require.NoError(w.t, err)
	series, types = map[string]float64{}, map[string]string{}
	sample := regexp.MustCompile(`^([a-z_]+)(\{(?:[a-z]+="[^"\\]*",?)+\})? (\S+)$`)
	family := ""
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSuffix(line, "\n")
		if head, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(head, " ")
			require.NotContains(w.t, types, name, "a family stands once")
			family, types[name] = name, kind
			continue
		}
		if strings.HasPrefix(line, "# HELP ") {
			continue
		}
		m := sample.FindStringSubmatch(line)
		require.NotNil(w.t, m, "no line of the format: %q", line)
		require.True(w.t, m[1] == family || types[family] == "histogram" && strings.HasPrefix(m[1], family+"_"), "%q stands below %s", line, family)
		value, err := strconv.ParseFloat(m[3], 64)
		require.NoError(w.t, err, line)
		series[m[1]+m[2]] = value
	}
	return series, types
}

func (w *world) plan(units int) events.RunID {
	w.t.Helper()
	before := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	planned, err := w.node.Engine().Plan(w.t.Context(), towline.RunSpec{Sync: "days", Mode: towline.Backfill, Since: before.AddDate(0, 0, -units), Before: before})
	require.NoError(w.t, err)
	return planned.Run
}

// inSurfaces are the metrics of section 8 of the surfaces with their labels.
var inSurfaces = map[string][]string{
	"towline_outbox_pending": {"kind", "transport"}, "towline_outbox_oldest_due_seconds": {"kind", "transport"},
	"towline_outbox_unknown": {"kind"}, "towline_outbox_parked": {"kind"}, "towline_publish_seconds": {"outcome"},
	"towline_duplicates_absorbed_total": {"kind"}, "towline_lost_by_contract_total": {"kind"},
	"towline_leases_live": {"bucket"}, "towline_slots_in_use": {"bucket"}, "towline_lease_expired_total": {"cause"},
	"towline_late_results_total": nil, "towline_units": {"state"}, "towline_runs": {"state"},
	"towline_window_gaps": {"sync", "dataset"}, "towline_recovery_seconds": nil, "towline_breaker_state": {"transport"},
	"towline_loop_last_success_age_seconds": {"loop"}, "towline_clock_step_seconds": nil,
	"towline_store_bytes": nil, "towline_store_budget_ratio": nil, "towline_wal_bytes": nil,
	"towline_verify_last_ok_timestamp": nil, "towline_backup_age_seconds": nil,
	"towline_commit_seconds": nil, "towline_group_commit_size": nil,
	"towline_seq": nil, "towline_info": {"version", "incarnation"},
}

// beyond are those that the surfaces do not name: what has ended, which no gauge could show without a scan.
var beyond = map[string][]string{"towline_units_ended_total": {"state"}, "towline_runs_ended_total": {"state"}}

// owed are those that nothing in this release could tell, and why. The list shrinks: one that is shown must not stand here.
var owed = map[string]string{
	"towline_duplicates_absorbed_total": "the engine counts them, but not by kind (Tally.Absorbed)",
	"towline_window_gaps":               "coverage is read by source and dataset; gaps are counted nowhere",
	"towline_store_budget_ratio":        "nothing acts on store.max_bytes",
	"towline_verify_last_ok_timestamp":  "the node only logs what the daily verify has found",
	"towline_backup_age_seconds":        "nothing acts on store.backup",
	"towline_commit_seconds":            "the store does not measure its commits",
	"towline_group_commit_size":         "the store does not count them",
}

var label = regexp.MustCompile(`([a-z]+)="`)

// Surfaces 8: every metric has its name and its labels, and stands in the list of METRICS.md with its type.
func TestTheMetricsOfTheSurfaces(t *testing.T) {
	w := open(t, succeeds)
	doc, err := os.ReadFile(filepath.Join("..", "docs", "METRICS.md"))
	require.NoError(t, err)
	var series map[string]float64
	var types map[string]string
	w.runs(func(run events.RunID) {
		w.wait(run)
		series, types = w.scrape()
	})
	labels := map[string][]string{}
	for s := range series {
		name, rest, _ := strings.Cut(s, "{")
		for _, ending := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, ending); types[base] == "histogram" {
				name = base
			}
		}
		var of []string
		for _, m := range label.FindAllStringSubmatch(rest, -1) {
			if m[1] != "le" {
				of = append(of, m[1])
			}
		}
		labels[name] = of
	}
	want := maps.Clone(inSurfaces)
	maps.Copy(want, beyond)
	for name, of := range want {
		why, isOwed := owed[name]
		if isOwed {
			require.NotContains(t, types, name, "it is shown now: take it off the list (%s)", why)
			continue
		}
		require.Contains(t, types, name)
		require.ElementsMatch(t, of, labels[name], name)
	}
	for name, kind := range types {
		require.Contains(t, want, name)
		cell := "–"
		if len(want[name]) > 0 {
			cell = strings.Join(want[name], ", ")
		}
		require.Contains(t, string(doc), "| `"+name+"` | "+kind+" | "+cell+" |", "METRICS.md does not have it so")
	}
	row := regexp.MustCompile("(?m)^\\| `(towline_[a-z_]+)` \\|")
	for _, m := range row.FindAllStringSubmatch(string(doc), -1) {
		require.Contains(t, types, m[1], "METRICS.md has one that is not shown")
	}
}

func succeeds(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
	return provider.Result{Rows: 1}, nil
}

// runs lets the node run while something is done with a run of three units.
func (w *world) runs(do func(events.RunID)) {
	w.t.Helper()
	require.NoError(w.t, w.node.RunWhile(w.t.Context(), func(context.Context) error {
		do(w.plan(3))
		return nil
	}))
}

func (w *world) wait(run events.RunID) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	_, err := w.node.Engine().Wait(ctx, run)
	require.NoError(w.t, err)
}

// Each event is counted once, whenever the log is read; what ends goes to 0.
func TestCountersFollowTheLog(t *testing.T) {
	days := 0
	w := open(t, func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
		if days++; days == 2 {
			return provider.Result{}, provider.Fail(provider.Network, errors.New("away"))
		}
		return provider.Result{}, nil
	}, func(c *node.Config) { c.Workers = 1 })
	before, _ := w.scrape()
	require.Zero(t, before[`towline_units_ended_total{state="succeeded"}`])
	require.Zero(t, before[`towline_runs_ended_total{state="partial_failed"}`])
	w.runs(func(run events.RunID) {
		w.wait(run)
		for range 2 { // the second finds nothing new
			got, _ := w.scrape()
			require.InDelta(t, 2, got[`towline_units_ended_total{state="succeeded"}`], 0)
			require.InDelta(t, 1, got[`towline_units_ended_total{state="failed"}`], 0)
			require.InDelta(t, 1, got[`towline_runs_ended_total{state="partial_failed"}`], 0)
			// dispatch and units; the finalize that has ended the run may not be marked yet
			require.GreaterOrEqual(t, got[`towline_publish_seconds_count{outcome="accepted"}`], 2.0)
			require.Zero(t, got[`towline_publish_seconds_count{outcome="unknown"}`])
			require.Zero(t, got[`towline_runs{state="running"}`])
			require.Zero(t, got[`towline_units{state="running"}`])
			require.Contains(t, got, `towline_slots_in_use{bucket="fake/medium"}`)
			require.Zero(t, got[`towline_slots_in_use{bucket="fake/medium"}`])
			head, err := w.node.Engine().Head(t.Context())
			require.NoError(t, err)
			require.InDelta(t, float64(head), got["towline_seq"], 0)
		}
	})
}

// A lease that ends is seen with its cause, and so is the time until its unit is dispatched again; what it offers later is
// counted as late.
func TestARecoveryIsSeen(t *testing.T) {
	w := open(t, succeeds, byWorkers, func(c *node.Config) {
		c.Syncs[0].Datasets[0].Retry = towline.Retry{Max: 1, Backoff: time.Millisecond}
	})
	w.runs(func(run events.RunID) {
		e := w.node.Engine()
		var lease towline.Lease
		require.Eventually(t, func() bool {
			var found bool
			var err error
			lease, found, err = e.ClaimNext(t.Context(), towline.Worker{Name: "w", Remote: true}, nil)
			require.NoError(t, err)
			return found
		}, time.Minute, time.Millisecond)
		got, _ := w.scrape()
		require.InDelta(t, 1, got[`towline_leases_live{bucket="fake/medium"}`], 0)
		require.InDelta(t, 3, got[`towline_slots_in_use{bucket="fake/medium"}`], 0)
		require.InDelta(t, 1, got[`towline_units{state="running"}`], 0)
		require.InDelta(t, 2, got[`towline_units{state="dispatching"}`], 0)
		require.InDelta(t, 1, got[`towline_runs{state="running"}`], 0)

		require.NoError(t, e.ReleaseUnit(t.Context(), lease.Unit.Unit, towline.Actor{Name: "ann", Reason: "gone"}))
		require.ErrorIs(t, e.Complete(t.Context(), lease, events.Result{}), towline.ErrLeaseLost)
		require.Eventually(t, func() bool { // the retry is dispatched when it is due
			got, _ = w.scrape()
			return got["towline_recovery_seconds_count"] == 1
		}, time.Minute, time.Millisecond)
		require.InDelta(t, 1, got[`towline_lease_expired_total{cause="released"}`], 0)
		require.InDelta(t, 1, got["towline_late_results_total"], 0)
		require.Zero(t, got[`towline_leases_live{bucket="fake/medium"}`])
		require.NoError(t, e.CancelRun(t.Context(), run, towline.Actor{Name: "ann", Reason: "enough"}))
		w.wait(run)
		got, _ = w.scrape()
		require.Zero(t, got[`towline_slots_in_use{bucket="fake/medium"}`], "a gauge that ends goes to 0")
		require.InDelta(t, 3, got[`towline_units_ended_total{state="cancelled"}`], 0)
	})
}

// What waits for a person is counted by kind, and what is due by kind and transport.
func TestWhatWaitsIsCounted(t *testing.T) {
	w := open(t, succeeds)
	key := towline.RegisterKey{Owner: w.plan(1), Kind: events.KindDispatch}
	got, _ := w.scrape()
	require.InDelta(t, 1, got[`towline_outbox_pending{kind="dispatch_sync_run",transport="local"}`], 0)
	require.Positive(t, got[`towline_outbox_oldest_due_seconds{kind="dispatch_sync_run",transport="local"}`])
	require.Zero(t, got[`towline_outbox_pending{kind="post_sync",transport="local"}`])
	require.Contains(t, got, `towline_outbox_pending{kind="message",transport="none"}`, "nobody here takes messages")
	require.Zero(t, got[`towline_outbox_parked{kind="dispatch_sync_run"}`])
	by := towline.Actor{Name: "ann", Reason: "r"}
	require.NoError(t, w.node.Engine().Park(t.Context(), key, by))
	got, _ = w.scrape()
	require.InDelta(t, 1, got[`towline_outbox_parked{kind="dispatch_sync_run"}`], 0)
	require.Zero(t, got[`towline_outbox_pending{kind="dispatch_sync_run",transport="local"}`])
	require.Zero(t, got[`towline_outbox_oldest_due_seconds{kind="dispatch_sync_run",transport="local"}`])
	require.NoError(t, w.node.Engine().Redrive(t.Context(), key, by))
	got, _ = w.scrape()
	require.Zero(t, got[`towline_outbox_parked{kind="dispatch_sync_run"}`])
}

// A store that is gone leaves what the process knows, and says so by what is missing.
func TestAScrapeWithoutAStore(t *testing.T) {
	w := open(t, succeeds)
	require.NoError(t, w.node.Close())
	got, _ := w.scrape()
	require.NotContains(t, got, "towline_seq")
	require.Contains(t, slices.Collect(maps.Keys(got)), `towline_info{version="1.2.3",incarnation="`+w.node.Engine().Node().String()+`"}`)
	require.Contains(t, got, "towline_late_results_total")
}
