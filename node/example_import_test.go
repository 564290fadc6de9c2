package node_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/node"
)

// The outbox of an older program has a message to send, one that its dead relay had claimed, and one over its limit. All
// three are taken over, once, however often the import is repeated; the last one waits for a person.
func ExampleNode_Import() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}
	n, err := node.Open(ctx, node.Config{Store: filepath.Join(dir, "towline.db"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	_, err = n.DB().ExecContext(ctx, `
		CREATE TABLE old_outbox (id INTEGER PRIMARY KEY, topic TEXT, body TEXT, state TEXT, tries INTEGER);
		INSERT INTO old_outbox (topic, body, state, tries) VALUES
			('booking.made', '{"seat":"12A"}', 'new', 0),
			('booking.made', '{"seat":"14C"}', 'claimed', 1),
			('booking.made', '{"seat":"31F"}', 'new', 5),
			('booking.made', '{"seat":"02B"}', 'sent', 1)`)
	if err != nil {
		log.Fatal(err)
	}
	old := node.OldTable{
		Name: "old_outbox", ID: "id", Topic: "topic", Payload: "body", State: "state", Attempts: "tries", MaxAttempts: 5,
		States: map[string]towline.OldState{"new": towline.OldPending, "claimed": towline.OldInProgress, "sent": towline.OldDone},
	}
	for range 2 {
		got, err := n.Import(ctx, n.DB(), old, towline.Actor{Name: "ada"})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d pending, %d released, %d parked, %d done, %d known\n", got.Pending, got.Released, got.Parked, got.Done, got.Known)
	}
	if err := errors.Join(n.Close(), os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 pending, 1 released, 1 parked, 1 done, 0 known
	// 0 pending, 0 released, 0 parked, 1 done, 3 known
}
