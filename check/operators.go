package check

import (
	"cmp"

	"github.com/towline-dev/towline/events"
)

// checkOperator is X-7: what an operator did names who it was. The envelope does, and a payload may, too. Where a reason is
// asked for there is one.
func (c *Checker) checkOperator(e events.Envelope, payload string, needsReason bool, reason string) {
	switch {
	case cmp.Or(e.Actor, payload) == "":
		c.wrong("I-2", e, "an operator's action, and nobody is named (X-7)")
	case needsReason && reason == "":
		c.wrong("I-2", e, "%s has acted, and says not why (X-7)", cmp.Or(e.Actor, payload))
	}
}

// checkRetryOf is X-6: a retry names a run of its sync that has ended, and holds what did not succeed of it. A run that the
// log does not know may lie in a purged segment.
func (c *Checker) checkRetryOf(e events.Envelope, ev events.RunPlanned) {
	if ev.RetryOf.IsZero() {
		if ev.TriggeredBy == events.TriggerRetry {
			c.wrong("I-2", e, "it is triggered by a retry, and names no run (X-6)")
		}
		return
	}
	old := c.runs[ev.RetryOf]
	switch {
	case old == nil && len(c.gaps) == 0:
		c.wrong("I-2", e, "it retries run %s, which was never planned (X-6)", ev.RetryOf)
	case old == nil:
	case !old.Status.Terminal():
		c.wrong("I-2", e, "it retries run %s, which is %s (X-6)", ev.RetryOf, old.Status)
	case ev.TriggeredBy != events.TriggerRetry:
		c.wrong("I-2", e, "it retries run %s, and is triggered by %s (X-6)", ev.RetryOf, ev.TriggeredBy)
	case old.Sync != ev.Sync:
		c.wrong("I-2", e, "it is of sync %q, and retries run %s of sync %q (X-6)", ev.Sync, ev.RetryOf, old.Sync)
	case ev.TotalUnits < 1 || ev.TotalUnits > old.Units.Failed+old.Units.Cancelled:
		c.wrong("I-2", e, "it retries %d units of run %s, of which %d failed and %d were cancelled (X-6)",
			ev.TotalUnits, ev.RetryOf, old.Units.Failed, old.Units.Cancelled)
	}
}
