package projections

import (
	"fmt"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// messages counts the submitted messages that have no wakeup yet, so that a transaction knows without a query that there
// are none. n is 1, or -1 when the change is undone.
func (h *Hot) messages(c change, n int) {
	switch c.event.Event.(type) {
	case events.MessageSubmitted:
		h.unarmed += n
	case events.OutboxArmed:
		if r := c.after.(decider.Register); r.Kind == events.KindMessage && c.before.(decider.Register).Newest == 0 {
			h.unarmed -= n
		}
	}
}

func (h *Hot) loadMessages(tx store.ReadTx) error {
	err := tx.Query(func(r store.Row) error { return r.Scan(&h.unarmed) }, `SELECT count(*) FROM messages WHERE armed = 0`)
	if err != nil {
		return fmt.Errorf("count messages without a wakeup: %w", err)
	}
	return nil
}

// Unarmed is how many messages were submitted and have no wakeup yet (M-1).
func (h *Hot) Unarmed() int { return h.unarmed }

// Shared reports an incarnation that shares its store, so that its death is not seen (N-3).
func (h *Hot) Shared(n events.NodeID) bool { return h.alive[n] == events.StoreShared }
