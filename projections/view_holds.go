package projections

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// Pause is something that is paused: no unit of it is dispatched.
type Pause struct {
	Source string    `json:"source,omitzero"` // empty: the engine, and with it every source
	By     string    `json:"by"`
	Reason string    `json:"reason,omitzero"`
	Since  time.Time `json:"since"`
}

// Paused lists what is paused, the engine first, then by source.
func (v View) Paused() ([]Pause, error) {
	var out []Pause
	err := v.tx.Query(func(r store.Row) error {
		c, err := scanControl(r)
		out = append(out, Pause{Source: c.Source, By: c.By, Reason: c.Reason, Since: c.Since.Time()})
		return err
	}, `SELECT `+controlColumns+` FROM controls WHERE paused = 1 ORDER BY source`)
	if err != nil {
		return nil, fmt.Errorf("read what is paused: %w", err)
	}
	return out, nil
}

// Cooldown is an account that a provider has asked to leave alone (RL-4).
type Cooldown struct {
	Key      string        `json:"key"` // provider/account
	Until    time.Time     `json:"until"`
	Unit     events.UnitID `json:"unit_id"` // the last to report it
	Provider string        `json:"provider"`
	Source   string        `json:"source"` // that uses the account, as it has reported last
}

// Cooldowns lists those in force at now, by key; a key that several sources share has one entry for each.
func (v View) Cooldowns(now events.Micros) ([]Cooldown, error) {
	var out []Cooldown
	err := v.tx.Query(func(r store.Row) error {
		var c Cooldown
		var until int64
		var unit []byte
		err := r.Scan(&c.Key, &until, &unit, &c.Provider, &c.Source)
		copy(c.Unit[:], unit)
		c.Until = events.Micros(until).Time()
		out = append(out, c)
		return err
	}, `SELECT c.key, c.until, c.unit_id, s.provider, s.source FROM cooldowns c CROSS JOIN cooldown_sources s
		WHERE s.key = c.key AND c.until > $1 ORDER BY c.key, s.provider, s.source`, int64(now))
	if err != nil {
		return nil, fmt.Errorf("read cooldowns: %w", err)
	}
	return out, nil
}

// Holds is what keeps units from being dispatched at a moment, as the tables have it.
type Holds struct {
	engine  bool
	paused  map[string]bool
	cooling map[account]bool
	missing func(sync, provider, source, dataset string) string // as HotKnobs.Missing
}

// Holds reads what is held at now. missing is that of the node which asks.
func (v View) Holds(now events.Micros, missing func(sync, provider, source, dataset string) string) (Holds, error) {
	h := Holds{paused: map[string]bool{}, cooling: map[account]bool{}, missing: missing}
	paused, err := v.Paused()
	if err != nil {
		return h, err
	}
	for _, p := range paused {
		h.engine = h.engine || p.Source == ""
		h.paused[p.Source] = true
	}
	cooling, err := v.Cooldowns(now)
	if err != nil {
		return h, err
	}
	for _, c := range cooling {
		h.cooling[account{c.Provider, c.Source}] = true
	}
	return h, nil
}

// Everything reports that no unit at all may be dispatched: the engine is paused.
func (h Holds) Everything() bool { return h.engine }

func (h Holds) hold(sync, provider, source, dataset string) bool {
	return h.engine || h.paused[source] || h.cooling[account{provider, source}] ||
		h.missing != nil && h.missing(sync, provider, source, dataset) != ""
}

func (v View) syncOf(run events.RunID) (sync string, err error) {
	err = v.tx.Query(func(r store.Row) error { return r.Scan(&sync) }, `SELECT sync FROM runs WHERE run_id = $1`, run[:])
	if err != nil {
		return "", fmt.Errorf("read the sync of run %s: %w", run, err)
	}
	return sync, nil
}

// LastConfigured is what the newest incarnation before one was configured for, of those whose boot recovery has ended
// false: there is none, or it did not say.
func (v View) LastConfigured(before events.NodeID) (syncs []events.Configured, known bool, err error) {
	err = v.tx.Query(func(r store.Row) error {
		var s *string
		if err := r.Scan(&s); err != nil || s == nil {
			return err
		}
		known = true
		return json.Unmarshal([]byte(*s), &syncs)
	}, `SELECT syncs FROM nodes WHERE incarnation < $1 AND recovered_at IS NOT NULL ORDER BY incarnation DESC LIMIT 1`, before[:])
	if err != nil {
		return nil, false, fmt.Errorf("read what the last incarnation was configured for: %w", err)
	}
	return syncs, known, nil
}
