package wire

import (
	"encoding/json"

	"github.com/towline-dev/towline/events"
)

// AnyJSON is JSON that passes through as it is, with every digit; nil is null.
type AnyJSON json.RawMessage

// MarshalJSON writes what it holds.
func (j AnyJSON) MarshalJSON() ([]byte, error) { return json.RawMessage(j).MarshalJSON() }

// UnmarshalJSON keeps what it is given.
func (j *AnyJSON) UnmarshalJSON(b []byte) error { return (*json.RawMessage)(j).UnmarshalJSON(b) }

// Lease is a worker's right to one attempt of one unit.
type Lease struct {
	Token        string        `json:"lease_token" doc:"a secret: send it in the header Lease-Token, and write it nowhere"`
	Unit         events.UnitID `json:"unit"`
	Alias        string        `json:"alias"`
	Run          events.RunID  `json:"run"`
	Attempt      int           `json:"attempt"`
	Fence        events.Fence  `json:"fence" doc:"what your sink compares, as text, in its own transaction: refuse a write with a lower one than it has seen"`
	Store        string        `json:"store" doc:"whose fence it is: fences of two stores cannot be compared"`
	ExpiresInMS  int64         `json:"expires_in_ms" doc:"until it ends if it is not renewed"`
	RenewEveryMS int64         `json:"renew_every_ms"`
	LifetimeMS   int64         `json:"lifetime_ms" doc:"until it ends, however often it is renewed"`
	Sync         string        `json:"sync"`
	Provider     string        `json:"provider"`
	Source       string        `json:"source"`
	Dataset      string        `json:"dataset"`
	Members      []string      `json:"members" nullable:"false" doc:"of a family, else the dataset itself"`
	Mode         events.Mode   `json:"mode" enum:"incremental,backfill,full_resync"`
	Window       Window        `json:"window"`
	Surfaces     []string      `json:"surfaces" nullable:"false" doc:"all that you may write to"`
	Fingerprint  string        `json:"fingerprint,omitzero"`
	State        AnyJSON       `json:"state" doc:"what the last success of this source and dataset has left; null: nothing"`
	Config       AnyJSON       `json:"config" doc:"of the sync; null: none"`
}

// Claim is the body of POST /v1/units/{id}/claim.
type Claim struct {
	Worker string `json:"worker" minLength:"1" maxLength:"200" doc:"for people"`
}

// ClaimAny is the body of POST /v1/leases/claim.
type ClaimAny struct {
	Worker   string   `json:"worker" minLength:"1" maxLength:"200" doc:"for people"`
	Secret   string   `json:"secret,omitzero" minLength:"22" maxLength:"100" doc:"random, and new for each request: the same request again, because its answer was lost, gives the leases that it had got"`
	WaitMS   int64    `json:"wait_ms,omitzero" minimum:"0" maximum:"60000" doc:"wait so long for a unit"`
	Max      int      `json:"max,omitzero" minimum:"1" maximum:"16" default:"1" doc:"leases at once"`
	Syncs    []string `json:"syncs,omitempty" doc:"that this worker knows; not given: all"`
	Sources  []string `json:"sources,omitempty" doc:"the same"`
	Datasets []string `json:"datasets,omitempty" doc:"the same"`
	Known    []Known  `json:"known,omitempty" doc:"the same, sync by sync: a unit must fit one of them"`
}

// Known is what a worker knows of a sync.
type Known struct {
	Sync     string   `json:"sync" minLength:"1"`
	Provider string   `json:"provider,omitzero" doc:"not given: any"`
	Sources  []string `json:"sources,omitempty" doc:"not given: all"`
	Datasets []string `json:"datasets,omitempty" doc:"the same"`
}

// Leases are those that a worker has got.
type Leases struct {
	Leases   []Lease `json:"leases" nullable:"false"`
	WaitedMS int64   `json:"waited_ms,omitzero" doc:"how long the request had waited when the first was claimed: the times of a lease count from then"`
}

// Renewed says how long a lease lasts now.
type Renewed struct {
	ExpiresInMS  int64 `json:"expires_in_ms"`
	RenewEveryMS int64 `json:"renew_every_ms"`
	LifetimeMS   int64 `json:"lifetime_ms"`
}

// Progress of a unit, in whatever its worker counts. It is checked, and not shown yet.
type Progress struct {
	Done  int64 `json:"done" minimum:"0"`
	Total int64 `json:"total,omitzero" minimum:"0"`
}

// Renew is the body of POST /v1/leases/renew.
type Renew struct {
	Progress *Progress `json:"progress,omitempty"`
}

// Complete is the body of POST /v1/leases/complete.
type Complete struct {
	Result Result          `json:"result,omitzero"`
	State  json.RawMessage `json:"state,omitempty" doc:"for the next unit of the same source and dataset; at most 64 KiB with result.detail"`
}

// Fail is the body of POST /v1/leases/fail.
type Fail struct {
	Category     events.Category `json:"category" enum:"rate_limit,timeout,network,auth,not_found,configuration,provider_error,sink_error,undeclared_surface"`
	Detail       string          `json:"detail,omitzero" doc:"secrets are masked, and it is cut"`
	RetryAfterMS int64           `json:"retry_after_ms,omitzero" minimum:"0" doc:"of a rate limit: when it ends"`
	Account      string          `json:"account,omitzero" maxLength:"200" doc:"of a rate limit: whose it is, if sources share it"`
	Result       Result          `json:"result,omitzero"`
}

// Release is the body of POST /v1/leases/release.
type Release struct {
	Reason string `json:"reason,omitzero"`
}

// Settled says which attempt was ended. The same call again gives the same answer.
type Settled struct {
	Unit    events.UnitID `json:"unit"`
	Attempt int           `json:"attempt"`
}
