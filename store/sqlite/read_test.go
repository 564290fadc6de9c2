package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// DUR-4, HC-24: a query that runs when its snapshot is too old is interrupted, with an error that says so. The
// connection is as good as before.
func TestALongQueryIsInterrupted(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{maxReadAge: 20 * time.Millisecond})
	require.NoError(t, appendNext(s, 1))
	for range maxReaders + 1 {
		err := s.Read(context.Background(), func(r store.Reader) error {
			const endless = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n`
			return r.Query(func(store.Row) error { return nil }, endless)
		})
		require.ErrorIs(t, err, errReadTooLong)
	}
	require.Len(t, readAll(t, s), 1)
}

// DUR-4, HC-24: a reader that does nothing loses its snapshot just the same, so that the WAL can start over; Log, which
// holds none, goes on.
func TestAnIdleReaderLosesItsSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
		require.NoError(t, appendNext(s, 1))
		require.NoError(t, s.Read(context.Background(), func(r store.Reader) error {
			begun := time.Now()
			_, _, err := r.Head()
			require.NoError(t, err)
			<-r.(*reader).age.Done()
			require.Equal(t, maxReadAge, time.Since(begun))
			_, _, err = r.Head()
			require.ErrorIs(t, err, errReadTooLong)
			_, err = r.Stream(unit(1))
			require.ErrorIs(t, err, errReadTooLong)
			n := 0
			for _, err := range r.Log(context.Background(), 0) {
				require.NoError(t, err)
				n++
			}
			require.Equal(t, 1, n)

			require.NoError(t, appendNext(s, 2))
			var busy, inWAL, copied int
			require.NoError(t, s.DB().QueryRow(`PRAGMA wal_checkpoint(PASSIVE)`).Scan(&busy, &inWAL, &copied))
			require.Equal(t, inWAL, copied, "nobody holds the WAL back")
			return nil
		}))
	})
}

// A caller's context ends its read, also one that waits for a connection; the connections come back.
func TestAReadEndsWithItsContext(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	gate, begun, done := make(chan struct{}), make(chan error), make(chan error)
	for range maxReaders {
		go func() {
			done <- s.Read(context.Background(), func(r store.Reader) error {
				_, _, err := r.Head()
				begun <- err
				<-gate
				return err
			})
		}()
	}
	for range maxReaders {
		require.NoError(t, <-begun)
	}
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, s.Read(ctx, func(r store.Reader) error {
		cancel()
		_, _, err := r.Head()
		require.ErrorIs(t, err, context.Canceled)
		return nil
	}))
	require.Empty(t, readAll(t, s), "pages of the log need no snapshot, and wait for none")
	close(gate)
	for range maxReaders {
		require.NoError(t, <-done)
	}
	require.Empty(t, readAll(t, s))
}

// Close ends the reads in progress.
func TestCloseInterruptsReads(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	require.NoError(t, appendNext(s, 1))
	begun, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- s.Read(context.Background(), func(r store.Reader) error {
			const endless = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n`
			first := true
			return r.Query(func(store.Row) error {
				if first {
					first = false
					close(begun)
				}
				return nil
			}, endless)
		})
	}()
	<-begun
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-done, store.ErrClosed)
}

