package git_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/provider/git"
)

// wrongClocks is a repository with every kind of date that git can store, and some that it cannot read.
func wrongClocks(t *testing.T) repo {
	r := newRepo(t)
	for _, at := range []string{
		"0", "1", "2678399", "2678400", // 1970-01, its last second, 1970-02
		"1709251199", "1709251200", "1711929599", "1711929600", // around March 2024
		"2147483647", "2147483648", // the year 2038 of 32 bits
		"4102444799", "4102444800", // the end of what git parses written out
		"4294967296", "17179869183", "17179869184", // the end of a commit-graph
		"253402300799", "253402300800", // the end of four-digit years
		"1700000000000", "9223372036854775807", // milliseconds; the largest of 63 bits
		"1700000000", // and on with a right one, on top of all these
	} {
		r.commit("@"+at+" +0000", "at "+at)
	}
	for _, at := range []string{"-1", "-86400", "18446744073709551616", "99999999999999999999999", "soon", ""} {
		r.raw("tree TREE\nauthor A <a@b> " + at + " +0000\ncommitter C <c@d> " + at + " +0000\n\nraw\n")
	}
	return r
}

// P-12, W-8: the periods of a listing hold every commit once, whatever its date; each unit reads exactly what was
// listed, with the same fingerprint. With a commit-graph git itself sees other dates, and it holds as well.
func TestPeriodsHoldEveryCommitOnce(t *testing.T) {
	r := wrongClocks(t)
	check := func(t *testing.T, c events.Calendar, p *git.Provider) {
		for _, dataset := range []string{git.Commits, git.Changes} {
			var read []string
			list, err := p.Periods(context.Background(), "project", dataset, c, nil)
			require.NoError(t, err)
			for i, period := range list {
				rows, result := sync(t, p, unit(dataset, period.Window))
				require.Equal(t, period.Fingerprint, result.Fingerprint, period.Window.Name())
				read = append(read, column(rows, "sha")...)
				if dataset == git.Commits {
					require.Equal(t, filtered(r, period.Window), sorted(column(rows, "sha")))
				}
				require.False(t, i > 0 && list[i-1].Window.To.After(period.Window.From), "the list is in order")
			}
			if dataset == git.Commits {
				require.Equal(t, r.ids(), sorted(read))
			}
		}
	}
	for _, graph := range []bool{false, true} {
		if graph {
			r.git("commit-graph", "write", "--reachable")
		}
		for _, c := range []events.Calendar{events.Month, events.Year, events.Week, events.Day} {
			t.Run(fmt.Sprint(c, " graph=", graph), func(t *testing.T) { check(t, c, provide(t, r)) })
		}
	}
}

// filtered is the selection that a unit is held to (surfaces 1.2.1), made by git itself. The ends are given in seconds:
// git parses no date behind 2099.
func filtered(r repo, w events.Window) []string {
	args := []string{"log", "--all", "--format=%H", fmt.Sprintf("--since-as-filter=@%d +0000", max(0, w.From.Unix()))}
	if w.To.Unix() < 1<<34 {
		args = append(args, fmt.Sprintf("--until=@%d +0000", w.To.Unix()-1))
	}
	return sorted(strings.Fields(r.git(args...)))
}

// P-12: wrong clocks get their periods, and empty periods get none.
func TestTheMonthsOfWrongClocks(t *testing.T) {
	r := newRepo(t)
	zero := r.commit("@0 +0000", "a clock that was never set")
	leap := r.commit("@1709251199 +0000", "the last second of February 2024")
	march := r.commit("@1709251200 +0000", "the first of March")
	future := r.commit("@2147483648 +0000", "2038")
	require.Equal(t, map[string]string{
		"1970-01": digest(t, zero), "2024-02": digest(t, leap), "2024-03": digest(t, march), "2038-01": digest(t, future),
	}, listed(t, provide(t, r)))
	require.Equal(t, "1:"+zero, digest(t, zero))
	require.Equal(t, "", digest(t))
}

// Surfaces 1.2.1: plain --since stops at the first old commit and loses those behind it. Ours must not.
func TestCommitsWithSkewedDatesAreNotLost(t *testing.T) {
	r := newRepo(t)
	want := []string{}
	for i := range 20 {
		want = append(want, r.commit(fmt.Sprintf("2024-03-%02dT12:00:00Z", i+1), "in March"))
		if i%3 == 0 {
			r.commit("2019-01-01T00:00:00Z", "by a clock that was reset")
		}
	}
	for range 10 {
		r.commit("2018-01-01T00:00:00Z", "on top") // git looks five commits further than the first old one
	}
	plain := strings.Fields(r.git("log", "--all", "--format=%H", "--since=2024-03-01T00:00:00Z", "--until=2024-03-31T23:59:59Z"))
	require.Less(t, len(plain), len(want), "the trap is there")

	rows, result := sync(t, provide(t, r), unit(git.Commits, month(2024, 3)))

	require.Equal(t, sorted(want), sorted(column(rows, "sha")))
	require.Equal(t, digest(t, want...), result.Fingerprint)
}

