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
	"sync/atomic"
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
		if head, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, says, _ := strings.Cut(head, " ")
			require.NotEmpty(w.t, says, "%s has no help", name)
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

// beyond are those that the surfaces do not name: what has ended, which no gauge could show without a scan, and what an alert
// compares with.
var beyond = map[string][]string{
	"towline_units_ended_total": {"state"}, "towline_runs_ended_total": {"state"},
	"towline_schedules_waiting": nil, "towline_verify_failures_total": nil, "towline_backup_every_seconds": nil,
}

var label = regexp.MustCompile(`([a-z]+)="`)

// Surfaces 8: every metric has its name and its labels, and stands in the list of METRICS.md with its type.
func TestTheMetricsOfTheSurfaces(t *testing.T) {
	w := open(t, succeeds, func(c *node.Config) {
		c.MaxBytes, c.Backups = 1<<30, node.Backups{Every: time.Hour}
		c.Syncs[0].Datasets[0].Window = towline.Month
	})
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
			before, err := w.node.Engine().Head(t.Context())
			require.NoError(t, err)
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
			require.GreaterOrEqual(t, got["towline_seq"], float64(before))
			require.LessOrEqual(t, got["towline_seq"], float64(head), "the mark of the finalize may come between")
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

// W-8, surfaces 8: a period whose newest unit did not succeed is a gap, over restarts, until one of it does.
func TestGapsAreCounted(t *testing.T) {
	broken := true
	store := filepath.Join(t.TempDir(), "towline.db")
	does := func(_ context.Context, u provider.Unit, _ sink.Sink) (provider.Result, error) {
		if broken && u.Window.From.Day() != 27 {
			return provider.Result{}, provider.Fail(provider.Network, errors.New("away"))
		}
		return provider.Result{}, nil
	}
	byDay := func(c *node.Config) { c.Store, c.Workers, c.Syncs[0].Datasets[0].Window = store, 1, towline.Day }
	const gaps = `towline_window_gaps{sync="days",dataset="a"}`
	w := open(t, does, byDay)
	var first events.RunID
	w.runs(func(run events.RunID) {
		got, _ := w.scrape()
		require.Zero(t, got[gaps], "what is open is no gap")
		w.wait(run)
		first = run
		got, _ = w.scrape()
		require.InDelta(t, 2, got[gaps], 0)
	})
	require.NoError(t, w.node.Close())
	w = open(t, does, byDay)
	got, _ := w.scrape()
	require.InDelta(t, 2, got[gaps], 0)
	broken = false
	require.NoError(t, w.node.RunWhile(t.Context(), func(ctx context.Context) error {
		again, err := w.node.Engine().RetryFailed(ctx, towline.RetrySpec{Run: first, By: towline.Actor{Name: "ann"}})
		require.NoError(t, err)
		w.wait(again.Run)
		got, _ = w.scrape()
		require.Contains(t, got, gaps)
		require.Zero(t, got[gaps])
		return nil
	}))
}

// D-4, surfaces 8: a message that comes again is counted with its kind, and changes nothing else.
func TestWhatIsAbsorbedIsCounted(t *testing.T) {
	w := open(t, succeeds)
	w.node.Engine().Absorb(events.KindUnit)
	w.node.Engine().Absorb(events.KindUnit)
	got, _ := w.scrape()
	for _, k := range events.Kinds {
		want := 0.0
		if k == events.KindUnit {
			want = 2
		}
		require.InDelta(t, want, got[`towline_duplicates_absorbed_total{kind="`+string(k)+`"}`], 0, k)
	}
	require.EqualValues(t, 2, w.node.Engine().Tally().Absorbed)
}

// DUR-6: at a ratio of 1 no run is accepted; what open runs still take is in it.
func TestTheBudgetIsShownBeforeItIsReached(t *testing.T) {
	w := open(t, succeeds, byWorkers, func(c *node.Config) { c.MaxBytes = 1 << 20 })
	const ratio = "towline_store_budget_ratio"
	got, _ := w.scrape()
	before := got[ratio]
	require.Positive(t, before)
	w.plan(3)
	got, _ = w.scrape()
	full := float64(1<<20) * 7 / 8
	require.GreaterOrEqual(t, got[ratio]-before, (2048+3*1536)/full-1e-9)
	require.Eventually(t, func() bool {
		_, err := w.node.Engine().Plan(t.Context(), towline.RunSpec{Sync: "days"})
		if err == nil {
			return false
		}
		require.ErrorAs(t, err, new(*towline.DiskBudgetError))
		return true
	}, time.Minute, time.Microsecond)
	got, _ = w.scrape()
	require.InDelta(t, 1, got[ratio], 0.05, "a run takes whole pages")
}

// DUR-5, surfaces 8: the age of the newest backup is that of the file, and without one the time that somebody waits for it.
func TestTheAgeOfTheBackupIsShown(t *testing.T) {
	var ahead atomic.Int64 // of the clock
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	for name, writable := range map[string]bool{"made": true, "never made": false} {
		t.Run(name, func(t *testing.T) {
			ahead.Store(0)
			dir := filepath.Join(t.TempDir(), "backup")
			if !writable {
				require.NoError(t, os.WriteFile(dir, nil, 0o600))
			}
			w := open(t, succeeds, func(c *node.Config) {
				c.Now, c.VerifyEvery, c.Backups = now, -1, node.Backups{Every: time.Hour, Dir: dir}
			})
			require.NoError(t, w.node.RunWhile(t.Context(), func(context.Context) error {
				require.Eventually(t, func() bool {
					b := w.node.BackupState()
					return writable && !b.Newest.IsZero() || !writable && b.Error != ""
				}, time.Minute, time.Millisecond)
				ahead.Store(int64(3 * time.Hour))
				got, _ := w.scrape()
				require.InDelta(t, time.Hour.Seconds(), got["towline_backup_every_seconds"], 0)
				require.InDelta(t, 3*time.Hour.Seconds(), got["towline_backup_age_seconds"], 60)
				return nil
			}))
		})
	}
}

// L-9, surfaces 8: each commit is one value of both histograms, and the transactions of all are the sum of the groups.
func TestCommitsAreMeasured(t *testing.T) {
	w := open(t, succeeds)
	w.plan(1)
	got, _ := w.scrape()
	stats := w.node.StoreStats()
	require.Positive(t, stats.Commits)
	for _, name := range []string{"towline_commit_seconds", "towline_group_commit_size"} {
		require.InDelta(t, stats.Commits, got[name+"_count"], 0, name)
		require.InDelta(t, stats.Commits, got[name+`_bucket{le="+Inf"}`], 0, name)
	}
	require.InDelta(t, stats.Transactions, got["towline_group_commit_size_sum"], 0)
	require.Positive(t, got["towline_commit_seconds_sum"])
}
