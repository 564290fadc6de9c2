package projections

import (
	"fmt"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// breakers holds one row per incarnation and transport whose breaker ever opened: the outage that lasts, or the last one.
var breakersTable = `
CREATE TABLE breakers (
  incarnation BLOB NOT NULL CHECK (length(incarnation) = 16),
  transport   TEXT NOT NULL,
  opened_at   INTEGER NOT NULL,
  until       INTEGER,
  closed_at   INTEGER,
  cause       TEXT,
  kinds       TEXT,
  only        TEXT,
  PRIMARY KEY (incarnation, transport),
  CHECK (until IS NULL OR closed_at IS NULL)
) STRICT, WITHOUT ROWID`

var breakersView = `CREATE VIEW breakers_view AS SELECT ` + ulidText("incarnation") + ` AS incarnation, transport,
  ` + timeText("opened_at") + ` AS opened_at, ` + timeText("until") + ` AS until, ` + timeText("closed_at") + ` AS closed_at, cause, kinds, only
  FROM breakers`

func applyBreaker(tx Writer, env events.Envelope, n decider.Node) error {
	if e, closed := env.Event.(events.BreakerClosed); closed {
		return tx.Exec(`UPDATE breakers SET until = NULL, closed_at = $3 WHERE incarnation = $1 AND transport = $2 AND closed_at IS NULL`,
			blob(n.ID), e.Transport, int64(env.At))
	}
	transport := env.Event.(events.BreakerOpened).Transport
	for _, b := range n.Breakers {
		if b.Transport != transport {
			continue
		}
		kinds, err := list(b.Kinds)
		if err != nil {
			return err
		}
		return tx.Exec(`INSERT INTO breakers (incarnation, transport, opened_at, until, cause, kinds, only) VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (incarnation, transport) DO UPDATE SET opened_at = excluded.opened_at, until = excluded.until,
			closed_at = NULL, cause = excluded.cause, kinds = excluded.kinds, only = excluded.only`,
			blob(n.ID), transport, int64(b.Since), micros(b.Until), text(b.Cause), kinds, text(b.Only))
	}
	return nil
}

// Breaker is a transport that fails at one node: the wakeups of these kinds wait there (O-16).
type Breaker struct {
	Node      events.NodeID `json:"incarnation"`
	Transport string        `json:"transport"`
	Cause     string        `json:"cause,omitzero"` // what its last failure said
	OpenedAt  time.Time     `json:"opened_at"`
	Until     time.Time     `json:"until,omitzero"` // the next probe
	Kinds     []events.Kind `json:"kinds,omitempty"`
	Only      string        `json:"only,omitzero"` // the one register whose wakeup has failed: those of others do not wait
}

// OpenBreakers lists the open breakers of the incarnations that are not gone, by incarnation and transport.
func (v View) OpenBreakers() ([]Breaker, error) {
	var out []Breaker
	err := v.tx.Query(func(r store.Row) error {
		var b Breaker
		var node []byte
		var opened int64
		var until *int64
		var cause, kinds, only *string
		if err := r.Scan(&node, &b.Transport, &opened, &until, &cause, &kinds, &only); err != nil {
			return err
		}
		copy(b.Node[:], node)
		b.OpenedAt, b.Until, b.Cause, b.Only = events.Micros(opened).Time(), optionalTime(until), deref(cause), deref(only)
		out = append(out, b)
		return decodeAll(part{deref(kinds), &out[len(out)-1].Kinds})
	}, `SELECT b.incarnation, b.transport, b.opened_at, b.until, b.cause, b.kinds, b.only
		FROM breakers b
		WHERE b.closed_at IS NULL AND b.incarnation IN (SELECT incarnation FROM nodes WHERE gone = 0)
		ORDER BY b.incarnation, b.transport`)
	if err != nil {
		return nil, fmt.Errorf("read breakers: %w", err)
	}
	return out, nil
}
