package projections

import (
	"fmt"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// units is SyncRunUnit. The secret of a lease is not here: no page or query could show it by mistake (E-4). The ends of a
// lease are those in force, with the grace of a clock step; it is the one thing here that no event of the unit says (CLK-4).
type units struct{}

func (units) Name() string    { return "units" }
func (units) Revision() int   { return 2 }
func (units) Tables() []Table { return []Table{{"units", "unit_id"}} }

func (units) Schema() []string {
	return []string{`
CREATE TABLE units (
  unit_id               BLOB PRIMARY KEY CHECK (length(unit_id) = 16),
  run_id                BLOB NOT NULL,
  ordinal               INTEGER NOT NULL,
  source                TEXT NOT NULL,
  provider              TEXT NOT NULL,
  dataset               TEXT NOT NULL,
  members               TEXT,
  tier                  TEXT NOT NULL CHECK ` + oneOf("tier", events.TierReference, events.TierWorkItem) + `,
  cost_class            TEXT NOT NULL,
  mode                  TEXT NOT NULL,
  window_from           INTEGER,
  window_to             INTEGER NOT NULL,
  surfaces              TEXT,
  fingerprint           TEXT,
  calendar              TEXT,
  watermark             INTEGER NOT NULL DEFAULT 0,
  status                TEXT NOT NULL CHECK ` + oneOf("status", events.UnitIsPlanned, events.UnitIsDispatching, events.UnitIsRunning,
		events.UnitIsRetrying, events.UnitHasSucceeded, events.UnitHasFailed, events.UnitIsCancelled) + `,
  dispatch              INTEGER NOT NULL DEFAULT 0,
  attempt_dispatches    INTEGER NOT NULL DEFAULT 0,
  first_dispatched_at   INTEGER,
  last_dispatched_at    INTEGER,
  wakeup                INTEGER NOT NULL DEFAULT 0,
  attempt               INTEGER NOT NULL DEFAULT 0,
  claimed_position      INTEGER,
  claimed_at            INTEGER,
  lease_expires_at      INTEGER,
  lease_ends_at         INTEGER,
  lease_node            BLOB,
  grace_until           INTEGER,
  worker                TEXT,
  last_renewed_at       INTEGER,
  available_at          INTEGER,
  expired_lease_retries INTEGER NOT NULL DEFAULT 0,
  rate_limit_deferrals  INTEGER NOT NULL DEFAULT 0,
  rate_limit_first_at   INTEGER,
  hand_backs            INTEGER NOT NULL DEFAULT 0,
  suspect               INTEGER NOT NULL DEFAULT 0,
  error_category        TEXT,
  error_text            TEXT,
  settled_by            TEXT,
  reason                TEXT,
  late_results          INTEGER NOT NULL DEFAULT 0,
  result                TEXT,
  duration              INTEGER,
  planned_at            INTEGER NOT NULL,
  settled_at            INTEGER,
  CHECK ((available_at IS NOT NULL) = (status = 'retrying')),
  CHECK ((lease_expires_at IS NOT NULL) = (status = 'running')),
  CHECK ((reason IS NOT NULL) = (status = 'cancelled')),
  CHECK (grace_until IS NULL OR status = 'running'),
  CHECK ((settled_at IS NOT NULL) = ` + oneOf("status", events.UnitHasSucceeded, events.UnitHasFailed, events.UnitIsCancelled) + `)
) STRICT`,
		`CREATE INDEX units_run ON units (run_id, ordinal)`,
		`CREATE INDEX units_lease ON units (lease_expires_at, unit_id) WHERE status = 'running'`,
		`CREATE VIEW units_view AS SELECT ` + ulidText("unit_id") + ` AS unit_id, ` + ulidText("run_id") + ` AS run_id, ordinal,
  source, provider, dataset, members, tier, cost_class, mode, ` + timeText("window_from") + ` AS window_from,
  ` + timeText("window_to") + ` AS window_to, surfaces, fingerprint, status, dispatch, attempt, wakeup,
  ` + timeText("first_dispatched_at") + ` AS first_dispatched_at, ` + timeText("last_dispatched_at") + ` AS last_dispatched_at,
  ` + timeText("claimed_at") + ` AS claimed_at, ` + timeText("lease_expires_at") + ` AS lease_expires_at,
  ` + ulidText("lease_node") + ` AS lease_node, worker, ` + timeText("grace_until") + ` AS grace_until,
  ` + timeText("available_at") + ` AS available_at, expired_lease_retries, rate_limit_deferrals, hand_backs, suspect,
  error_category, error_text, settled_by, reason, late_results, result, duration / 1000 AS duration_ms,
  ` + timeText("planned_at") + ` AS planned_at, ` + timeText("settled_at") + ` AS settled_at
  FROM units`,
	}
}

// Apply writes the columns that an event can change and no others: the hot ones have a statement each.
func (units) Apply(tx Writer, env events.Envelope, _, after decider.State) error {
	if u, ok := after.(decider.Unit); ok {
		return applyUnit(tx, env, u)
	}
	if e, ok := env.Event.(events.ClockStepped); ok {
		return graceLeases(tx, e, ``)
	}
	return nil
}

func applyUnit(tx Writer, env events.Envelope, u decider.Unit) error {
	switch env.Event.(type) {
	case events.UnitPlanned:
		return insertUnit(tx, u)
	case events.UnitDispatched:
		return tx.Exec(`UPDATE units SET status = 'dispatching', dispatch = $2, attempt_dispatches = $3,
			first_dispatched_at = $4, last_dispatched_at = $5, wakeup = $6, available_at = NULL
			WHERE unit_id = $1`,
			blob(u.ID), u.Dispatches, u.AttemptDispatches, int64(u.FirstDispatchedAt), int64(u.LastDispatchedAt), u.Wakeup)
	case events.UnitClaimed:
		return tx.Exec(`UPDATE units SET status = 'running', attempt = $2, claimed_position = $3, claimed_at = $4,
			lease_expires_at = $5, lease_ends_at = $6, lease_node = $7, grace_until = NULL, worker = $8, last_renewed_at = NULL
			WHERE unit_id = $1`,
			blob(u.ID), u.Attempt, int64(u.Claimed), int64(u.ClaimedAt), int64(u.Lease.ExpiresAt), int64(u.Lease.EndsAt),
			blob(u.Lease.Node), text(u.Lease.Worker))
	case events.UnitSucceeded:
		result, err := resultColumn(u.Result)
		if err != nil {
			return err
		}
		return tx.Exec(`UPDATE units SET status = 'succeeded', lease_expires_at = NULL, lease_ends_at = NULL, lease_node = NULL,
			grace_until = NULL, worker = NULL, rate_limit_deferrals = 0, rate_limit_first_at = NULL, hand_backs = $2, suspect = 0, error_category = NULL,
			error_text = NULL, settled_by = NULL, result = $3, duration = $4, settled_at = $5 WHERE unit_id = $1`,
			blob(u.ID), u.HandBacks, result, duration(u.Duration), int64(u.SettledAt))
	case events.UnitLeaseRenewed:
		return tx.Exec(`UPDATE units SET lease_expires_at = max($2, coalesce(grace_until, 0)), last_renewed_at = $3 WHERE unit_id = $1`,
			blob(u.ID), int64(u.Lease.ExpiresAt), int64(u.LastRenewedAt))
	case events.UnitLateResult:
		return tx.Exec(`UPDATE units SET late_results = $2 WHERE unit_id = $1`, blob(u.ID), len(u.Late))
	case events.UnitLeaseExpired:
		return nil // the decision that follows writes the row
	}
	return settleUnit(tx, u)
}

func settleUnit(tx Writer, u decider.Unit) error {
	result, err := resultColumn(u.Result)
	if err != nil {
		return err
	}
	return tx.Exec(`UPDATE units SET status = $2, available_at = $3, lease_expires_at = NULL, lease_ends_at = NULL,
		lease_node = NULL, grace_until = NULL, worker = NULL, expired_lease_retries = $4, rate_limit_deferrals = $5, rate_limit_first_at = $6,
		hand_backs = $7, error_category = $8, error_text = $9, settled_by = $10, result = $11, duration = $12,
		settled_at = $13, reason = $14, suspect = $15 WHERE unit_id = $1`,
		blob(u.ID), string(u.Status), micros(u.AvailableAt), u.ExpiredLeaseRetries, u.RateLimitDeferrals,
		micros(u.RateLimitFirstAt), u.HandBacks, text(u.Category), text(u.Text), text(u.By), result, duration(u.Duration),
		micros(u.SettledAt), text(u.Cancelled), flag(u.Suspect))
}

func insertUnit(tx Writer, u decider.Unit) error {
	p := u.Plan
	members, err := list(p.Members)
	if err != nil {
		return err
	}
	surfaces, err := list(p.Surfaces)
	if err != nil {
		return err
	}
	return tx.Exec(`INSERT INTO units (unit_id, run_id, ordinal, source, provider, dataset, members, tier, cost_class, mode,
		window_from, window_to, surfaces, fingerprint, calendar, watermark, status, planned_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, 'planned', $17)`,
		blob(u.ID), blob(p.Run), p.Ordinal, p.Source, p.Provider, p.Dataset, members, string(p.Tier), string(p.Cost), string(p.Mode),
		windowFrom(p.Window), p.Window.To.UnixMicro(), surfaces, text(p.Fingerprint), text(p.Calendar), flag(p.Watermark),
		int64(u.PlannedAt))
}

func resultColumn(r events.Result) (any, error) {
	if r.Rows == 0 && r.Fingerprint == "" && len(r.State) == 0 && len(r.Detail) == 0 {
		return nil, nil
	}
	s, err := asJSON(r)
	if err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	return s, nil
}

func duration(s events.Span) any {
	if s == 0 {
		return nil
	}
	return int64(s)
}
