package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/sink/sqlite"
)

const fences = `SELECT window, fence, store FROM _towline_fence ORDER BY window`

// HU-5: a fresh store begins at low positions. On a file that another store has written it is refused with a reason of
// its own, not as an old attempt, and learns how to go on.
func TestAnotherStoreIsRefused(t *testing.T) {
	d := file(t)
	commit(t, d, from("lost", scope(900, day)), 1, "a")

	for _, fence := range []int{1, 900, 5000} { // lower, equal and higher: it says nothing
		_, err := d.Open(context.Background(), from("fresh", scope(fence, day)))
		require.ErrorIs(t, err, sink.ErrForeign)
		require.NotErrorIs(t, err, sink.ErrFenced)
		require.ErrorContains(t, err, "harbour/readings/2024-03-01 in "+d.Path()+": foreign: another Towline store has written: store lost, window 2024-03-01, at ")
		require.ErrorContains(t, err, "go on with that store, or, if it is gone for good, open the file with sqlite.TakeOver()")
	}
	_, err := d.Open(context.Background(), from("fresh", scope(1, nextDay)))
	require.ErrorIs(t, err, sink.ErrForeign, "the dataset is another store's, not a window of it")
	_, err = d.Open(context.Background(), from("lost", scope(899, day)))
	require.ErrorIs(t, err, sink.ErrFenced, "among attempts of one store the fence counts as ever")
	commit(t, d, from("lost", scope(901, day)), 2, "a")
	require.Equal(t, []string{"harbour|a|2024-03-01|2"}, query(t, d, readings))
}

// HU-5: a store that takes over overwrites what another one left, whatever its fence, and is then the one store of the scope.
func TestTakeOver(t *testing.T) {
	d := file(t)
	old := open(t, d, from("lost", scope(900, day)))
	put(t, old, 1, "a", "gone")
	old.State(json.RawMessage(`"lost"`))
	require.NoError(t, old.Commit(context.Background()))
	commit(t, d, from("lost", scope(901, nextDay)), 1, "b")

	heir := at(t, d.Path(), sqlite.TakeOver())
	w := open(t, heir, from("fresh", scope(3, day)))
	put(t, w, 2, "a")
	w.State(json.RawMessage(`"fresh"`))
	require.NoError(t, w.Commit(context.Background()))
	require.Equal(t, []string{"2024-03-01|00000001.0000000000000003|fresh"}, query(t, d, fences))
	require.Equal(t, []string{`"fresh"|00000001.0000000000000003|fresh`}, query(t, d, `SELECT state, fence, store FROM _towline_state`))
	require.Equal(t, []string{"harbour|a|2024-03-01|2", "harbour|b|2024-03-02|1"}, query(t, d, readings))

	_, err := heir.Open(context.Background(), from("fresh", scope(2, day)))
	require.ErrorIs(t, err, sink.ErrFenced, "its own fences count")
	_, err = d.Open(context.Background(), from("lost", scope(902, day)))
	require.ErrorIs(t, err, sink.ErrForeign, "the other store is the stranger now")
	commit(t, d, from("fresh", scope(4, day)), 3, "a") // the option may go
	_, err = heir.Open(context.Background(), scope(5, day))
	require.ErrorContains(t, err, "TakeOver needs a scope that names its store")
}

// HU-5: the state of a dataset has one store, also where somebody has removed the fences of its windows.
func TestTheStateOfAnotherStoreIsNotOverwritten(t *testing.T) {
	d := file(t)
	first := open(t, d, from("lost", scope(900, day)))
	first.State(json.RawMessage(`"lost"`))
	require.NoError(t, first.Commit(context.Background()))

	require.NoError(t, d.Close())
	db, err := sql.Open("sqlite", "file:"+d.Path())
	require.NoError(t, err)
	_, err = db.Exec(`DELETE FROM _towline_fence`)
	require.NoError(t, err)
	require.NoError(t, db.Close())

	d = at(t, d.Path())
	w := open(t, d, from("fresh", scope(1, nextDay)))
	put(t, w, 1, "b")
	w.State(json.RawMessage(`"fresh"`))
	err = w.Commit(context.Background())
	require.ErrorIs(t, err, sink.ErrForeign)
	require.ErrorContains(t, err, "the state of the dataset is of store lost")
	require.Empty(t, query(t, d, readings), "rows and state move together or not at all")
}

