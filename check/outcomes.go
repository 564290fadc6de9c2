package check

import "github.com/towline-dev/towline/events"

// outcome checks O-12 and K-8: what is known of a publish is recorded once per target, while the mark is open. Behind it an
// effect may be given up (HP-5).
func (c *Checker) outcome(e events.Envelope, r *register, ev events.OutboxOutcome) {
	known := r.outcomeOf(ev.Target)
	if ev.Cause == events.OutcomeProcessDied && r.order() == events.MarkFirst {
		c.lostEffect(e, r, ev, known)
		return
	}
	switch {
	case r.order() != events.MarkFirst:
		c.wrong("I-2", e, "an outcome of %s, whose marks say that it was published (O-12)", r.Kind)
	case known != nil:
		c.wrong("I-13", e, "target %q has an outcome already: %s", ev.Target, known.Outcome)
	case r.State != Marked || ev.N != r.Closed:
		c.wrong("I-2", e, "an outcome of wakeup %d, and the register is %s (O-S5a)", ev.N, r.describe())
	case !r.run.hasTarget(ev.Target):
		c.wrong("I-2", e, "an outcome of target %q, which the run does not declare (K-8)", ev.Target)
	case ev.Outcome != events.Accepted && ev.Outcome != events.Refused && ev.Outcome != events.Unknown:
		c.wrong("I-2", e, "a publish has three outcomes, and %q is none (O-10)", ev.Outcome)
	case ev.Outcome == events.Unknown && ev.Cause == events.OutcomeRelayDied && r.markExpires > e.At && !c.gone(r.markNode):
		c.wrong("I-2", e, "the relay is said to have died, its claim runs until %s, and its incarnation is not gone (O-12)", r.markExpires)
	}
	if known == nil && r.State == Marked {
		r.Outcomes = append(r.Outcomes, TargetOutcome{Target: ev.Target, Outcome: ev.Outcome})
		r.settleOutcomes()
	}
}

// lostEffect checks HP-5: of an effect that had begun in an incarnation that is gone nobody knows the end. It takes the place
// of a publish outcome that was no such word.
func (c *Checker) lostEffect(e events.Envelope, r *register, ev events.OutboxOutcome, known *TargetOutcome) {
	p := r.run.known(ev.Target)
	switch {
	case ev.Outcome != events.Unknown:
		c.wrong("I-2", e, "the process of an effect died, and its outcome is %s: want unknown (HP-5)", ev.Outcome)
	case r.State != Idle && r.State != Unresolved || ev.N != r.Closed:
		c.wrong("I-2", e, "the effect of wakeup %d is given up, and the register is %s (O-S9)", ev.N, r.describe())
	case known == nil || known.Outcome == events.Unknown || known.Resolved != "":
		c.wrong("I-13", e, "the effect of target %q is given up, and its publish has no outcome, an unknown one, or was resolved (HP-5)", ev.Target)
	case p == nil || p.Started == 0 || p.Completed+p.Failed > 0:
		c.wrong("I-2", e, "the effect of target %q is given up, and it is not under way (HP-5)", ev.Target)
	case !c.gone(p.begunBy):
		c.wrong("I-2", e, "the effect of target %q is given up, and the incarnation that had begun it is not gone (HP-5)", ev.Target)
	}
	if known != nil {
		known.Outcome = events.Unknown
	}
	if r.State == Idle {
		r.State = Unresolved
	}
}

// resolved checks O-S10 and O-17.
func (c *Checker) resolved(e events.Envelope, r *register, ev events.OutboxResolved) {
	c.checkOperator(e, ev.Actor, true, ev.Reason)
	if c.hold && r.State == Pending && ev.N == r.Current && r.order() == events.MarkFirst {
		r.close(e, ev.N)
		r.advance()
		return
	}
	known := r.outcomeOf(ev.Target)
	switch {
	case r.State != Unresolved || ev.N != r.Closed:
		c.wrong("I-2", e, "it resolves wakeup %d of a register that is %s (O-S10)", ev.N, r.describe())
	case known == nil || known.Outcome != events.Unknown || known.Resolved != "":
		c.wrong("I-2", e, "the publish to target %q is not unknown, or is resolved already (O-17)", ev.Target)
	case ev.Outcome != events.ResolvedDelivered && ev.Outcome != events.ResolvedLost:
		c.wrong("I-2", e, "an unknown publish is resolved as delivered or lost, not as %q (O-17)", ev.Outcome)
	}
	if known != nil {
		known.Resolved = ev.Outcome
		r.settleOutcomes()
	}
}

func (r *register) outcomeOf(target string) *TargetOutcome {
	for i := range r.Outcomes {
		if r.Outcomes[i].Target == target {
			return &r.Outcomes[i]
		}
	}
	return nil
}

// settleOutcomes: a mark is over when every target has an outcome; what nobody knows waits for an operator.
func (r *register) settleOutcomes() {
	if r.State != Marked && r.State != Unresolved || r.run == nil || len(r.Outcomes) < len(r.run.Policy.Targets) {
		return
	}
	r.State = Idle
	for _, o := range r.Outcomes {
		if o.Outcome == events.Unknown && o.Resolved == "" {
			r.State = Unresolved
		}
	}
}
