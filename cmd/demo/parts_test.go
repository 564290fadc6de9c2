package main

import (
	"database/sql"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) events.Micros { return events.MicrosOf(noon.Add(d)) }

func lostUnit() trail {
	return trail{
		{Position: 5, At: at(0), Event: events.UnitPlanned{}},
		{Position: 40, At: at(2 * time.Second), Event: events.UnitDispatched{Dispatch: 1, Cause: events.DispatchPlanned}},
		{Position: 42, At: at(2050 * time.Millisecond), Event: events.UnitClaimed{Attempt: 1}},
		{Position: 60, At: at(2500 * time.Millisecond), Event: events.UnitLeaseExpired{Attempt: 1, Cause: events.LeaseIncarnationGone}},
		{Position: 61, At: at(2500 * time.Millisecond), Event: events.UnitRetryScheduled{Attempt: 1, Cause: events.ExpiredLease}},
		{Position: 70, At: at(3510 * time.Millisecond), Event: events.UnitDispatched{Dispatch: 2, Cause: events.DispatchRetry}},
		{Position: 75, At: at(3600 * time.Millisecond), Event: events.UnitClaimed{Attempt: 2}},
		{Position: 90, At: at(3900 * time.Millisecond), Event: events.UnitSucceeded{Attempt: 2, Result: events.Result{Rows: 57}}},
		{Position: 95, At: at(4 * time.Second), Event: events.UnitLateResult{Attempt: 1}},
	}
}

