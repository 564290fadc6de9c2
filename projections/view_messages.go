package projections

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// Message is one application message (spec 4.2).
type Message struct {
	Message     events.MessageID  `json:"message_id"`
	Topic       string            `json:"topic"`
	Payload     json.RawMessage   `json:"payload"`            // in the form of Encoding: Body has its bytes
	Encoding    events.Encoding   `json:"encoding,omitzero"`  // empty: Payload is JSON, and as it was submitted
	Metadata    map[string]string `json:"metadata,omitempty"` // as it was submitted
	Key         string            `json:"key,omitzero"`       // the producer's own
	State       MessageState      `json:"state"`
	Attempts    int               `json:"attempts"`      // claims of the present wakeup
	Lost        int               `json:"lost,omitzero"` // how many processes in a row have died with it (M-16)
	SubmittedAt time.Time         `json:"submitted_at"`
	AvailableAt time.Time         `json:"available_at,omitzero"` // while pending: when it may be published
	LastCause   string            `json:"last_cause,omitzero"`   // why the newest claim ended without a mark
	LastText    string            `json:"last_text,omitzero"`
	SettledAt   time.Time         `json:"settled_at,omitzero"`     // handled or rejected
	Category    events.Category   `json:"error_category,omitzero"` // of a rejected one
	Text        string            `json:"error_text,omitzero"`
}

// MessageState is how far a message has come (J-3).
type MessageState string

const (
	MessagePending    MessageState = "pending"
	MessageClaimed    MessageState = "claimed"
	MessageDispatched MessageState = "dispatched"
	MessageParked     MessageState = "parked" // published no more until an operator redrives it
	MessageHandled    MessageState = "handled"
	MessageRejected   MessageState = "rejected"
)

// MessageStateOf is the state of a message that is not over, by its register.
func MessageStateOf(r decider.Register) MessageState {
	switch r.Status {
	case "":
		return MessagePending
	case decider.RegisterIdle:
		return MessageDispatched
	}
	return MessageState(r.Status)
}

// Body is the payload, byte for byte as it was submitted.
func (m Message) Body() ([]byte, error) {
	return events.MessageSubmitted{Message: m.Message, Payload: m.Payload, Encoding: m.Encoding}.Body()
}

const messageColumns = `m.message_id, m.topic, m.position, m.settled, ` + messageState + `, o.attempts, o.available_at, o.last_cause, o.last_text, o.lost`

const messageTables = ` FROM messages AS m LEFT JOIN outbox AS o ON o.owner = m.message_id AND o.kind = 'message' `

// Message is one message, and false if there is none of that id.
func (v View) Message(id events.MessageID) (Message, bool, error) {
	found, err := v.messageRows(`SELECT `+messageColumns+messageTables+`WHERE m.message_id = $1`, id[:])
	if err != nil || len(found) == 0 {
		return Message{}, false, err
	}
	return found[0], true, nil
}

// Messages lists messages by id, newest first, at most limit of them before a message; the zero id begins at the newest.
func (v View) Messages(before events.MessageID, limit int) ([]Message, error) {
	before = orNewest(before)
	return v.messageRows(`SELECT `+messageColumns+messageTables+`WHERE m.message_id < $1 ORDER BY m.message_id DESC LIMIT $2`, before[:], limit)
}

// RejectedMessages lists the messages that nobody could handle, in the same way.
func (v View) RejectedMessages(before events.MessageID, limit int) ([]Message, error) {
	before = orNewest(before)
	return v.messageRows(`SELECT `+messageColumns+messageTables+`WHERE m.status = 'rejected' AND m.message_id < $1
		ORDER BY m.message_id DESC LIMIT $2`, before[:], limit)
}

func orNewest(before events.MessageID) events.MessageID {
	if before.IsZero() {
		for i := range before {
			before[i] = 0xff
		}
	}
	return before
}

