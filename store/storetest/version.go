package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// L-6: the version of a stream counts what the transaction has appended, what others of its commit have, and nothing
// that was undone; a snapshot has its own.
func testVersion(t *testing.T, open opener) {
	s := open.fresh(t)
	sees := func(tx store.Tx, want events.Version) {
		t.Helper()
		v, err := tx.Version(unit(1))
		require.NoError(t, err)
		require.Equal(t, want, v)
	}
	write(t, s, func(tx store.Tx) error {
		sees(tx, 0)
		require.NoError(t, appendTo(unit(1), 0, renewed(1), renewed(2))(tx))
		sees(tx, 2)
		return nil
	})
	group(t, s,
		func(tx store.Tx) error {
			sees(tx, 2)
			return appendTo(unit(1), 2, renewed(3))(tx)
		},
		func(tx store.Tx) error {
			sees(tx, 3)
			require.NoError(t, appendTo(unit(1), 3, renewed(4))(tx))
			return errUndo
		},
		func(tx store.Tx) error {
			sees(tx, 3)
			return nil
		})
}
