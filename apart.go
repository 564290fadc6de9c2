package towline

import (
	"context"
	"errors"
	"fmt"
)

// Apart runs do with a whole batch, which is one transaction. If that fails, do runs with each thing of it alone, so
// that one bad thing does not keep the others (O-19, REC-6); the error names those that failed. A store that is away is
// nobody's fault and is not asked again. do must count only what it has committed, and find what it has done before done.
func Apart[T any](ctx context.Context, batch []T, name func(T) string, do func([]T) error) error {
	err := do(batch)
	switch {
	case err == nil, isAway(ctx, err):
		return err
	case len(batch) == 1:
		return fmt.Errorf("%s: %w", name(batch[0]), err)
	}
	var errs []error
	for i := range batch {
		err := Apart(ctx, batch[i:i+1], name, do)
		errs = append(errs, err)
		if isAway(ctx, err) {
			break
		}
	}
	return errors.Join(errs...)
}

// isAway reports that nothing more can be done now, whatever it is.
func isAway(ctx context.Context, err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrStopped) || errors.Is(err, ErrMoved) || ctx.Err() != nil
}
