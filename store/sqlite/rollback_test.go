package sqlite

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// L-2, L-9: a statement may ask SQLite to roll back the whole transaction when it fails, and with it the commit. Nothing
// of what its transaction did before or does later reaches the file, also when it ignores the error, and who shares the
// commit notices nothing.
func TestAStatementThatRollsBack(t *testing.T) {
	const taken = ` INTO t VALUES (1)`
	for name, tt := range map[string]struct{ setup, fails string }{
		"OR ROLLBACK":          {`CREATE TABLE t (n INTEGER PRIMARY KEY)`, `INSERT OR ROLLBACK` + taken},
		"ON CONFLICT ROLLBACK": {`CREATE TABLE t (n INTEGER PRIMARY KEY ON CONFLICT ROLLBACK)`, `INSERT` + taken},
		"RAISE(ROLLBACK)": {`CREATE TABLE t (n INTEGER);
			CREATE TRIGGER no BEFORE INSERT ON t WHEN EXISTS (SELECT 1 FROM t WHERE n = NEW.n)
			BEGIN SELECT RAISE(ROLLBACK, 'it is there'); END`, `INSERT` + taken},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
			_, err := s.DB().Exec(tt.setup + `; INSERT` + taken)
			require.NoError(t, err)
			guilty := func(ignores bool) func(store.Tx) error {
				return func(tx store.Tx) error {
					require.NoError(t, tx.Exec(`INSERT INTO t VALUES (2)`))
					require.NoError(t, appendTo(unit(2), 0, renewed(1))(tx))
					first := tx.Exec(tt.fails)
					require.ErrorIs(t, first, store.ErrRolledBack)
					require.NotErrorIs(t, first, store.ErrUnavailable, "the same call fails again")
					require.Equal(t, first, tx.Exec(`INSERT INTO t VALUES (3)`))
					require.Equal(t, first, appendTo(unit(3), 0, renewed(1))(tx))
					if ignores {
						return nil
					}
					return first
				}
			}
			innocent := func(n int) func(store.Tx) error {
				return func(tx store.Tx) error {
					if err := tx.Exec(`INSERT INTO t VALUES ($1)`, 10*n); err != nil {
						return err
					}
					return appendTo(events.RunStream(events.RunID{15: byte(n)}), 0, renewed(1))(tx)
				}
			}
			for _, ignores := range []bool{true, false} {
				require.ErrorIs(t, s.Write(context.Background(), guilty(ignores)), store.ErrRolledBack, "alone")
			}
			require.Equal(t, []int{1}, rowsOf(t, s))

			ends := grouped(t, s, innocent(1), guilty(true), innocent(2), guilty(false), innocent(3))
			for i, err := range ends {
				if i%2 == 0 {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, store.ErrRolledBack)
				}
			}
			require.Equal(t, []int{1, 10, 20, 30}, rowsOf(t, s))
			require.Len(t, readAll(t, s), 3)
		})
	}
}

func rowsOf(t *testing.T, s *Store) (out []int) {
	t.Helper()
	require.NoError(t, s.Read(context.Background(), func(r store.Reader) error {
		return r.Query(func(row store.Row) error {
			out = append(out, 0)
			return row.Scan(&out[len(out)-1])
		}, `SELECT n FROM t ORDER BY n`)
	}))
	return out
}

// grouped writes transactions that queue behind one that is held, so that they share a commit.
func grouped(t *testing.T, s *Store, fns ...func(store.Tx) error) []error {
	t.Helper()
	entered, gate := make(chan struct{}), make(chan struct{})
	held := make(chan error, 1)
	go func() {
		held <- s.Write(context.Background(), func(store.Tx) error {
			close(entered)
			<-gate
			return nil
		})
	}()
	<-entered
	ends := make([]error, len(fns))
	done := make(chan struct{})
	for i, fn := range fns {
		go func() {
			ends[i] = s.Write(context.Background(), fn)
			done <- struct{}{}
		}()
		awaitQueued(s, i+1)
	}
	close(gate)
	require.NoError(t, <-held)
	for range fns {
		<-done
	}
	return ends
}