func (v View) messageRows(query string, args ...any) ([]Message, error) {
	var out []Message
	var places []int64
	var settled []*int64
	err := v.tx.Query(func(r store.Row) error {
		var m Message
		var id []byte
		var state string
		var position int64
		var over, attempts, available, lost *int64
		var cause, said *string
		if err := r.Scan(&id, &m.Topic, &position, &over, &state, &attempts, &available, &cause, &said, &lost); err != nil {
			return err
		}
		copy(m.Message[:], id)
		m.State, m.Attempts, m.AvailableAt = MessageState(state), int(derefInt(attempts)), optionalTime(available)
		m.LastCause, m.LastText, m.Lost = deref(cause), deref(said), int(derefInt(lost))
		out, places, settled = append(out, m), append(places, position), append(settled, over)
		return nil
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	for i := range out {
		if err := v.content(&out[i], places[i], settled[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// content reads from the log what the table does not hold.
func (v View) content(m *Message, position int64, settled *int64) error {
	env, err := v.at(events.Position(position))
	if err != nil {
		return err
	}
	if e, ok := env.Event.(events.MessageSubmitted); ok {
		m.Payload, m.Encoding, m.Metadata, m.Key, m.SubmittedAt = e.Payload, e.Encoding, e.Metadata, e.Key, env.At.Time()
		if m.State == MessagePending && m.AvailableAt.IsZero() { // no wakeup yet
			m.AvailableAt = max(e.AvailableAt, env.At).Time()
		}
	}
	if settled == nil {
		return nil
	}
	if env, err = v.at(events.Position(*settled)); err != nil {
		return err
	}
	m.SettledAt = env.At.Time()
	if e, ok := env.Event.(events.MessageRejected); ok {
		m.Category, m.Text = e.Category, e.Text
	}
	return nil
}

// at is the event at a position.
func (v View) at(p events.Position) (events.Envelope, error) {
	page, err := v.tx.After(p-1, 1)
	if err != nil {
		return events.Envelope{}, err
	}
	if len(page) == 0 || page[0].Position != p {
		return events.Envelope{}, fmt.Errorf("the log has no event at position %d", p)
	}
	return page[0], nil
}

// MessageRow is what a decision asks of a message.
type MessageRow struct {
	Message  events.MessageID
	Topic    string
	Position events.Position // of its MessageSubmitted
	Status   decider.MessageStatus
}

// MessageRow is the row of a message, without its content; false: there is none.
func (v View) MessageRow(id events.MessageID) (MessageRow, bool, error) {
	return v.messageRow(`SELECT message_id, topic, position, status FROM messages WHERE message_id = $1`, id[:])
}

// KeyedMessage is the message that was submitted to a topic under a key (M-2).
func (v View) KeyedMessage(topic, key string) (MessageRow, bool, error) {
	return v.messageRow(`SELECT message_id, topic, position, status FROM messages WHERE topic = $1 AND key = $2`, topic, key)
}

func (v View) messageRow(query string, args ...any) (m MessageRow, found bool, err error) {
	err = v.tx.Query(func(r store.Row) error {
		var id []byte
		var status string
		found = true
		err := r.Scan(&id, &m.Topic, &m.Position, &status)
		copy(m.Message[:], id)
		m.Status = decider.MessageStatus(status)
		return err
	}, query, args...)
	if err != nil {
		return m, false, fmt.Errorf("read a message: %w", err)
	}
	return m, found, nil
}

// Submitted is what was submitted, as the log has it.
func (v View) Submitted(m MessageRow) (events.MessageSubmitted, error) {
	env, err := v.at(m.Position)
	if err != nil {
		return events.MessageSubmitted{}, err
	}
	e, ok := env.Event.(events.MessageSubmitted)
	if !ok {
		return e, fmt.Errorf("position %d holds no message", m.Position)
	}
	return e, nil
}

// The scans of REC-11, as in scan.go.

// UnarmedMessages are the submitted messages that have no wakeup, oldest first (M-1).
func (v View) UnarmedMessages(limit int) ([]MessageRow, error) {
	var out []MessageRow
	err := v.tx.Query(func(r store.Row) error {
		var id []byte
		m := MessageRow{Status: decider.MessageOpen}
		err := r.Scan(&id, &m.Topic, &m.Position)
		copy(m.Message[:], id)
		out = append(out, m)
		return err
	}, `SELECT message_id, topic, position FROM messages WHERE armed = 0 ORDER BY position LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("scan for messages without a wakeup: %w", err)
	}
	return out, nil
}

// LostMessages are messages behind one that died in the memory of a process before anybody handled them: of an incarnation
// that is gone, or of one whose death is not seen and that took them before silent. Redrive.Materialize decides it again.
func (v View) LostMessages(silent events.Micros, after events.MessageID, limit int) ([]events.MessageID, error) {
	var out []events.MessageID
	err := v.tx.Query(func(r store.Row) error {
		var id events.MessageID
		err := scanID(r, &id)
		out = append(out, id)
		return err
	}, `SELECT m.message_id FROM messages AS m WHERE m.in_process IS NOT NULL AND m.message_id > $2
		AND (m.in_process NOT IN (SELECT incarnation FROM nodes WHERE gone = 0)
		     OR EXISTS (SELECT 1 FROM nodes AS n WHERE n.incarnation = m.in_process AND n.store_mode = 'shared')
		        AND EXISTS (SELECT 1 FROM outbox AS o WHERE o.owner = m.message_id AND o.kind = 'message' AND o.last_closed_at <= $1))
		ORDER BY m.message_id LIMIT $3`, int64(silent), after[:], limit)
	if err != nil {
		return nil, fmt.Errorf("scan for lost messages: %w", err)
	}
	return out, nil
}

// IsBehind reports that the log holds what the tables do not, which only an application's own transaction leaves behind,
// or a message that has no wakeup (REC-1, REC-11).
func IsBehind(tx store.ReadTx) (bool, error) {
	head, _, err := tx.Head()
	if err != nil {
		return false, err
	}
	applied, err := Position(tx)
	if err != nil || applied < head {
		return err == nil, err
	}
	unarmed, err := NewView(tx).UnarmedMessages(1)
	return len(unarmed) > 0, err
}
