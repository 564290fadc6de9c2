package projections_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

var errPlanted = errors.New("planted fault")

// write runs fn as a transaction of the store, without the engine.
func (h *history) write(fn func(store.Tx) error) error {
	return h.file.Write(context.Background(), fn)
}

// tables is every row of every table, as text: the tables of all projections, and their checkpoints.
func (h *history) tables() (out []string) {
	h.tb.Helper()
	names := []string{"projection"}
	for _, p := range projections.All() {
		for _, t := range p.Tables() {
			names = append(names, t.Name)
		}
	}
	h.read(func(r store.Reader) {
		for _, name := range names {
			var columns []string
			require.NoError(h.tb, r.Query(func(row store.Row) error {
				var c string
				err := row.Scan(&c)
				columns = append(columns, `quote("`+c+`")`)
				return err
			}, `SELECT name FROM pragma_table_info($1) ORDER BY cid`, name))
			require.NotEmpty(h.tb, columns, name)
			require.NoError(h.tb, r.Query(func(row store.Row) error {
				var s string
				err := row.Scan(&s)
				out = append(out, name+": "+s)
				return err
			}, `SELECT `+strings.Join(columns, ` || ' ' || `)+` AS x FROM "`+name+`" ORDER BY x`))
		}
	})
	return out
}

func (h *history) sql(statements ...string) {
	h.tb.Helper()
	for _, s := range statements {
		_, err := h.file.DB().Exec(s)
		require.NoError(h.tb, err)
	}
}

func rebuildAll(tx store.Tx) error { return projections.Rebuild(tx) }

// L-8: one projection is made anew by its name, and the others stay as they are.
func TestOneProjectionIsRebuilt(t *testing.T) {
	h := told(t, 1, 100)
	live := h.tables()
	spoil := func(tx store.Tx) error {
		if err := tx.Exec(`DELETE FROM jobs`); err != nil {
			return err
		}
		return tx.Exec(`DELETE FROM nodes`)
	}
	require.NoError(t, h.write(spoil))
	require.NoError(t, h.write(func(tx store.Tx) error { return projections.Rebuild(tx, "jobs") }))
	require.NotEqual(t, live, h.tables())
	require.NoError(t, h.write(func(tx store.Tx) error { return projections.Rebuild(tx, "nodes") }))
	require.Equal(t, live, h.tables())
}

// L-8, I-26, SC-327, HC-25: of any history the rebuilt tables are those that were there, byte for byte; a drop and an
// open give them too.
func TestARebuildEqualsTheLiveTables(t *testing.T) {
	for seed := byte(1); seed <= 4; seed++ {
		h := told(t, seed, 300)
		live := h.tables()
		require.NoError(t, h.write(rebuildAll))
		require.Equal(t, live, h.tables())
		require.NoError(t, h.write(projections.Drop))
		require.NoError(t, h.write(projections.Open))
		require.Equal(t, live, h.tables())
		require.NoError(t, h.write(projections.Open))
		require.Equal(t, live, h.tables(), "there is nothing to do twice")
		h.verify(t.TempDir())
	}
}

// broken is a transaction in which the statement that holds a text fails.
type broken struct {
	store.Tx
	text string
}

func (b broken) Exec(query string, args ...any) error {
	if strings.Contains(query, b.text) {
		return errPlanted
	}
	return b.Tx.Exec(query, args...)
}

// L-8, C-42, SC-329: a rebuild that is broken off, wherever that is, leaves the old tables and their checkpoints.
func TestAnInterruptedRebuildLeavesTheOldTables(t *testing.T) {
	h := toldUntil(t, 5, func(h *history) bool { return len(h.plain(`SELECT 1 FROM watermarks`)) > 0 })
	live := h.tables()
	for _, at := range []string{
		"DROP TABLE", "CREATE TABLE runs", "CREATE INDEX units_lease", "CREATE VIEW outbox_view", "INSERT INTO units",
		"UPDATE outbox", "INSERT INTO jobs",
		"INSERT INTO watermarks", "UPDATE projection", "INSERT INTO projection",
	} {
		require.ErrorIs(t, h.write(func(tx store.Tx) error { return projections.Rebuild(broken{tx, at}) }), errPlanted, at)
		require.Equal(t, live, h.tables(), at)
	}
	require.ErrorIs(t, h.write(func(tx store.Tx) error {
		require.NoError(t, projections.Rebuild(tx))
		return errPlanted // after everything was done
	}), errPlanted)
	require.Equal(t, live, h.tables())
}

// L-8: a projection of another revision is made anew, and only that one; the others are not touched.
func TestAnotherRevisionRebuildsThatProjectionOnly(t *testing.T) {
	h := told(t, 6, 200)
	live := h.tables()
	h.sql(`UPDATE projection SET revision = 0 WHERE name = 'units'`, `UPDATE units SET worker = 'drift'`,
		`UPDATE runs SET reason = 'drift'`)
	require.NoError(t, h.write(projections.Open))
	require.NotEqual(t, live, h.tables())
	h.sql(`UPDATE projection SET revision = 0 WHERE name = 'runs'`)
	require.NoError(t, h.write(projections.Open))
	require.Equal(t, live, h.tables())
}

