package transport

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline/events"
)

// Notice is the payload of an engine message: what has become possible, by ids only. It is a hint; whoever receives it
// asks the engine what is true. Unknown fields are ignored.
type Notice struct {
	Kind    events.Kind   `json:"kind"`
	Run     events.RunID  `json:"run_id"`
	Wakeup  int           `json:"wakeup"`
	Unit    events.UnitID `json:"unit_id,omitzero"` // run_sync_unit
	Attempt int           `json:"attempt,omitzero"` // that a claim would open
	Target  string        `json:"target,omitzero"`  // post_sync
	Post    *PostNotice   `json:"post,omitempty"`   // post_sync: what the run has brought (K-5)
}

// PostNotice is what consumers of a post_sync message need to know without asking. Generation is the same in every
// message of the run's post_sync: deduplicate by it (K-4).
type PostNotice struct {
	Generation string    `json:"generation"`
	Provider   string    `json:"provider"`
	Sources    []string  `json:"sources"`
	Datasets   []string  `json:"datasets"`
	From       time.Time `json:"from,omitzero"` // absent: some unit had an open start
	To         time.Time `json:"to"`
}

// Message writes a notice under a message id.
func (n Notice) Message(id string) (*message.Message, error) {
	b, err := json.Marshal(n)
	if err != nil {
		return nil, fmt.Errorf("encode notice %s: %w", id, err)
	}
	m := message.NewMessage(id, b)
	m.Metadata.Set("kind", string(n.Kind))
	return m, nil
}

// ParseNotice reads a notice. Ids are parsed here, once; an error means that no redelivery will ever help. Its text is
// short, whatever was sent.
func ParseNotice(m *message.Message) (Notice, error) {
	var n Notice
	if err := json.Unmarshal(m.Payload, &n); err != nil {
		return n, fmt.Errorf("message %.64q: %w", m.UUID, err)
	}
	var missing string
	switch {
	case n.Kind == "":
		missing = "kind"
	case n.Run.IsZero():
		missing = "run_id"
	case n.Kind == events.KindUnit && n.Unit.IsZero():
		missing = "unit_id"
	default:
		return n, nil
	}
	return n, fmt.Errorf("message %.64q: %s is missing", m.UUID, missing)
}
