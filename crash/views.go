package crash

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/towline-dev/towline/sim"
)

// differences compares the views of a world with the fold of its log, which is made in a store of its own. Contradictions of
// the log are found by the judge, which knows which of them were there before.
func differences(ctx context.Context, w *sim.World, path string) (out []string, err error) {
	empty, err := emptyStore()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(path, empty, 0o600); err != nil {
		return nil, err
	}
	scratch, err := openScratch(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, scratch.Close(), removeStore(path)) }()
	err = guarded(func() error {
		found, err := w.Engine().Verify(ctx, scratch)
		out = found.Differences
		return err
	})
	return out, err
}

// emptyStore is the file of a new store. A copy of it takes a tenth of the time that a new one takes.
var emptyStore = sync.OnceValues(func() (file []byte, err error) {
	dir, remove, err := scratch("")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	path := filepath.Join(dir, "empty.db")
	s, err := openScratch(context.Background(), path)
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})
