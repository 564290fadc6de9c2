package check

import "github.com/towline-dev/towline/events"

// What follows a run in exactly_once mode: an effect for each target that is asked for until it is done (HP-3, REC-10).

// outstanding are the targets that a wakeup of post_sync is published to (K-8): in exactly_once mode those that have not
// completed.
func (r *run) outstanding() []string {
	if r.mode() == events.AtMostOnce {
		return r.Policy.Targets
	}
	var out []string
	for _, t := range r.Policy.Targets {
		if p := r.known(t); p == nil || p.Completed == 0 {
			out = append(out, t)
		}
	}
	return out
}

func (r *run) known(target string) *Post {
	for i := range r.Posts {
		if r.Posts[i].Target == target {
			return &r.Posts[i]
		}
	}
	return nil
}

// Effects says how far the effects of a run in exactly_once mode are: open, held, done; empty if it owes none, or has
// another mode.
func (r Run) Effects() string {
	if r.Policy.PostSync != events.ExactlyOnce || !r.PostSyncOwed {
		return ""
	}
	state := "done"
	for _, t := range r.Policy.Targets {
		completed, failed := 0, 0
		for _, p := range r.Posts {
			if p.Target == t {
				completed, failed = p.Completed, p.Failed
			}
		}
		switch {
		case completed > 0:
		case r.Policy.MaxDeliveries == 0 || failed < r.Policy.MaxDeliveries:
			return "open"
		default:
			state = "held"
		}
	}
	return state
}

// checkFailure is HP-3: one failure for each wakeup, and none behind the end.
func (c *Checker) checkFailure(e events.Envelope, r *run, p *Post, message string) {
	if r.mode() != events.ExactlyOnce {
		return
	}
	switch {
	case p.Completed > 0:
		c.wrong("I-2", e, "the effect of target %q fails, and it has completed (HP-3)", p.Target)
	case p.Failed > 0 && p.failedAt == message:
		c.wrong("I-2", e, "message %q fails a second time: one failure is recorded for each wakeup (HP-3)", message)
	}
	p.failedAt = message
}

// failedEffects reports a register that a person may redrive though it is not parked: an effect of it has failed, and is not
// done (O-18).
func (r *register) failedEffects() bool {
	if r.Kind != events.KindPostSync || r.State != Idle || r.run.Effects() == "" {
		return false
	}
	for _, t := range r.run.outstanding() {
		if p := r.run.known(t); p != nil && p.Failed > 0 {
			return true
		}
	}
	return false
}

// mayArmAgain is REC-10 and O-18: behind the first arm, a post_sync is armed by materialization, while something is left to
// do and long enough after the last wakeup, or by hand.
func (c *Checker) mayArmAgain(e events.Envelope, r *register, ev events.OutboxArmed) {
	effects := r.run.Effects()
	if ev.Cause == events.ArmRedriven {
		return
	}
	wait := c.settings(e.Node).PostRedriveAfter
	switch died := events.InProcess(r.Transport) && c.gone(r.markNode); {
	case ev.Cause != events.ArmMaterialized:
		c.wrong("I-2", e, "post_sync is armed again for %q: only materialization and a redrive do that (section 7)", ev.Cause)
	case effects != "open":
		c.wrong("I-2", e, "post_sync is armed again, and its effects are %s: nothing is owed that may be sent again (REC-10)", effects)
	case r.State == Idle && wait > 0 && e.At < r.LastClosedAt.Add(wait) && !died:
		c.wrong("I-2", e, "post_sync is armed again at %s, and post_sync.redrive_after behind its last wakeup, at %s, is %s (REC-10)", e.At, r.LastClosedAt, r.LastClosedAt.Add(wait))
	}
}