// HU-5: an attempt whose store is not known is compared as if it were of the same one, in both directions.
func TestAStoreThatIsNotKnown(t *testing.T) {
	d := file(t)
	commit(t, d, from("one", scope(5, day)), 1, "a")
	_, err := d.Open(context.Background(), scope(4, day))
	require.ErrorIs(t, err, sink.ErrFenced)
	commit(t, d, scope(6, day), 2, "a")
	require.Equal(t, []string{"2024-03-01|00000001.0000000000000006|"}, query(t, d, fences))
	_, err = d.Open(context.Background(), from("two", scope(5, day)))
	require.ErrorIs(t, err, sink.ErrFenced)
	require.ErrorContains(t, err, "its store is not known: if that is gone for good, open the file with sqlite.TakeOver()")
	commit(t, d, from("two", scope(7, day)), 3, "a") // and adopts it
	require.Equal(t, []string{"2024-03-01|00000001.0000000000000007|two"}, query(t, d, fences))
}

// earlierLayout is a file of the sink as it was before the store of a fence was noted.
const earlierLayout = `
CREATE TABLE _towline_fence (
	source TEXT NOT NULL,
	dataset TEXT NOT NULL,
	window TEXT NOT NULL,
	fence TEXT NOT NULL CHECK (fence <> ''),
	run TEXT NOT NULL,
	unit TEXT NOT NULL,
	attempt INTEGER NOT NULL,
	committed_at TEXT NOT NULL,
	PRIMARY KEY (source, dataset, window)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER _towline_fence_never_falls
BEFORE UPDATE ON _towline_fence
WHEN NEW.fence < OLD.fence
BEGIN SELECT RAISE(ABORT, 'a fence never falls'); END;
CREATE TABLE _towline_state (
	source TEXT NOT NULL,
	dataset TEXT NOT NULL,
	state TEXT NOT NULL,
	fence TEXT NOT NULL,
	committed_at TEXT NOT NULL,
	PRIMARY KEY (source, dataset)
) STRICT, WITHOUT ROWID;
INSERT INTO _towline_fence VALUES
	('harbour', 'readings', '2024-03-01', '00000001.0000000000000005', 'R', 'U', 1, 'T'),
	('harbour', 'readings', '2024-03-02', '00000001.0000000000000005', 'R', 'U', 1, 'T');
INSERT INTO _towline_state VALUES ('harbour', 'readings', '"old"', '00000001.0000000000000005', 'T');`

// HU-5: a file of the earlier layout goes on: its rows are adopted by the store that writes them next, in the order of
// their fences, and a store that takes over need not care for that.
func TestAFileOfTheEarlierLayout(t *testing.T) {
	path := filepath.Join(t.TempDir(), "readings.db")
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(t, err)
	_, err = db.Exec(earlierLayout)
	require.NoError(t, err)
	require.NoError(t, db.Close())

	d := at(t, path)
	_, err = d.Open(context.Background(), from("one", scope(4, day)))
	require.ErrorIs(t, err, sink.ErrFenced)
	commit(t, d, from("one", scope(6, day)), 1, "a")
	heir := at(t, path, sqlite.TakeOver())
	w := open(t, heir, from("two", scope(1, nextDay)))
	w.State(json.RawMessage(`"new"`))
	require.NoError(t, w.Commit(context.Background()))
	require.Equal(t, []string{"2024-03-02|00000001.0000000000000001|two"}, query(t, d, fences))
	require.Equal(t, []string{`"new"|two`}, query(t, d, `SELECT state, store FROM _towline_state`))
	fresh := file(t)
	commit(t, fresh, scope(1, day), 1, "a")
	const columns = `SELECT m.name, c.cid, c.name, c.type, c."notnull", c.dflt_value, c.pk
FROM sqlite_schema AS m, pragma_table_info(m.name) AS c WHERE m.name LIKE '\_towline\_%' ESCAPE '\' ORDER BY 1, 2`
	require.Equal(t, query(t, fresh, columns), query(t, d, columns), "both layouts are one from now on")
}

// HU-5: the file itself refuses that a fence of one store is overwritten by one of another, whoever writes it.
func TestTheFileKeepsTheStoreOfAFence(t *testing.T) {
	d := file(t)
	commit(t, d, from("one", scope(2, day)), 1, "a")
	db, err := sql.Open("sqlite", "file:"+d.Path())
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec(`UPDATE _towline_fence SET fence = '00000001.0000000000000009', store = 'two'`)
	require.ErrorContains(t, err, "a fence keeps its store")
}

// HU-5: a program that removes the tables of the sink costs one attempt, not the process.
func TestTablesOfTheSinkThatVanishComeBack(t *testing.T) {
	d := file(t)
	commit(t, d, scope(1, day), 1, "a")
	db, err := sql.Open("sqlite", "file:"+d.Path())
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec(`DROP TABLE _towline_fence`)
	require.NoError(t, err)
	_, err = d.Open(context.Background(), scope(2, day))
	require.ErrorContains(t, err, "no such table: _towline_fence")
	commit(t, d, scope(2, day), 2, "a")
}
