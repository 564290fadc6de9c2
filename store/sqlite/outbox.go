package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	watermillsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline/events"
)

// Outbox is the SQL outbox of an application (WMILL-3): Watermill's SQL publisher inside the application's own transaction,
// on Store.DB or any other connection to the file. A message commits with the rows beside it, or not at all (M-1). The
// engine takes it from the log, and publishes it wherever the node's publisher sends it, at least once; a Nudge behind the
// commit makes it a matter of milliseconds.
//
// The UUID of a message is its id for good, and must be a ULID: watermill.NewULID makes them. Metadata and payload are
// delivered as they are, but for two options that may stand in the metadata. events.MetadataKey names a key: with the key
// of an earlier message of the topic and the same payload nothing is added, with another payload it is an error (M-2).
// events.MetadataAvailableAt is the time in RFC 3339 before which it is not published.
//
// Publish adds all its messages or none. Errors: a *events.MessageError, which has added nothing and leaves the transaction
// as it was; that the database is no store; what the database says. Close does nothing: the transaction is the caller's.
func Outbox(tx *sql.Tx) message.Publisher {
	return OutboxAt(tx, func() events.Micros { return events.MicrosOf(time.Now()) })
}

// OutboxAt is Outbox by another clock, for tests and simulations. Whatever it shows, a message is never older than the
// newest event of the log.
func OutboxAt(tx *sql.Tx, now func() events.Micros) message.Publisher { return outbox{tx, now} }

type outbox struct {
	tx  *sql.Tx
	now func() events.Micros
}

func (outbox) Close() error { return nil }

// Publish appends MessageSubmitted for each message.
func (o outbox) Publish(topic string, messages ...*message.Message) error {
	if err := events.CheckTopic(topic); err != nil {
		return err
	}
	submissions, err := submissionsOf(topic, messages)
	if err != nil || len(submissions) == 0 {
		return err
	}
	if submissions, err = o.unknown(messages[0].Context(), topic, submissions); err != nil || len(submissions) == 0 {
		return err
	}
	p, err := watermillsql.NewPublisher(watermillsql.TxFromStdSQL(o.tx), watermillsql.PublisherConfig{
		SchemaAdapter: schemaAdapter{submissions: submissions, now: o.now()},
	}, nil)
	if err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	return p.Publish(topic, messages...)
}

// submissionsOf reads messages. A key that stands twice among them is added once; an id may not stand twice.
func submissionsOf(topic string, messages []*message.Message) ([]events.MessageSubmitted, error) {
	out := make([]events.MessageSubmitted, 0, len(messages))
	keys, ids := map[string]events.MessageSubmitted{}, map[events.MessageID]bool{}
	for _, m := range messages {
		s, err := submissionOf(topic, m)
		if err != nil {
			return nil, err
		}
		if first, twice := keys[s.Key]; twice && s.Key != "" {
			if !first.SamePayload(s) {
				return nil, keyReused(s.Key)
			}
			continue
		}
		if ids[s.Message] {
			return nil, &events.MessageError{
				Field: "message_id", Problem: s.Message.String() + " is that of two messages", Fix: "make a new id for each message",
			}
		}
		keys[s.Key], ids[s.Message] = s, true
		out = append(out, s)
	}
	return out, nil
}

func submissionOf(topic string, m *message.Message) (events.MessageSubmitted, error) {
	id, err := events.ParseMessageID(m.UUID)
	if err != nil || id.IsZero() {
		return events.MessageSubmitted{}, &events.MessageError{
			Field: "message_id", Problem: fmt.Sprintf("the UUID %.64q is not a ULID", m.UUID), Fix: "make the message with watermill.NewULID()",
		}
	}
	metadata := maps.Clone(m.Metadata)
	key, at := metadata[events.MetadataKey], metadata[events.MetadataAvailableAt]
	delete(metadata, events.MetadataKey)
	delete(metadata, events.MetadataAvailableAt)
	var available events.Micros
	if at != "" {
		t, err := time.Parse(time.RFC3339Nano, at)
		if err != nil {
			return events.MessageSubmitted{}, &events.MessageError{
				Field: "available_at", Problem: fmt.Sprintf("%.64q is not a time", at), Fix: "write it as time.RFC3339",
			}
		}
		available = events.MicrosOf(t)
	}
	return events.NewMessage(id, topic, m.Payload, metadata, key, available)
}

