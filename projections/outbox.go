package projections

import (
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// outbox holds one row per register. Claim tokens are not here (E-4).
type outbox struct{}

func (outbox) Name() string    { return "outbox" }
func (outbox) Revision() int   { return 3 }
func (outbox) Tables() []Table { return []Table{{"outbox", "owner, kind"}} }

func (outbox) Schema() []string {
	return []string{`
CREATE TABLE outbox (
  owner              BLOB NOT NULL CHECK (length(owner) = 16),
  kind               TEXT NOT NULL,
  status             TEXT NOT NULL CHECK ` + oneOf("status", decider.RegisterIdle, decider.RegisterPending, decider.RegisterClaimed,
		decider.RegisterMarked, decider.RegisterParked, decider.RegisterUnresolved) + `,
  newest             INTEGER NOT NULL,
  current            INTEGER NOT NULL,
  closed             INTEGER NOT NULL,
  available_at       INTEGER,
  attempts           INTEGER NOT NULL,
  floor              INTEGER NOT NULL,
  maybe_published    INTEGER NOT NULL,
  lost               INTEGER NOT NULL,
  suspect            INTEGER NOT NULL,
  next               INTEGER,
  next_at            INTEGER,
  claim_expires_at   INTEGER,
  claim_node         BLOB,
  claim_messages     INTEGER,
  targets            INTEGER NOT NULL,
  outcomes           TEXT,
  resolved           TEXT,
  last_cause         TEXT,
  last_text          TEXT,
  last_dispatched_at INTEGER,
  last_closed_at     INTEGER,
  transport          TEXT,
  closed_by          BLOB,
  closers            TEXT,
  PRIMARY KEY (owner, kind),
  CHECK (closed <= current AND current <= newest),
  CHECK (next IS NULL OR next = newest AND next > current),
  CHECK (status <> 'pending' OR available_at IS NOT NULL),
  CHECK ((claim_expires_at IS NOT NULL) = ` + oneOf("status", decider.RegisterClaimed, decider.RegisterMarked) + `)
) STRICT`,
		`CREATE INDEX outbox_due ON outbox (kind, available_at, owner) WHERE status = 'pending' AND ` + trusted,
		`CREATE INDEX outbox_suspects ON outbox (kind, available_at, owner) WHERE status = 'pending' AND ` + suspected,
		`CREATE INDEX outbox_claims ON outbox (owner, kind) WHERE claim_expires_at IS NOT NULL`,
		`CREATE INDEX outbox_held ON outbox (status, owner, kind) WHERE ` + held,
		`CREATE VIEW outbox_view AS SELECT ` + ulidText("owner") + ` AS owner, kind, status, newest, current, closed,
  ` + timeText("available_at") + ` AS available_at, attempts, floor, maybe_published, lost, next, ` + timeText("next_at") + ` AS next_at,
  ` + timeText("claim_expires_at") + ` AS claim_expires_at, ` + ulidText("claim_node") + ` AS claim_node, claim_messages, targets,
  outcomes, resolved, last_cause, last_text, ` + timeText("last_dispatched_at") + ` AS last_dispatched_at,
  ` + timeText("last_closed_at") + ` AS last_closed_at, transport, ` + ulidText("closed_by") + ` AS closed_by FROM outbox`,
	}
}

// trusted and suspected part what is pending, so that crash suspects that wait for their turn are in nobody's way (M-16).
const (
	trusted   = "suspect = 0"
	suspected = "suspect = 1"
)

// held are the registers that wait for a person or for an outcome.
var held = oneOf("status", decider.RegisterMarked, decider.RegisterParked, decider.RegisterUnresolved)

func (outbox) Apply(tx Writer, env events.Envelope, before, after decider.State) error {
	if r, ok := after.(decider.Register); ok {
		return applyRegister(tx, env, before.(decider.Register).Status == "", r)
	}
	return nil
}

func applyRegister(tx Writer, env events.Envelope, first bool, r decider.Register) error {
	if _, claimed := env.Event.(events.OutboxClaimed); claimed {
		return tx.Exec(`UPDATE outbox SET status = 'claimed', available_at = NULL, floor = 0, attempts = $3,
			claim_expires_at = $4, claim_node = $5, claim_messages = $6 WHERE owner = $1 AND kind = $2`,
			blob(r.Owner), string(r.Kind), r.Attempts, claimExpiry(r), blob(r.Claim.Node), number(r.Claim.Messages))
	}
	outcomes, err := list(r.Outcomes)
	if err != nil {
		return err
	}
	resolved, err := list(r.Resolved)
	if err != nil {
		return err
	}
	closers, err := list(r.Closers)
	if err != nil {
		return err
	}
	args := []any{
		blob(r.Owner), string(r.Kind), string(r.Status), r.Newest, r.Current, r.Closed, micros(r.AvailableAt), r.Attempts,
		flag(r.Floor), flag(r.MaybePublished), number(r.Next), micros(r.NextAt), claimExpiry(r),
		blob(r.Claim.Node), number(r.Claim.Messages), r.Targets, outcomes, resolved, text(r.LastCause), text(r.LastText),
		micros(r.LastDispatchedAt), micros(r.LastClosedAt), text(r.Transport), blob(r.ClosedBy), closers, r.Lost, flag(r.Suspect()),
	}
	if first {
		return tx.Exec(`INSERT INTO outbox (owner, kind, status, newest, current, closed, available_at, attempts, floor,
			maybe_published, next, next_at, claim_expires_at, claim_node, claim_messages, targets, outcomes, resolved,
			last_cause, last_text, last_dispatched_at, last_closed_at, transport, closed_by, closers, lost, suspect)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
			$24, $25, $26, $27)`, args...)
	}
	return tx.Exec(`UPDATE outbox SET status = $3, newest = $4, current = $5, closed = $6, available_at = $7, attempts = $8,
		floor = $9, maybe_published = $10, next = $11, next_at = $12, claim_expires_at = $13, claim_node = $14,
		claim_messages = $15, targets = $16, outcomes = $17, resolved = $18, last_cause = $19, last_text = $20,
		last_dispatched_at = $21, last_closed_at = $22, transport = $23, closed_by = $24, closers = $25, lost = $26, suspect = $27
		WHERE owner = $1 AND kind = $2`, args...)
}

// claimExpiry is 0 for a claim without a time, which counts as expired (O-14), and NULL where there is no claim.
func claimExpiry(r decider.Register) any {
	if r.Status == decider.RegisterClaimed || r.Status == decider.RegisterMarked {
		return int64(r.Claim.ExpiresAt)
	}
	return nil
}

func number(n int) any {
	if n == 0 {
		return nil
	}
	return int64(n)
}
