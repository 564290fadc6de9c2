package towline_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/store"
)

// storied is a workshop whose every table has rows, of things that are open and of things that have ended.
func storied(t *testing.T) *workshop {
	t.Helper()
	s := tiered()
	s.Datasets = append(s.Datasets, towline.Dataset{Name: "years", Window: towline.Year})
	s.PostSync = towline.PostSync{Targets: []towline.Target{{Name: "index", SQL: "SELECT 1"}}}
	w := openWorkshop(t, options{unverified: true, config: towline.Config{Syncs: []towline.Sync{s}}})
	w.plan(towline.RunSpec{Sync: "tracker", Key: "k"})
	w.deliver(func(l towline.Lease) {
		require.NoError(t, w.e.Complete(context.Background(), l, events.Result{State: []byte(`{"at":1}`),
			Fingerprint: "f"}))
	})
	w.advance(time.Minute)
	open := w.started(towline.RunSpec{Sync: "tracker", Mode: towline.FullResync})
	w.claim(w.unit(open.Run, 1).Unit)
	w.plan(towline.RunSpec{Sync: "tracker", Mode: towline.FullResync})
	w.verify()
	return w
}

// I-26, L-8: a row that differs from the log is found, whatever table it is in, and named.
func TestVerifyFindsEachKindOfDrift(t *testing.T) {
	w := storied(t)
	for _, plant := range []struct{ table, sql string }{
		{"runs", `UPDATE runs SET reason = 'x' WHERE completed_at IS NOT NULL`},
		{"runs", `UPDATE runs SET status = 'dispatching', started_at = 1 WHERE status = 'planned'`},
		{"runs", `UPDATE runs SET policy = '{}' WHERE status = 'planned'`},
		{"runs", `UPDATE runs SET posts = '[]' WHERE completed_at IS NOT NULL`},
		{"units", `UPDATE units SET lease_expires_at = lease_expires_at + 1 WHERE status = 'running'`},
		{"units", `UPDATE units SET wakeup = wakeup + 1 WHERE status = 'dispatching'`},
		{"units", `UPDATE units SET error_text = 'x' WHERE status = 'succeeded'`},
		{"units", `DELETE FROM units WHERE status = 'succeeded' AND ordinal = 1`},
		{"outbox", `UPDATE outbox SET attempts = attempts + 1`},
		{"outbox", `UPDATE outbox SET closed_by = NULL WHERE closed_by IS NOT NULL`},
		{"outbox", `DELETE FROM outbox WHERE kind = 'post_sync'`},
		{"jobs", `UPDATE jobs SET idempotency_key = 'other' WHERE idempotency_key = 'k'`},
		{"jobs", `UPDATE jobs SET failed_units = 1 WHERE closed_at IS NOT NULL`},
		{"nodes", `UPDATE nodes SET gone = 1 - gone`},
		{"watermarks", `UPDATE watermarks SET at = at + 1`},
		{"watermarks", `INSERT INTO watermarks (source, dataset, at, unit_id) VALUES ('nobody', 'x', 1, x'00')`},
		{"coverage", `UPDATE coverage SET fingerprint = 'g'`},
		{"left_state", `UPDATE left_state SET state = '{}'`},
	} {
		t.Run(plant.sql, func(t *testing.T) {
			w.sql(plant.sql)
			w.e.ForgetMemory()
			head := w.head()
			v := enginetest.Verify(t, w.e, t.TempDir())
			require.False(t, v.OK())
			require.Empty(t, v.Violations)
			require.Contains(t, strings.Join(v.Differences, "\n"), "table "+plant.table)
			require.Equal(t, head, v.Position)
			require.Equal(t, head, w.head(), "verify writes nothing")
			require.NoError(t, w.e.Rebuild(context.Background()))
			w.e.ForgetMemory()
			require.True(t, enginetest.Verify(t, w.e, t.TempDir()).OK(), "a rebuild repairs it")
		})
	}
}

// I-26, B-1: what the writer keeps in memory is compared with the tables, in both directions.
func TestVerifyFindsAMemoryThatDrifted(t *testing.T) {
	for _, plant := range []string{
		`UPDATE units SET lease_expires_at = lease_expires_at + 1 WHERE status = 'running'`,
		`UPDATE units SET status = 'dispatching' WHERE status = 'planned' AND tier = 'reference'`,
		`UPDATE outbox SET closed = 0 WHERE kind = 'run_sync_unit'`,
		`UPDATE watermarks SET at = at + 1`,
		`DELETE FROM left_state`,
		`UPDATE nodes SET gone = 1`,
	} {
		w := storied(t)
		w.sql(plant)
		found := strings.Join(enginetest.Verify(t, w.e, t.TempDir()).Differences, "\n")
		require.Contains(t, found, "memory holds, the tables do not", plant)
	}
}