// W-8: an amended commit changes the fingerprints of exactly the months that it touches; a month that has lost its last
// commit is listed no more, and reading it gives the empty fingerprint, which equals "not listed".
func TestRewrittenHistoryChangesTheTouchedMonthsOnly(t *testing.T) {
	r := newRepo(t)
	r.commit("2024-01-10T00:00:00Z", "January")
	r.commit("2024-02-10T00:00:00Z", "February")
	r.commit("2024-03-10T00:00:00Z", "March")
	p := provide(t, r)
	before := listed(t, p)

	r.commit("2024-04-01T00:00:00Z", "March, amended in April", "--amend")

	after := listed(t, p)
	require.Equal(t, before["2024-01"], after["2024-01"])
	require.Equal(t, before["2024-02"], after["2024-02"])
	require.NotContains(t, after, "2024-03")
	require.Contains(t, after, "2024-04")
	rows, result := sync(t, p, unit(git.Commits, month(2024, 3)))
	require.Empty(t, rows)
	require.Empty(t, result.Fingerprint)
}

// W-8, surfaces 1.2.5: a unit reports what it has read, not what was planned.
func TestTheFingerprintIsOfWhatWasRead(t *testing.T) {
	r := newRepo(t)
	first := r.commit("2024-03-01T00:00:00Z", "planned")
	p := provide(t, r)
	u := unit(git.Commits, month(2024, 3))
	u.Fingerprint = listed(t, p)["2024-03"]
	second := r.commit("2024-03-02T00:00:00Z", "came meanwhile")
	for _, dataset := range []string{git.Commits, git.Changes} {
		u.Dataset, u.Surfaces = dataset, []string{dataset}
		_, result := sync(t, p, u)
		require.Equal(t, digest(t, first, second), result.Fingerprint)
		require.NotEqual(t, u.Fingerprint, result.Fingerprint)
	}
}

// P-12: what has no windows cannot be listed, and no other period than a calendar's.
func TestOnlyWindowedDatasetsAreListed(t *testing.T) {
	p := provide(t, newRepo(t))
	for _, dataset := range []string{git.Refs, git.Files, "stars"} {
		_, err := p.Periods(context.Background(), "project", dataset, events.Month, nil)
		require.Equal(t, provider.Configuration, provider.CategoryOf(err))
	}
	_, err := p.Periods(context.Background(), "project", git.Commits, "fortnight", nil)
	require.ErrorContains(t, err, `"fortnight" is no calendar period`)
	_, err = p.Periods(context.Background(), "elsewhere", git.Commits, events.Month, nil)
	require.Equal(t, provider.Configuration, provider.CategoryOf(err))
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = p.Periods(ended, "project", git.Commits, events.Month, nil)
	require.ErrorIs(t, err, context.Canceled)
}

// W-5: windows are half-open, whatever their ends are.
func TestWindowsAreHalfOpen(t *testing.T) {
	r := newRepo(t)
	for _, s := range []string{"00", "01", "02"} {
		r.commit("2024-03-01T00:00:"+s+"Z", s)
	}
	p := provide(t, r)
	march := month(2024, 3).From
	for want, w := range map[string]events.Window{
		"00":       events.NewWindow(march, march.Add(1e9)),
		"01":       events.NewWindow(march.Add(1e9), march.Add(2e9)),
		"01 02":    events.NewWindow(march.Add(1e3), march.Add(2e9+1e3)), // between two seconds nothing happens
		"":         events.NewWindow(march.AddDate(-1, 0, 0), march),
		"00 01":    events.NewWindow(march.AddDate(-900, 0, 0), march.Add(2e9)),
		"00 01 02": {},
		" ":        events.NewWindow(march.AddDate(-900, 0, 0), march.AddDate(-800, 0, 0)),
		"  ":       events.NewWindow(march.AddDate(900, 0, 0), march.AddDate(901, 0, 0)),
	} {
		rows, _ := sync(t, p, unit(git.Commits, w))
		require.Equal(t, strings.TrimSpace(want), strings.Join(sorted(column(rows, "subject")), " "))
	}
}
