package decider

import (
	"cmp"
	"slices"

	"github.com/towline-dev/towline/events"
)

// What a register adds to the reasons of units (spec 11.1).
const (
	WaitBreakerOpen  WaitReason = "breaker_open"
	WaitRestoredHold WaitReason = "restored_hold"
	WaitOutboxParked WaitReason = "outbox_parked" // of a unit or a run: the wakeup that it needs is parked
	WaitFinalizing   WaitReason = "finalizing"    // of a run: its units have ended
	WaitDue          WaitReason = "due"           // of a register, as are those below
	WaitClaimed      WaitReason = "claimed"
	WaitParked       WaitReason = "parked"
	WaitUnresolved   WaitReason = "unresolved"
	WaitEffectsHeld  WaitReason = "effects_held"  // of a run that has ended: a target has failed too often (REC-10)
	WaitEffectFailed WaitReason = "effect_failed" // of the same: a target failed in its newest wakeup, and is sent again
)

// NeedsPerson reports a reason that time does not end.
func (w WaitReason) NeedsPerson() bool {
	switch w {
	case WaitOutboxParked, WaitParked, WaitUnresolved, WaitRestoredHold, WaitEnginePaused, WaitSourcePaused, WaitUnconfigured,
		WaitEffectsHeld:
		return true
	}
	return false
}

// Reason is the one answer to why something is no further. The zero Reason is that of what waits for nothing: it has
// ended, or, of a register, nobody is to be woken.
type Reason struct {
	Why WaitReason `json:"reason"`
	// Since is when it began to wait for a worker, or when its effect failed; 0: not known, or no matter.
	Since events.Micros `json:"since,omitzero"`
	// Next is when the answer will have changed at the latest, while somebody reconciles: something has happened to it, or
	// it waits for something else. Of one that waits Behind a unit it is that unit's: the wait itself may last through many of
	// its leases. 0: no time ends it.
	Next events.Micros `json:"next,omitzero"`
	// On is what is paused, missing, cooling or full: see Wait.On. Of effect_failed it is the target.
	On string `json:"on,omitzero"`
	// Behind is the unit that must go first.
	Behind events.UnitID `json:"behind,omitzero"`
	// Kind is the register of the run whose wakeup is waited for; empty: none.
	Kind events.Kind `json:"kind,omitzero"`
}

// Horizon is what the answers depend on beside the thing itself.
type Horizon struct {
	Now              events.Micros
	Held             bool                         // the store was restored, and nobody has released it (DUR-5)
	NoMessages       bool                         // this process has nowhere to send application messages to
	Breaker          func(Register) events.Micros // until when the transport of a register is held back; 0: it is not (O-16)
	GivenUp          func(Register) events.Micros // when the outcome of a marked one is taken for unknown (O-12)
	Unit             func(events.UnitID) Reason   // of the unit behind which another waits
	StaleAfter       events.Span                  // dispatch.stale
	RedriveAfter     events.Span                  // relay.redrive_after
	PostRedriveAfter events.Span                  // post_sync.redrive_after
	Interval         events.Span                  // reconcile.interval
}

// afterPass is when a pass has seen to something that comes due at a time.
func (h Horizon) afterPass(due events.Micros) events.Micros { return max(due, h.Now).Add(h.Interval) }

// WhyRegister says why a register that is not idle is no further.
func (h Horizon) WhyRegister(r Register) Reason {
	switch r.Status {
	case RegisterPending:
		switch until := h.Breaker(r); {
		case h.Held:
			return Reason{Why: WaitRestoredHold}
		case h.NoMessages && r.Kind == events.KindMessage:
			return Reason{Why: WaitUnconfigured, On: "a publisher or a consumer of messages"}
		case until != 0:
			return Reason{Why: WaitBreakerOpen, Next: h.afterPass(max(until, r.AvailableAt)), On: r.Transport}
		case r.Suspect() && r.AvailableAt <= h.Now:
			return Reason{Why: WaitCrashSuspect} // until all others are handled (M-16)
		}
		return Reason{Why: WaitDue, Next: h.afterPass(r.AvailableAt)}
	case RegisterClaimed:
		return Reason{Why: WaitClaimed, Next: h.afterPass(r.Claim.ExpiresAt)}
	case RegisterMarked:
		return Reason{Why: WaitClaimed, Next: h.afterPass(h.GivenUp(r))}
	case RegisterParked:
		return Reason{Why: WaitParked, On: r.LastCause}
	case RegisterUnresolved:
		return Reason{Why: WaitUnresolved}
	}
	return Reason{}
}

// WhyMessage says why a message that is not over is no further. What a broker has is all that is known of it. gone and shared
// are said of the process that has it in its memory.
func (h Horizon) WhyMessage(r Register, gone, shared bool) Reason {
	switch {
	case r.Status == "": // the next transaction arms it (M-1)
		return h.WhyRegister(Register{Kind: events.KindMessage, Status: RegisterPending})
	case r.Status != RegisterIdle:
		return h.WhyRegister(r)
	case !events.InProcess(r.Transport):
		return Reason{}
	}
	reason := Reason{Why: WaitForWorker, Since: r.LastClosedAt}
	switch {
	case gone: // REC-11
		reason.Next = h.afterPass(h.Now)
	case shared:
		reason.Next = h.afterPass(r.LastClosedAt.Add(h.StaleAfter))
	}
	return reason
}

