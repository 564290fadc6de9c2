package wire

import (
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// Explanation says why a thing is no further: exactly one reason, what shows it, and what comes next.
type Explanation struct {
	Of     string `json:"of" enum:"run,unit,job,message,register"`
	ID     string `json:"id" doc:"of a unit its alias"`
	State  string `json:"state"`
	Reason string `json:"reason,omitzero" doc:"not given: it waits for nothing"`
	On     string `json:"on,omitzero" doc:"what is paused, missing, cooling, full, or has failed"`
	Behind string `json:"behind,omitzero" doc:"the unit that must go first"`
	// NeedsPerson: no time ends it; Fix says what a person does.
	NeedsPerson bool                  `json:"needs_person" doc:"no time ends it"`
	Fix         string                `json:"fix,omitzero" doc:"the command that ends it"`
	Since       time.Time             `json:"since,omitzero"`
	NoWorker    time.Time             `json:"no_worker_since,omitzero" doc:"units wait here for workers that ask, and none has asked since"`
	Evidence    []Evidence            `json:"evidence" nullable:"false" doc:"events that show it"`
	Next        *Next                 `json:"next,omitempty" doc:"by when the answer is another one"`
	Counts      []decider.ReasonCount `json:"counts,omitempty" nullable:"false" doc:"of a run: how many open units wait for what"`
	Window      string                `json:"window,omitzero" enum:"W0,W1,W2,W3,W4,W5,W6,W7,W8" doc:"the crash window in which it is"`
	MayRepeat   bool                  `json:"may_duplicate" doc:"a crash now may make it happen twice; fences and ledgers make that harmless"`
	MayLose     bool                  `json:"may_lose" doc:"a crash now may lose it"`
}

// Next is when something happens to a thing that waits.
type Next struct {
	At   time.Time `json:"at"`
	InMS int64     `json:"in_ms"`
	What string    `json:"what"`
}

// Evidence is an event that shows a reason.
type Evidence struct {
	Position events.Position `json:"position"`
	Stream   string          `json:"stream"`
	At       time.Time       `json:"at"`
	Text     string          `json:"text"` // without tokens
}