// L-7, HC-25: an event that this release cannot read stops the reader, with its position and the reason.
func TestUnreadableEventsNameTheirPosition(t *testing.T) {
	for name, tt := range map[string]struct {
		stream, data string
		kind, schema int
		cause        error
	}{
		"unknown type":   {"X'03000000000000000000000000000000ff'", "{}", 59999, 1, events.ErrUnknownType},
		"newer schema":   {"X'03000000000000000000000000000000ff'", "{}", int(events.TypeJobLinked), 99, events.ErrNewerSchema},
		"damaged JSON":   {"X'03000000000000000000000000000000ff'", `{"run_id":`, int(events.TypeJobLinked), 1, nil},
		"unknown family": {"X'ff000000000000000000000000000000ff'", "{}", int(events.TypeJobLinked), 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
			require.NoError(t, appendNext(s, 0))
			_, err := s.DB().Exec(fmt.Sprintf(`INSERT INTO events (position, tx, stream, version, at, type, schema, data)
				SELECT 2, 2, %s, 1, at, %d, %d, '%s' FROM events WHERE position = 1`, tt.stream, tt.kind, tt.schema, tt.data))
			require.NoError(t, err)
			require.NoError(t, appendNext(s, 1), "it does not stop those who do not read it")

			check := func(err error) {
				t.Helper()
				var unreadable *events.DecodeError
				require.ErrorAs(t, err, &unreadable)
				require.EqualValues(t, 2, unreadable.Position)
				require.EqualValues(t, tt.kind, unreadable.Type)
				require.EqualValues(t, tt.schema, unreadable.Schema)
				require.ErrorContains(t, err, "event at position 2")
				if tt.cause != nil {
					require.ErrorIs(t, err, tt.cause)
				}
			}
			both := func(r store.ReadTx) {
				t.Helper()
				_, err := r.After(0, 10)
				check(err)
				page, err := r.After(2, 10)
				require.NoError(t, err)
				require.Len(t, page, 1)
			}
			require.NoError(t, s.Read(context.Background(), func(r store.Reader) error {
				both(r)
				var read []events.Position
				var failed error
				for e, err := range r.Log(context.Background(), 0) {
					if failed = err; err == nil {
						read = append(read, e.Position)
					}
				}
				require.Equal(t, []events.Position{1}, read)
				check(failed)
				return nil
			}))
			require.NoError(t, s.Write(context.Background(), func(tx store.Tx) error {
				both(tx)
				return nil
			}), "an event that cannot be read is no fault of the connection")
		})
	}
}

// HC-25: a node position that leads nowhere is damage, and has a position, too.
func TestANodeThatNeverStarted(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	require.NoError(t, appendNext(s, 0))
	_, err := s.DB().Exec(`INSERT INTO events (position, tx, stream, version, at, type, schema, node, data)
		SELECT 2, 2, stream, 2, at, type, schema, 1, data FROM events WHERE position = 1`)
	require.NoError(t, err)
	err = s.Read(context.Background(), func(r store.Reader) error {
		_, err := r.Stream(unit(1))
		return err
	})
	var unreadable *events.DecodeError
	require.ErrorAs(t, err, &unreadable)
	require.EqualValues(t, 2, unreadable.Position)
}

// ReadTx: the rows of a query are for scanning only; to use the transaction meanwhile is a bug that shows at once.
func TestUseWhileRowsAreOpen(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	nested := func(q store.ReadTx) error {
		return q.Query(func(store.Row) error {
			_, _, err := q.Head()
			return err
		}, `SELECT 1`)
	}
	require.Panics(t, func() { _ = s.Read(context.Background(), func(r store.Reader) error { return nested(r) }) })
	require.Panics(t, func() { _ = s.Write(context.Background(), func(tx store.Tx) error { return nested(tx) }) })
	require.NoError(t, appendNext(s, 1))
	require.Len(t, readAll(t, s), 1)
}

// Tx: a transaction that is kept is used outside of its commit, which is never right.
func TestUseAfterTheEnd(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	var kept store.Tx
	require.NoError(t, s.Write(context.Background(), func(tx store.Tx) error {
		kept = tx
		return nil
	}))
	require.Panics(t, func() { _ = kept.Exec(`SELECT 1`) })
	require.Panics(t, func() { _ = appendTo(unit(1), 0, renewed(1))(kept) })
	require.NoError(t, s.Read(context.Background(), func(r store.Reader) error {
		_, _, err := r.Head()
		return err
	}))
	require.False(t, errors.Is(appendNext(s, 1), store.ErrUnavailable))
}
