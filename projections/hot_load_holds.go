package projections

import (
	"fmt"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

func (h *Hot) loadControls(tx store.ReadTx) error {
	err := tx.Query(func(r store.Row) error {
		c, err := scanControl(r)
		h.controls[c.Source] = c
		return err
	}, `SELECT `+controlColumns+` FROM controls`)
	if err != nil {
		return fmt.Errorf("load pauses: %w", err)
	}
	return nil
}

func scanControl(r store.Row) (decider.Control, error) {
	var c decider.Control
	var since int64
	var reason *string
	err := r.Scan(&c.Source, &c.Paused, &c.By, &reason, &since)
	c.Reason, c.Since = deref(reason), events.Micros(since)
	return c, err
}

func (h *Hot) loadCooldowns(tx store.ReadTx) error {
	err := tx.Query(func(r store.Row) error {
		c := &cooldown{}
		var until int64
		err := r.Scan(&c.key, &until)
		c.until = events.Micros(until)
		h.cooldowns[c.key] = c
		return err
	}, `SELECT key, until FROM cooldowns`)
	if err != nil {
		return fmt.Errorf("load cooldowns: %w", err)
	}
	err = tx.Query(func(r store.Row) error {
		var provider, source, key string
		if err := r.Scan(&provider, &source, &key); err != nil {
			return err
		}
		c := h.cooldowns[key]
		h.assign(h.gate(provider, source), c)
		h.judgeCooldown(c)
		return nil
	}, `SELECT provider, source, key FROM cooldown_sources`)
	if err != nil {
		return fmt.Errorf("load the sources of cooldowns: %w", err)
	}
	return nil
}
