package git_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider/git"
	"github.com/towline-dev/towline/sink/sqlite"
)

// history is the first job without an engine: one repository in one file.
type history struct {
	t       *testing.T
	r       repo
	p       *git.Provider
	file    *sqlite.Destination
	fence   events.Position
	covered map[string]map[events.Window]string // fingerprints of the last success, by dataset
}

func newHistory(t *testing.T, r repo) *history {
	// This is all the wiring that the provider and the sink need: a table of one is a table of the other.
	var tables []sqlite.Table
	for _, table := range git.Tables() {
		tables = append(tables, sqlite.Table{
			Name: table.Name, Columns: table.Columns, Key: table.Key, Source: table.Source, Window: table.Window,
		})
	}
	file := sqlite.File(filepath.Join(t.TempDir(), "history.db"), sqlite.Tables(tables...))
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	return &history{
		t: t, r: r, p: provide(t, r), file: file,
		covered: map[string]map[events.Window]string{git.Commits: {}, git.Changes: {}},
	}
}

// run does what a run with W-8 would: the snapshots, the periods whose fingerprint differs, and those that are listed
// no more. It returns the names of the months.
func (h *history) run() []string {
	h.t.Helper()
	months := []string{}
	for _, d := range git.Datasets() {
		if d.Snapshot {
			h.unit(d, everything)
			continue
		}
		list, err := h.p.Periods(context.Background(), "project", d.Name, d.Calendar, nil)
		require.NoError(h.t, err)
		want := make(map[events.Window]string)
		for w := range h.covered[d.Name] {
			want[w] = "" // listed no more, unless it is
		}
		for _, p := range list {
			want[p.Window] = p.Fingerprint
		}
		for w, fingerprint := range want {
			if old, ok := h.covered[d.Name][w]; ok && old == fingerprint {
				continue
			}
			require.Equal(h.t, fingerprint, h.unit(d, w))
			h.covered[d.Name][w] = fingerprint
			if d.Name == git.Commits {
				months = append(months, w.Name())
			}
		}
	}
	return sorted(months)
}

// unit is one attempt from claim to commit; it returns the fingerprint.
func (h *history) unit(d git.Dataset, w events.Window) string {
	h.t.Helper()
	h.fence++
	u := unit(d.Name, w)
	u.Surfaces, u.Fence, u.Attempt = d.Surfaces, events.NewFence(1, h.fence), 1
	sink, err := h.file.Open(context.Background(), u.Scope())
	require.NoError(h.t, err)
	result, err := h.p.Sync(context.Background(), u, sink)
	require.NoError(h.t, err)
	require.NoError(h.t, sink.Commit(context.Background()))
	return result.Fingerprint
}

// oracle compares the rows with rev-list: none missing, none doubled, none unexpected.
func (h *history) oracle() {
	h.t.Helper()
	stored := h.query(`SELECT sha FROM commits WHERE repo = 'project' ORDER BY sha`)
	require.Equal(h.t, h.r.ids(), stored)
	n, err := h.p.CountAll(context.Background(), "project")
	require.NoError(h.t, err)
	require.Len(h.t, stored, n)
	listing := []string{}
	require.NoError(h.t, h.p.EachCommit(context.Background(), "project", events.Month, func(id string, w events.Window) error {
		listing = append(listing, id+" "+w.Name())
		return nil
	}))
	require.Equal(h.t, sorted(listing), h.query(`SELECT sha || ' ' || window FROM commits ORDER BY sha`))
}

func (h *history) query(q string) []string {
	h.t.Helper()
	db, err := h.file.DB(context.Background())
	require.NoError(h.t, err)
	rows, err := db.Query(q)
	require.NoError(h.t, err)
	defer rows.Close()
	out := []string{}
	for rows.Next() {
		var s string
		require.NoError(h.t, rows.Scan(&s))
		out = append(out, s)
	}
	require.NoError(h.t, rows.Err())
	return out
}

// W-8, HU-5: history that was rewritten leaves the file as if it had always been so: only the touched months are read
// again, unreachable commits are gone from them, and the count equals rev-list.
func TestTheFileFollowsRewrittenHistory(t *testing.T) {
	r := newRepo(t)
	r.write("a", "1\n")
	r.commit("2024-01-10T00:00:00Z", "January")
	r.write("a", "2\n")
	r.commit("2024-02-10T00:00:00Z", "February")
	r.write("a", "3\n")
	r.commit("2024-03-10T00:00:00Z", "March")
	h := newHistory(t, r)
	require.Equal(t, []string{"2024-01", "2024-02", "2024-03"}, h.run())
	h.oracle()
	require.Empty(t, h.run(), "nothing new is nothing to read")

	r.commit("2024-04-10T00:00:00Z", "March, amended in April", "--amend")
	require.Equal(t, []string{"2024-03", "2024-04"}, h.run())
	h.oracle()
	require.Equal(t, []string{"2024-01", "2024-02", "2024-04"}, h.query(`SELECT window FROM changes ORDER BY 1`))

	r.git("checkout", "-q", "--orphan", "fresh")
	r.commit("2024-02-20T00:00:00Z", "a new beginning")
	r.git("branch", "-D", "main")
	require.Equal(t, []string{"2024-01", "2024-02", "2024-04"}, h.run())
	h.oracle()
	require.Equal(t, []string{"refs/heads/fresh"}, h.query(`SELECT name FROM refs`))
	require.Equal(t, []string{"a 2"}, h.query(`SELECT path || ' ' || size FROM files`))
	require.Equal(t, []string{"0", "0", "1"}, h.query(`SELECT rows FROM _towline_windows WHERE dataset = 'commits' AND window <> '2024-03' ORDER BY rows`))
}

// Surfaces 1: three thousand commits of a hundred months, wrong clocks among them, come to exactly what rev-list says.
func TestALongHistoryEqualsTheOracle(t *testing.T) {
	r := newRepo(t)
	r.fastImport(3000, 3)
	r.git("reset", "-q", "--hard")
	r.commit("@0 +0000", "1970")
	r.commit("@2147483648 +0000", "2038")
	h := newHistory(t, r)
	require.Len(t, h.run(), 101)
	h.oracle()
	require.Equal(t, []string{"9000"}, h.query(`SELECT count(*) FROM changes`))
	require.Equal(t, []string{"2016-01-01T00:00:00Z"}, h.query(`SELECT committer_time FROM commits WHERE window = '2016-01' ORDER BY committer_time LIMIT 1`))
}