// I-26, B-1: a count of slots that memory and tables share is held against the fold of the checker.
func TestVerifyFindsACountOfSlotsThatDrifted(t *testing.T) {
	for _, plant := range []string{
		`UPDATE units SET lease_expires_at = 1 WHERE status = 'running'`,
		`UPDATE units SET provider = 'other' WHERE status = 'running'`,
	} {
		w := storied(t)
		w.sql(plant)
		w.e.ForgetMemory()
		require.Contains(t, strings.Join(enginetest.Verify(t, w.e, t.TempDir()).Differences, "\n"), "slots in use of ", plant)
	}
}

// I-7, I-8, SC-046: a history that no engine can write is found by the checker, with its position.
func TestVerifyFindsWhatMustNotBeInTheLog(t *testing.T) {
	for name, c := range map[string]struct {
		stream, data string
		kind         events.Type
		want         string
		refused      bool // by a table as well
	}{
		"a second end": {"01", `{"status":"failed"}`, events.TypeRunFinalized, "I-7", true},
		"an early post_sync": {"13", `{"n":1,"available_at":1773478800000000,"cause":"finalized"}`,
			events.TypeOutboxArmed, "I-8", false},
		"a mark without claim": {"10", `{"n":9,"token":"x","order":"publish_first","transport":"broker"}`,
			events.TypeOutboxDispatched, "I-11", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := openWorkshop(t, options{unverified: true})
			p := w.plan(towline.RunSpec{Sync: "reports"})
			if name == "a second end" {
				w.deliver(w.complete)
			}
			stream := fmt.Sprintf("x'%s%X'", c.stream, p.Run[:])
			w.sql(fmt.Sprintf(`INSERT INTO events (position, tx, stream, version, at, type, schema, node, data)
				SELECT max(position) + 1, max(position) + 1, %[1]s, (SELECT coalesce(max(version), 0) + 1 FROM events WHERE stream = %[1]s), max(at), %[2]d, 1, 1, '%[3]s' FROM events`,
				stream, c.kind, c.data))
			position := w.head()
			scratch, err := openFile(filepath.Join(t.TempDir(), "scratch.db"))
			require.NoError(t, err)
			defer scratch.Close()
			v, err := w.e.Verify(context.Background(), scratch)
			if c.refused {
				require.ErrorContains(t, err, "CHECK constraint", "the schema states the invariant again")
			} else {
				require.NoError(t, err)
			}
			found := false
			for _, x := range v.Violations {
				found = found || x.Rule == c.want && x.Position == position
			}
			require.True(t, found, "%v", v.Violations)
		})
	}
}

// inPages verifies with pages of so many rows.
func (w *workshop) inPages(page int) towline.Verification {
	w.t.Helper()
	scratch, err := openFile(filepath.Join(w.t.TempDir(), "scratch.db"))
	require.NoError(w.t, err)
	defer scratch.Close()
	v, err := w.e.VerifyInPages(context.Background(), scratch, page)
	require.NoError(w.t, err)
	return v
}

// brief is a store whose snapshots end after so many rows, as those of SQLite do after so much time (DUR-4).
type brief struct {
	store.Store
	rows int
}

func (b brief) Read(ctx context.Context, fn func(store.Reader) error) error {
	return b.Store.Read(ctx, func(r store.Reader) error { return fn(&briefReader{r, b.rows}) })
}

type briefReader struct {
	store.Reader
	left int
}

func (r *briefReader) Query(scan func(store.Row) error, query string, args ...any) error {
	return r.Reader.Query(func(row store.Row) error {
		if r.left--; r.left < 0 {
			return errPlanted
		}
		return scan(row)
	}, query, args...)
}

// I-26, DUR-4: a store of any size can be verified: no snapshot, of the store or of the scratch, sees more than a page and
// what it takes to read it. Here the tables have three pages of rows, and most of them are open.
func TestVerifyHoldsNoLongSnapshot(t *testing.T) {
	const units = 3 * towline.VerifyPage / 2
	w := openWorkshop(t, options{config: towline.Config{
		Knobs: daily(towline.Knobs{MaxUnits: units}), Syncs: []towline.Sync{single("long")},
	}})
	w.started(days("long", units))
	const columns = 100
	w.store.Store = brief{w.file, towline.VerifyPage + columns}
	scratch, err := openFile(filepath.Join(t.TempDir(), "scratch.db"))
	require.NoError(t, err)
	defer scratch.Close()
	v, err := w.e.Verify(context.Background(), brief{scratch, towline.VerifyPage + columns})
	require.NoError(t, err)
	require.True(t, v.OK(), "%v", v)
	require.Equal(t, w.head(), v.Position)
}

