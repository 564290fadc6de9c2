package towline

import (
	"context"
	"errors"
	"fmt"
)

// Apart runs do with a whole batch, which is one transaction. If that fails, do runs with each thing of it alone, so
// that one bad thing does not keep the others (O-19, REC-6); the error names those that failed. A store that is away is
// nobody's fault and is not asked again. do must count only what it has committed.
func Apart[T any](ctx context.Context, batch []T, name func(T) string, do func([]T) error) error {
	err := do(batch)
	switch {
	case err == nil, errors.Is(err, ErrUnavailable), errors.Is(err, ErrStopped), ctx.Err() != nil:
		return err
	case len(batch) == 1:
		return fmt.Errorf("%s: %w", name(batch[0]), err)
	}
	var errs []error
	for i := range batch {
		errs = append(errs, Apart(ctx, batch[i:i+1], name, do))
	}
	return errors.Join(errs...)
}
