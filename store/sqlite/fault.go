package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/towline-dev/towline/store"
)

// Fault is that the disk has refused a commit, and that none has succeeded since.
type Fault struct {
	Err   error
	Since time.Time // of the first that it refused
}

// Fault is the one that stands; nil: the newest commit that had something to write has succeeded, or there was none.
func (s *Store) Fault() *Fault { return s.writer.fault.Load() }

// ended notes how a commit has ended that had something to write.
func (w *writer) ended(err error) {
	switch {
	case err == nil:
		w.fault.Store(nil)
	case errors.Is(classify(err), store.ErrUnavailable):
		f := Fault{Err: err, Since: time.Now()}
		if old := w.fault.Load(); old != nil {
			f.Since = old.Since
		}
		w.fault.Store(&f)
	}
}

// tryBytes is how much room there must be again: some hundred commits. A full disk has the last few bytes left most often, and
// what a refused commit has taken of the WAL it keeps; so a commit of one page says nothing.
const tryBytes = 1 << 20

// Try asks the disk whether it takes commits again, by a file beside the store that is removed at once, and by a commit that
// changes nothing. That commit ends the Fault if it succeeds. Errors: what the disk said, which wraps ErrUnavailable.
func (s *Store) Try(ctx context.Context) error {
	if err := tryRoom(s.path); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return s.Write(ctx, func(some store.Tx) error {
		t, ok := some.(*tx)
		if !ok {
			return nil // no writer of this store
		}
		// The header is written with the level that it has: the least that is a commit.
		return t.execOwn(fmt.Sprintf("PRAGMA user_version(%d)", s.level))
	})
}

func tryRoom(path string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+trySuffix+"*")
	if err != nil {
		return err
	}
	_ = os.Remove(f.Name()) // nobody sees it, and a kill leaves nothing; a system that keeps open files removes it below
	defer func() {
		err = errors.Join(err, f.Close())
		_ = os.Remove(f.Name())
	}()
	if _, err := f.Write(make([]byte, tryBytes)); err != nil {
		return err
	}
	return f.Sync()
}

const trySuffix = "-try-"
