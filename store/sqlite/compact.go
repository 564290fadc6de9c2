package sqlite

import (
	"context"
	"errors"
	"fmt"
)

// Compact makes the file of a store as small as what it holds, which is what an archive has left free. Nobody may have the store
// open, and it needs as much room again as it holds, for as long as it runs. A process that dies in it leaves the store as it
// was. That the file does not shrink by itself is a choice: a file that can be cut at any time writes 3 % more for each event.
func Compact(ctx context.Context, path string, o Options) error {
	s, err := Open(ctx, path, o)
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	_, err = s.app.ExecContext(ctx, `VACUUM`)
	if err = errors.Join(classify(err), s.Close()); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	return nil
}
