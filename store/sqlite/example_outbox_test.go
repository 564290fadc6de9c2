package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/store/sqlite"
	"github.com/towline-dev/towline/transport"
)

// printer stands for any publisher of Watermill.
type printer struct{ done chan struct{} }

func (p printer) Publish(topic string, messages ...*message.Message) error {
	for _, m := range messages {
		fmt.Printf("%s: %s\n", topic, m.Payload)
	}
	close(p.done)
	return nil
}

func (printer) Close() error { return nil }

// A seat is booked and a message says so, in one transaction of the application: both or neither. The message arrives
// behind the commit, also if the process dies in between.
func ExampleOutbox() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "towline-example-")
	if err != nil {
		log.Fatal(err)
	}
	broker := printer{make(chan struct{})}
	n, err := node.Open(ctx, node.Config{
		Store:     filepath.Join(dir, "towline.db"),
		Publisher: broker, Traits: transport.Traits{NilMeansStored: true}, // Publish returns nil only when the broker has it
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := n.DB().ExecContext(ctx, `CREATE TABLE booking (seat TEXT PRIMARY KEY)`); err != nil {
		log.Fatal(err)
	}
	err = n.RunWhile(ctx, func(ctx context.Context) error {
		tx, err := n.DB().BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, `INSERT INTO booking (seat) VALUES ($1)`, "12A"); err != nil {
			return err
		}
		m := message.NewMessage(watermill.NewULID(), []byte(`{"seat":"12A"}`))
		if err := sqlite.Outbox(tx).Publish("booking.made", m); err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		n.Nudge()
		<-broker.done
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		log.Fatal(err)
	}
	// Output: booking.made: {"seat":"12A"}
}
