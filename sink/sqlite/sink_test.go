package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/sink/sqlite"
)

var (
	_ sink.Opener = (*sqlite.Destination)(nil)
	_ sink.Fenced = (*sqlite.Destination)(nil)
)

// HU-5: rows, fence, window and state become visible together, at the commit and not before.
func TestACommitShowsEverythingAtOnce(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 5000, time.FixedZone("", 3600))
	d := file(t, sqlite.Now(func() time.Time { return now }))
	w := open(t, d, from("store-1", scope(7, day)))
	put(t, w, 1.5, "a", "b")
	w.State(json.RawMessage(`{"cursor":9007199254740993}`))
	require.Empty(t, query(t, d, `SELECT name FROM sqlite_schema WHERE name = 'readings'`))
	require.False(t, w.Committed())

	require.NoError(t, w.Commit(context.Background()))

	require.True(t, w.Committed())
	require.Equal(t, 2, w.Rows())
	require.JSONEq(t, `{"cursor":9007199254740993}`, string(w.Left()))
	require.Equal(t, []string{"harbour|a|2024-03-01|1.5", "harbour|b|2024-03-01|1.5"}, query(t, d, readings))
	require.Equal(t, []string{"harbour|readings|2024-03-01|00000001.0000000000000007|" +
		"00000000000000000000000001|00000000000000000000000002|7|2026-11-29T11:00:00.000005Z|store-1"},
		query(t, d, `SELECT * FROM _towline_fence`))
	require.Equal(t, []string{"harbour|readings|2024-03-01|2|2026-11-29T11:00:00.000005Z"},
		query(t, d, `SELECT * FROM _towline_windows`))
	require.Equal(t, []string{`harbour|readings|{"cursor":9007199254740993}`},
		query(t, d, `SELECT source, dataset, state FROM _towline_state`))
}

// W-8: a window that has become empty becomes empty here, although nothing was put.
func TestAnEmptyAttemptEmptiesTheWindow(t *testing.T) {
	d := file(t)
	commit(t, d, scope(1, day), 1, "a", "b")
	commit(t, d, scope(2, day), 0)
	require.Empty(t, query(t, d, readings))
	require.Equal(t, []string{"0"}, query(t, d, `SELECT rows FROM _towline_windows`))
}

// HU-5: a row that moves to another window belongs to the commit that came last.
func TestARowThatMovesWindowIsNotRemovedWithItsOldOne(t *testing.T) {
	d := file(t)
	commit(t, d, scope(1, day), 1, "a", "b")
	commit(t, d, scope(2, nextDay), 2, "a") // a has moved
	require.Equal(t, []string{"harbour|a|2024-03-02|2", "harbour|b|2024-03-01|1"}, query(t, d, readings))
	commit(t, d, scope(3, day), 3, "b") // its old window is read without it
	require.Equal(t, []string{"harbour|a|2024-03-02|2", "harbour|b|2024-03-01|3"}, query(t, d, readings))
	commit(t, d, scope(4, day), 4, "a", "b") // and back
	require.Equal(t, []string{"harbour|a|2024-03-01|4", "harbour|b|2024-03-01|4"}, query(t, d, readings))
	commit(t, d, scope(5, nextDay), 5)
	require.Equal(t, []string{"harbour|a|2024-03-01|4", "harbour|b|2024-03-01|4"}, query(t, d, readings))
}

// HU-5: upsert keeps what an attempt did not put.
func TestUpsertKeepsOtherRows(t *testing.T) {
	d := file(t, sqlite.Write(sqlite.Upsert))
	commit(t, d, scope(1, day), 1, "a", "b")
	commit(t, d, scope(2, day), 2, "b", "c")
	commit(t, d, scope(3, snapshot), 3)
	require.Equal(t, []string{"harbour|a|2024-03-01|1", "harbour|b|2024-03-01|2", "harbour|c|2024-03-01|2"}, query(t, d, readings))
}

