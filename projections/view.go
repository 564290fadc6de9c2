package projections

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// View answers questions about one state of the log: a snapshot, or the transaction that asks.
type View struct {
	tx store.ReadTx
}

// NewView reads what tx sees.
func NewView(tx store.ReadTx) View { return View{tx} }

// Head is the position and time of the newest event: every answer is as of it.
func (v View) Head() (events.Position, events.Micros, error) { return v.tx.Head() }

// Stream is the history of one stream, oldest first.
func (v View) Stream(id events.StreamID) ([]events.Envelope, error) { return v.tx.Stream(id) }

// After is one page of the log: at most limit events behind p.
func (v View) After(p events.Position, limit int) ([]events.Envelope, error) {
	return v.tx.After(p, limit)
}

// SyncRun is one run (spec 4.2). Status is running while a unit is, and counts are those of the moment.
type SyncRun struct {
	Run         events.RunID     `json:"run_id"`
	Job         events.JobID     `json:"job_id"`
	Sync        string           `json:"sync"`
	TriggeredBy events.Trigger   `json:"triggered_by"`
	Mode        events.Mode      `json:"mode"`
	Selection   events.Selection `json:"selection"`
	RetryOf     events.RunID     `json:"retry_of,omitzero"`
	LeftOut     []events.LeftOut `json:"left_out,omitempty"`
	Policy      events.Policy    `json:"policy"`
	Status      events.RunStatus `json:"status"`
	Reason      string           `json:"reason,omitzero"`
	Total       int              `json:"total_units"`
	Succeeded   int              `json:"succeeded_units"`
	Failed      int              `json:"failed_units"`
	Cancelled   int              `json:"cancelled_units"`
	PlannedAt   time.Time        `json:"planned_at"`
	StartedAt   time.Time        `json:"started_at,omitzero"`
	CompletedAt time.Time        `json:"completed_at,omitzero"`
	PostSync    PostSyncState    `json:"post_sync"`
}

const runColumns = `r.run_id, r.job_id, r.sync, r.triggered_by, r.mode, r.selection, r.retry_of, r.left_out, r.policy,
	r.status, r.reason, r.total_units, r.succeeded_units, r.failed_units, r.cancelled_units, r.planned_at, r.started_at,
	r.completed_at, r.post_sync_owed, r.effects, r.posts, p.closed, p.outcomes, p.resolved`

// runTables are those of runColumns: a run, and the register of its post_sync.
const runTables = `runs r LEFT JOIN outbox p ON p.owner = r.run_id AND p.kind = 'post_sync'`

// Run is one run, and false if there is none of that id.
func (v View) Run(id events.RunID) (SyncRun, bool, error) {
	runs, err := v.of(runRow(id)).runs(`SELECT `+runColumns+` FROM `+runTables+` WHERE r.run_id = $1`, id[:])
	if err != nil || len(runs) == 0 {
		return SyncRun{}, false, err
	}
	return runs[0], true, nil
}

// Runs lists runs, newest first, at most limit of them before a run; the zero id begins at the newest.
func (v View) Runs(before events.RunID, limit int) ([]SyncRun, error) {
	if before.IsZero() {
		for i := range before {
			before[i] = 0xff
		}
	}
	return v.runs(`SELECT `+runColumns+` FROM `+runTables+` WHERE r.run_id < $1 ORDER BY r.run_id DESC LIMIT $2`, before[:], limit)
}

// OpenRuns lists runs that have not ended, oldest first, at most limit of them after a run.
func (v View) OpenRuns(after events.RunID, limit int) ([]SyncRun, error) {
	return v.runs(`SELECT `+runColumns+` FROM `+runTables+` WHERE r.completed_at IS NULL AND r.run_id > $1
		ORDER BY r.run_id LIMIT $2`, after[:], limit)
}

// OpenRunOf is the oldest open run of a sync, and false if there is none (P-10).
func (v View) OpenRunOf(sync string) (events.RunID, bool, error) {
	var id events.RunID
	found := false
	err := v.tx.Query(func(r store.Row) error { found = true; return scanID(r, &id) },
		`SELECT run_id FROM runs WHERE completed_at IS NULL AND sync = $1 ORDER BY run_id LIMIT 1`, sync)
	return id, found, err
}

