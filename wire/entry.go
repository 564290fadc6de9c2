package wire

import (
	"time"

	"github.com/towline-dev/towline/events"
)

// Entry is one outbox register with its present wakeup.
type Entry struct {
	ID             string        `json:"id" doc:"OWNER.KIND.N, as message ids begin"`
	Alias          string        `json:"alias" doc:"RUN/KIND#N"`
	Owner          events.RunID  `json:"owner" doc:"a run, or of kind message the message"`
	Kind           events.Kind   `json:"kind" enum:"dispatch_sync_run,run_sync_unit,finalize_sync_run,post_sync,message"`
	Guarantee      string        `json:"guarantee,omitzero" enum:"at_least_once,at_most_once,exactly_once" doc:"of post_sync it is that of the run, and given for one entry only"`
	State          string        `json:"state" enum:"idle,pending,claimed,marked,parked,unresolved"`
	Outcome        string        `json:"outcome,omitzero" enum:"accepted,refused,unknown" doc:"of the last publish"`
	N              int           `json:"n" doc:"number of the present wakeup"`
	Closed         int           `json:"closed" doc:"highest number that is closed"`
	Attempts       int           `json:"attempts" doc:"of the present wakeup"`
	AvailableAt    time.Time     `json:"available_at,omitzero" doc:"while pending: when it may be published"`
	Next           int           `json:"next,omitzero" doc:"the number that waits behind it"`
	NextAt         time.Time     `json:"next_at,omitzero"`
	ClaimExpiresAt time.Time     `json:"claim_expires_at,omitzero"`
	ClaimNode      events.NodeID `json:"claim_node,omitzero"`
	MaybePublished bool          `json:"maybe_published,omitzero"`
	Targets        []Target      `json:"targets,omitempty" nullable:"false" doc:"of post_sync: what is known of each publish"`
	LastCause      string        `json:"last_cause,omitzero"`
	LastText       string        `json:"last_text,omitzero"`
	LastDispatched time.Time     `json:"last_dispatched_at,omitzero"`
	LastClosed     time.Time     `json:"last_closed_at,omitzero"`
	Transport      string        `json:"transport,omitzero"`
	Lost           int           `json:"lost,omitzero" doc:"of a message: how many processes in a row have died with it"`
}

// Target is what is known of the publish to one target of a post_sync.
type Target struct {
	Target   string `json:"target"`
	Outcome  string `json:"outcome,omitzero" enum:"accepted,refused,unknown"`
	Cause    string `json:"cause,omitzero"`
	Resolved string `json:"resolved,omitzero" enum:"delivered,lost"`
	By       string `json:"by,omitzero" doc:"who has resolved it"`
	Why      string `json:"reason,omitzero"`
}

// Resolve is the body of POST /v1/outbox/{id}/resolve: what the caller has found out.
type Resolve struct {
	Outcome events.Resolution `json:"outcome" enum:"delivered,lost"`
	Target  string            `json:"target,omitzero" doc:"of a fan-out; not given: the only one that is unknown"`
	Reason  string            `json:"reason" minLength:"1" doc:"for the record"`
}
