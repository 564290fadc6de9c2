package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

func makeNotes(t *testing.T, s store.Store) {
	t.Helper()
	write(t, s, func(tx store.Tx) error {
		return tx.Exec(`CREATE TABLE notes (name TEXT PRIMARY KEY, n BIGINT NOT NULL, remark TEXT)`)
	})
}

func note(tx store.Tx, name string, n int) error {
	return tx.Exec(`INSERT INTO notes (name, n) VALUES ($1, $2)`, name, n)
}

func notes(t *testing.T, s store.Store) (names []string) {
	t.Helper()
	require.NoError(t, s.Read(context.Background(), func(r store.Reader) (err error) {
		names, err = queryNotes(r)
		return err
	}))
	return names
}

func queryNotes(q store.ReadTx) (names []string, err error) {
	err = q.Query(func(row store.Row) error {
		var name string
		err := row.Scan(&name)
		names = append(names, name)
		return err
	}, `SELECT name FROM notes ORDER BY name`)
	return names, err
}

// L-2: tables beside the log change in the same transaction, seen by it at once and by others when it has committed.
func testTables(t *testing.T, open opener) {
	s := open.fresh(t)
	makeNotes(t, s)
	sees := func(tx store.Tx, want ...string) {
		t.Helper()
		names, err := queryNotes(tx)
		require.NoError(t, err)
		require.Equal(t, want, names)
	}
	ends := group(t, s,
		func(tx store.Tx) error {
			require.NoError(t, note(tx, "a", 1))
			sees(tx, "a")
			return nil
		},
		func(tx store.Tx) error {
			sees(tx, "a")
			require.NoError(t, tx.Exec(`UPDATE notes SET name = $2 WHERE name = $1`, "a", "z"))
			require.NoError(t, note(tx, "b", 1))
			sees(tx, "b", "z")
			return errUndo
		},
		func(tx store.Tx) error {
			sees(tx, "a")
			return note(tx, "c", 1)
		})
	require.NoError(t, ends[0].err)
	require.ErrorIs(t, ends[1].err, errUndo)
	require.NoError(t, ends[2].err)
	require.Equal(t, []string{"a", "c"}, notes(t, s))

	// A statement that fails undoes itself; its transaction decides whether it goes on.
	write(t, s, func(tx store.Tx) error {
		require.NoError(t, note(tx, "d", 1))
		require.Error(t, note(tx, "a", 2))
		require.Error(t, tx.Exec(`INSERT INTO nowhere VALUES (1)`))
		return note(tx, "e", 1)
	})
	require.Equal(t, []string{"a", "c", "d", "e"}, notes(t, s))

	// A table that was made and undone is gone, and can be made again.
	schema := `CREATE TABLE other (a BIGINT PRIMARY KEY); CREATE INDEX other_a ON other (a)`
	require.ErrorIs(t, s.Write(context.Background(), func(tx store.Tx) error {
		require.NoError(t, tx.Exec(schema))
		return errUndo
	}), errUndo)
	write(t, s, func(tx store.Tx) error {
		require.NoError(t, tx.Exec(schema))
		return tx.Exec(`INSERT INTO other (a) VALUES ($1)`, 1)
	})
	write(t, s, func(tx store.Tx) error { return tx.Exec(`DROP TABLE other`) })
}

// ReadTx: $1 placeholders in any order and more than once; nulls; the error of scan ends the query and is returned.
func testQuery(t *testing.T, open opener) {
	s := open.fresh(t)
	makeNotes(t, s)
	check := func(q store.ReadTx) {
		t.Helper()
		type row struct {
			name   string
			n      int64
			remark *string
		}
		var rows []row
		scan := func(r store.Row) error {
			var x row
			err := r.Scan(&x.name, &x.n, &x.remark)
			rows = append(rows, x)
			return err
		}
		const query = `SELECT name, n, remark FROM notes WHERE n > $2 AND name <> $1 AND (n < $3 OR n > $2) ORDER BY n`
		require.NoError(t, q.Query(scan, query, "b", 1, 100))
		require.Len(t, rows, 2)
		require.Equal(t, "why", *rows[0].remark)
		require.Nil(t, rows[1].remark)
		require.EqualValues(t, 4, rows[1].n)

		stop := errors.New("stop")
		calls := 0
		require.ErrorIs(t, q.Query(func(store.Row) error { calls++; return stop }, query, "b", 1, 100), stop)
		require.Equal(t, 1, calls)
		require.NoError(t, q.Query(func(store.Row) error { calls++; return nil }, query, "b", 100, 100))
		require.Equal(t, 1, calls, "no rows")
		require.Error(t, q.Query(func(store.Row) error { return nil }, `SELECT nothing FROM nowhere`))
		require.Error(t, q.Query(func(store.Row) error { return nil }, `DELETE FROM notes`), "a query only reads")
	}
	write(t, s, func(tx store.Tx) error {
		for i, name := range []string{"a", "b", "c", "d"} {
			require.NoError(t, note(tx, name, i+1))
		}
		require.NoError(t, tx.Exec(`UPDATE notes SET remark = $1 WHERE name = $2`, "why", "c"))
		check(tx)
		return nil
	})
	require.NoError(t, s.Read(context.Background(), func(r store.Reader) error {
		check(r)
		return nil
	}))
	require.Equal(t, []string{"a", "b", "c", "d"}, notes(t, s))
}

