package sqlbus

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline/transport"
)

// Publisher is the bus for programs of Watermill: all messages of one Publish are stored, or none. A nil error means
// stored. The context of the first message ends the wait for the file. Close does nothing: the bus is the caller's.
func (b *Bus) Publisher() message.Publisher { return publisher{b} }

type publisher struct{ b *Bus }

func (p publisher) Publish(topic string, messages ...*message.Message) error {
	if len(messages) == 0 {
		return nil
	}
	return p.b.publish(messages[0].Context(), topic, messages...)
}

func (publisher) Close() error { return nil }

// publish goes through Watermill's SQL publisher, whose words for a topic are those of all its SQL transports.
func (b *Bus) publish(ctx context.Context, topic string, messages ...*message.Message) error {
	if err := checkTopic(topic); err != nil {
		return &messageError{err}
	}
	for _, m := range messages {
		if err := b.checkMessage(m); err != nil {
			return &messageError{err}
		}
	}
	first := messages[0].Copy() // the publisher takes its context, and the caller's message keeps the one that it has
	first.SetContext(ctx)
	messages = append([]*message.Message{first}, messages[1:]...)
	if err := b.pub.Publish(topic, messages...); err != nil {
		return fmt.Errorf("publish to %s: %w", b.o.Name, err)
	}
	return nil
}

var topicName = regexp.MustCompile(`^[A-Za-z0-9\-$:._]{1,200}$`)

func checkTopic(topic string) error {
	if !topicName.MatchString(topic) {
		return fmt.Errorf("topic %.50q: a name has 1 to 200 letters, digits, or - $ : . _", topic)
	}
	return nil
}

// checkMessage refuses what would not be stored as it is.
func (b *Bus) checkMessage(m *message.Message) error {
	if len(m.Payload) > b.o.MaxPayload {
		return &transport.TooLargeError{Bytes: len(m.Payload), Limit: b.o.MaxPayload}
	}
	const maxMetadata = 64 << 10
	bytes := len(m.UUID)
	valid := utf8.ValidString(m.UUID)
	for k, v := range m.Metadata {
		bytes += len(k) + len(v)
		valid = valid && utf8.ValidString(k) && utf8.ValidString(v)
	}
	switch {
	case !valid:
		return fmt.Errorf("message %.64q: its id and metadata must be valid UTF-8: put other bytes into the payload", m.UUID)
	case bytes > maxMetadata:
		return fmt.Errorf("message %.64q: id and metadata have %d bytes, the transport takes %d", m.UUID, bytes, maxMetadata)
	}
	return nil
}

func newPublisher(b *Bus) *wsql.Publisher {
	p, err := wsql.NewPublisher(statements{b}, wsql.PublisherConfig{SchemaAdapter: inserts{}}, watermill.NopLogger{})
	if err != nil {
		panic(err) // of a configuration that has no variable part
	}
	return p
}

// insertMessage is one row. The statement is prepared once and repeated, so that no Publish meets SQLite's limit of parameters.
const (
	insertMessage = `INSERT INTO messages (topic, uuid, metadata, payload, at) VALUES ($1, $2, $3, $4, $5)`
	insertArgs    = 4 // those that are known here; the time is that of the transaction
)

// inserts is the writing half of a SchemaAdapter. The reading half is no part of it: claims are ours (subscriber.go).
type inserts struct {
	wsql.SchemaAdapter // nil: a Publisher that makes no tables calls InsertQuery alone
}

func (inserts) InsertQuery(p wsql.InsertQueryParams) (wsql.Query, error) {
	args := make([]any, 0, insertArgs*len(p.Msgs))
	for _, m := range p.Msgs {
		metadata, err := json.Marshal(m.Metadata)
		if err != nil {
			return wsql.Query{}, fmt.Errorf("encode metadata of %.64q: %w", m.UUID, err)
		}
		payload := []byte(m.Payload)
		if payload == nil {
			payload = []byte{}
		}
		args = append(args, p.Topic, m.UUID, string(metadata), payload)
	}
	return wsql.Query{Query: insertMessage, Args: args}, nil
}

// statements runs what Watermill's publisher executes: each statement is a transaction of its own, which shares the commit
// of others, and no caller's context reaches it.
type statements struct{ b *Bus }

var _ wsql.ContextExecutor = statements{}

func (statements) QueryContext(context.Context, string, ...any) (wsql.Rows, error) {
	return nil, errors.New("nothing is read through the publisher")
}

func (e statements) ExecContext(ctx context.Context, query string, args ...any) (wsql.Result, error) {
	bytes := 0
	for _, a := range args {
		if payload, ok := a.([]byte); ok {
			bytes += len(payload)
		}
	}
	j := e.b.w.start(true, bytes, func(s *session) error {
		if err := e.b.room(s, int64(bytes)); err != nil {
			return err
		}
		at := micros(time.Now())
		for i := 0; i < len(args); i += insertArgs {
			if _, err := s.exec(query, args[i], args[i+1], args[i+2], args[i+3], at); err != nil {
				return err
			}
		}
		return nil
	})
	return sql.Result(nil), j.wait(ctx)
}

// room bounds the pages in use. Claims and acknowledgements are not held to it, so that a full bus can be emptied.
func (b *Bus) room(s *session, more int64) error {
	if b.o.MaxBytes < 0 {
		return nil
	}
	var pages, free, size int64
	err := s.row([]any{&pages, &free, &size}, `
		SELECT (SELECT page_count FROM pragma_page_count), (SELECT freelist_count FROM pragma_freelist_count), (SELECT page_size FROM pragma_page_size)`)
	if err != nil {
		return err
	}
	if used := (pages - free) * size; used+more > b.o.MaxBytes {
		return fmt.Errorf("%w: %d bytes are in use, and it takes %d: let its consumers catch up, or remove a group that nobody is in", ErrFull, used, b.o.MaxBytes)
	}
	return nil
}

func micros(t time.Time) int64 { return t.UnixMicro() }
