package wire

import (
	"encoding/json"
	"time"

	"github.com/towline-dev/towline/events"
)

// Event is one event at its place in the log. Tokens are masked.
type Event struct {
	Seq     events.Position `json:"seq" doc:"position in the log: from 1, dense, in commit order"`
	Tx      events.Position `json:"tx" doc:"seq of the first event of its transaction"`
	Stream  string          `json:"stream"`
	Version events.Version  `json:"version" doc:"in its stream: from 1, dense"`
	At      time.Time       `json:"at"`
	Type    string          `json:"type"`
	Schema  int             `json:"schema" doc:"of data"`
	Actor   string          `json:"actor,omitzero" doc:"who asked for it; not given: the node itself"`
	Command string          `json:"command,omitzero" doc:"that decided it"`
	Cause   events.Position `json:"cause,omitzero" doc:"seq of the event that it reacts to"`
	Node    events.NodeID   `json:"node,omitzero" doc:"incarnation that appended it"`
	Data    json.RawMessage `json:"data" doc:"the fields of the event, with every digit"`
	Text    string          `json:"text" doc:"one line for people"`
}

// Events is one page of the log.
type Events struct {
	Items []Event `json:"items" nullable:"false"`
	// NextAfterSeq goes on where this page ends, also where it has found nothing.
	NextAfterSeq events.Position `json:"next_after_seq" doc:"after_seq of the next page: all up to it was looked at"`
	More         bool            `json:"more" doc:"the log goes on behind it"`
}
