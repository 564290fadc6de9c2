package sink_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/dbtest"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// place is a database of its own.
type place struct {
	db    *sql.DB
	write string // a value of a source and a day
}

const (
	upsert   = `INSERT INTO mine (source, day, value) VALUES ($1, $2, $3) ON CONFLICT (source, day) DO UPDATE SET value = excluded.value`
	upsertMy = `INSERT INTO mine (source, day, value) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE value = VALUES(value)`
)

// databases are those that Guard knows.
var databases = map[string]func(t testing.TB) place{
	"SQLite": func(t testing.TB) place {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "mine.db")+"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		return place{db, upsert}
	},
	"PostgreSQL": func(t testing.TB) place { return place{dbtest.PostgreSQL(t), upsert} },
	"MariaDB":    func(t testing.TB) place { return place{dbtest.MariaDB(t), upsertMy} },
}

// open is a database with the table of Guard and one to write to.
func open(t testing.TB, name string) place {
	t.Helper()
	p := databases[name](t)
	for range 2 {
		dbtest.Exec(t, p.db, sink.GuardSchema)
	}
	dbtest.Exec(t, p.db, `CREATE TABLE mine (source VARCHAR(50), day VARCHAR(50), value INTEGER, PRIMARY KEY (source, day))`)
	return p
}

// onEach runs a test on every database.
func onEach(t *testing.T, test func(*testing.T, place)) {
	for _, name := range []string{"SQLite", "PostgreSQL", "MariaDB"} {
		t.Run(name, func(t *testing.T) { test(t, open(t, name)) })
	}
}

var (
	day     = events.NewWindow(time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC), time.Date(2024, 3, 2, 0, 0, 0, 0, time.UTC))
	nextDay = events.NewWindow(day.To, day.To.AddDate(0, 0, 1))
)

// attempt is the unit of attempt n. A higher n has a higher fence.
func attempt(n int, w events.Window) provider.Unit {
	return provider.Unit{
		Run: events.RunID{15: 1}, ID: events.UnitID{15: 2}, Source: "harbour", Dataset: "readings", Window: w, Attempt: n,
		Fence: events.NewFence(1, events.Position(n)),
	}
}

func of(store string, u provider.Unit) provider.Unit {
	u.Store = store
	return u
}

// replace is what a provider does: its window, in one transaction. hold is called before the commit.
func (p place) replace(u provider.Unit, hold func()) error {
	tx, err := p.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := sink.Guard(context.Background(), tx, u.Scope()); err != nil {
		return err
	}
	if _, err := tx.Exec(p.write, u.Source, u.Window.Name(), u.Attempt); err != nil {
		return err
	}
	if hold != nil {
		hold()
	}
	return tx.Commit()
}

func (p place) shows(t testing.TB, want ...string) {
	t.Helper()
	rows, err := p.db.Query(`SELECT source, day, value FROM mine ORDER BY source, day, value`)
	require.NoError(t, err)
	defer rows.Close()
	var got []string
	for rows.Next() {
		var source, day string
		var value int
		require.NoError(t, rows.Scan(&source, &day, &value))
		got = append(got, fmt.Sprint(source, " ", day, " ", value))
	}
	require.NoError(t, rows.Err())
	require.Equal(t, want, got)
}

// HU-5: an attempt that a newer one has overtaken is refused in the transaction of its write; an equal fence is the attempt
// itself; other windows and sources have fences of their own.
func TestGuardRefusesAnOlderAttempt(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		require.NoError(t, p.replace(attempt(2, day), nil))
		require.NoError(t, p.replace(attempt(2, day), nil))
		require.NoError(t, p.replace(attempt(1, nextDay), nil))
		err := p.replace(attempt(1, day), nil)
		require.ErrorIs(t, err, sink.ErrFenced)
		require.ErrorContains(t, err, "guard harbour/readings/2024-03-01")
		require.ErrorContains(t, err, "attempt 2")
		for _, source := range []string{"Harbour", "harbour ", "härbour"} { // some databases take them for the same
			other := attempt(1, day)
			other.Source = source
			tx, err := p.db.Begin()
			require.NoError(t, err)
			require.NoError(t, sink.Guard(context.Background(), tx, other.Scope()), source)
			require.NoError(t, tx.Commit())
		}
		restored := attempt(1, day)
		restored.Fence = events.NewFence(2, 1)
		require.NoError(t, p.replace(restored, nil))
		require.ErrorIs(t, p.replace(attempt(3, day), nil), sink.ErrFenced)
		p.shows(t, "harbour 2024-03-01 1", "harbour 2024-03-02 1")
	})
}

