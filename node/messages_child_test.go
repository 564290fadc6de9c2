//go:build unix

package node_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
)

// messageRole makes a child an application with an outbox.
const messageRole = "NODE_TEST_MESSAGES"

const (
	commitsOnly = "commits" // its node does not run: nothing is armed
	hangs       = "hangs"   // its handler never returns
)

const saysCommitted = "committed"

// messageChild books a seat, says so, and goes on for ever: with a second booking that it does not commit, or in the
// transaction of its handler.
func messageChild(role string) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	n, err := node.Open(context.Background(), node.Config{
		Store: os.Getenv(childVariable), Logger: quiet(), Unsynced: true,
		Messages: map[string]node.Consumer{bookings: {Handle: func(ctx context.Context, tx *sql.Tx, m *message.Message) error {
			if err := invoice(ctx, tx, m); err != nil {
				return err
			}
			fmt.Println(saysWorking)
			select {}
		}}},
	})
	if err != nil {
		return fail(err)
	}
	if _, err := n.DB().Exec(bookingTables); err != nil {
		return fail(err)
	}
	id, err := book(n.DB(), "12A")
	if err != nil {
		return fail(err)
	}
	if role == hangs {
		fmt.Println(saysCommitted, id)
		if err := n.Run(context.Background()); err != nil {
			return fail(err)
		}
		return 0
	}
	tx, err := n.DB().Begin()
	if err != nil {
		return fail(err)
	}
	if _, err := tx.Exec(`INSERT INTO booking (seat) VALUES ('12B')`); err != nil {
		return fail(err)
	}
	fmt.Println(saysCommitted, id)
	select {}
}

// C-33, C-34, C-36, M-1, M-12, SC-308, SC-322: a real process is killed right behind the commit of its application, or in
// the middle of its handler's transaction: behind the next start the message has its effect, once, and what was not
// committed has left no trace.
func TestAKilledApplicationLosesNoMessage(t *testing.T) {
	for _, role := range []string{commitsOnly, hangs} {
		t.Run(role, func(t *testing.T) {
			p := spawnWith(t, messageRole+"="+role)
			id, err := events.ParseMessageID(p.hear(saysCommitted)[0])
			require.NoError(t, err)
			if role == hangs {
				p.hear(saysWorking)
			}
			p.signal(syscall.SIGKILL)
			_, err = p.cmd.Process.Wait()
			require.NoError(t, err)

			n := open(t, node.Config{Store: p.path, Messages: map[string]node.Consumer{bookings: {Handle: invoice}}})
			require.Zero(t, rows(t, n, "invoice"))
			require.Equal(t, 1, rows(t, n, "booking"))
			r := start(t, n)
			inState(t, n, id, projections.MessageHandled)
			require.Equal(t, 1, rows(t, n, "invoice"))
			handled := enginetest.Only[events.MessageHandled](logOf(t, n))
			require.Len(t, handled, 1)
			require.Len(t, enginetest.Only[events.MessageSubmitted](logOf(t, n)), 1)
			requireGood(t, n)
			r.end()
		})
	}
}
