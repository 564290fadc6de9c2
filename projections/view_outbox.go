package projections

import (
	"fmt"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// Register is one outbox register (spec 4.2).
type Register struct {
	Owner          events.RunID            `json:"owner"`
	Kind           events.Kind             `json:"kind"`
	Status         decider.RegisterStatus  `json:"state"`
	Current        int                     `json:"current"`
	Closed         int                     `json:"closed"`
	AvailableAt    time.Time               `json:"available_at,omitzero"`
	Floor          bool                    `json:"floor,omitzero"` // the time was set by a counted release (O-4)
	Attempts       int                     `json:"attempts"`
	Lost           int                     `json:"lost,omitzero"` // of a message: how many processes in a row have died with it
	Next           int                     `json:"next,omitzero"`
	NextAt         time.Time               `json:"next_at,omitzero"`
	ClaimExpiresAt time.Time               `json:"claim_expires_at,omitzero"`
	ClaimNode      events.NodeID           `json:"claim_node,omitzero"`
	MaybePublished bool                    `json:"maybe_published,omitzero"`
	Outcomes       []decider.TargetOutcome `json:"outcomes,omitempty"`
	Resolved       []decider.Resolution    `json:"resolved,omitempty"` // by an operator (O-17)
	LastCause      string                  `json:"last_cause,omitzero"`
	LastText       string                  `json:"last_text,omitzero"`
	LastDispatched time.Time               `json:"last_dispatched_at,omitzero"`
	LastClosed     time.Time               `json:"last_closed_at,omitzero"`
	Transport      string                  `json:"transport,omitzero"`
}

const registerColumns = `owner, kind, status, current, closed, available_at, floor, attempts, next, next_at, claim_expires_at,
	claim_node, maybe_published, outcomes, resolved, last_cause, last_text, last_dispatched_at, last_closed_at, transport, lost`

// Key names the register.
func (r Register) Key() Key { return Key{Owner: r.Owner, Kind: r.Kind} }

// RegistersOf lists the registers of a run.
func (v View) RegistersOf(run events.RunID) ([]Register, error) {
	return v.of(registerRows(run)).registers(`SELECT `+registerColumns+` FROM outbox WHERE owner = $1 ORDER BY kind`, run[:])
}

// OpenRegisters lists the registers whose wakeup is still to be published, at most limit of them, oldest due first.
func (v View) OpenRegisters(limit int) ([]Register, error) {
	all := Wakeups{Kinds: events.Kinds[:], Suspects: AlsoSuspects}
	return v.registers(all.each(`SELECT `+registerColumns+` FROM outbox`, ``)+`
		ORDER BY available_at, owner, kind LIMIT $1`, limit)
}

func (v View) registers(query string, args ...any) ([]Register, error) {
	var out []Register
	err := v.tx.Query(func(r store.Row) error {
		var g Register
		var owner, node []byte
		var kind, status string
		var available, next, nextAt, expires, dispatched, closed *int64
		var outcomes, resolved, cause, text, transport *string
		var floor, maybe int
		err := r.Scan(&owner, &kind, &status, &g.Current, &g.Closed, &available, &floor, &g.Attempts, &next, &nextAt, &expires, &node,
			&maybe, &outcomes, &resolved, &cause, &text, &dispatched, &closed, &transport, &g.Lost)
		if err != nil {
			return err
		}
		copy(g.Owner[:], owner)
		copy(g.ClaimNode[:], node)
		g.Kind, g.Status = events.Kind(kind), decider.RegisterStatus(status)
		g.AvailableAt, g.Next, g.NextAt = optionalTime(available), int(derefInt(next)), optionalTime(nextAt)
		g.ClaimExpiresAt, g.Floor, g.MaybePublished = optionalTime(expires), floor == 1, maybe == 1
		g.LastCause, g.LastText, g.Transport = deref(cause), deref(text), deref(transport)
		g.LastDispatched, g.LastClosed = optionalTime(dispatched), optionalTime(closed)
		out = append(out, g)
		last := &out[len(out)-1]
		return decodeAll(part{deref(outcomes), &last.Outcomes}, part{deref(resolved), &last.Resolved})
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read registers: %w", err)
	}
	return out, nil
}
