package sim

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline/check"
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
	rows, err := w.node.store.DB().QueryContext(ctx, query)
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
	err := n.addMessage(ctx, s)
	if n.dead {
		return
	}
	n.w.submissions = n.w.submissions[1:]
	if err != nil {
		n.w.breaks("submit %s: %w", s.name(), err)
	}
}

// addMessage commits a row and its message. A crash before it leaves neither, one behind it both.
func (n *node) addMessage(ctx context.Context, s Submission) error {
	n.w.names.runs[events.RunID(s.id())] = s.name()
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
	b := Boundary{Port: PortApplication, What: "submits " + s.name()}
	if err := n.before(b); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if err := n.follow(ctx); err != nil {
		return err
	}
	if err := n.after(b); err != nil {
		return err
	}
	n.engine.Nudge()
	return nil
}

// follow takes note of what the application has appended.
func (n *node) follow(ctx context.Context) error {
	return n.store.Read(ctx, func(r store.Reader) (err error) {
		n.head, _, err = r.Head()
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
	n := p.n
	if n.dead {
		return false, ErrDead
	}
	b := Boundary{Port: PortApplication, What: "handles " + n.w.names.runs[events.RunID(id)]}
	done, err := n.store.Consume(ctx, id, delivery, func(ctx context.Context, tx *sql.Tx) error {
		if err := effect(ctx, tx); err != nil {
			return err
		}
		return n.before(b)
	})
	if err != nil || !done {
		return false, err
	}
	n.stack[len(n.stack)-1].committed = true
	if err := n.follow(ctx); err != nil {
		return true, err
	}
	return true, n.after(b)
}

// appPort is the bus of application messages as the relay sees it. It refuses what nobody here consumes, as node does.
type appPort struct{ n *node }

func (p *appPort) Name() string { return events.TransportLocal }

func (p *appPort) Send(ctx context.Context, topic string, m *message.Message) transport.Receipt {
	n := p.n
	id, err := events.ParseMessageID(m.Metadata.Get(events.MetadataMessageID))
	if err != nil {
		return transport.Receipt{Outcome: events.Refused, Permanent: true, Err: err}
	}
	notice := transport.Notice{Kind: events.KindMessage, Run: events.RunID(id), Wakeup: wakeupOf(m.UUID)}
	b := Boundary{Port: PortPublish, What: n.w.names.message(notice)}
	if err := n.before(b); err != nil {
		return transport.Unknown(err)
	}
	receipt := transport.Accepted("queued in process")
	if n.w.c.Messages[topic] == nil {
		receipt = transport.Receipt{Outcome: events.Refused, Permanent: true, Err: fmt.Errorf("nobody consumes topic %q", topic)}
	} else {
		n.bus.push(&delivery{m: m.Copy(), notice: notice, topic: topic})
		n.w.out.Published = append(n.w.out.Published, check.Published{
			ID: m.UUID, Kind: notice.Kind, Run: notice.Run, N: notice.Wakeup, After: n.head,
		})
	}
	if err := n.after(b); err != nil {
		return transport.Unknown(err)
	}
	n.meanwhile(ctx, consumers) // a consumer may be faster than the receipt
	if n.dead {
		return transport.Unknown(ErrDead)
	}
	return receipt
}

// wakeupOf reads the number of a wakeup out of the id of its message (K-3).
func wakeupOf(uuid string) int {
	number, _ := strconv.Atoi(uuid[strings.LastIndex(uuid, ".")+1:])
	return number
}