// WhyUnit says why a unit that has not ended is no further. w is what the unit and its run say; dispatch and announcer are
// the registers of its run that wake the dispatch, and the workers.
func (h Horizon) WhyUnit(w Wait, dispatch, announcer Register) Reason {
	reason := Reason{Why: w.Reason, On: w.On, Behind: w.Behind}
	switch w.Reason {
	case WaitReference, WaitCrashSuspect:
		reason.Next = h.Unit(w.Behind).Next
	case WaitCooldown, WaitRetryAt:
		reason.Next = w.At
	case WaitRunning:
		reason.Next = h.afterPass(w.At)
	case WaitCapped:
		reason.Kind, reason.Next = events.KindDispatch, h.whyWakeup(dispatch).Next // its net looks again then (HD-6)
	case WaitPublish:
		if w.Kind == events.KindDispatch {
			return h.whyWakeup(dispatch)
		}
		return h.whyWakeup(announcer)
	case WaitForWorker:
		reason.Since, reason.Next = w.At, h.afterPass(w.At.Add(h.StaleAfter))
	}
	return reason
}

// whyWakeup is what a unit or a run waits for that needs the wakeup of a register.
func (h Horizon) whyWakeup(r Register) Reason {
	reason := h.WhyRegister(r)
	switch reason.Why {
	case WaitDue, WaitClaimed:
		reason.Why = WaitPublish
	case WaitParked:
		reason.Why = WaitOutboxParked
	case "": // it was published; what nobody has done when its time is over is materialized
		reason = Reason{Why: WaitForWorker, Since: r.LastClosedAt, Next: h.afterPass(r.LastClosedAt.Add(h.RedriveAfter))}
	}
	reason.Kind = r.Kind
	return reason
}

// ReasonCount says of how many open units a reason is the answer.
type ReasonCount struct {
	Why   WaitReason `json:"reason"`
	Units int        `json:"units"`
}

// WhyPost says what a run waits for that has ended: its post_sync. In exactly_once mode that goes on until every target has
// completed, also while the register is idle (REC-10). A failure is the answer while nothing newer was sent.
func (h Horizon) WhyPost(r Register, run Run) Reason {
	reason := h.WhyRegister(r)
	switch e := run.Effects(); {
	case reason.Why != "":
	case e == EffectsHeld:
		reason.Why = WaitEffectsHeld
	case e == EffectsOpen:
		reason = Reason{Why: WaitForWorker, Since: r.LastClosedAt, Next: h.afterPass(r.LastClosedAt.Add(h.PostRedriveAfter))}
		if p, failed := run.FailedPost(); failed && sameWakeup(p.MessageID, TargetMessageID(run.ID, r.Claimed, p.Target)) {
			reason.Why, reason.Since, reason.On = WaitEffectFailed, p.At, p.Target
		}
	default:
		return reason
	}
	reason.Kind = events.KindPostSync
	return reason
}

// WhyRun says why an open run is no further: the reason that leads, of which unit it is, and how many units wait for each,
// the leading one first. units are the answers of its open units; with none of them, lead is -1. A reason that only a
// person can end leads, whatever else is due, so that 99 units that retry never hide the one that waits for somebody; else
// the one with the earliest next time.
func (h Horizon) WhyRun(units []Reason, finalize Register) (reason Reason, lead int, counts []ReasonCount) {
	if len(units) == 0 {
		reason = h.whyWakeup(finalize)
		if !reason.Why.NeedsPerson() && reason.Why != WaitBreakerOpen {
			reason.Why = WaitFinalizing
		}
		return reason, -1, nil
	}
	for i, u := range units {
		if u.before(units[lead]) {
			lead = i
		}
		at := slices.IndexFunc(counts, func(c ReasonCount) bool { return c.Why == u.Why })
		if at < 0 {
			at = len(counts)
			counts = append(counts, ReasonCount{Why: u.Why})
		}
		counts[at].Units++
	}
	reason = units[lead]
	slices.SortFunc(counts, func(a, b ReasonCount) int {
		return cmp.Or(
			falseFirst(a.Why != reason.Why, b.Why != reason.Why),
			falseFirst(!a.Why.NeedsPerson(), !b.Why.NeedsPerson()),
			cmp.Compare(b.Units, a.Units),
			cmp.Compare(a.Why, b.Why),
		)
	})
	return reason, lead, counts
}

// before reports that r leads rather than o.
func (r Reason) before(o Reason) bool {
	return cmp.Or(
		falseFirst(!r.Why.NeedsPerson(), !o.Why.NeedsPerson()),
		falseFirst(r.Next == 0, o.Next == 0),
		cmp.Compare(r.Next, o.Next),
		cmp.Compare(r.Why, o.Why),
	) < 0
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