// L-8: a projection that is missing, in whole or in part, is made anew.
func TestAMissingProjectionIsMadeAnew(t *testing.T) {
	h := told(t, 7, 200)
	live := h.tables()
	for _, missing := range []string{
		`DELETE FROM projection WHERE name = 'outbox'`, `DELETE FROM projection`, `DROP TABLE projection`,
		`DROP TABLE left_state`, `DROP TABLE units`,
	} {
		h.sql(missing)
		require.NoError(t, h.write(projections.Open), missing)
		require.Equal(t, live, h.tables(), missing)
	}
}

// L-8, DUR-7: a newer release keeps a view that this one does not know. What is appended meanwhile is not in it, and its
// checkpoint says so, for the day on which that release comes back.
func TestTheViewOfANewerReleaseStaysWhereItIs(t *testing.T) {
	h := told(t, 9, 60)
	h.sql(`INSERT INTO projection (name, revision, position) VALUES ('of tomorrow', 1, 5)`)
	for range 20 {
		h.step()
	}
	h.follow()
	for _, change := range []func(store.Tx) error{projections.CatchUp, rebuildAll} {
		require.Equal(t, []map[string]any{{"position": int64(5)}}, h.plain(`SELECT position FROM projection WHERE name = 'of tomorrow'`))
		h.read(func(r store.Reader) {
			p, err := projections.Position(r)
			require.NoError(t, err)
			head, _, err := r.Head()
			require.NoError(t, err)
			require.Equal(t, head, p, "the views that are known are not behind")
		})
		require.NoError(t, h.write(change))
	}
	require.Equal(t, []map[string]any{{"position": int64(5)}}, h.plain(`SELECT position FROM projection WHERE name = 'of tomorrow'`))
}

// D-20, L-8: a table of an application that has the name of a view of a later release is not dropped for it.
func TestATableOfAnApplicationIsNotTakenForAView(t *testing.T) {
	for _, of := range []struct{ projection, table string }{{"messages", "messages"}, {"nodes", "breakers"}} {
		h := told(t, 10, 20)
		h.sql(`UPDATE projection SET revision = 0 WHERE name = '`+of.projection+`'`, `DROP VIEW `+of.table+`_view`, `DROP TABLE `+of.table,
			`CREATE TABLE `+of.table+` (body TEXT)`, `INSERT INTO `+of.table+` VALUES ('mine')`)
		if of.projection == of.table {
			h.sql(`DELETE FROM projection WHERE name = '` + of.projection + `'`)
		}
		for _, begin := range []func(store.Tx) error{projections.Open, rebuildAll} {
			require.ErrorContains(t, h.write(begin), "rename it", of.table)
			require.Equal(t, []map[string]any{{"body": "mine"}}, h.plain(`SELECT body FROM `+of.table))
		}
		h.sql(`ALTER TABLE ` + of.table + ` RENAME TO mine`)
		require.NoError(t, h.write(projections.Open))
	}
}

// L-8: a projection that lags is brought to the head from its checkpoint, by what lies behind it alone; the others stay
// as they are.
func TestALaggingProjectionIsCaughtUp(t *testing.T) {
	h := told(t, 8, 60)
	var at events.Position
	h.view(func(v projections.View) { at, _, _ = v.Head() })
	old := h.tables()
	for range 200 {
		h.step()
	}
	h.follow()
	live := h.tables()
	require.NotEqual(t, old, live)
	for _, name := range []string{"jobs", "watermarks"} {
		h.restore(name, old, int64(at))
		require.NoError(t, h.write(projections.CatchUp))
		require.Equal(t, live, h.tables(), name)
	}
	var p events.Position
	h.read(func(r store.Reader) {
		var err error
		p, err = projections.Position(r)
		require.NoError(t, err)
		head, _, err := r.Head()
		require.NoError(t, err)
		require.Equal(t, head, p)
	})
}

// restore puts the rows of one table back to what they were at a position.
func (h *history) restore(name string, rows []string, at int64) {
	h.tb.Helper()
	h.sql(`DELETE FROM ` + name)
	for _, row := range rows {
		if values, ok := strings.CutPrefix(row, name+": "); ok {
			h.sql(`INSERT INTO ` + name + ` VALUES (` + strings.Join(strings.Split(values, " "), ", ") + `)`)
		}
	}
	_, err := h.file.DB().Exec(`UPDATE projection SET position = $1 WHERE name = $2`, at, name)
	require.NoError(h.tb, err)
}

// L-7, SC-330, HC-25: an event that this release cannot read stops a rebuild with its position, and leaves the tables
// as they are.
func TestAnUnreadableEventStopsARebuild(t *testing.T) {
	h := told(t, 9, 100)
	live := h.tables()
	h.sql(`INSERT INTO events (position, tx, stream, version, at, type, schema, data)
		SELECT max(position) + 1, max(position) + 1, x'0102030405060708090a0b0c0d0e0f1011', 1, max(at), 9999, 1, '{}' FROM events`)
	var bad *events.DecodeError
	require.ErrorAs(t, h.write(rebuildAll), &bad)
	require.NotZero(t, bad.Position)
	require.Equal(t, live, h.tables())
}