// HU-5: a key that is put twice is one row, the later one; pages of an interface do overlap.
func TestTheLaterPutOfAKeyWins(t *testing.T) {
	d := file(t)
	w := open(t, d, scope(1, day))
	put(t, w, 1, "a")
	put(t, w, 2, "a")
	require.NoError(t, w.Commit(context.Background()))
	require.Equal(t, []string{"harbour|a|2024-03-01|2"}, query(t, d, readings))
	require.Equal(t, []string{"1"}, query(t, d, `SELECT rows FROM _towline_windows`))
}

// RW-6: a surface that the unit does not declare takes nothing.
func TestAnUndeclaredSurfaceIsRefused(t *testing.T) {
	d := file(t)
	w := open(t, d, scope(1, day))
	require.ErrorIs(t, w.Put(context.Background(), "secrets", "a", reading{}), sink.ErrUndeclared)
	require.Zero(t, w.Rows())
	require.NoError(t, w.Commit(context.Background()))
	require.Empty(t, query(t, d, `SELECT name FROM sqlite_schema WHERE name = 'secrets'`))
}

// HU-5: an aborted attempt leaves nothing, and its connection nothing to the next one.
func TestAbortLeavesNothing(t *testing.T) {
	d := file(t)
	for n := range 5 {
		w := open(t, d, scope(n+1, day))
		put(t, w, 1, "a")
		require.NoError(t, w.Abort())
		require.Error(t, w.Put(context.Background(), "readings", "b", reading{}))
		require.Error(t, w.Commit(context.Background()))
		require.False(t, w.Committed())
	}
	require.Empty(t, query(t, d, `SELECT name FROM sqlite_schema WHERE name = 'readings'`))
	require.Empty(t, query(t, d, `SELECT * FROM _towline_fence`))
}

// L-10: staging holds no lock and no snapshot of the destination, however long the provider works.
func TestStagingDoesNotHoldTheFile(t *testing.T) {
	d := file(t)
	commit(t, d, scope(1, day), 1, "a")
	slow := open(t, d, scope(2, day))
	put(t, slow, 2, "a", "b")
	commit(t, d, scope(2, nextDay), 2, "c")

	other := at(t, d.Path())
	require.NoError(t, other.Script(context.Background(), `CREATE TABLE mine (x)`))
	// A checkpoint can only truncate the WAL if no snapshot needs it.
	require.Equal(t, []string{"0|0|0"}, query(t, d, `PRAGMA wal_checkpoint(TRUNCATE)`))
	put(t, slow, 2, "d")
	require.NoError(t, slow.Commit(context.Background()))
	require.Len(t, query(t, d, readings), 4)
}

// HU-5: many units commit to one file at once; none is lost and none waits for ever.
func TestManyWritersShareOneFile(t *testing.T) {
	d := file(t)
	second := at(t, d.Path()) // as another process would
	var group sync.WaitGroup
	errs := make(chan error, 40)
	for i := range 40 {
		group.Go(func() {
			to := []*sqlite.Destination{d, second}[i%2]
			s := scope(i+1, day)
			s.Source = fmt.Sprint("station-", i)
			w, err := to.Open(context.Background(), s)
			if err != nil {
				errs <- err
				return
			}
			for k := range 50 {
				if err := w.Put(context.Background(), "readings", fmt.Sprint(k), reading{1}); err != nil {
					errs <- err
					return
				}
			}
			if err := w.Commit(context.Background()); err != nil {
				errs <- err
			}
		})
	}
	group.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.Equal(t, []string{"2000|40"}, query(t, d, `SELECT count(*), count(DISTINCT source) FROM readings`))
}

// HU-5: another program that holds the file delays a commit, for a bounded time and under the caller's context.
func TestABusyFileIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "readings.db")
	d, patient := at(t, path, sqlite.Wait(10*time.Millisecond)), at(t, path, sqlite.Wait(time.Hour))
	commit(t, d, scope(1, day), 1, "a")
	w, wp := open(t, d, scope(2, day)), open(t, patient, scope(1, nextDay))
	put(t, w, 2, "a")
	release := hold(t, path)

	require.ErrorContains(t, w.Commit(context.Background()), "held by another program")
	require.False(t, w.Committed())
	soon, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, wp.Commit(soon), context.DeadlineExceeded)

	release()
	require.NoError(t, w.Commit(context.Background()), "the same attempt may try again")
	require.NoError(t, wp.Commit(context.Background()))
	require.Equal(t, []string{"harbour|a|2024-03-01|2"}, query(t, d, readings))
}

