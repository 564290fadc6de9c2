package check

import "github.com/towline-dev/towline/events"

// node is one incarnation (N-1).
//
//	∅ ──NodeStarted──► up ──NodeStopped──► gone
//	                    └──a later NodeStarted in exclusive mode──► gone (N-3)
type node struct {
	id       events.NodeID
	version  events.Version
	settings Settings
	syncs    []events.Configured // what it is configured for; nil: it did not say
	gone     bool
	stopped  bool            // it has said so itself
	why      string          // it is gone
	since    events.Position // it is gone
	breakers []*breaker      // that have opened
}

// gone reports an incarnation whose leases, claims and in-process messages are dead (N-3). The zero ID is that of a
// worker over the API, which no restart ends (N-5).
func (c *Checker) gone(id events.NodeID) bool {
	n := c.nodes[id]
	return n != nil && n.gone && !id.IsZero()
}

// settings are those of the node that decides.
func (c *Checker) settings(id events.NodeID) Settings {
	if n := c.nodes[id]; n != nil {
		return n.settings
	}
	return c.opt.Settings
}

// incarnation checks that e comes from an incarnation that has started and is not gone (I-24, N-1).
func (c *Checker) incarnation(e events.Envelope) {
	if e.Node.IsZero() && e.Stream.Family() == events.FamilyApp {
		return // an application's own transaction
	}
	if _, start := e.Event.(events.NodeStarted); start {
		return
	}
	n := c.nodes[e.Node]
	switch {
	case n == nil && e.Node.IsZero():
		c.wrong("I-24", e, "no incarnation stands behind it, and it is no application's own event")
	case n == nil:
		c.wrong("I-24", e, "incarnation %s appends before its NodeStarted (N-1)", e.Node)
		n = &node{id: e.Node, settings: c.opt.Settings}
		c.nodes[e.Node] = n
		c.alive = append(c.alive, n)
	case n.gone:
		c.wrong("I-24", e, "incarnation %s is gone since position %d (%s)", e.Node, n.since, n.why)
	}
}

func (c *Checker) nodeEvent(e events.Envelope, id events.NodeID) {
	n := c.nodes[id]
	if n == nil {
		n = &node{id: id, settings: c.opt.Settings, version: c.opened(e.Stream)}
		c.nodes[id] = n
	}
	c.version(e, &n.version)
	switch ev := e.Event.(type) {
	case events.NodeStarted:
		c.nodeStarted(e, n, ev)
	case events.NodeConfigChanged:
		n.settings = n.settings.with(ev.Changed)
		c.restale(n.settings.Stale)
	case events.NodeStopped:
		n.stopped = true
		c.leave(e, n, "it stopped")
	case events.ClockStepped:
		c.clockStepped(e, ev)
	case events.BreakerOpened:
		c.breakerOpened(e, n, ev)
	case events.BreakerClosed:
		c.breakerClosed(e, n, ev)
	case events.SegmentPurged:
		c.purged(e, ev.Positions)
	case events.StoreRestored:
		if ev.Epoch <= c.epoch {
			c.wrong("I-2", e, "epoch %d follows epoch %d: each restore raises it (DUR-5)", ev.Epoch, c.epoch)
		}
		c.epoch, c.hold = ev.Epoch, true
	}
}

func (c *Checker) nodeStarted(e events.Envelope, n *node, ev events.NodeStarted) {
	c.tx.boots = e.Position == c.tx.position
	if n.version > 1 {
		c.wrong("I-24", e, "incarnation %s starts a second time; each start of a process is a new one (N-1)", n.id)
	}
	if e.Node != n.id {
		c.wrong("I-24", e, "incarnation %s is started by incarnation %s (N-1)", n.id, e.Node)
	}
	n.settings, n.syncs = c.opt.Settings.with(ev.Config), ev.Syncs
	if ev.StoreMode == events.StoreExclusive {
		for len(c.alive) > 0 {
			c.leave(e, c.alive[0], "a later one started in exclusive mode")
		}
	}
	n.gone = false
	c.alive = append(c.alive, n)
	c.slots.stale = n.settings.Stale
	c.recount()
}

// leave ends an incarnation: what it held in memory is dead, so its leases and its in-process messages hold no slot.
func (c *Checker) leave(e events.Envelope, n *node, why string) {
	n.gone, n.why, n.since = true, why, e.Position
	alive := c.alive[:0]
	for _, a := range c.alive {
		if a != n {
			alive = append(alive, a)
		}
	}
	c.alive = alive
	c.recount()
}
