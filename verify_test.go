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

// I-26: verify folds up to the position at which it read the tables, though transactions go on meanwhile.
func TestVerifyIsNotDisturbedByNewEvents(t *testing.T) {
	w := newWorkshop(t)
	w.plan(towline.RunSpec{Sync: "reports"})
	w.store.afterRead = func() { w.plan(towline.RunSpec{Sync: "reports"}) } // behind the snapshot of the tables
	v := enginetest.Verify(t, w.e, t.TempDir())
	require.True(t, v.OK(), "%v", v)
	require.Less(t, v.Position, w.head())
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