// HU-5: a commit of this process waits for its turn under the caller's context, and not for ever.
func TestAWriterWaitsForItsTurn(t *testing.T) {
	inside, goOn := make(chan struct{}), make(chan struct{})
	d := file(t, sqlite.Now(func() time.Time { return day.From }))
	commit(t, d, scope(1, day), 1, "a")
	waiter := open(t, d, scope(2, day))
	put(t, waiter, 2, "a")
	var group sync.WaitGroup
	group.Go(func() {
		// A parameter that is asked for its value while the script runs holds the turn for as long as the test wants.
		_ = d.Script(context.Background(), `CREATE TABLE x AS SELECT :v`, sql.Named("v", valuerFunc(func() {
			close(inside)
			<-goOn
		})))
	})
	<-inside
	ended, cancel := context.WithCancel(context.Background())
	group.Go(cancel)
	require.ErrorIs(t, waiter.Commit(ended), context.Canceled)
	close(goOn)
	group.Wait()
	require.NoError(t, waiter.Commit(context.Background()))
}

type valuerFunc func()

func (f valuerFunc) Value() (driver.Value, error) { f(); return int64(1), nil }

// DUR-2: what was committed is on disk, in a file that readers never block.
func TestTheFileIsDurable(t *testing.T) {
	d := file(t)
	require.NoError(t, d.Script(context.Background(), `
CREATE TABLE pragmas AS
SELECT synchronous, journal_mode, foreign_keys
FROM pragma_synchronous, pragma_journal_mode, pragma_foreign_keys`))
	require.Equal(t, []string{"2|wal|1"}, query(t, d, `SELECT * FROM pragmas`))
}

// HU-5: the file itself refuses a fence that falls, whoever writes it.
func TestTheFileRefusesAFallingFence(t *testing.T) {
	d := file(t)
	commit(t, d, scope(2, day), 1, "a")
	db, err := sql.Open("sqlite", "file:"+d.Path())
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec(`UPDATE _towline_fence SET fence = '00000001.0000000000000001'`)
	require.ErrorContains(t, err, "a fence never falls")
}

// HU-5, U-16: a COMMIT that fails has committed nothing, says so, and may be tried again.
func TestACommitThatFailsIsNotCommitted(t *testing.T) {
	d := file(t)
	require.NoError(t, d.Script(context.Background(), `
CREATE TABLE stations (name TEXT PRIMARY KEY) STRICT;
CREATE TABLE readings (
	source TEXT NOT NULL REFERENCES stations DEFERRABLE INITIALLY DEFERRED, key TEXT NOT NULL, data TEXT, window TEXT NOT NULL,
	PRIMARY KEY (source, key)
) STRICT`))
	w := open(t, d, scope(1, day))
	put(t, w, 1, "a")
	require.ErrorContains(t, w.Commit(context.Background()), "FOREIGN KEY constraint failed")
	require.False(t, w.Committed())
	require.Empty(t, query(t, d, `SELECT * FROM _towline_fence`))

	require.NoError(t, d.Script(context.Background(), `INSERT INTO stations VALUES ('harbour')`))
	require.NoError(t, w.Commit(context.Background()))
	require.True(t, w.Committed())
	require.Equal(t, []string{"harbour|a|2024-03-01|1"}, query(t, d, readings))
}

// HU-5: a file that cannot be made is one clear sentence.
func TestAFolderThatIsMissing(t *testing.T) {
	d := at(t, filepath.Join(t.TempDir(), "none", "readings.db"))
	_, err := d.Open(context.Background(), scope(1, day))
	require.ErrorContains(t, err, "make it, or choose another path")
}

// HU-5: rows are never committed into a file that no path leads to any more.
func TestAReplacedFileIsNoticed(t *testing.T) {
	d := file(t)
	commit(t, d, scope(1, day), 1, "a")
	path := d.Path()
	w := open(t, d, scope(2, day))
	put(t, w, 2, "a")
	moveAway(t, path)
	require.ErrorContains(t, w.Commit(context.Background()), "not the one that the attempt began with")
	require.NoError(t, w.Abort())

	commit(t, d, scope(3, day), 3, "b") // the next attempt makes a new file
	fresh := at(t, path)
	require.Equal(t, []string{"harbour|b|2024-03-01|3"}, query(t, fresh, readings))
}

