package check

import "github.com/towline-dev/towline/events"

// wakeupCorruptions are faults of registers: O-1 to O-18, K-1, K-8, section 7, I-11 to I-13, I-25, I-30.
var wakeupCorruptions = []corruption{
	{"I-2", "O-3: a wakeup of a run that does not exist", fullRun, func(s *script) *entry {
		c := find[events.UnitClaimed](s, 0)
		return s.alone(s.before(c, reg(9, events.KindDispatch), events.OutboxArmed{N: 1, AvailableAt: c.at}))
	}},
	{"I-2", "O-3: a wakeup of a run that has ended", fullRun, func(s *script) *entry {
		c := find[events.UnitLateResult](s, 0)
		return s.alone(s.before(c, reg(1, events.KindDispatch), events.OutboxArmed{N: 2, AvailableAt: c.at, Cause: events.ArmMaterialized}))
	}},
	{"I-2", "O-3: finalize is armed while a unit is open", fullRun, func(s *script) *entry {
		u := findIn[events.UnitSucceeded](s, unitStream(1, 1), 0)
		return s.behind(u, reg(1, events.KindFinalize), events.OutboxArmed{N: 1, AvailableAt: u.at, Cause: events.ArmSettled})
	}},
	{"I-2", "O-3: run_sync_unit is armed without a dispatch", fullRun, func(s *script) *entry {
		c := find[events.UnitClaimed](s, 0)
		return s.alone(s.before(c, reg(1, events.KindUnit), events.OutboxArmed{N: 2, AvailableAt: c.at, Cause: events.ArmMaterialized}))
	}},
	{"I-2", "O-4: an arm moves a backoff", outboxTrouble, func(s *script) *entry {
		r := change(find[events.OutboxReleased](s, 3), func(r *events.OutboxReleased) {
			r.Counted, r.Cause, r.AvailableAt = true, events.ReleaseRefused, r.AvailableAt-events.Micros(25*second)
		})
		s.node1config(`{"relay.max_attempts": 3}`)
		return s.where(0, func(e *entry) bool {
			a, ok := e.event.(events.OutboxArmed)
			return ok && a.Cause == events.ArmResumed && s.index(e) > s.index(r)
		})
	}},
	{"I-2", "O-S4: a claim before its time", outboxTrouble, func(s *script) *entry {
		s.node1config(`{"relay.max_attempts": 3}`)
		change(find[events.OutboxReleased](s, 0), func(r *events.OutboxReleased) { r.AvailableAt += events.Micros(2 * second) })
		return find[events.OutboxClaimed](s, 1)
	}},
	{"I-2", "O-5: an attempt that is not counted", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxClaimed](s, 1), func(c *events.OutboxClaimed) { c.Attempt = 1 })
	}},
	{"I-2", "O-5: an open breaker burns an attempt", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxReleased](s, 3), func(r *events.OutboxReleased) { r.Counted = true })
	}},
	{"I-2", "O-5: an expired claim that is not counted", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxReleased](s, 0), func(r *events.OutboxReleased) { r.Counted = false })
	}},
	{"I-2", "O-6: maybe_published is forgotten by an expired claim", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxReleased](s, 0), func(r *events.OutboxReleased) { r.MaybePublished = false })
	}},
	{"I-2", "O-6: maybe_published is forgotten by an unknown publish", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxReleased](s, 1), func(r *events.OutboxReleased) { r.MaybePublished = false })
	}},
	{"I-2", "O-6: an unmarked post_sync is said to be published", outboxTrouble, func(s *script) *entry {
		return change(findIn[events.OutboxReleased](s, reg(1, events.KindPostSync), 0), func(r *events.OutboxReleased) { r.MaybePublished = true })
	}},
	{"I-2", "O-7: a claim without a token", fullRun, func(s *script) *entry {
		return change(find[events.OutboxClaimed](s, 0), func(c *events.OutboxClaimed) { c.Token = "" })
	}},
	{"I-2", "O-7: a claim that has expired at once", fullRun, func(s *script) *entry {
		c := find[events.OutboxClaimed](s, 0)
		return change(c, func(o *events.OutboxClaimed) { o.ClaimExpiresAt = c.at })
	}},
	{"I-2", "O-8: a drop while something is owed: dispatch", fullRun, func(s *script) *entry {
		return s.dropInstead(find[events.OutboxDispatched](s, 0), events.DropNothingOwed)
	}},
	{"I-2", "O-8: a drop while something is owed: run_sync_unit", fullRun, func(s *script) *entry {
		return s.dropInstead(findIn[events.OutboxDispatched](s, reg(1, events.KindUnit), 0), events.DropUnitGone)
	}},
	{"I-2", "O-8: a drop while something is owed: finalize", lostWorkers, func(s *script) *entry {
		return s.dropInstead(findIn[events.OutboxDispatched](s, reg(1, events.KindFinalize), 0), events.DropNothingOwed)
	}},
	{"I-2", "O-8: a drop while something is owed: message", around, func(s *script) *entry {
		return s.dropInstead(findIn[events.OutboxDispatched](s, events.MessageStream(messageID(2)), 0), events.DropNothingOwed)
	}},
	{"I-2", "O-8: dropped for the end of a run that is open", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxDropped](s, 0), func(d *events.OutboxDropped) { d.Reason = events.DropRunTerminal })
	}},
	{"I-2", "O-8: claimed for nothing, and published", outboxTrouble, func(s *script) *entry {
		s.drop(find[events.OutboxDropped](s, 0))
		return findIn[events.OutboxClaimed](s, reg(1, events.KindDispatch), 6)
	}},
	{"I-2", "O-8: claimed under a run that has ended, and published", operator, func(s *script) *entry {
		s.drop(find[events.OutboxDropped](s, 0))
		return findIn[events.OutboxClaimed](s, reg(2, events.KindUnit), 0)
	}},
	{"I-2", "HD-6: a drop leaves no wakeup for a retry", retries, func(s *script) *entry {
		end := s.lastOfTx(find[events.UnitRetryScheduled](s, 0))
		k := end.stream
		early := s.alone(s.behind(end, k, events.OutboxArmed{N: 2, AvailableAt: end.at, Cause: events.ArmMaterialized}))
		c := s.alone(s.behind(early, k, events.OutboxClaimed{N: 2, Token: "x", ClaimExpiresAt: end.at.Add(minute), Attempt: 1}))
		return s.behind(c, k, events.OutboxDropped{N: 2, Token: "x", Reason: events.DropNothingOwed})
	}},
	{"I-2", "K-1: a claim that does not count its units", fullRun, func(s *script) *entry {
		return change(findIn[events.OutboxClaimed](s, reg(1, events.KindUnit), 0), func(c *events.OutboxClaimed) { c.MessageCount = 1 })
	}},
	{"I-2", "K-8: a mark that does not count its targets", postSyncs, func(s *script) *entry {
		return change(findIn[events.OutboxDispatched](s, reg(1, events.KindPostSync), 0), func(d *events.OutboxDispatched) { d.MessageCount = 1 })
	}},
	{"I-2", "8.1: post_sync is published before its mark", fullRun, func(s *script) *entry {
		return change(findIn[events.OutboxDispatched](s, reg(1, events.KindPostSync), 0), func(d *events.OutboxDispatched) { d.Order = events.PublishFirst })
	}},
	{"I-2", "O-12: an outcome before the mark", fullRun, func(s *script) *entry {
		o := find[events.OutboxOutcome](s, 0)
		s.swap(o, findIn[events.OutboxDispatched](s, reg(1, events.KindPostSync), 0))
		return o
	}},
	{"I-2", "O-12: a relay is dead whose claim is not over", postSyncs, func(s *script) *entry {
		o := find[events.OutboxOutcome](s, 1)
		s.shift(o, -90*second)
		return o
	}},
	{"I-2", "O-13: a release without its backoff", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxReleased](s, 1), func(r *events.OutboxReleased) { r.AvailableAt -= events.Micros(second) })
	}},
	{"I-2", "O-14: a live claim is said to have expired", outboxTrouble, func(s *script) *entry {
		change(find[events.OutboxClaimed](s, 0), func(c *events.OutboxClaimed) { c.ClaimExpiresAt = c.ClaimExpiresAt.Add(hour) })
		return find[events.OutboxReleased](s, 0)
	}},
	{"I-2", "N-4: a claim of a living incarnation is said to be dead", outboxTrouble, func(s *script) *entry {
		r := find[events.OutboxReleased](s, 0)
		return change(r, func(o *events.OutboxReleased) { o.Cause, o.AvailableAt = events.ReleaseIncarnationGone, r.at })
	}},
	{"I-2", "O-15: parked before its attempts are spent", outboxTrouble, func(s *script) *entry {
		s.node1config(`{"relay.max_attempts": 4}`)
		return find[events.OutboxParked](s, 0)
	}},
	{"I-2", "O-S7: parked without a release", outboxTrouble, func(s *script) *entry {
		s.drop(find[events.OutboxReleased](s, 2))
		return find[events.OutboxParked](s, 0)
	}},
	{"I-2", "O-S7: parked for good without a refusal", outboxTrouble, func(s *script) *entry {
		change(find[events.OutboxReleased](s, 4), func(r *events.OutboxReleased) {
			r.Cause, r.MaybePublished = events.ReleasePublishUnknown, true
		})
		return find[events.OutboxParked](s, 1)
	}},
	{"I-2", "O-15: parked where nothing is owed", outboxTrouble, func(s *script) *entry {
		d := find[events.OutboxDropped](s, 0)
		token := d.event.(events.OutboxDropped).Token
		d.event = events.OutboxParked{N: 4, Cause: events.ParkPermanent, Attempts: 1}
		s.before(d, d.stream, events.OutboxReleased{N: 4, Token: token, Cause: events.ReleaseRefused, AvailableAt: d.at.Add(5 * second), Counted: true})
		return d
	}},
	{"I-2", "O-21: a post_sync is parked", outboxTrouble, func(s *script) *entry {
		r := findIn[events.OutboxReleased](s, reg(1, events.KindPostSync), 0)
		return s.alone(s.behind(r, r.stream, events.OutboxParked{N: 1, Cause: events.ParkOperator, Attempts: 1}))
	}},
	{"I-2", "O-S8: materialization arms a parked register", outboxTrouble, func(s *script) *entry {
		return change(s.where(0, func(e *entry) bool {
			a, ok := e.event.(events.OutboxArmed)
			return ok && a.Cause == events.ArmRedriven
		}), func(a *events.OutboxArmed) { a.Cause = events.ArmMaterialized })
	}},
	{"I-2", "O-S7: parked in a later transaction", outboxTrouble, func(s *script) *entry {
		return s.alone(find[events.OutboxParked](s, 0))
	}},
	{"I-2", "O-S7: parked for no reason", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxParked](s, 0), func(p *events.OutboxParked) { p.Cause = "x" })
	}},
	{"I-2", "O-S6: released for no reason", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxReleased](s, 0), func(r *events.OutboxReleased) { r.Cause = "x" })
	}},
	{"I-2", "O-S6: a claim that has a time is released for want of one", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxReleased](s, 0), func(r *events.OutboxReleased) { r.Cause = events.ReleaseNoClaimTime })
	}},
	{"I-2", "O-13: released for the past", outboxTrouble, func(s *script) *entry {
		r := find[events.OutboxReleased](s, 3)
		return change(r, func(o *events.OutboxReleased) { o.AvailableAt = r.at - 1 })
	}},
	{"I-2", "N-4: a claim of a gone incarnation waits", restart, func(s *script) *entry {
		return change(find[events.OutboxReleased](s, 0), func(r *events.OutboxReleased) { r.AvailableAt++ })
	}},
	{"I-2", "K-1: a dispatch wakeup is dropped for want of units", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxDropped](s, 0), func(d *events.OutboxDropped) { d.Reason = events.DropUnitGone })
	}},
	{"I-2", "O-8: dropped for no reason", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxDropped](s, 0), func(d *events.OutboxDropped) { d.Reason = "x" })
	}},
	{"I-2", "O-12: an outcome of a target that was not declared", fullRun, func(s *script) *entry {
		return change(find[events.OutboxOutcome](s, 0), func(o *events.OutboxOutcome) { o.Target = "x" })
	}},
	{"I-2", "O-10: a fourth outcome", fullRun, func(s *script) *entry {
		return change(find[events.OutboxOutcome](s, 0), func(o *events.OutboxOutcome) { o.Outcome = "x" })
	}},
	{"I-2", "O-12: an outcome of what was published before its mark", fullRun, func(s *script) *entry {
		m := findIn[events.OutboxDispatched](s, reg(1, events.KindFinalize), 0)
		return s.alone(s.behind(m, m.stream, events.OutboxOutcome{N: 1, Outcome: events.Accepted}))
	}},
	{"I-2", "O-17: resolved as neither", postSyncs, func(s *script) *entry {
		return change(find[events.OutboxResolved](s, 0), func(r *events.OutboxResolved) { r.Outcome = "x" })
	}},
	{"I-2", "O-S10: resolved while the register is marked", postSyncs, func(s *script) *entry {
		r := find[events.OutboxResolved](s, 0)
		s.swap(r, find[events.OutboxOutcome](s, 1))
		r.at = s.entries[s.index(r)+1].at
		return r
	}},
	{"I-2", "O-17: a known outcome is resolved", postSyncs, func(s *script) *entry {
		return change(find[events.OutboxResolved](s, 0), func(r *events.OutboxResolved) { r.Target = "report" })
	}},
	{"I-2", "O-18: a redrive of what is not parked", fullRun, func(s *script) *entry {
		c := findIn[events.OutboxClaimed](s, reg(1, events.KindFinalize), 0)
		e := s.alone(s.behind(c, c.stream, events.OutboxArmed{N: 2, AvailableAt: c.at, Cause: events.ArmRedriven}))
		e.actor = "me"
		return e
	}},
	{"I-2", "section 7: a message is armed again", around, func(s *script) *entry {
		m := findIn[events.OutboxDispatched](s, events.MessageStream(messageID(1)), 0)
		return s.alone(s.behind(m, m.stream, events.OutboxArmed{N: 2, AvailableAt: m.at, Cause: events.ArmMaterialized}))
	}},
	{"I-2", "M-2: a message is submitted twice", around, func(s *script) *entry {
		return change(find[events.MessageSubmitted](s, 1), func(m *events.MessageSubmitted) { m.Message = messageID(1) })
	}},
	{"I-2", "M-12: a message is handled twice", around, func(s *script) *entry {
		e := find[events.MessageHandled](s, 0)
		return s.alone(s.behind(e, e.stream, e.event))
	}},
	{"I-11", "a number is left out", lostWorkers, func(s *script) *entry {
		return change(findIn[events.OutboxArmed](s, reg(1, events.KindDispatch), 1), func(a *events.OutboxArmed) { a.N = 3 })
	}},
	{"I-11", "swallowed: a mark closes the newest number instead of its own", outboxTrouble, func(s *script) *entry {
		s.swallow()
		return change(findIn[events.OutboxDispatched](s, reg(1, events.KindDispatch), 0), func(d *events.OutboxDispatched) { d.N = 2 })
	}},
	{"I-11", "swallowed: a mark drops the waiting number, and the next wish is numbered behind it", outboxTrouble, func(s *script) *entry {
		m := s.swallow()
		return s.alone(s.behind(m, m.stream, events.OutboxArmed{N: 3, AvailableAt: m.at, Cause: events.ArmMaterialized}))
	}},
	{"I-11", "swallowed: a mark drops the waiting number, and the next wish gets it anew", outboxTrouble, func(s *script) *entry {
		m := s.swallow()
		return s.alone(s.behind(m, m.stream, events.OutboxArmed{N: 2, AvailableAt: m.at.Add(hour), Cause: events.ArmMaterialized}))
	}},
	{"I-11", "a wish travels under a number that a broker may know", outboxTrouble, func(s *script) *entry {
		r := find[events.OutboxReleased](s, 1)
		return s.alone(s.behind(r, r.stream, events.OutboxArmed{N: 1, AvailableAt: r.at, Cause: events.ArmResumed}))
	}},
	{"I-11", "a third number is open", outboxTrouble, func(s *script) *entry {
		return change(findIn[events.OutboxArmed](s, reg(1, events.KindDispatch), 2), func(a *events.OutboxArmed) { a.N = 3 })
	}},
	{"I-11", "the waiting number is claimed first", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxClaimed](s, 1), func(c *events.OutboxClaimed) { c.N = 2 })
	}},
	{"I-11", "two claims at once", fullRun, func(s *script) *entry {
		c := find[events.OutboxClaimed](s, 0)
		return change(s.alone(s.behind(c, c.stream, c.event)), func(c *events.OutboxClaimed) { c.Attempt = 2 })
	}},
	{"I-11", "a number is closed twice", fullRun, func(s *script) *entry {
		m := find[events.OutboxDispatched](s, 0)
		return s.alone(s.behind(m, m.stream, m.event))
	}},
	{"I-11", "a closed number is claimed", fullRun, func(s *script) *entry {
		m := find[events.OutboxDispatched](s, 0)
		return s.alone(s.behind(m, m.stream, find[events.OutboxClaimed](s, 0).event))
	}},
	{"I-11", "a mark with another token", fullRun, func(s *script) *entry {
		return change(find[events.OutboxDispatched](s, 0), func(d *events.OutboxDispatched) { d.Token = "other" })
	}},
	{"I-11", "a mark after the claim", fullRun, func(s *script) *entry {
		m := find[events.OutboxDispatched](s, 0)
		s.shift(m, minute)
		return m
	}},
	{"I-11", "a dead claim is released under another token", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxReleased](s, 0), func(r *events.OutboxReleased) { r.Token = "other" })
	}},
	{"I-11", "a release with another token", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxReleased](s, 1), func(r *events.OutboxReleased) { r.Token = "other" })
	}},
	{"I-11", "a drop with another token", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxDropped](s, 0), func(d *events.OutboxDropped) { d.Token = "other" })
	}},
	{"I-11", "a drop without a claim", outboxTrouble, func(s *script) *entry {
		s.drop(findIn[events.OutboxClaimed](s, reg(1, events.KindDispatch), 6))
		return find[events.OutboxDropped](s, 0)
	}},
	{"I-12", "an attempt too many", outboxTrouble, func(s *script) *entry {
		s.node1config(`{"relay.max_attempts": 2}`)
		return find[events.OutboxClaimed](s, 2)
	}},
	{"I-12", "a parked number is claimed", outboxTrouble, func(s *script) *entry {
		p := find[events.OutboxParked](s, 1)
		return s.alone(s.behind(p, p.stream, events.OutboxClaimed{N: 2, Token: "x", ClaimExpiresAt: p.at.Add(hour), Attempt: 2}))
	}},
	{"I-13", "post_sync is armed again", fullRun, func(s *script) *entry {
		o := find[events.OutboxOutcome](s, 0)
		return s.alone(s.behind(o, o.stream, events.OutboxArmed{N: 2, AvailableAt: o.at, Cause: events.ArmMaterialized}))
	}},
	{"I-13", "post_sync is marked again", fullRun, func(s *script) *entry {
		m := findIn[events.OutboxDispatched](s, reg(1, events.KindPostSync), 0)
		return s.alone(s.behind(m, m.stream, m.event))
	}},
	{"I-13", "two outcomes of one target", fullRun, func(s *script) *entry {
		o := find[events.OutboxOutcome](s, 0)
		return change(s.alone(s.behind(o, o.stream, o.event)), func(o *events.OutboxOutcome) { o.Outcome = events.Refused })
	}},
	{"I-25", "a message is not armed", around, func(s *script) *entry {
		s.drop(findIn[events.OutboxArmed](s, events.MessageStream(messageID(2)), 0))
		return find[events.MessageSubmitted](s, 1)
	}},
	{"I-25", "a message is armed late", around, func(s *script) *entry {
		a := findIn[events.OutboxArmed](s, events.MessageStream(messageID(2)), 0)
		s.move(a, findIn[events.OutboxClaimed](s, events.MessageStream(messageID(1)), 0))
		return find[events.MessageSubmitted](s, 1)
	}},
	{"I-30", "a release for no time", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxReleased](s, 3), func(r *events.OutboxReleased) { r.AvailableAt = 0 })
	}},
	{"I-30", "a spent wakeup is not parked", outboxTrouble, func(s *script) *entry {
		r := find[events.OutboxReleased](s, 2)
		s.drop(find[events.OutboxParked](s, 0))
		return r
	}},
	{"I-30", "a wakeup at no time", lostWorkers, func(s *script) *entry {
		return change(findIn[events.OutboxArmed](s, reg(1, events.KindDispatch), 1), func(a *events.OutboxArmed) { a.AvailableAt = 0 })
	}},
	{"I-2", "O-S4: a register that was never armed is claimed", fullRun, func(s *script) *entry {
		u := find[events.UnitClaimed](s, 0)
		return s.alone(s.before(u, reg(1, events.KindFinalize), events.OutboxClaimed{N: 1, Token: "x", ClaimExpiresAt: u.at.Add(minute), Attempt: 1}))
	}},
	{"I-2", "O-13: a release beyond its backoff and its tenth", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxReleased](s, 1), func(r *events.OutboxReleased) { r.AvailableAt = r.AvailableAt.Add(1100 * 1000) })
	}},
	{"I-2", "O-15: parked by an attempt that was not counted", outboxTrouble, func(s *script) *entry {
		r := find[events.OutboxReleased](s, 2)
		change(find[events.OutboxParked](s, 0), func(p *events.OutboxParked) { p.Attempts = 2 })
		change(r, func(r *events.OutboxReleased) { r.Counted = false })
		s.node1config(`{"relay.max_attempts": 0}`)
		return find[events.OutboxParked](s, 0)
	}},
	{"I-2", "O-15: parked with another count of attempts", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxParked](s, 0), func(p *events.OutboxParked) { p.Attempts = 2 })
	}},
	{"I-2", "O-S7: another number is parked than was released", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxParked](s, 0), func(p *events.OutboxParked) { p.N = 2 })
	}},
	{"I-2", "O-S7: parked while it is claimed", outboxTrouble, func(s *script) *entry {
		c := find[events.OutboxClaimed](s, 0)
		e := s.alone(s.behind(c, c.stream, events.OutboxParked{N: 1, Cause: events.ParkOperator, Attempts: 1, Text: "now"}))
		e.actor = "me"
		return e
	}},
	{"I-2", "M-11: a wakeup of a run is parked for its consumer", outboxTrouble, func(s *script) *entry {
		return change(findIn[events.OutboxParked](s, reg(1, events.KindFinalize), 0), func(p *events.OutboxParked) { p.Cause = events.ParkHandlerFailed })
	}},
	{"I-2", "M-16: a wakeup of a run is parked as a crash suspect", outboxTrouble, func(s *script) *entry {
		return change(findIn[events.OutboxParked](s, reg(1, events.KindFinalize), 0), func(p *events.OutboxParked) { p.Cause = events.ParkCrashSuspect })
	}},
	{"I-2", "O-12: an outcome of another wakeup", fullRun, func(s *script) *entry {
		return change(find[events.OutboxOutcome](s, 0), func(o *events.OutboxOutcome) { o.N = 2 })
	}},
	{"I-2", "O-S10: another wakeup is resolved", postSyncs, func(s *script) *entry {
		return change(find[events.OutboxResolved](s, 0), func(r *events.OutboxResolved) { r.N = 2 })
	}},
	{"I-2", "O-17: a publish of which nothing is known is resolved", postSyncs, func(s *script) *entry {
		return change(find[events.OutboxResolved](s, 0), func(r *events.OutboxResolved) { r.Target = "x" })
	}},
	{"I-11", "a number that is not claimed is released", outboxTrouble, func(s *script) *entry {
		r := find[events.OutboxReleased](s, 0)
		return s.alone(s.behind(r, r.stream, r.event))
	}},
	{"I-11", "another number is released than is claimed", outboxTrouble, func(s *script) *entry {
		return change(find[events.OutboxReleased](s, 0), func(r *events.OutboxReleased) { r.N = 2 })
	}},
	{"I-11", "a number is neither closed nor open where the log ends", lostWorkers, func(s *script) *entry {
		change(findIn[events.OutboxArmed](s, reg(1, events.KindDispatch), 1), func(a *events.OutboxArmed) { a.N = 3 })
		c := change(findIn[events.OutboxClaimed](s, reg(1, events.KindDispatch), 1), func(c *events.OutboxClaimed) { c.N = 3 })
		s.entries = s.entries[:s.index(c)+1]
		return c
	}},
	{"I-2", "O-12: an outcome behind the last", fullRun, func(s *script) *entry {
		o := find[events.OutboxOutcome](s, 0)
		return s.alone(s.behind(o, o.stream, events.OutboxOutcome{N: 1, Target: "x", Outcome: events.Accepted}))
	}},
	{"I-2", "O-17: one of two unknown publishes is resolved twice", postSyncs, func(s *script) *entry {
		change(find[events.OutboxOutcome](s, 0), func(o *events.OutboxOutcome) { o.Outcome = events.Unknown })
		r := find[events.OutboxResolved](s, 0)
		return s.alone(s.behind(r, r.stream, r.event))
	}},
}

// swallow ends the first claim of the dispatch register, behind which number 2 waits, by a mark, and cuts the log there.
func (s *script) swallow() *entry {
	r := find[events.OutboxReleased](s, 0)
	c := find[events.OutboxClaimed](s, 0).event.(events.OutboxClaimed)
	r.event = events.OutboxDispatched{N: 1, Token: c.Token, Order: events.PublishFirst, Transport: "nats", MessageCount: 1}
	r.at = s.entries[s.index(r)-1].at
	s.entries = s.entries[:s.index(r)+1]
	return r
}

// dropInstead turns a mark into a drop.
func (s *script) dropInstead(e *entry, reason events.DropReason) *entry {
	m := e.event.(events.OutboxDispatched)
	e.event = events.OutboxDropped{N: m.N, Token: m.Token, Reason: reason}
	return e
}
