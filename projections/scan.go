package projections

import (
	"fmt"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// The scans of the reconciler (spec 11). Each is a keyset page whose whole predicate stands before its LIMIT, so that
// old rows cannot hide young ones (REC-4), on an index that holds open things only, so that its cost does not grow
// with history. What a scan finds is decided again in a transaction of its own.

// LeaseCursor is the place behind which the next page of expired leases begins.
type LeaseCursor struct {
	ExpiresAt events.Micros
	Unit      events.UnitID
}

// ExpiredLeases are running units whose lease has ended, by the clock or with its incarnation, no lease first (REC-5).
func (v View) ExpiredLeases(now events.Micros, after LeaseCursor, limit int) ([]LeaseCursor, error) {
	return v.leases(`SELECT u.unit_id, u.lease_expires_at FROM units u
		WHERE u.status = 'running' AND (u.lease_expires_at, u.unit_id) > ($2, $3)
		  AND (u.lease_expires_at <= $1
		       OR u.lease_node IS NOT NULL AND u.lease_node NOT IN (SELECT incarnation FROM nodes WHERE gone = 0))
		  AND EXISTS (SELECT 1 FROM runs r WHERE r.run_id = u.run_id AND r.completed_at IS NULL)
		ORDER BY u.lease_expires_at, u.unit_id LIMIT $4`,
		int64(now), int64(after.ExpiresAt), after.Unit[:], limit)
}

// OrphanedLeases are running units whose lease belongs to an incarnation that is gone (N-3). Their time may lie ahead.
func (v View) OrphanedLeases(after LeaseCursor, limit int) ([]LeaseCursor, error) {
	return v.leases(`SELECT u.unit_id, u.lease_expires_at FROM units u
		WHERE u.status = 'running' AND (u.lease_expires_at, u.unit_id) > ($1, $2)
		  AND u.lease_node IS NOT NULL AND u.lease_node NOT IN (SELECT incarnation FROM nodes WHERE gone = 0)
		  AND EXISTS (SELECT 1 FROM runs r WHERE r.run_id = u.run_id AND r.completed_at IS NULL)
		ORDER BY u.lease_expires_at, u.unit_id LIMIT $3`,
		int64(after.ExpiresAt), after.Unit[:], limit)
}

func (v View) leases(query string, args ...any) ([]LeaseCursor, error) {
	var out []LeaseCursor
	err := v.tx.Query(func(r store.Row) error {
		var c LeaseCursor
		var id []byte
		var expires int64
		if err := r.Scan(&id, &expires); err != nil {
			return err
		}
		copy(c.Unit[:], id)
		c.ExpiresAt = events.Micros(expires)
		out = append(out, c)
		return nil
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("scan leases: %w", err)
	}
	return out, nil
}

// Key names a register.
type Key struct {
	Owner events.RunID
	Kind  events.Kind
}

// String is the id that Engine.Why takes, and the name of the stream: outbox/OWNER/KIND.
func (k Key) String() string { return events.RegisterStream(k.Owner, k.Kind).String() }

// DueCursor is the place behind which the next page of due registers begins.
type DueCursor struct {
	AvailableAt events.Micros
	Key         Key
}

func (v View) due(query string, args ...any) ([]DueCursor, error) {
	var out []DueCursor
	err := v.tx.Query(func(r store.Row) error {
		var c DueCursor
		var owner []byte
		var kind string
		var at int64
		if err := r.Scan(&at, &owner, &kind); err != nil {
			return err
		}
		copy(c.Key.Owner[:], owner)
		c.AvailableAt, c.Key.Kind = events.Micros(at), events.Kind(kind)
		out = append(out, c)
		return nil
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("scan for what is due: %w", err)
	}
	return out, nil
}

// DeadClaims are registers whose claim has expired, or belongs to an incarnation that is gone: claimed ones, and marked
// ones that still lack an outcome (REC-13).
func (v View) DeadClaims(now events.Micros, after Key, limit int) ([]Key, error) {
	return v.keys(`SELECT owner, kind FROM outbox WHERE claim_expires_at IS NOT NULL AND (owner, kind) > ($2, $3)
		AND (claim_expires_at <= $1 OR claim_node NOT IN (SELECT incarnation FROM nodes WHERE gone = 0))
		ORDER BY owner, kind LIMIT $4`, int64(now), after.Owner[:], string(after.Kind), limit)
}

func (v View) keys(query string, args ...any) ([]Key, error) {
	var out []Key
	err := v.tx.Query(func(r store.Row) error {
		var k Key
		var owner []byte
		var kind string
		if err := r.Scan(&owner, &kind); err != nil {
			return err
		}
		copy(k.Owner[:], owner)
		k.Kind = events.Kind(kind)
		out = append(out, k)
		return nil
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("scan registers: %w", err)
	}
	return out, nil
}

// The half of the materialization that looks at the register, in SQL; Redrive.Materialize decides it again. $1 is now,
// $2 now + countdown, $3 now − redrive_after.
const (
	// unwoken: no wakeup is open that would serve an obligation, or the message of the newest close died with its process.
	unwoken = `(o.owner IS NULL
	OR (o.status = 'idle' OR o.status = 'pending' AND o.floor = 0 AND o.available_at > $2)
	   AND (o.closed = 0 OR o.last_closed_at <= $3)
	OR ` + quiet + ` AND o.transport = 'local')`
	// quiet: a register that nobody of this life has closed yet. If a unit's message died with an earlier one, it was the
	// wakeup that is missing.
	quiet = `((o.status = 'idle' OR o.status = 'pending' AND o.floor = 0 AND o.available_at > $1) AND o.closed > 0
	   AND o.closed_by NOT IN (SELECT incarnation FROM nodes WHERE gone = 0))`
)

// Unwoken is an open run whose register of a kind holds no wakeup that would serve an obligation.
type Unwoken struct {
	Run events.RunID
	// IfLost: only if the message of one of its units died with its incarnation, which Owing says.
	IfLost bool
}

// Unwoken lists open runs behind a run whose register of a kind, dispatch or finalize, wakes nobody. Whether something is
// owed is Owing's to say.
func (v View) Unwoken(k events.Kind, now events.Micros, d decider.Redrive, after events.RunID, limit int) ([]Unwoken, error) {
	var out []Unwoken
	err := v.tx.Query(func(r store.Row) error {
		var id []byte
		var sure int
		if err := r.Scan(&id, &sure); err != nil {
			return err
		}
		out = append(out, Unwoken{Run: events.RunID(id), IfLost: sure == 0})
		return nil
	}, `SELECT r.run_id, coalesce(`+unwoken+`, 0) FROM runs r LEFT JOIN outbox o ON o.owner = r.run_id AND o.kind = $4
		WHERE r.completed_at IS NULL AND r.run_id > $5
		  AND (`+unwoken+` OR o.kind = 'dispatch_sync_run' AND `+quiet+`)
		ORDER BY r.run_id LIMIT $6`,
		int64(now), int64(now.Add(d.Countdown)), int64(now.Add(-d.RedriveAfter)), string(k), after[:], limit)
	if err != nil {
		return nil, fmt.Errorf("scan for runs that nobody would wake: %w", err)
	}
	return out, nil
}

func (v View) runIDs(query string, args ...any) ([]events.RunID, error) {
	var out []events.RunID
	err := v.tx.Query(func(r store.Row) error {
		var id events.RunID
		err := scanID(r, &id)
		out = append(out, id)
		return err
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("scan runs: %w", err)
	}
	return out, nil
}

// Unannounced lists open runs behind a run in which a dispatching unit waits for a wakeup that nobody has open (REC-8).
// There is none: its wakeup is armed with every dispatch. A hit is a defect to report, not to repair.
func (v View) Unannounced(after events.RunID, limit int) ([]events.RunID, error) {
	return v.runIDs(`SELECT r.run_id FROM runs r JOIN outbox o ON o.owner = r.run_id AND o.kind = 'run_sync_unit'
		WHERE r.completed_at IS NULL AND r.run_id > $1 AND o.status = 'idle'
		  AND EXISTS (SELECT 1 FROM units u WHERE u.run_id = r.run_id AND u.status = 'dispatching' AND u.wakeup > o.closed)
		ORDER BY r.run_id LIMIT $2`, after[:], limit)
}

// Owing is what an open run owes, from the tables alone: the reader's answer, which the deciding transaction asks again
// of the hot view. What is held is not owed (X-3, X-4, X-9, RL-5). rows is how many units it read, for the scan budget.
func (v View) Owing(run events.RunID, now events.Micros, staleAfter events.Span, holds Holds) (o decider.Owing, rows int, err error) {
	o.RunOpen = true
	messages, err := v.messages(run)
	if err != nil {
		return o, 0, err
	}
	sync, err := v.syncOf(run)
	if err != nil {
		return o, 0, err
	}
	planned := map[string]bool{} // sources of planned work items
	blocked := map[string]bool{} // sources with a reference unit that has not succeeded
	err = v.tx.Query(func(r store.Row) error {
		var provider, source, dataset, tier, status string
		var due, wakeup int
		if err := r.Scan(&provider, &source, &dataset, &tier, &status, &due, &wakeup); err != nil {
			return err
		}
		rows++
		s, reference := events.UnitStatus(status), events.Tier(tier) == events.TierReference
		if !s.Terminal() {
			o.OpenUnits++
		}
		if reference && s != events.UnitHasSucceeded {
			blocked[source] = true
		}
		if s.Terminal() || holds.hold(sync, provider, source, dataset) {
			return nil
		}
		lost := s == events.UnitIsDispatching && messages.gone(wakeup)
		o.UnitLost = o.UnitLost || lost
		switch {
		case s == events.UnitIsPlanned && reference, due == 1, lost:
			o.Dispatchable = true
		case s == events.UnitIsPlanned:
			planned[source] = true
		}
		return nil
	}, `SELECT u.provider, u.source, u.dataset, u.tier, u.status,
		  u.status = 'retrying' AND u.available_at <= $2 OR u.status = 'dispatching' AND u.last_dispatched_at <= $3, u.wakeup
		FROM units u WHERE u.run_id = $1`, run[:], int64(now), int64(now.Add(-staleAfter)))
	if err != nil {
		return o, rows, fmt.Errorf("read what run %s owes: %w", run, err)
	}
	for source := range planned {
		if !blocked[source] {
			o.Dispatchable = true
		}
	}
	return o, rows, nil
}

// messages says whose messages of a run have died with their incarnation.
type messages struct {
	register decider.Register
	alive    map[events.NodeID]bool
}

func (v View) messages(run events.RunID) (messages, error) {
	m := messages{alive: map[events.NodeID]bool{}}
	alive, err := v.AliveNodes()
	if err != nil {
		return m, err
	}
	for _, n := range alive {
		m.alive[n.Incarnation] = true
	}
	err = v.tx.Query(func(r store.Row) error {
		var closers *string
		if err := r.Scan(&m.register.Closed, &closers); err != nil {
			return err
		}
		return decodeAll(part{deref(closers), &m.register.Closers})
	}, `SELECT closed, closers FROM outbox WHERE owner = $1 AND kind = 'run_sync_unit'`, run[:])
	if err != nil {
		return m, fmt.Errorf("read the closers of run %s: %w", run, err)
	}
	return m, nil
}

func (m messages) gone(wakeup int) bool {
	node := m.register.MessageIn(wakeup)
	return !node.IsZero() && !m.alive[node]
}

// NextExpiry is the earliest time at which a lease or a claim ends; zero: none is open.
func (v View) NextExpiry() (events.Micros, error) {
	return v.earliest(`SELECT min(claim_expires_at) FROM outbox WHERE claim_expires_at IS NOT NULL
		UNION ALL SELECT min(lease_expires_at) FROM units WHERE status = 'running'`)
}

func (v View) earliest(query string) (events.Micros, error) {
	next := events.Micros(0)
	err := v.tx.Query(func(r store.Row) error {
		var at *int64
		if err := r.Scan(&at); err != nil {
			return err
		}
		next = events.Earliest(next, events.Micros(derefInt(at)))
		return nil
	}, query)
	return next, err
}