func keyReused(key string) error {
	return &events.MessageError{
		Field: "key", Problem: fmt.Sprintf("%q belongs to a message with another payload", key), Fix: "use another key",
	}
}

// fault says what is behind an error of the first look at a database that is no store. The driver is the application's, so
// the database is asked, and not the error.
func (o outbox) fault(ctx context.Context, err error) error {
	var tables int
	asked := o.tx.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('events', 'stream_families')`).Scan(&tables)
	if asked == nil && tables < 2 {
		return errNoStore
	}
	return err
}

var errNoStore = errors.New("outbox: this database is no Towline store; open it with a node first, which makes it one")

// lookUp says of a message whether its id is in the log, and of the one with its key whether it carries the same payload.
const lookUp = `
SELECT EXISTS (SELECT 1 FROM events WHERE type = 120 AND data ->> '$.message_id' = $1),
       (SELECT old.data FROM events AS old
        WHERE old.type = 120 AND old.stream = $2 AND old.data ->> '$.key' IS NOT NULL AND old.data ->> '$.key' = $3)`

// unknown leaves out what a key has added before. The transaction has the write lock; one that takes it only when it
// writes is refused then if somebody else has written since it looked.
func (o outbox) unknown(ctx context.Context, topic string, submissions []events.MessageSubmitted) ([]events.MessageSubmitted, error) {
	out := submissions[:0]
	for _, s := range submissions {
		var known bool
		var keyed sql.NullString
		err := o.tx.QueryRowContext(ctx, lookUp, s.Message.String(), events.AppStream(topic).Key(), s.Key).Scan(&known, &keyed)
		if err != nil {
			return nil, o.fault(ctx, fmt.Errorf("look for message %s: %w", s.Message, err))
		}
		if keyed.Valid {
			first, err := events.Decode(events.Record{Type: events.TypeMessageSubmitted, Schema: events.SchemaOf(events.TypeMessageSubmitted), Data: []byte(keyed.String)})
			if err != nil {
				return nil, err
			}
			if !first.(events.MessageSubmitted).SamePayload(s) {
				return nil, keyReused(s.Key)
			}
			continue
		}
		if known {
			return nil, &events.MessageError{
				Field: "message_id", Problem: s.Message.String() + " is in the log already", Fix: "make a new id for a new message",
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// schemaAdapter writes the statement of Watermill's publisher. Its reading half is no part of the outbox: the relay reads
// the log.
type schemaAdapter struct {
	watermillsql.SchemaAdapter // nil: a Publisher that makes no tables calls InsertQuery alone
	submissions                []events.MessageSubmitted
	now                        events.Micros
}

// insertMessages appends at the head of the log, under the write lock of the transaction. Time is not set back (CLK-2). Its
// arguments are numbered in the order in which they appear: to SQLite $2 is a name, and a driver of the application's may
// bind by place.
const insertMessages = `
INSERT INTO events (position, tx, stream, version, at, type, schema, data)
WITH head AS MATERIALIZED (
  SELECT coalesce((SELECT max(position) FROM events), 0) AS position,
         coalesce((SELECT at FROM events ORDER BY position DESC LIMIT 1), 0) AS at,
         coalesce((SELECT max(version) FROM events WHERE stream = $1), 0) AS version
)
SELECT head.position + new.key + 1, head.position + new.key + 1, $1, head.version + new.key + 1, max($2, head.at), $3, $4, new.value
FROM head
CROSS JOIN json_each($5) AS new
ORDER BY new.key`

func (a schemaAdapter) InsertQuery(p watermillsql.InsertQueryParams) (watermillsql.Query, error) {
	rows := make([]string, len(a.submissions))
	var record events.Record
	for i, s := range a.submissions {
		var err error
		if record, err = events.Encode(s); err != nil {
			return watermillsql.Query{}, err
		}
		rows[i] = string(record.Data)
	}
	data, err := json.Marshal(rows)
	if err != nil {
		return watermillsql.Query{}, fmt.Errorf("encode messages: %w", err)
	}
	return watermillsql.Query{Query: insertMessages, Args: []any{
		events.AppStream(p.Topic).Key(), int64(a.now), int64(record.Type), int64(record.Schema), string(data),
	}}, nil
}
