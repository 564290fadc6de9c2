package sim

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/handlers"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
	"github.com/towline-dev/towline/transport"
)

// Submission is a message that an application adds in a transaction of its own, beside a row of its own (M-1).
type Submission struct {
	Topic, Key, Payload string
	AvailableAt         time.Time // not published before; zero: at once
}

func (s Submission) name() string { return s.Topic + " " + s.Key }

// id is the same however often a submission is repeated.
func (s Submission) id() (id events.MessageID) {
	sum := sha256.Sum256([]byte(s.name()))
	copy(id[:], sum[:])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(DefaultStart.UnixMilli()))
	copy(id[:6], ms[2:])
	return id
}

// Handler is what the application does with a message, beside the row by which Handled counts it. An error undoes both.
type Handler func(ctx context.Context, m *message.Message) error

// Submit asks the application for messages. Each is repeated until its transaction has committed, also behind a crash.
func (w *World) Submit(s ...Submission) { w.submissions = append(w.submissions, s...) }

// application are the tables of the application, in the store.
const application = `
CREATE TABLE IF NOT EXISTS app_sent (name TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS app_handled (name TEXT NOT NULL)`

// Sent are the messages whose rows the application has, and Handled says how often each had its effect; by topic and key.
func (w *World) Sent(ctx context.Context) (map[string]int, error) {
	return w.tally(ctx, `SELECT name FROM app_sent`)
}

func (w *World) Handled(ctx context.Context) (map[string]int, error) {
	return w.tally(ctx, `SELECT name FROM app_handled`)
}

func (w *World) tally(ctx context.Context, query string) (map[string]int, error) {
	rows, err := w.some().store.DB().QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]int{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		out[name]++
	}
	return out, rows.Err()
}

// submit is the application: it repeats what has not committed.
func (n *node) submit(ctx context.Context) {
	s := n.w.submissions[0]
	n.w.submissions = n.w.submissions[1:]
	err := n.addMessage(ctx, s)
	if n.dead {
		n.w.submissions = append([]Submission{s}, n.w.submissions...)
		return
	}
	if err != nil {
		n.w.breaks("submit %s: %w", s.name(), err)
	}
}

// addMessage commits a row and its message. A crash before it leaves neither, one behind it both.
func (n *node) addMessage(ctx context.Context, s Submission) error {
	n.w.names.runs[events.RunID(s.id())] = s.name()
	b := Boundary{Port: PortApplication, What: "submits " + s.name()}
	if err := n.pause("before " + b.call()); err != nil {
		return err
	}
	fault := n.fault(b.Port, "", b.What)
	tx, err := n.store.DB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `INSERT INTO app_sent (name) VALUES ($1) ON CONFLICT DO NOTHING`, s.name()); err != nil {
		return err
	}
	m := message.NewMessage(s.id().String(), []byte(s.Payload))
	m.Metadata.Set(events.MetadataKey, s.Key)
	if !s.AvailableAt.IsZero() {
		m.Metadata.Set(events.MetadataAvailableAt, s.AvailableAt.Format(time.RFC3339))
	}
	if err := sqlite.OutboxAt(tx, n.clock.Now).Publish(s.Topic, m); err != nil {
		return err
	}
	if err := n.before(b, fault); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if err := n.follow(ctx); err != nil {
		return err
	}
	if err := n.leave(b, fault); err != nil {
		return err
	}
	n.engine.Nudge()
	return nil
}

// follow takes note of what the application has appended.
func (n *node) follow(ctx context.Context) error {
	return n.store.Read(ctx, func(r store.Reader) error {
		head, _, err := r.Head()
		if err != nil {
			return err
		}
		page, err := r.After(n.w.head, int(head-n.w.head))
		for _, env := range page {
			n.tell(Entry{Event: &env})
		}
		n.reached(head)
		return err
	})
}

// consumers are those of the configured topics.
func (n *node) consumers() map[string]handlers.Consumer {
	out := map[string]handlers.Consumer{}
	for topic, handle := range n.w.c.Messages {
		out[topic] = handlers.Consumer{Handle: func(ctx context.Context, tx *sql.Tx, m *message.Message) error {
			name := topic + " " + m.Metadata.Get(events.MetadataKey)
			if _, err := tx.ExecContext(ctx, `INSERT INTO app_handled (name) VALUES ($1)`, name); err != nil {
				return err
			}
			return handle(ctx, m)
		}}
	}
	return out
}

// inboxPort is the transaction in which a message is handled.
type inboxPort struct{ n *node }

func (p *inboxPort) Consume(ctx context.Context, id events.MessageID, delivery string, effect func(context.Context, *sql.Tx) error) (bool, error) {
	n, b := p.n, Boundary{Port: PortApplication, What: "handles " + p.n.w.names.runs[events.RunID(id)]}
	if err := n.pause("before " + b.call()); err != nil {
		return false, err
	}
	fault := n.fault(b.Port, "", b.What)
	done, err := n.store.Consume(ctx, id, delivery, func(ctx context.Context, tx *sql.Tx) error {
		if err := effect(ctx, tx); err != nil {
			return err
		}
		return n.before(b, fault)
	})
	if err != nil || !done {
		return false, err
	}
	n.w.current.delivery.committed = true
	if err := n.follow(ctx); err != nil {
		return true, err
	}
	return true, n.leave(b, fault)
}

// applicationNotice is what the bus knows of an application's message.
func applicationNotice(m *message.Message) (transport.Notice, error) {
	id, err := events.ParseMessageID(m.Metadata.Get(events.MetadataMessageID))
	return transport.Notice{Kind: events.KindMessage, Run: events.RunID(id), Wakeup: wakeupOf(m.UUID)}, err
}

// wakeupOf reads the number of a wakeup out of the id of its message (K-3).
func wakeupOf(uuid string) int {
	number, _ := strconv.Atoi(uuid[strings.LastIndex(uuid, ".")+1:])
	return number
}
