package towline_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	watermill "github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
)

// A message is handled in this process: what the handler writes and the record that the message was handled commit
// together, so it has its effect once. Submitting it again under its key adds nothing.
func Example_messages() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}
	handled := make(chan struct{}, 1)
	n, err := node.Open(ctx, node.Config{
		Store: filepath.Join(dir, "towline.db"),
		Messages: map[string]node.Consumer{"booking.made": {
			Validate: func(m *watermill.Message) error { // before any look-up; an error rejects the message for good
				if len(m.Payload) != 3 {
					return errors.New("that is no seat")
				}
				return nil
			},
			Handle: func(ctx context.Context, tx *sql.Tx, m *watermill.Message) error {
				_, err := tx.ExecContext(ctx, `INSERT INTO invoice (seat) VALUES ($1)`, string(m.Payload))
				handled <- struct{}{}
				return err
			},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := n.DB().ExecContext(ctx, `CREATE TABLE invoice (seat TEXT NOT NULL)`); err != nil {
		log.Fatal(err)
	}
	var id towline.Submitted
	err = n.RunWhile(ctx, func(ctx context.Context) (err error) {
		m := towline.Message{Topic: "booking.made", Payload: []byte("12A"), Key: "order-17"}
		if id, err = n.Engine().Submit(ctx, m); err != nil {
			return err
		}
		again, err := n.Engine().Submit(ctx, m)
		fmt.Println("known:", again.Replayed)
		<-handled
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	n, err = node.Open(ctx, node.Config{Store: filepath.Join(dir, "towline.db")})
	if err != nil {
		log.Fatal(err)
	}
	err = n.Engine().View(ctx, func(v projections.View) error {
		m, _, err := v.Message(id.Message)
		fmt.Printf("%s %s: %s\n", m.Topic, m.Payload, m.State)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(n.Close(), os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// known: true
	// booking.made "12A": handled
}
