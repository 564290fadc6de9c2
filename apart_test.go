package towline_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
)

// O-19, REC-6: one bad thing does not keep the others, and the error names it.
func TestApartLeavesOutTheBadOne(t *testing.T) {
	done := map[int]bool{}
	err := towline.Apart(context.Background(), []int{1, 2, 3}, strconv.Itoa, func(batch []int) error {
		for _, n := range batch {
			if n == 2 {
				return errors.New("torn")
			}
		}
		for _, n := range batch {
			done[n] = true
		}
		return nil
	})
	require.EqualError(t, err, "2: torn")
	require.Equal(t, map[int]bool{1: true, 3: true}, done)
}

// L-11: a store that goes away in the middle is not asked once more for each thing that is left.
func TestApartDoesNotAskAStoreThatIsAway(t *testing.T) {
	for name, away := range map[string]error{"unavailable": towline.ErrUnavailable, "stopped": towline.ErrStopped} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			err := towline.Apart(context.Background(), []int{1, 2, 3, 4}, strconv.Itoa, func([]int) error {
				calls++
				if calls < 3 {
					return errors.New("torn")
				}
				return fmt.Errorf("disk full: %w", away)
			})
			require.ErrorIs(t, err, away)
			require.Equal(t, 3, calls, "the batch, the first, and the second, which found it away")
		})
	}
}