// The picture is drawn from the log, and from the one thing that is not in it: when the process died.
func TestTheTimelineOfALostUnit(t *testing.T) {
	spans := spansOf(lostUnit(), []time.Time{noon.Add(2300 * time.Millisecond)})
	for _, width := range []int{50, 80, 110} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			path := filepath.Join("testdata", fmt.Sprintf("timeline-%d.txt", width))
			got := strings.Join(drawTimeline(spans, width), "\n") + "\n"
			if *rewrite {
				require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

// However narrow it is, no line of the picture is wider than the terminal.
func TestTheTimelineFits(t *testing.T) {
	spans := spansOf(lostUnit(), nil)
	for width := narrowest; width <= widest; width++ {
		for _, line := range drawTimeline(spans, width) {
			require.LessOrEqual(t, utf8.RuneCountInString(line), width, "%d: %s", width, line)
		}
	}
}

// The rows of the table look alike: each has its title, in its column or below it, and fits.
func TestTheTableIsEven(t *testing.T) {
	var cases []caseReport
	for _, c := range crashes {
		cases = append(cases, caseReport{Row: c.row, Window: c.window, Outcome: c.want, RecoveredMS: 12_345})
	}
	for width := narrowest; width <= widest; width++ {
		var out strings.Builder
		n := &narrator{out: &out, width: width}
		n.table(cases)
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		require.Zero(t, len(lines)%len(crashes), "%d:\n%s", width, out.String())
		each := len(lines) / len(crashes)
		for i, c := range crashes {
			require.Contains(t, strings.Join(lines[i*each:(i+1)*each], "\n"), c.short, width)
		}
		require.True(t, each == 1 || width < usual, width)
		for _, line := range lines {
			require.LessOrEqual(t, utf8.RuneCountInString(line), width, line)
		}
	}
}

// Every tick of the axis has its time, and the death and the end are among them.
func TestEveryTickHasItsTime(t *testing.T) {
	spans := spansOf(lostUnit(), []time.Time{noon.Add(2300 * time.Millisecond)})
	for width := narrowest; width <= widest; width++ {
		picture := drawTimeline(spans, width)
		axis, labels := picture[len(picture)-2], picture[len(picture)-1]
		times := regexp.MustCompile(`[\d.]+ m?s|\b0\b`).FindAllString(labels, -1)
		require.Len(t, times, strings.Count(axis, "┴"), "%d: %s", width, labels)
		require.Contains(t, labels, "2.30 s", width)
		require.Contains(t, labels, "3.90 s", width)
	}
}

// A bar is one line, whatever the numbers are.
func TestTheBarFits(t *testing.T) {
	for width := narrowest; width <= widest; width++ {
		for _, count := range []tally{{}, {total: 9}, {total: 9, ended: 4, rows: 12}, {total: 1000, ended: 999, rows: 123_456_789}} {
			line := barLine(width, "7Q4ZKD", count, time.Hour)
			require.Less(t, utf8.RuneCountInString(line), width, line)
		}
	}
}

// Events are broken between their fields, and no text is lost.
func TestLinesAreBrokenBetweenFields(t *testing.T) {
	text := `OutboxArmed {n: 1, available_at: 08:01:10.000Z, cause: planned, text: "a b, c"}`
	require.Equal(t, []string{
		"OutboxArmed {n: 1,", "available_at: 08:01:10.000Z,", `cause: planned, text: "a b,`, `c"}`,
	}, wrapFields(text, 30))
	require.Equal(t, []string{"0123456789", "abc"}, wrap("0123456789abc", 10))
}

// Ids are shown by their last six characters, times without their day, and nothing else is touched.
func TestShortIDs(t *testing.T) {
	require.Equal(t, "run/4ZB4RM: 08:00:05.000Z 2026-03 deadbeef",
		shortIDs("run/01KJPJ9D80V6C3Q8WYKX4ZB4RM: 2026-03-02T08:00:05.000123Z 2026-03 deadbeef"))
}

// plan.max_units is never passed, every commit is read, and what is left out is said.
func TestHowAHistoryIsCut(t *testing.T) {
	for name, tt := range map[string]struct {
		commits, months int
		partial         bool
		want            layout
		notes           int
	}{
		"small":           {480, 37, false, layout{events.Month, true}, 0},
		"20,000 commits":  {20_000, 217, false, layout{events.Month, true}, 0},
		"partial clone":   {20_000, 217, true, layout{events.Month, false}, 1},
		"too many months": {600, 500, false, layout{events.Year, true}, 1},
		"long":            {60_000, 240, false, layout{events.Month, true}, 0},
		"a million":       {1_000_000, 240, false, layout{events.Month, false}, 1},
		"large and long":  {1_000_000, 1200, false, layout{events.Year, false}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			got, notes := choose(tt.commits, tt.months, tt.partial)
			require.Equal(t, tt.want, got)
			require.Len(t, notes, tt.notes)
		})
	}
}

// The same seed makes the same choices, and any choice leaves a window to die in and a run that its cap holds back.
func TestChoicesAreMadeBySeed(t *testing.T) {
	for seed := range uint64(200) {
		shape := rand.New(rand.NewPCG(seed, 1))
		r := repository{layout: layout{Calendar: events.Month, Changes: seed%2 == 0}}
		from := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
		for range 1 + shape.IntN(30) {
			from = from.AddDate(0, 1+shape.IntN(4), 0)
			r.periods = append(r.periods, provider.Period{
				Window: events.NewWindow(from, from.AddDate(0, 1, 0)), Fingerprint: fmt.Sprintf("%d:ab", 1+shape.IntN(5)),
			})
		}
		a, b := draw(r, rand.New(rand.NewPCG(seed, 0)).IntN), draw(r, rand.New(rand.NewPCG(seed, 0)).IntN)
		require.Equal(t, a, b)
		require.Contains(t, r.periods, a.victim)
		require.Positive(t, a.victimRows)
		require.LessOrEqual(t, a.victimRows, plannedCommits(a.victim))

		units := 0
		for _, p := range r.periods {
			if !p.Window.From.Before(a.second.Since) && !p.Window.To.After(a.second.Before) {
				units += len(a.second.Datasets)
			}
		}
		if a.second.Mode == events.FullResync {
			units = r.layout.units(len(r.periods))
		}
		require.Greater(t, units, a.secondCap, "seed %d", seed)
	}
}

// The oracle and the provider see one history, whatever git replace puts in front of it.
func TestTheOracleSeesTheHistoryThatIsCopied(t *testing.T) {
	dir := newRepository(t)
	mustGit(t, dir, "-c", "user.name=Ada", "-c", "user.email=ada@harbour.example", "replace", "--graft", "main~100")
	ids, err := commitsOf(t.Context(), dir)
	require.NoError(t, err)
	r, err := open(t.Context(), dir)
	require.NoError(t, err)
	require.Len(t, ids, r.commits)
	require.Greater(t, len(ids), madeCommits, "all, and the one that stands in")
}

// A lost, a doubled and an unexpected commit are each found by their id.
func TestTheOracleFindsWhatIsWrong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(t, err)
	_, err = db.Exec(`CREATE TABLE commits (repo TEXT, sha TEXT);
INSERT INTO commits VALUES ('r', 'a'), ('r', 'b'), ('r', 'b'), ('r', 'x'), ('other', 'a')`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	o, err := compare(t.Context(), map[string]bool{"a": true, "b": true, "c": true}, path, "r")
	require.NoError(t, err)
	require.Equal(t, oracle{
		Git: 3, Rows: 5, Lost: 1, Doubled: 1, Unexpected: 2,
		Examples: []string{"doubled b", "lost c", "unexpected a", "unexpected x"},
	}, o)
	require.False(t, o.holds())
}

// Stranded is what nothing will ever move; what waits for its time or for a person is not.
func TestWhatIsStranded(t *testing.T) {
	for status, want := range map[decider.RegisterStatus]bool{
		decider.RegisterIdle: false, decider.RegisterPending: true, decider.RegisterClaimed: true, decider.RegisterMarked: true,
		decider.RegisterParked: true, decider.RegisterUnresolved: false,
	} {
		require.Equal(t, want, strands(projections.Register{Status: status, AvailableAt: noon}, events.RunIsRunning, noon), status)
	}
	pending := projections.Register{Kind: events.KindDispatch, Status: decider.RegisterPending, AvailableAt: noon}
	require.False(t, strands(pending, events.RunSucceeded, noon), "O-8: nothing is owed to a run that has ended")
	require.True(t, strands(pending, events.RunIsRunning, noon))
	require.False(t, strands(pending, events.RunIsRunning, noon.Add(-time.Second)))
	pending.Kind = events.KindPostSync
	require.True(t, strands(pending, events.RunSucceeded, noon), "but its post_sync")
}

// A report that lacks a crash, or has one that did not end well, is no success.
func TestAReportIsJudged(t *testing.T) {
	r := report{Verify: "ok"}
	r.judge()
	require.False(t, r.OK)
	require.Contains(t, r.Problems, "only 0 of 7 crashes were made")

	r = report{Verify: "ok"}
	for i := range crashes {
		r.add(&crashes[i]).Outcome = crashes[i].want
	}
	r.judge()
	require.True(t, r.OK, r.Problems)
	r.Cases[0].Outcome = ""
	r.judge()
	require.False(t, r.OK)
}