// I-26: each page is compared at a position of its own, though transactions go on between two of them, and change rows
// that have been compared and rows that will be.
func TestVerifyIsNotDisturbedByNewEvents(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Knobs: daily(towline.Knobs{}), Syncs: []towline.Sync{single("busy")}}})
	run := w.started(days("busy", 20)).Run
	before := w.head()
	changes := []func(){
		func() { w.complete(w.claim(w.unit(run, 1).Unit)) },
		func() { w.plan(days("busy", 2)) },
		func() { w.fail(w.claim(w.unit(run, 4).Unit), events.Network) },
		func() { w.step() },
		func() { w.claim(w.unit(run, 3).Unit) },
		func() { w.advance(time.Hour); w.pass() },
		func() { w.complete(w.claim(w.unit(run, 6).Unit)) },
		func() { w.plan(days("busy", 4)) },
		func() { w.complete(w.claim(w.unit(run, 8).Unit)) },
	}
	var change func() // behind each snapshot, be it of a page or of a stream that is folded
	change = func() {
		if len(changes) > 0 {
			changes[0]()
			changes = changes[1:]
			w.store.afterRead = change
		}
	}
	w.store.afterRead = change
	v := w.inPages(3)
	require.Empty(t, changes)
	require.True(t, v.OK(), "%v", v)
	require.Greater(t, v.Position, before)
	require.Equal(t, w.head(), v.Position, "the last page saw them all")
}

// I-26: wherever in a page a row is missing, differs or is too many, it is named by its key, and nothing else is.
func TestVerifyNamesTheRowThatDiffers(t *testing.T) {
	const page, units = 2, 5 // two borders, and a page that is not full
	w := openWorkshop(t, options{unverified: true, config: towline.Config{Knobs: daily(towline.Knobs{}),
		Syncs: []towline.Sync{single("kept")}}})
	for _, u := range w.units(w.plan(days("kept", units)).Run) {
		key, beside := fmt.Sprintf("X'%X'", u.Unit[:]), u.Unit
		beside[15]++
		other := fmt.Sprintf("X'%X'", beside[:])
		for _, plant := range []struct{ sql, want string }{
			{`UPDATE units SET error_text = 'x' WHERE unit_id = ` + key, key + " should be: unit_id=" + key},
			{`DELETE FROM units WHERE unit_id = ` + key, key + " is missing; it should be: unit_id=" + key},
			{twin(w, key, other), other + " should not be there"},
		} {
			w.sql(plant.sql)
			w.e.ForgetMemory()
			v := w.inPages(page)
			require.Len(t, v.Differences, 1, plant.sql)
			require.Contains(t, v.Differences[0], "table units, row unit_id = "+plant.want)
			require.NotContains(t, v.Differences[0], "the first of")
			require.NoError(t, w.e.Rebuild(context.Background()))
		}
	}
	w.sql(`UPDATE units SET error_text = 'x'`)
	require.Contains(t, w.inPages(page).Differences[0], fmt.Sprintf("the first of %d that differ", units))
	w.sql(`DELETE FROM units`)
	require.Contains(t, w.inPages(page).Differences[0], fmt.Sprintf("the first of %d that differ", units))
}

// twin is SQL for a unit that is like another but for its id.
func twin(w *workshop, of, id string) string {
	w.t.Helper()
	var others string
	require.NoError(w.t, w.file.DB().QueryRow(
		`SELECT group_concat(name, ', ') FROM pragma_table_info('units') WHERE name <> 'unit_id'`).Scan(&others))
	return `INSERT INTO units (unit_id, ` + others + `) SELECT ` + id + `, ` + others + ` FROM units WHERE unit_id = ` + of
}

// C-42, SC-328, SC-329, HC-30: a rebuild publishes nothing, arms nothing and changes no row; one that fails leaves the
// old tables.
func TestARebuildChangesNothing(t *testing.T) {
	w := storied(t)
	w.pass()
	w.broker.take()
	before := tables(w)
	w.unchanged(func() { require.NoError(t, w.e.Rebuild(context.Background())) })
	require.Equal(t, before, tables(w))
	require.Empty(t, w.broker.sent)
	w.memoryIsTrue()
	w.unchanged(func() { w.pass() })

	w.store.failExec = "INSERT INTO watermarks"
	require.ErrorIs(t, w.e.Rebuild(context.Background()), errPlanted)
	w.store.failExec = ""
	require.Equal(t, before, tables(w))
	w.verify()
}

// tables is every row of every table of a projection, as text.
func tables(w *workshop) (out []string) {
	w.t.Helper()
	require.NoError(w.t, w.store.Store.Read(context.Background(), func(r store.Reader) error {
		var names []string
		err := r.Query(func(row store.Row) error {
			var name string
			err := row.Scan(&name)
			names = append(names, name)
			return err
		}, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name IN
			('runs', 'units', 'outbox', 'jobs', 'nodes', 'watermarks', 'coverage', 'left_state', 'projection') ORDER BY name`)
		if err != nil {
			return err
		}
		for _, name := range names {
			var columns []string
			err := r.Query(func(row store.Row) error {
				var c string
				err := row.Scan(&c)
				columns = append(columns, `quote("`+c+`")`)
				return err
			}, `SELECT name FROM pragma_table_info($1) ORDER BY cid`, name)
			if err != nil {
				return err
			}
			err = r.Query(func(row store.Row) error {
				var s string
				err := row.Scan(&s)
				out = append(out, name+": "+s)
				return err
			}, `SELECT `+strings.Join(columns, ` || ' ' || `)+` AS x FROM "`+name+`" ORDER BY x`)
			if err != nil {
				return err
			}
		}
		return nil
	}))
	require.Greater(w.t, len(out), 20)
	return out
}
