package projections

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// LoadHot reads the hot view from the tables, which must be at the head of the log.
func LoadHot(tx store.ReadTx, k HotKnobs) (*Hot, error) {
	h := NewHot(k)
	head, _, err := tx.Head()
	if err != nil {
		return nil, err
	}
	h.position = head
	if err := h.loadNodes(tx); err != nil {
		return nil, err
	}
	if h.clock, err = readClock(tx); err != nil {
		return nil, err
	}
	life, err := readRestored(tx)
	if err != nil {
		return nil, err
	}
	h.epoch, h.held = max(life.Epoch, 1), life.Held
	if err := h.loadControls(tx); err != nil {
		return nil, err
	}
	if err := h.loadCooldowns(tx); err != nil {
		return nil, err
	}
	if err := h.loadRuns(tx); err != nil {
		return nil, err
	}
	if err := h.loadMessages(tx); err != nil {
		return nil, err
	}
	return h, h.loadPlaces(tx)
}

func (h *Hot) loadNodes(tx store.ReadTx) error {
	alive, err := NewView(tx).AliveNodes()
	if err != nil {
		return err
	}
	for _, n := range alive {
		h.alive[n.Incarnation] = n.StoreMode
	}
	return nil
}

func (h *Hot) loadPlaces(tx store.ReadTx) error {
	marks, err := NewView(tx).Watermarks()
	if err != nil {
		return fmt.Errorf("load watermarks: %w", err)
	}
	for _, w := range marks {
		h.watermarks[place{w.Source, w.Dataset}] = events.MicrosOf(w.At)
	}
	return tx.Query(func(r store.Row) error {
		var p place
		if err := r.Scan(&p.source, &p.dataset); err != nil {
			return err
		}
		h.left[p] = true
		return nil
	}, `SELECT source, dataset FROM left_state`)
}

func (h *Hot) loadRuns(tx store.ReadTx) error {
	err := tx.Query(func(r store.Row) error {
		var id []byte
		var sync, policy string
		var total int
		if err := r.Scan(&id, &sync, &total, &policy); err != nil {
			return err
		}
		var p events.Policy
		if err := json.Unmarshal([]byte(policy), &p); err != nil {
			return fmt.Errorf("decode policy: %w", err)
		}
		h.enter(newHotRun(events.RunID(id), sync, total, p))
		return nil
	}, `SELECT r.run_id, r.sync, r.total_units, r.policy FROM runs r WHERE r.completed_at IS NULL ORDER BY r.run_id`)
	if err != nil {
		return fmt.Errorf("load open runs: %w", err)
	}
	if err := h.loadAnnouncers(tx); err != nil {
		return err
	}
	if err := h.loadUnits(tx); err != nil {
		return err
	}
	return h.loadCounts(tx)
}

// The joins below are CROSS JOINs: they keep SQLite from beginning with the table that grows with history.

func (h *Hot) loadAnnouncers(tx store.ReadTx) error {
	return tx.Query(func(r store.Row) error {
		var owner []byte
		var closers *string
		g := decider.Register{Kind: events.KindUnit}
		if err := r.Scan(&owner, &g.Closed, &closers); err != nil {
			return err
		}
		copy(g.Owner[:], owner)
		if err := decodeAll(part{deref(closers), &g.Closers}); err != nil {
			return err
		}
		h.runs[g.Owner].announcer = g
		return nil
	}, `SELECT o.owner, o.closed, o.closers FROM runs r CROSS JOIN outbox o
		WHERE o.owner = r.run_id AND o.kind = 'run_sync_unit' AND r.completed_at IS NULL`)
}

// remembered are the units of an open run that the hot view holds: the open ones, and failed reference units, which
// block their source for ever.
const remembered = `(u.status IN ('planned', 'dispatching', 'running', 'retrying')
	OR u.tier = 'reference' AND u.status <> 'succeeded')`

