// Command outbox sells the seats that it reads from its standard input, one a line. A seat and the message that says so
// commit together, in one SQLite file; the messages go to a broker, here the file sold.log.
//
// Kill it whenever you like and start it again: no seat is sold without its message, and no message without its seat.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/store/sqlite"
	"github.com/towline-dev/towline/transport"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	n, err := node.Open(ctx, node.Config{
		Store:     "box-office.db", // made if missing; what a crash left behind is published again when Run begins
		Publisher: broker("sold.log"), Traits: transport.Traits{NilMeansStored: true, HonoursContext: true},
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := n.DB().ExecContext(ctx, `CREATE TABLE IF NOT EXISTS booking (seat TEXT PRIMARY KEY)`); err != nil {
		log.Fatal(err)
	}
	err = n.RunWhile(ctx, func(ctx context.Context) error {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			body, err := json.Marshal(map[string]string{"seat": in.Text()})
			if err != nil {
				return err
			}
			if err := book(ctx, n, in.Text(), body); err != nil {
				fmt.Println("not sold", in.Text())
				continue
			}
			fmt.Println("sold", in.Text())
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// book sells a seat: its row and its message are in the same transaction.
func book(ctx context.Context, n *node.Node, seat string, body []byte) error {
	tx, err := n.DB().BeginTx(ctx, nil) // our DSN: WAL, full sync, immediate
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `INSERT INTO booking (seat) VALUES ($1)`, seat); err != nil {
		return err
	}
	m := message.NewMessage(watermill.NewULID(), body)
	if err := sqlite.Outbox(tx).Publish("booking.made", m); err != nil { // store/sqlite: watermill-sql in this transaction
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	n.Nudge() // the Publisher has it in milliseconds; after a crash right here, at the next start
	return nil
}

// broker stands for any publisher of Watermill. This one is a file, to which it appends a line for each message.
type broker string

func (b broker) Publish(topic string, messages ...*message.Message) error {
	f, err := os.OpenFile(string(b), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, m := range messages {
		id := m.Metadata.Get(events.MetadataMessageID) // deduplicate by it: m.UUID is that of one wakeup
		if _, err := fmt.Fprintf(f, "%s %s %s\n", id, topic, m.Payload); err != nil {
			return err
		}
	}
	return f.Sync()
}

func (broker) Close() error { return nil }