// DUR-4: a read is one snapshot, events and tables, whatever is written meanwhile.
func testSnapshot(t *testing.T, open opener) {
	s := open.fresh(t)
	makeNotes(t, s)
	write(t, s, both(1, nil))
	require.NoError(t, s.Read(context.Background(), func(r store.Reader) error {
		check := func() {
			t.Helper()
			p, at, err := r.Head()
			require.NoError(t, err)
			require.EqualValues(t, 1, p)
			require.NotZero(t, at)
			page, err := r.After(0, 100)
			require.NoError(t, err)
			require.Len(t, page, 1)
			require.Equal(t, at, page[0].At)
			history, err := r.Stream(unit(2))
			require.NoError(t, err)
			require.Empty(t, history)
			names, err := queryNotes(r)
			require.NoError(t, err)
			require.Equal(t, []string{"1"}, names)
		}
		check()
		write(t, s, both(2, nil))
		check()
		return nil
	}))
	require.Len(t, readLog(t, s), 2)
	require.Equal(t, []string{"1", "2"}, notes(t, s))
	require.ErrorIs(t, s.Read(context.Background(), func(store.Reader) error { return errUndo }), errUndo)
}

// DUR-4: readers, also many and idle ones, never block the writer, and a writer that is at work blocks no reader.
func testReadBlocksNobody(t *testing.T, open opener) {
	s := open.fresh(t)
	write(t, s, appendTo(unit(1), 0, renewed(1)))
	gate, openGate := newGate(t)
	const readers = 3
	begun, done := make(chan error, readers), make(chan error, readers)
	for range readers {
		go func() {
			done <- s.Read(context.Background(), func(r store.Reader) error {
				_, _, err := r.Head()
				begun <- err
				<-gate
				return err
			})
		}()
	}
	for range readers {
		require.NoError(t, receive(t, begun))
	}
	for n := range byte(20) {
		write(t, s, appendTo(unit(n+2), 0, renewed(1)))
	}
	release := hold(t, s)
	require.Len(t, readLog(t, s), 21)
	release()
	openGate()
	for range readers {
		require.NoError(t, receive(t, done))
	}
}

// WMILL-2, HC-24: Log reads from any position to the end, in pages, and sees what was appended while it read.
func testLog(t *testing.T, open opener) {
	const n = 3500
	s := open.fresh(t)
	grow := func(from int) {
		write(t, s, func(tx store.Tx) error {
			for i := from; i < from+n/2; i++ {
				if err := appendTo(unit(byte(i%10)), events.Version(i/10), renewed(i))(tx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	grow(0)
	grow(n / 2)
	for _, after := range []events.Position{0, 1, 999, 1000, 1001, n - 1, n, n + 5} {
		read := after
		require.NoError(t, s.Read(context.Background(), func(r store.Reader) error {
			for e, err := range r.Log(context.Background(), after) {
				require.NoError(t, err)
				read++
				require.Equal(t, read, e.Position)
				require.Equal(t, renewed(int(read)-1), e.Event)
			}
			return nil
		}))
		require.Equal(t, max(after, n), read)
	}

	seen := 0
	require.NoError(t, s.Read(context.Background(), func(r store.Reader) error {
		for _, err := range r.Log(context.Background(), 0) {
			require.NoError(t, err)
			if seen++; seen == 10 {
				grow(n)
			}
		}
		return nil
	}))
	require.Equal(t, n+n/2, seen)
}

// DUR-4: a reader of the log may stop at any event, and its context ends it.
func testLogEndsEarly(t *testing.T, open opener) {
	const n = 2500
	s := open.fresh(t)
	write(t, s, func(tx store.Tx) error {
		evs := make([]events.Event, n)
		for i := range evs {
			evs[i] = renewed(i)
		}
		return appendTo(unit(1), 0, evs...)(tx)
	})
	for _, stop := range []int{1, 999, 1000, 1001, n} {
		read := 0
		require.NoError(t, s.Read(context.Background(), func(r store.Reader) error {
			for _, err := range r.Log(context.Background(), 0) {
				require.NoError(t, err)
				if read++; read == stop {
					break
				}
			}
			return nil
		}))
		require.Equal(t, stop, read)
	}
	ctx, cancel := context.WithCancel(context.Background())
	read := 0
	var failed error
	require.NoError(t, s.Read(context.Background(), func(r store.Reader) error {
		for _, err := range r.Log(ctx, 0) {
			if err != nil {
				failed = err
				continue // and yet nothing comes behind an error
			}
			if read++; read == 10 {
				cancel()
			}
		}
		return nil
	}))
	require.ErrorIs(t, failed, context.Canceled)
	require.Less(t, read, n)
}

// A closed store refuses, and closing it twice is no error.
func testClosed(t *testing.T, open opener) {
	s := open.fresh(t)
	write(t, s, appendTo(unit(1), 0, renewed(1)))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	ran := func() error { t.Error("a closed store ran something"); return nil }
	require.ErrorIs(t, s.Write(context.Background(), func(store.Tx) error { return ran() }), store.ErrClosed)
	require.ErrorIs(t, s.Read(context.Background(), func(store.Reader) error { return ran() }), store.ErrClosed)
}

// Close waits for the commit in progress. What waits behind it has not happened, and is told so.
func testCloseAnswers(t *testing.T, open opener) {
	dir := t.TempDir()
	s := open.at(t, Options{Dir: dir})
	entered := make(chan struct{})
	gate, openGate := newGate(t)
	running := writeOn(context.Background(), s, func(tx store.Tx) error {
		close(entered)
		<-gate
		return appendTo(unit(1), 0, renewed(1))(tx)
	})
	receive(t, entered)
	waiting := writeOn(context.Background(), s, appendTo(unit(2), 0, renewed(1)))
	awaitQueued(t, s, 1)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	require.ErrorIs(t, receive(t, waiting).err, store.ErrClosed)
	select {
	case <-closed:
		require.Fail(t, "closed in the middle of a commit")
	default:
	}
	openGate()
	require.NoError(t, receive(t, running).err)
	require.NoError(t, receive(t, closed))
	require.Len(t, readLog(t, open.at(t, Options{Dir: dir})), 1)
}