// HU-5: the fence is kept or undone with the rows.
func TestGuardIsPartOfItsTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		require.NoError(t, p.replace(attempt(1, day), nil))
		tx, err := p.db.Begin()
		require.NoError(t, err)
		require.NoError(t, sink.Guard(context.Background(), tx, of("one", attempt(9, day)).Scope()))
		require.NoError(t, tx.Rollback())
		require.NoError(t, p.replace(of("two", attempt(2, day)), nil))
		p.shows(t, "harbour 2024-03-01 2")
	})
}

// HU-5: while the transaction of an attempt is open another one waits, and then learns which of them is the newer.
func TestGuardsMeet(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		for n := 1; n < 30; n += 3 {
			for _, first := range []int{n, n + 1} { // the older one holds the row first, then the newer
				second := 2*n + 1 - first
				began := make(chan struct{})
				var group sync.WaitGroup
				var errSecond error
				group.Go(func() {
					<-began
					errSecond = p.replace(of("one", attempt(second, day)), nil)
				})
				errFirst := p.replace(of("one", attempt(first, day)), func() { close(began) })
				group.Wait()
				if first < second {
					require.NoError(t, errFirst)
					require.NoError(t, errSecond)
				} else {
					require.NoError(t, errFirst, "it has written this before")
					require.ErrorIs(t, errSecond, sink.ErrFenced)
				}
				p.shows(t, fmt.Sprintf("harbour 2024-03-01 %d", n+1))
			}
		}
	})
}

// HU-5: attempts at other windows of the same dataset do not wait for each other, from the first on behind the one that
// made the dataset its own.
func TestGuardsOfOtherWindowsDoNotWait(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		require.NoError(t, p.replace(of("one", attempt(1, day)), nil))
		if _, err := p.db.Exec(`SELECT version()`); err != nil {
			t.Skip("SQLite has one writer at a time")
		}
		require.NoError(t, p.replace(of("one", attempt(2, day)), func() {
			require.NoError(t, p.replace(of("one", attempt(2, nextDay)), nil))
		}))
		p.shows(t, "harbour 2024-03-01 2", "harbour 2024-03-02 2")
	})
}

// HU-5: many attempts at new windows of a new dataset at once are all kept.
func TestManyGuardsAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		const n = 16
		var group sync.WaitGroup
		errs := make([]error, n)
		for i := range n {
			group.Go(func() {
				from := day.From.AddDate(0, 0, i)
				errs[i] = p.replace(of("one", attempt(i+1, events.NewWindow(from, from.AddDate(0, 0, 1)))), nil)
			})
		}
		group.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		var rows int
		require.NoError(t, p.db.QueryRow(`SELECT count(*) FROM mine`).Scan(&rows))
		require.Equal(t, n, rows)
	})
}

// HU-5: a dataset belongs to the store that has written it; another one is refused with an error of its own, at every
// window. A store that is not known is compared by its fence.
func TestGuardKnowsItsStore(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		require.NoError(t, p.replace(attempt(5, day), nil))
		require.ErrorIs(t, p.replace(of("one", attempt(4, day)), nil), sink.ErrFenced)
		require.NoError(t, p.replace(of("one", attempt(6, day)), nil))
		for _, w := range []events.Window{day, nextDay, {To: day.To}} {
			err := p.replace(of("two", attempt(9, w)), nil)
			require.ErrorIs(t, err, sink.ErrForeign)
			require.NotErrorIs(t, err, sink.ErrFenced)
			require.ErrorContains(t, err, "delete its rows of towline_fences")
		}
		require.ErrorIs(t, p.replace(attempt(5, day), nil), sink.ErrFenced)
		dbtest.Exec(t, p.db, `DELETE FROM towline_fences WHERE store = 'one'`)
		require.NoError(t, p.replace(of("two", attempt(1, day)), nil))
		p.shows(t, "harbour 2024-03-01 1")
	})
}

// HU-5: what cannot be guarded is refused with the fix.
func TestGuardsThatAreRefused(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		dbtest.Exec(t, p.db, `DROP TABLE towline_fences`)
		require.ErrorContains(t, p.replace(attempt(1, day), nil), "sink.GuardSchema makes it")
		require.ErrorContains(t, p.replace(of("one", attempt(1, day)), nil), "sink.GuardSchema makes it")
		none := attempt(1, day)
		none.Fence = ""
		require.ErrorContains(t, p.replace(none, nil), "use the scope of the unit")
		p.shows(t)
	})
}