// moveAway renames a file and what belongs to it, as a backup that replaces it would.
func moveAway(t *testing.T, path string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		require.NoError(t, os.Rename(path+suffix, path+".old"+suffix))
	}
}

// HU-5: reading follows the path, to a file that was replaced by an attempt of ours or by anybody.
func TestDBReadsTheFileThatIsThere(t *testing.T) {
	d := file(t)
	commit(t, d, scope(1, day), 1, "a")
	kept, err := d.DB(context.Background())
	require.NoError(t, err)
	count := func(where string) (n int) {
		require.NoError(t, kept.QueryRow(`SELECT count(*) FROM readings WHERE key = $1`, where).Scan(&n))
		return n
	}
	require.Equal(t, 1, count("a"))

	moveAway(t, d.Path())
	_, err = d.DB(context.Background())
	require.ErrorContains(t, err, "for reading: stat", "no file is not the old file")
	commit(t, d, scope(2, day), 2, "b")
	require.Equal(t, 1, count("b"), "also who kept the value reads the new file")
	require.Zero(t, count("a"))

	require.NoError(t, os.RemoveAll(d.Path()+".old"))
	moveAway(t, d.Path())
	other := at(t, d.Path())
	commit(t, other, scope(3, day), 3, "c")
	require.Equal(t, []string{"harbour|c|2024-03-01|3"}, query(t, d, readings))
}

// HU-5: a connection that was busy while the file was replaced serves no later attempt: it would commit into the old file.
func TestAConnectionOfAReplacedFileIsNotUsedAgain(t *testing.T) {
	d := file(t)
	commit(t, d, scope(1, day), 1, "a")
	busy := open(t, d, scope(1, nextDay))
	moveAway(t, d.Path())
	commit(t, d, scope(2, day), 2, "b") // finds the new file
	first := open(t, d, scope(3, day))  // has the idle connection
	require.NoError(t, busy.Abort())
	second := open(t, d, scope(3, nextDay)) // would have that of busy
	put(t, first, 3, "b")
	put(t, second, 3, "c")
	require.NoError(t, first.Commit(context.Background()))
	require.NoError(t, second.Commit(context.Background()))
	require.Equal(t, []string{"harbour|b|2024-03-01|3", "harbour|c|2024-03-02|3"}, query(t, at(t, d.Path()), readings))
}

// HU-5: a hundred thousand rows are one transaction.
func TestAHundredThousandRows(t *testing.T) {
	const n = 100_000
	d := file(t)
	w := open(t, d, scope(1, day))
	for i := range n {
		require.NoError(t, w.Put(context.Background(), "readings", fmt.Sprintf("%06d", (i*7919)%n), reading{1}))
	}
	require.NoError(t, w.Commit(context.Background()))
	require.Equal(t, n, w.Rows())
	require.Equal(t, []string{fmt.Sprint(n)}, query(t, d, `SELECT count(*) FROM readings`))
}

// HU-5: a window that did not change is not written again.
func TestAnUnchangedWindowCostsNoWrites(t *testing.T) {
	d := file(t)
	var keys []string
	for i := range 5000 {
		keys = append(keys, fmt.Sprint(i))
	}
	commit(t, d, scope(1, day), 1, keys...)
	query(t, d, `PRAGMA wal_checkpoint(TRUNCATE)`)
	commit(t, d, scope(2, day), 1, keys...)
	wal, err := os.Stat(d.Path() + "-wal")
	require.NoError(t, err)
	require.Less(t, wal.Size(), int64(64<<10))
}

// HU-5: a second dataset cannot remove the rows of the first by replacing the same windows.
func TestTwoDatasetsCannotReplaceOneSurface(t *testing.T) {
	other := scope(2, day)
	other.Dataset = "corrections"
	d := file(t)
	commit(t, d, scope(1, day), 1, "a")
	w := open(t, d, other)
	put(t, w, 2, "b")
	require.ErrorContains(t, w.Commit(context.Background()), "would replace rows of dataset readings")
	require.Equal(t, []string{"harbour|a|2024-03-01|1"}, query(t, d, readings))

	shared := file(t, sqlite.Write(sqlite.Upsert))
	commit(t, shared, scope(1, day), 1, "a")
	commit(t, shared, other, 2, "b")
	require.Len(t, query(t, shared, readings), 2)
}