// RetriesOf lists the runs that retry a run, oldest first, at most limit of them.
func (v View) RetriesOf(run events.RunID, limit int) ([]SyncRun, error) {
	return v.runs(`SELECT `+runColumns+` FROM `+runTables+` WHERE r.retry_of = $1 ORDER BY r.run_id LIMIT $2`, run[:], limit)
}

func (v View) runs(query string, args ...any) ([]SyncRun, error) {
	var out []SyncRun
	err := v.tx.Query(func(r store.Row) error {
		run, err := scanRun(r)
		out = append(out, run)
		return err
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read runs: %w", err)
	}
	for i := range out {
		if !out[i].Status.Terminal() {
			if err := v.countUnits(&out[i]); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// countUnits fills in the counts of a run that is still open, and the derived status running.
func (v View) countUnits(run *SyncRun) error {
	var ended, busy int
	err := v.of(unitRows(run.Run)).tx.Query(func(r store.Row) error {
		var status string
		var n int
		if err := r.Scan(&status, &n); err != nil {
			return err
		}
		switch events.UnitStatus(status) {
		case events.UnitHasSucceeded:
			run.Succeeded = n
		case events.UnitHasFailed:
			run.Failed = n
		case events.UnitIsCancelled:
			run.Cancelled = n
		case events.UnitIsRunning, events.UnitIsRetrying:
			busy += n
		}
		return nil
	}, `SELECT status, count(*) FROM units WHERE run_id = $1 GROUP BY status`, run.Run[:])
	if err != nil {
		return fmt.Errorf("count units of run %s: %w", run.Run, err)
	}
	ended = run.Succeeded + run.Failed + run.Cancelled
	if busy > 0 || ended > 0 && ended < run.Total {
		run.Status = events.RunIsRunning
	}
	return nil
}

func scanRun(r store.Row) (SyncRun, error) {
	var run SyncRun
	var id, job, retryOf []byte
	var triggeredBy, mode, status, selection, policy string
	var leftOut, reason, effects, posts, outcomes, resolved *string
	var planned int64
	var started, completed, sent *int64
	var owed int
	err := r.Scan(&id, &job, &run.Sync, &triggeredBy, &mode, &selection, &retryOf, &leftOut, &policy, &status, &reason,
		&run.Total, &run.Succeeded, &run.Failed, &run.Cancelled, &planned, &started, &completed, &owed,
		&effects, &posts, &sent, &outcomes, &resolved)
	if err != nil {
		return run, err
	}
	copy(run.Run[:], id)
	copy(run.Job[:], job)
	copy(run.RetryOf[:], retryOf)
	run.TriggeredBy, run.Mode, run.Status = events.Trigger(triggeredBy), events.Mode(mode), events.RunStatus(status)
	run.PlannedAt, run.StartedAt, run.CompletedAt = events.Micros(planned).Time(), optionalTime(started), optionalTime(completed)
	run.Reason, run.PostSync.Owed, run.PostSync.Effects = deref(reason), owed == 1, decider.Effects(deref(effects))
	known := publishes{sent: derefInt(sent) > 0}
	err = decodeAll(
		part{selection, &run.Selection}, part{policy, &run.Policy}, part{deref(leftOut), &run.LeftOut},
		part{deref(posts), &run.PostSync.Posts}, part{deref(outcomes), &known.outcomes}, part{deref(resolved), &known.resolved})
	run.PostSync.Targets = run.targets(known)
	return run, err
}

// SyncRunUnit is one unit (spec 4.2).
type SyncRunUnit struct {
	Unit                events.UnitID       `json:"unit_id"`
	Alias               string              `json:"alias"`
	Run                 events.RunID        `json:"run_id"`
	Ordinal             int                 `json:"ordinal"`
	Source              string              `json:"source"`
	Provider            string              `json:"provider"`
	Dataset             string              `json:"dataset"`
	Members             []string            `json:"members"`
	Tier                events.Tier         `json:"tier"`
	Cost                events.Cost         `json:"cost_class"`
	Mode                events.Mode         `json:"mode"`
	Window              events.Window       `json:"window"`
	Surfaces            []string            `json:"surfaces"`
	Fingerprint         string              `json:"fingerprint,omitzero"`
	Status              events.UnitStatus   `json:"status"`
	Dispatch            int                 `json:"dispatch"`
	Attempt             int                 `json:"attempt"`
	Claimed             events.Position     `json:"claimed_position,omitzero"`    // the fence is the epoch and this
	FirstDispatchedAt   time.Time           `json:"first_dispatched_at,omitzero"` // of the newest attempt: a retry sets it anew (U-3)
	LastDispatchedAt    time.Time           `json:"last_dispatched_at,omitzero"`
	AvailableAt         time.Time           `json:"available_at,omitzero"`
	LeaseExpiresAt      time.Time           `json:"lease_expires_at,omitzero"`
	LeaseNode           events.NodeID       `json:"lease_node,omitzero"`
	GraceUntil          time.Time           `json:"grace_until,omitzero"` // of a clock step, and LeaseExpiresAt is no earlier (CLK-4)
	Worker              string              `json:"worker,omitzero"`
	ClaimedAt           time.Time           `json:"claimed_at,omitzero"`
	ExpiredLeaseRetries int                 `json:"expired_lease_retries,omitzero"`
	Suspect             bool                `json:"suspect,omitzero"` // its process died under it, and its retries are spent (RW-8)
	RateLimitDeferrals  int                 `json:"rate_limit_deferrals,omitzero"`
	RateLimitFirstAt    time.Time           `json:"rate_limit_first_at,omitzero"`
	HandBacks           int                 `json:"hand_backs,omitzero"`
	ErrorCategory       events.Category     `json:"error_category,omitzero"`
	ErrorText           string              `json:"error_text,omitzero"`
	Reason              events.CancelReason `json:"reason,omitzero"` // why it was cancelled
	LateResults         int                 `json:"late_results,omitzero"`
	Result              events.Result       `json:"result,omitzero"`
	Duration            time.Duration       `json:"duration_ns,omitzero"`
	PlannedAt           time.Time           `json:"planned_at"`
	SettledAt           time.Time           `json:"settled_at,omitzero"`
}

// UnitOf is the row of a folded unit: what the tables hold of it, without a query.
func UnitOf(u decider.Unit) SyncRunUnit {
	p := u.Plan
	return SyncRunUnit{
		Unit: u.ID, Alias: events.Alias(p.Run, p.Source, p.Dataset, p.Window), Run: p.Run, Ordinal: p.Ordinal, Source: p.Source,
		Provider: p.Provider, Dataset: p.Dataset, Members: p.Datasets(), Tier: p.Tier, Cost: p.Cost, Mode: p.Mode,
		Window: p.Window, Surfaces: p.Surfaces, Fingerprint: p.Fingerprint, Status: u.Status, Dispatch: u.Dispatches,
		Attempt: u.Attempt, Claimed: u.Claimed, FirstDispatchedAt: u.FirstDispatchedAt.Time(),
		LastDispatchedAt: u.LastDispatchedAt.Time(), AvailableAt: u.AvailableAt.Time(), LeaseExpiresAt: u.Lease.ExpiresAt.Time(),
		LeaseNode: u.Lease.Node, Worker: u.Lease.Worker, ClaimedAt: u.ClaimedAt.Time(),
		ExpiredLeaseRetries: u.ExpiredLeaseRetries, Suspect: u.Suspect, RateLimitDeferrals: u.RateLimitDeferrals,
		RateLimitFirstAt: u.RateLimitFirstAt.Time(), HandBacks: u.HandBacks, ErrorCategory: u.Category, ErrorText: u.Text,
		Reason: u.Cancelled, LateResults: len(u.Late), Result: u.Result, Duration: u.Duration.Std(), PlannedAt: u.PlannedAt.Time(),
		SettledAt: u.SettledAt.Time(),
	}
}

const unitColumns = `unit_id, run_id, ordinal, source, provider, dataset, members, tier, cost_class, mode, window_from,
	window_to, surfaces, fingerprint, status, dispatch, attempt, claimed_position, first_dispatched_at, last_dispatched_at,
	available_at, lease_expires_at, lease_node, grace_until, worker, claimed_at, expired_lease_retries, suspect,
	rate_limit_deferrals, rate_limit_first_at, hand_backs, error_category,
	error_text, reason, late_results, result, duration, planned_at, settled_at`

// Unit is one unit, and false if there is none of that id.
func (v View) Unit(id events.UnitID) (SyncRunUnit, bool, error) {
	units, err := v.of(unitRow(id)).units(`SELECT `+unitColumns+` FROM units WHERE unit_id = $1`, id[:])
	if err != nil || len(units) == 0 {
		return SyncRunUnit{}, false, err
	}
	return units[0], true, nil
}

// Units lists the units of a run by ordinal, at most limit of them behind an ordinal.
func (v View) Units(run events.RunID, after, limit int) ([]SyncRunUnit, error) {
	return v.of(unitRows(run)).units(`SELECT `+unitColumns+` FROM units WHERE run_id = $1 AND ordinal > $2 ORDER BY ordinal LIMIT $3`,
		run[:], after, limit)
}

// Unsucceeded is a unit of an ended run that failed or was cancelled, with what is needed to plan it again.
type Unsucceeded struct {
	Unit   events.UnitID
	Status events.UnitStatus
	Plan   events.UnitPlanned
}

// Unsucceeded lists the units of a run that failed or were cancelled, by ordinal.
func (v View) Unsucceeded(run events.RunID) ([]Unsucceeded, error) {
	var out []Unsucceeded
	err := v.tx.Query(func(r store.Row) error {
		var u Unsucceeded
		var id []byte
		var status, tier, cost, mode string
		var members, surfaces, fingerprint, calendar *string
		var from *int64
		var to int64
		var watermark int
		p := &u.Plan
		err := r.Scan(&id, &status, &p.Ordinal, &p.Source, &p.Provider, &p.Dataset, &members, &tier, &cost, &mode, &from, &to,
			&surfaces, &fingerprint, &calendar, &watermark)
		if err != nil {
			return err
		}
		u.Unit, u.Status, p.Run = events.UnitID(id), events.UnitStatus(status), run
		p.Tier, p.Cost, p.Mode = events.Tier(tier), events.Cost(cost), events.Mode(mode)
		p.Window, p.Fingerprint, p.Calendar = windowOf(from, to), deref(fingerprint), events.Calendar(deref(calendar))
		p.Watermark = watermark == 1
		err = decodeAll(part{deref(members), &p.Members}, part{deref(surfaces), &p.Surfaces})
		out = append(out, u)
		return err
	}, `SELECT unit_id, status, ordinal, source, provider, dataset, members, tier, cost_class, mode, window_from, window_to,
		surfaces, fingerprint, calendar, watermark FROM units
		WHERE run_id = $1 AND status IN ('failed', 'cancelled') ORDER BY ordinal`, run[:])
	if err != nil {
		return nil, fmt.Errorf("read what did not succeed of run %s: %w", run, err)
	}
	return out, nil
}

// Brought is what the units of one source and dataset of a run have brought: those that succeeded. A zero From is an
// open start of at least one of them.
type Brought struct {
	Provider, Source, Dataset string
	From, To                  time.Time
}

// Brought sums up the succeeded units of a run, by source and dataset.
func (v View) Brought(run events.RunID) ([]Brought, error) {
	var out []Brought
	err := v.of(unitRows(run)).tx.Query(func(r store.Row) error {
		var b Brought
		var from *int64
		var to int64
		var open int
		if err := r.Scan(&b.Provider, &b.Source, &b.Dataset, &from, &to, &open); err != nil {
			return err
		}
		if open > 0 {
			from = nil
		}
		w := windowOf(from, to)
		b.From, b.To = w.From, w.To
		out = append(out, b)
		return nil
	}, `SELECT provider, source, dataset, min(window_from), max(window_to), sum(window_from IS NULL) FROM units
		WHERE run_id = $1 AND status = 'succeeded' GROUP BY provider, source, dataset ORDER BY source, dataset, provider`, run[:])
	if err != nil {
		return nil, fmt.Errorf("sum up run %s: %w", run, err)
	}
	return out, nil
}

func (v View) units(query string, args ...any) ([]SyncRunUnit, error) {
	var out []SyncRunUnit
	err := v.tx.Query(func(r store.Row) error {
		u, err := scanUnit(r)
		out = append(out, u)
		return err
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read units: %w", err)
	}
	return out, nil
}

func scanUnit(r store.Row) (SyncRunUnit, error) {
	var u SyncRunUnit
	var id, run, node []byte
	var tier, cost, mode, status string
	var members, surfaces, fingerprint, worker, category, errText, reason, result *string
	var from, claimed, first, last, available, expires, graced, claimedAt, limited, duration, settled *int64
	var to, planned int64
	var suspect int
	err := r.Scan(&id, &run, &u.Ordinal, &u.Source, &u.Provider, &u.Dataset, &members, &tier, &cost, &mode, &from, &to,
		&surfaces, &fingerprint, &status, &u.Dispatch, &u.Attempt, &claimed, &first, &last, &available, &expires, &node,
		&graced, &worker, &claimedAt, &u.ExpiredLeaseRetries, &suspect, &u.RateLimitDeferrals, &limited, &u.HandBacks, &category, &errText, &reason, &u.LateResults, &result, &duration,
		&planned, &settled)
	if err != nil {
		return u, err
	}
	copy(u.Unit[:], id)
	copy(u.Run[:], run)
	copy(u.LeaseNode[:], node)
	u.Tier, u.Cost, u.Mode, u.Status = events.Tier(tier), events.Cost(cost), events.Mode(mode), events.UnitStatus(status)
	u.Window = windowOf(from, to)
	u.Alias = events.Alias(u.Run, u.Source, u.Dataset, u.Window)
	u.Fingerprint, u.Worker, u.ErrorText = deref(fingerprint), deref(worker), deref(errText)
	u.ErrorCategory, u.Reason = events.Category(deref(category)), events.CancelReason(deref(reason))
	u.Claimed = events.Position(derefInt(claimed))
	u.FirstDispatchedAt, u.LastDispatchedAt = optionalTime(first), optionalTime(last)
	u.AvailableAt, u.LeaseExpiresAt, u.ClaimedAt = optionalTime(available), optionalTime(expires), optionalTime(claimedAt)
	u.GraceUntil, u.RateLimitFirstAt, u.Suspect = optionalTime(graced), optionalTime(limited), suspect == 1
	u.PlannedAt, u.SettledAt = events.Micros(planned).Time(), optionalTime(settled)
	u.Duration = events.Span(derefInt(duration)).Std()
	if err := decodeAll(part{deref(members), &u.Members}, part{deref(surfaces), &u.Surfaces}, part{deref(result), &u.Result}); err != nil {
		return u, err
	}
	if len(u.Members) == 0 {
		u.Members = []string{u.Dataset}
	}
	return u, nil
}

// part is a JSON column and where it goes.
type part struct {
	text string
	into any
}

func decodeAll(parts ...part) error {
	for _, p := range parts {
		if p.text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(p.text), p.into); err != nil {
			return fmt.Errorf("decode %T: %w", p.into, err)
		}
	}
	return nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func derefInt(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

func optionalTime(n *int64) time.Time { return events.Micros(derefInt(n)).Time() }

func windowOf(from *int64, to int64) events.Window {
	w := events.Window{To: time.UnixMicro(to).UTC()}
	if from != nil {
		w.From = time.UnixMicro(*from).UTC()
	}
	return w
}

func scanID[K ~[16]byte](r store.Row, id *K) error {
	var b []byte
	if err := r.Scan(&b); err != nil {
		return err
	}
	copy((*id)[:], b)
	return nil
}