func (h *Hot) loadUnits(tx store.ReadTx) error {
	err := tx.Query(func(r store.Row) error {
		var l live
		var id, run, node []byte
		var tier, cost, status string
		var available, first, last, expires, ends, graced *int64
		err := r.Scan(&id, &run, &l.ordinal, &l.source, &l.provider, &l.dataset, &tier, &cost, &status, &l.attempt, &available, &l.dispatches,
			&first, &last, &l.wakeup, &expires, &ends, &node, &graced, &l.suspect)
		if err != nil {
			return err
		}
		l.id, l.run = events.UnitID(id), events.RunID(run)
		copy(l.leaseNode[:], node)
		l.reference = events.Tier(tier) == events.TierReference
		l.bucket = events.NewBucket(l.provider, events.Cost(cost))
		l.status = events.UnitStatus(status)
		l.availableAt, l.firstDispatched = events.Micros(derefInt(available)), events.Micros(derefInt(first))
		l.lastDispatched, l.leaseExpires = events.Micros(derefInt(last)), events.Micros(derefInt(expires))
		l.leaseEnds = events.Micros(derefInt(ends))
		h.add(h.runs[l.run], l)
		if graced != nil {
			h.units[l.id].grace = grace{l.attempt, decider.Grace{Until: events.Micros(*graced), Ends: l.leaseEnds}}
		}
		return nil
	}, `SELECT u.unit_id, u.run_id, u.ordinal, u.source, u.provider, u.dataset, u.tier, u.cost_class, u.status, u.attempt, u.available_at,
		u.attempt_dispatches, u.first_dispatched_at, u.last_dispatched_at, u.wakeup,
		u.lease_expires_at, u.lease_ends_at, u.lease_node, u.grace_until, u.suspect
		FROM runs r CROSS JOIN units u WHERE u.run_id = r.run_id AND r.completed_at IS NULL AND `+remembered+` ORDER BY u.run_id, u.ordinal`)
	if err != nil {
		return fmt.Errorf("load open units: %w", err)
	}
	return nil
}

// loadCounts counts the ended units that are not remembered one by one.
func (h *Hot) loadCounts(tx store.ReadTx) error {
	err := tx.Query(func(r store.Row) error {
		var run []byte
		var status string
		var n int
		if err := r.Scan(&run, &status, &n); err != nil {
			return err
		}
		count(&h.runs[events.RunID(run)].counts, events.UnitStatus(status), n)
		return nil
	}, `SELECT u.run_id, u.status, count(*) FROM runs r CROSS JOIN units u
		WHERE u.run_id = r.run_id AND r.completed_at IS NULL AND NOT `+remembered+` GROUP BY u.run_id, u.status`)
	if err != nil {
		return fmt.Errorf("count ended units: %w", err)
	}
	return nil
}

// Dump is the whole view as sorted text, one fact a line, for comparison (I-26). What depends on the clock alone is
// settled at now first.
func (h *Hot) Dump(now events.Micros) []string {
	h.settle(now)
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	add("messages without a wakeup %d", h.unarmed)
	add("held %v", h.held)
	add("position %d epoch %d in flight %d waiting %d", h.position, h.epoch, h.flight.live, h.flight.waiting)
	for _, r := range h.order {
		offered := 0
		for range r.plannedUnits() {
			offered++
		}
		add("run %s cap %d open %d offered %d in flight %d retries %d counts %+v announced %d by %v", r.id, r.cap, r.open,
			offered, r.inFlight, len(r.retries), r.counts, r.announcer.Closed, r.announcer.Closers)
		for source, s := range r.sources {
			if s.blocking > 0 {
				add("run %s blocked %q by %d", r.id, source, s.blocking)
			}
		}
		for key, l := range r.lanes {
			if l.waiting.any() {
				add("run %s lane %+v waiting %+v offered %+v missing %q paused %v cooling %v", r.id, key, l.waiting, l.offered,
					l.missing, l.gate.paused, l.gate.cooling)
			}
		}
		for _, o := range r.offers {
			if o.any() {
				add("run %s offers in %s %+v", r.id, o.bucket.name, o.tally)
			}
		}
		for _, tier := range [][]*hotUnit{r.reference, r.workItems} {
			for _, u := range tier {
				if !u.status.Terminal() {
					add("unit %+v dead %v due %v grace %+v", u.live, u.dead, u.due, u.graceOf(u.live))
				}
			}
		}
	}
	for name, b := range h.buckets {
		if b.inFlight+b.offered+b.suspects > 0 {
			add("bucket %s in flight %d offered %d suspects %d", name, b.inFlight, b.offered, b.suspects)
		}
	}
	for u := range h.atWork {
		add("suspect at work %s", u.id)
	}
	for source, c := range h.controls {
		add("control of %q: %+v", source, c)
	}
	for key, c := range h.cooldowns {
		add("cooldown of %q until %d", key, c.until)
		for _, g := range c.gates {
			add("cooldown of %q is that of %q %q", key, g.provider, g.source)
		}
	}
	for p, at := range h.watermarks {
		add("watermark %q %q %d", p.source, p.dataset, at)
	}
	for p := range h.left {
		add("left state %q %q", p.source, p.dataset)
	}
	add("clock %+v", h.clock)
	for id, mode := range h.alive {
		add("alive %s %s", id, mode)
	}
	slices.SortFunc(out, strings.Compare)
	return out
}
