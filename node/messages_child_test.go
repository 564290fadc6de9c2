//go:build unix

package node_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
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
	exits       = "exits"   // its handler ends the process for seat 12A
)

const (
	saysCommitted = "committed"
	exitsWith     = 9
)

// messageChild books a seat, says so, and goes on for ever: with a second booking that it does not commit, or in the
// transaction of its handler.
func messageChild(role string) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	n, err := node.Open(context.Background(), node.Config{
		Store: os.Getenv(childVariable), Logger: quiet(), Unsynced: true,
		Knobs: towline.Knobs{MaxDeliveries: 3},
		Messages: map[string]node.Consumer{bookings: {Handle: func(ctx context.Context, tx *sql.Tx, m *message.Message) error {
			if role == exits {
				if string(m.Payload) == "12A" {
					os.Exit(exitsWith)
				}
				return invoice(ctx, tx, m)
			}
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
	if role == exits {
		for _, seat := range []string{"12A", "12B", "12C"} {
			_, _ = book(n.DB(), seat) // sold, but for the first process
		}
		return fail(n.Run(context.Background()))
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

// M-16: a handler that ends its process does so handler.max_deliveries times, and not at every start for ever. Then its message
// waits for a person, and those beside it have been handled.
func TestAHandlerThatEndsItsProcessIsStopped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	for range 3 {
		p := spawnWith(t, messageRole+"="+exits, childVariable+"="+path)
		state, err := p.cmd.Process.Wait()
		require.NoError(t, err)
		require.Equal(t, exitsWith, state.ExitCode())
	}
	n := start(t, open(t, node.Config{
		Store: path, Knobs: towline.Knobs{MaxDeliveries: 3}, Messages: map[string]node.Consumer{bookings: {Handle: invoice}},
	}))
	ids := map[string]events.MessageID{}
	require.NoError(t, n.Engine().View(t.Context(), func(v projections.View) error {
		messages, err := v.Messages(events.MessageID{}, 10)
		for _, m := range messages {
			ids[string(m.Payload)] = m.Message
		}
		return err
	}))
	require.Len(t, ids, 3)
	m := inState(t, n.Node, ids[`"12A"`], projections.MessageParked)
	require.Equal(t, string(events.ParkCrashSuspect), m.LastCause)
	for _, seat := range []string{`"12B"`, `"12C"`} {
		inState(t, n.Node, ids[seat], projections.MessageHandled)
	}
	requireGood(t, n.Node)
	require.NoError(t, n.Engine().Redrive(t.Context(), towline.MessageRegister(ids[`"12A"`]), ada))
	inState(t, n.Node, ids[`"12A"`], projections.MessageHandled)
	n.end()
}