// HU-5: SQLite does not tell the cases of a table's name apart, so two datasets that do cannot remove each other's rows.
func TestTwoDatasetsCannotReplaceOneTableInTwoCases(t *testing.T) {
	d := file(t)
	in := func(dataset, surface string, n int) sink.Scope {
		s := scope(n, day)
		s.Dataset, s.Surfaces = dataset, []string{surface}
		return s
	}
	first := open(t, d, in("readings", "Rows", 1))
	require.NoError(t, first.Put(context.Background(), "Rows", "a", reading{1}))
	require.NoError(t, first.Commit(context.Background()))

	second := open(t, d, in("corrections", "rows", 2))
	require.NoError(t, second.Put(context.Background(), "rows", "b", reading{2}))
	require.ErrorContains(t, second.Commit(context.Background()), "dataset corrections would replace rows of dataset readings")
	require.Equal(t, []string{"a"}, query(t, d, `SELECT key FROM rows`))

	renamed := open(t, d, in("readings", "ROWS", 3)) // one dataset may change the case
	require.NoError(t, renamed.Put(context.Background(), "ROWS", "c", reading{3}))
	require.NoError(t, renamed.Commit(context.Background()))
	require.Equal(t, []string{"c"}, query(t, d, `SELECT key FROM rows`))
}

// CFG: names that differ in case only are one table, and a unit that takes them for two is refused.
func TestSurfacesThatDifferInCaseAreRefused(t *testing.T) {
	s := scope(1, day)
	s.Surfaces = []string{"readings", "Readings"}
	_, err := file(t).Open(context.Background(), s)
	require.ErrorContains(t, err, `surfaces "readings" and "Readings" are one table to SQLite`)

	s.Surfaces = []string{"COMMITS"}
	_, err = file(t, sqlite.Tables(commits)).Open(context.Background(), s)
	require.ErrorContains(t, err, `surfaces "commits" and "COMMITS" are one table to SQLite`)

	upper := commits
	upper.Name = "Commits"
	_, err = file(t, sqlite.Tables(commits, upper)).Open(context.Background(), s)
	require.ErrorContains(t, err, "table Commits is declared twice")

	d := file(t)
	s.Surfaces = []string{"readings", "readings", "é", "É"} // named twice is named; É is another letter to SQLite
	w := open(t, d, s)
	put(t, w, 1, "a")
	require.NoError(t, w.Commit(context.Background()))
	require.Equal(t, []string{"1"}, query(t, d, `SELECT rows FROM _towline_windows`))
}

// RW-6: a surface cannot name a table of the sink or of SQLite.
func TestReservedNamesAreRefused(t *testing.T) {
	d := file(t)
	for _, name := range []string{"", "_towline_fence", "_TOWLINE_x", "sqlite_schema"} {
		s := scope(1, day)
		s.Surfaces = []string{name}
		_, err := d.Open(context.Background(), s)
		require.ErrorContains(t, err, "cannot be a table", name)
	}
	s := scope(1, day)
	s.Fence = ""
	_, err := d.Open(context.Background(), s)
	require.ErrorContains(t, err, "must all be given")
}

// HU-5: any path is a file name, whatever it means in an address, and any surface a table.
func TestOddNamesWork(t *testing.T) {
	d := at(t, filepath.Join(t.TempDir(), "a b%20c?mode=ro#x&y.db"))
	s := scope(1, day)
	s.Surfaces = []string{`sélect "from" 50% %[1]s`}
	w := open(t, d, s)
	require.NoError(t, w.Put(context.Background(), s.Surfaces[0], "a", reading{1}))
	require.NoError(t, w.Commit(context.Background()))
	_, err := os.Stat(d.Path())
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, query(t, d, `SELECT key FROM "sélect ""from"" 50% %[1]s"`))
}
