package wire

import (
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// State is the whole engine in short, as it was behind an event.
type State struct {
	Seq        events.Position         `json:"seq"`
	At         time.Time               `json:"at,omitzero" doc:"of the event at seq"`
	Runs       []Run                   `json:"runs" nullable:"false" doc:"that are open, oldest first, 100 at most"`
	Entries    []Entry                 `json:"outbox" nullable:"false" doc:"that are to be published, oldest due first, 100 at most"`
	Held       []Entry                 `json:"held" nullable:"false" doc:"that wait for a person or an outcome, 100 at most"`
	Hold       *projections.Restored   `json:"restored_hold,omitempty" doc:"of a store that was restored and that nobody has released: nothing is sent; missing: there is none"`
	NeedPerson int                     `json:"needs_person" doc:"how many things wait for one"`
	Paused     []projections.Pause     `json:"paused" nullable:"false"`
	Cooldowns  []projections.Cooldown  `json:"cooldowns" nullable:"false"`
	Breakers   []projections.Breaker   `json:"breakers" nullable:"false"`
	Nodes      []projections.Node      `json:"nodes" nullable:"false" doc:"that are not known to be gone"`
	Watermarks []projections.Watermark `json:"watermarks" nullable:"false"`
}

// Coverage says which periods of a source and dataset have succeeded.
type Coverage struct {
	Source  string    `json:"source"`
	Dataset string    `json:"dataset"`
	Done    []Covered `json:"done" nullable:"false" doc:"by start"`
}

// Covered is one period that has succeeded.
type Covered struct {
	Window      Window `json:"window"`
	Fingerprint string `json:"fingerprint,omitzero" doc:"of what was read; another one now means that it is stale"`
}

// Position is a place in the log.
type Position struct {
	Seq events.Position `json:"seq"`
}
