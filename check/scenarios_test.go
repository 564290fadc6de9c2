package check

import (
	"github.com/towline-dev/towline/events"
)

// scenarios are correct logs. Together they hold every event type of the catalogue.
var scenarios = []struct {
	name string
	play func(*script)
}{
	{"full run", fullRun},
	{"lost workers", lostWorkers},
	{"outbox", outboxTrouble},
	{"restart", restart},
	{"post_sync", postSyncs},
	{"exactly once", exactlyOnce},
	{"operator", operator},
	{"parked for ever", parkedForEver},
	{"parked post_sync", parkedPost},
	{"around", around},
	{"application messages", appMessages},
	{"given up", givenUp},
	{"clock", clock},
	{"retries", retries},
	{"stale", stale},
	{"suspects", suspects},
	{"unconfigured", unconfigured},
	{"cooldown", cooldown},
	{"outage", outage},
	{"scheduled", scheduled},
}

// fullRun: three units of two sources, the second of which waits for the first; post_sync; a late result at the end.
func fullRun(s *script) {
	s.start(1)
	began := s.now
	s.plan(1, policy(), s.reference("a"), s.work("a", "commits"), s.work("b", "commits"))
	s.relay(1, events.KindDispatch, 1, 1)
	s.dispatchUnits(1, 1, true, to(1, 1, 1, events.DispatchPlanned), to(3, 1, 1, events.DispatchPlanned))
	s.relay(1, events.KindUnit, 1, 2)
	one := s.claim(1, 1, 1)
	three := s.claim(1, 3, 1)
	s.after(20 * second)
	s.tx(func() {
		s.add(unitStream(1, 1), events.UnitLeaseRenewed{Attempt: 1, Token: one, LeaseExpiresAt: s.now.Add(minute)})
		s.add(unitStream(1, 3), events.UnitLeaseRenewed{Attempt: 1, Token: three, LeaseExpiresAt: s.now.Add(minute)})
	})
	s.after(5 * second)
	s.tx(func() { // the settle refills its slot (B-6)
		s.succeed(1, 1, 1, one, mark("a", "refs", began))
		s.giveSlots(1, 2, false, to(2, 1, 1, events.DispatchPlanned))
	})
	s.relay(1, events.KindUnit, 2, 1)
	var two events.Token
	s.tx(func() { // one worker ends a unit and starts its next (U-5)
		s.succeed(1, 3, 1, three, mark("b", "commits", began))
		two = s.claim(1, 2, 1)
	})
	s.after(10 * second)
	s.tx(func() {
		s.succeed(1, 2, 1, two, mark("a", "commits", began))
		s.arm(1, events.KindFinalize, 1, s.now, events.ArmSettled)
	})
	t := s.take(1, events.KindFinalize, 1, 1, 1)
	s.end(1, events.RunSucceeded, events.Counts{Total: 3, Succeeded: 3}, true)
	s.mark(1, events.KindFinalize, 1, t, 1)
	t = s.take(1, events.KindPostSync, 1, 1, 1)
	s.add(reg(1, events.KindPostSync), events.OutboxDispatched{N: 1, Token: t, Order: events.MarkFirst, Transport: events.TransportLocal, MessageCount: 1})
	s.add(reg(1, events.KindPostSync), events.OutboxOutcome{N: 1, Target: "report", Outcome: events.Accepted})
	s.post(1, 1, "report")
	s.add(unitStream(1, 2), events.UnitLateResult{Attempt: 1, Outcome: "failed", Reason: events.LateRunTerminal, Text: events.LateResultText})
	s.add(events.NodeStream(s.node), events.NodeStopped{Reason: "done"})
}

// post is the effect of one target.
func (s *script) post(run, n int, target string) {
	id, generation := postID(run, n, target), runID(run).String()+".1"
	s.add(events.RunStream(runID(run)), events.PostSyncStarted{Generation: generation, Target: target, MessageID: id})
	s.add(events.RunStream(runID(run)), events.PostSyncCompleted{Generation: generation, Target: target, MessageID: id})
}

// lostWorkers: a retry after an expired lease, then the last chance lost; a unit that may not be retried; a cascade.
func lostWorkers(s *script) {
	s.start(1)
	p := policy()
	p.Targets = nil
	other := s.backfill("z")
	other.Surfaces = []string{"work-items", "elsewhere"}
	other.Cost = events.CostMedium
	s.plan(1, p, s.backfill("y"), other)
	s.relay(1, events.KindDispatch, 1, 1)
	s.dispatchUnits(1, 1, true, linearTo(1, 1, 1, events.DispatchPlanned), linearTo(2, 1, 1, events.DispatchPlanned))
	s.relay(1, events.KindUnit, 1, 2)
	first := s.claim(1, 1, 1)
	s.claim(1, 2, 1)
	lost := s.now.Add(minute)
	s.after(2 * minute)
	s.tx(func() {
		s.add(unitStream(1, 1), events.UnitLeaseExpired{Attempt: 1, LeaseExpiresAt: lost, Cause: events.LeaseExpired, LeaseNode: s.node})
		s.add(unitStream(1, 1), events.UnitRetryScheduled{Attempt: 1, Cause: events.ExpiredLease, AvailableAt: s.now.Add(minute), ExpiredLeaseRetries: 1})
		s.add(unitStream(1, 2), events.UnitLeaseExpired{Attempt: 1, LeaseExpiresAt: lost, Cause: events.LeaseExpired, LeaseNode: s.node})
		s.add(unitStream(1, 2), events.UnitFailed{Attempt: 1, Category: events.WorkerLost, By: events.ByReconciler})
		s.arm(1, events.KindDispatch, 2, s.now.Add(minute), events.ArmDeferred)
	})
	_ = first
	s.add(unitStream(1, 1), events.UnitLateResult{Attempt: 1, Outcome: "succeeded", Reason: events.LateLeaseLost, Text: events.LateResultText})
	s.after(minute)
	s.relay(1, events.KindDispatch, 2, 1)
	s.dispatchUnits(1, 2, false, linearTo(1, 2, 2, events.DispatchRetry))
	s.relay(1, events.KindUnit, 2, 1)
	s.claim(1, 1, 2)
	lost = s.now.Add(minute)
	s.after(2 * minute)
	s.tx(func() {
		s.add(unitStream(1, 1), events.UnitLeaseExpired{Attempt: 2, LeaseExpiresAt: lost, Cause: events.LeaseExpired, LeaseNode: s.node})
		s.add(unitStream(1, 1), events.UnitFailed{Attempt: 2, Category: events.WorkerLostExhausted, By: events.ByReconciler, Retries: 1})
		s.arm(1, events.KindFinalize, 1, s.now, events.ArmSettled)
	})
	s.relay(1, events.KindFinalize, 1, 1)
	s.end(1, events.RunFailed, events.Counts{Total: 2, Failed: 2}, false)

	s.plan(2, policy(), s.reference("a"), s.work("a", "commits"), s.work("b", "commits"))
	s.relay(2, events.KindDispatch, 1, 1)
	s.dispatchUnits(2, 1, true, to(1, 1, 1, events.DispatchPlanned), to(3, 1, 1, events.DispatchPlanned))
	s.relay(2, events.KindUnit, 1, 2)
	one := s.claim(2, 1, 1)
	s.tx(func() {
		s.fail(2, 1, 1, one, events.Auth)
		s.add(unitStream(2, 2), events.UnitFailed{Category: events.ReferenceFailed, By: events.ByReference})
	})
	three := s.claim(2, 3, 1)
	s.tx(func() {
		s.fail(2, 3, 1, three, events.SinkError)
		s.arm(2, events.KindFinalize, 1, s.now, events.ArmSettled)
	})
	s.relay(2, events.KindFinalize, 1, 1)
	s.end(2, events.RunFailed, events.Counts{Total: 3, Failed: 3}, false)
}

// outboxTrouble: arms behind a claim, an expired claim, an unknown publish, a refusal until the wakeup is parked, a
// redrive, an open breaker, drops.
func outboxTrouble(s *script) {
	s.start(1)
	d := events.KindDispatch
	plain := func(source string) events.UnitPlanned {
		u := s.work(source, "commits")
		u.Watermark = false
		return u
	}
	s.plan(1, policy(), plain("a"), plain("b"))
	s.take(1, d, 1, 1, 1)
	s.arm(1, d, 2, s.now.Add(minute), events.ArmCapped) // the message of 1 may be at work already
	s.arm(1, d, 2, s.now.Add(30*second), events.ArmCapped)
	s.after(2 * minute)
	s.add(reg(1, d), events.OutboxReleased{N: 1, Token: "", Cause: events.ReleaseClaimExpired, AvailableAt: s.now.Add(5 * second), Counted: true, MaybePublished: true})
	s.after(6 * second)
	t := s.take(1, d, 1, 2, 1)
	s.add(reg(1, d), events.OutboxReleased{N: 1, Token: t, Cause: events.ReleasePublishUnknown, AvailableAt: s.now.Add(10 * second), Counted: true, MaybePublished: true})
	s.after(11 * second)
	t = s.take(1, d, 1, 3, 1)
	s.tx(func() {
		s.add(reg(1, d), events.OutboxReleased{N: 1, Token: t, Cause: events.ReleaseRefused, AvailableAt: s.now.Add(20 * second), Counted: true, Text: "no"})
		s.add(reg(1, d), events.OutboxParked{N: 1, Cause: events.ParkAttempts, Attempts: 3, Text: "no"})
	}) // 2 becomes pending
	t = s.take(1, d, 2, 1, 1)
	s.tx(func() {
		s.add(events.NodeStream(s.node), events.BreakerOpened{Transport: "nats", Until: s.now.Add(10 * second), Kinds: events.Kinds[:]})
		s.add(reg(1, d), events.OutboxReleased{N: 2, Token: t, Cause: events.ReleaseBreakerOpen, AvailableAt: s.now.Add(30 * second)})
	})
	s.arm(1, d, 2, s.now, events.ArmResumed) // no backoff: an arm moves it earlier
	s.add(events.NodeStream(s.node), events.BreakerClosed{Transport: "nats"})
	t = s.take(1, d, 2, 1, 1)
	s.tx(func() {
		s.add(reg(1, d), events.OutboxReleased{N: 2, Token: t, Cause: events.ReleaseRefused, AvailableAt: s.now.Add(5 * second), Counted: true, Text: "too large"})
		s.add(reg(1, d), events.OutboxParked{N: 2, Cause: events.ParkPermanent, Attempts: 1, Text: "too large"})
	})
	s.act(reg(1, d), events.OutboxArmed{N: 3, AvailableAt: s.now, Cause: events.ArmRedriven, Reason: "fixed"})
	t = s.take(1, d, 3, 1, 1)
	s.dispatchUnits(1, 1, true, to(1, 1, 1, events.DispatchPlanned), to(2, 1, 1, events.DispatchPlanned))
	s.mark(1, d, 3, t, 1)
	s.relay(1, events.KindUnit, 1, 2)
	s.arm(1, d, 4, s.now, events.ArmSlotFreed)
	s.tx(func() { // nothing is planned any more
		t = s.take(1, d, 4, 1, 1)
		s.add(reg(1, d), events.OutboxDropped{N: 4, Token: t, Reason: events.DropNothingOwed})
	})
	one := s.claim(1, 1, 1)
	two := s.claim(1, 2, 1)
	s.tx(func() { s.succeed(1, 1, 1, one) })
	s.tx(func() {
		s.succeed(1, 2, 1, two)
		s.arm(1, events.KindFinalize, 1, s.now, events.ArmSettled)
	})
	t = s.take(1, events.KindFinalize, 1, 1, 1)
	s.add(reg(1, events.KindFinalize), events.OutboxReleased{N: 1, Token: t, Cause: events.ReleaseShed, AvailableAt: s.now})
	s.act(reg(1, events.KindFinalize), events.OutboxParked{N: 1, Cause: events.ParkOperator, Text: "not now"})
	s.act(reg(1, events.KindFinalize), events.OutboxArmed{N: 2, AvailableAt: s.now, Cause: events.ArmRedriven})
	t = s.take(1, events.KindFinalize, 2, 1, 1)
	s.end(1, events.RunSucceeded, events.Counts{Total: 2, Succeeded: 2}, true)
	s.mark(1, events.KindFinalize, 2, t, 1)
	t = s.take(1, events.KindPostSync, 1, 1, 1)
	s.after(2 * minute)
	s.add(reg(1, events.KindPostSync), events.OutboxReleased{N: 1, Token: t, Cause: events.ReleaseClaimExpired, AvailableAt: s.now.Add(5 * second), Counted: true})
}

// restart: a node dies with a lease, a claim and a message in memory; the next one in exclusive mode recovers at once.
func restart(s *script) {
	s.start(1)
	p := policy()
	p.Targets = nil
	s.plan(1, p, s.backfill("x"), s.backfill("y"))
	s.relay(1, events.KindDispatch, 1, 1)
	s.dispatchUnits(1, 1, true, linearTo(1, 1, 1, events.DispatchPlanned), linearTo(2, 1, 1, events.DispatchPlanned))
	s.relay(1, events.KindUnit, 1, 2)
	s.claim(1, 1, 1)
	until := s.now.Add(minute)
	s.plan(2, p, s.backfill("z"))
	claim := s.take(2, events.KindDispatch, 1, 1, 1)

	s.start(2)
	s.tx(func() {
		s.add(unitStream(1, 1), events.UnitLeaseExpired{Attempt: 1, LeaseExpiresAt: until, Cause: events.LeaseIncarnationGone, LeaseNode: nodeID(1)})
		s.add(unitStream(1, 1), events.UnitRetryScheduled{Attempt: 1, Cause: events.ExpiredLease, AvailableAt: s.now.Add(minute), ExpiredLeaseRetries: 1, Suspect: true})
		s.arm(1, events.KindDispatch, 2, s.now.Add(minute), events.ArmDeferred)
	})
	s.add(reg(2, events.KindDispatch), events.OutboxReleased{N: 1, Token: claim, Cause: events.ReleaseIncarnationGone, AvailableAt: s.now, Counted: true, MaybePublished: true})
	s.add(events.NodeStream(s.node), events.NodeRecovered{GoneIncarnations: 1, Leases: 1, Claims: 1, Dispatches: 1})
	s.arm(1, events.KindDispatch, 2, s.now, events.ArmMaterialized)
	s.relay(1, events.KindDispatch, 2, 1)
	s.dispatchUnits(1, 2, false, linearTo(2, 2, 1, events.DispatchIncarnationGone))
	s.arm(1, events.KindDispatch, 3, s.now.Add(minute), events.ArmDeferred)
	s.relay(1, events.KindUnit, 2, 1)
	remote := s.token()
	s.add(unitStream(1, 2), events.UnitClaimed{Attempt: 1, Token: remote, LeaseExpiresAt: s.now.Add(minute), LeaseEndsAt: s.now.Add(hour), Remote: true, Worker: "api"})
	s.add(events.NodeStream(s.node), events.NodeStopped{})
	s.start(3) // the worker over the API did not notice
	s.tx(func() { s.succeed(1, 2, 1, remote) })
}

// postSyncs: an unknown publish that is resolved.
func postSyncs(s *script) {
	s.start(1)
	s.succeeded(1, events.AtMostOnce, "report", "page")
	k := events.KindPostSync
	t := s.take(1, k, 1, 1, 2)
	s.add(reg(1, k), events.OutboxDispatched{N: 1, Token: t, Order: events.MarkFirst, Transport: "nats", MessageCount: 2})
	s.add(reg(1, k), events.OutboxOutcome{N: 1, Target: "report", Outcome: events.Accepted})
	s.after(2 * minute)
	s.add(reg(1, k), events.OutboxOutcome{N: 1, Target: "page", Outcome: events.Unknown, Cause: events.OutcomeRelayDied})
	s.add(reg(1, k), events.OutboxResolved{N: 1, Target: "page", Outcome: events.ResolvedLost, Actor: "me", Reason: "no trace"})
	s.post(1, 1, "report")

	s.succeeded(2, events.AtMostOnce, "report", "page")
	t = s.take(2, k, 1, 1, 2)
	s.add(reg(2, k), events.OutboxDispatched{N: 1, Token: t, Order: events.MarkFirst, Transport: "nats", MessageCount: 2})
	s.add(reg(2, k), events.OutboxOutcome{N: 1, Target: "report", Outcome: events.Accepted})
	s.add(reg(2, k), events.OutboxOutcome{N: 1, Target: "page", Outcome: events.Accepted})
	s.add(events.RunStream(runID(2)), events.PostSyncStarted{Generation: runID(2).String() + ".1", Target: "page", MessageID: runID(2).String() + ".post_sync.1.page"})
	s.start(2) // the process dies in the effect of page
	s.add(reg(2, k), events.OutboxOutcome{N: 1, Target: "page", Outcome: events.Unknown, Cause: events.OutcomeProcessDied})
	s.add(reg(2, k), events.OutboxResolved{N: 1, Target: "page", Outcome: events.ResolvedDelivered, Actor: "me", Reason: "it is there"})
}

// succeeded is a run of one unit, up to its end, that owes a post_sync.
func (s *script) succeeded(run int, mode events.DeliveryMode, targets ...string) {
	p := policy()
	p.PostSync, p.Targets = mode, targets
	if mode == events.ExactlyOnce {
		p.MaxDeliveries = 2
	}
	u := s.work("a", "commits")
	u.Watermark = false
	s.plan(run, p, u)
	s.relay(run, events.KindDispatch, 1, 1)
	s.dispatchUnits(run, 1, true, to(1, 1, 1, events.DispatchPlanned))
	s.relay(run, events.KindUnit, 1, 1)
	t := s.claim(run, 1, 1)
	s.tx(func() {
		s.succeed(run, 1, 1, t)
		s.arm(run, events.KindFinalize, 1, s.now, events.ArmSettled)
	})
	s.relay(run, events.KindFinalize, 1, 1)
	s.end(run, events.RunSucceeded, events.Counts{Total: 1, Succeeded: 1}, true)
}

func postID(run, n int, target string) string {
	return runID(run).String() + ".post_sync." + string(rune('0'+n)) + "." + target
}

// operator: pauses, a cancelled unit, a cancelled reference, a cancelled run, a released unit, a run without units.
func operator(s *script) {
	s.start(1)
	engine, source := events.EngineControlStream(), events.SourceControlStream("b")
	s.add(engine, events.EnginePaused{Actor: "me"})
	p := policy()
	p.Retry = nil
	s.plan(1, p, s.work("a", "commits"), s.work("b", "commits"), s.work("c", "commits"))
	s.add(source, events.SourcePaused{Actor: "me"})
	s.add(engine, events.EngineResumed{Actor: "me"})
	s.relay(1, events.KindDispatch, 1, 1)
	s.dispatchUnits(1, 1, true, to(1, 1, 1, events.DispatchPlanned), to(3, 1, 1, events.DispatchPlanned))
	s.relay(1, events.KindUnit, 1, 2)
	s.claim(1, 1, 1)
	three := s.claim(1, 3, 1)
	s.add(source, events.SourceResumed{Actor: "me"})
	s.tx(func() {
		s.act(unitStream(1, 1), events.UnitLeaseExpired{Attempt: 1, LeaseExpiresAt: s.now.Add(minute), Cause: events.LeaseReleased, LeaseNode: s.node, Reason: "gone"})
		s.act(unitStream(1, 1), events.UnitFailed{Attempt: 1, Category: events.WorkerLost, By: events.ByOperator})
	})
	s.tx(func() { s.succeed(1, 3, 1, three, mark("c", "commits", s.now.Add(-2*second))) })
	s.tx(func() {
		s.add(unitStream(1, 2), events.UnitCancelled{Actor: "me", Reason: "unit_cancelled", Text: "not needed"})
		s.arm(1, events.KindFinalize, 1, s.now, events.ArmSettled)
	})
	s.relay(1, events.KindFinalize, 1, 1)
	s.end(1, events.RunPartialFailed, events.Counts{Total: 3, Succeeded: 1, Failed: 1, Cancelled: 1}, true)

	s.plan(2, p, s.reference("a"), s.work("a", "commits"), s.work("c", "other"))
	s.relay(2, events.KindDispatch, 1, 1)
	s.dispatchUnits(2, 1, true, to(3, 1, 1, events.DispatchPlanned))
	s.tx(func() {
		s.add(unitStream(2, 1), events.UnitCancelled{Actor: "me", Reason: "unit_cancelled", Text: "not needed"})
		s.add(unitStream(2, 2), events.UnitCancelled{Actor: "me", Reason: "reference_cancelled"})
	})
	s.tx(func() {
		s.add(unitStream(2, 3), events.UnitCancelled{Actor: "me", Reason: "run_cancelled"})
		s.add(events.RunStream(runID(2)), events.RunCancelled{Actor: "me", Reason: "wrong range", Counts: events.Counts{Cancelled: 3}})
		s.add(events.JobStream(jobID(2)), events.JobClosed{Status: events.RunIsCancelled, Counts: events.Counts{Total: 3, Cancelled: 3}})
	})
	s.tx(func() {
		t := s.take(2, events.KindUnit, 1, 1, 0)
		s.add(reg(2, events.KindUnit), events.OutboxDropped{N: 1, Token: t, Reason: events.DropRunTerminal})
	})

	s.plan(3, p)

	s.plan(4, p, s.work("d", "commits")) // its units are cancelled one by one
	s.tx(func() {
		s.add(unitStream(4, 1), events.UnitCancelled{Actor: "me", Reason: "unit_cancelled", Text: "not needed"})
		s.arm(4, events.KindFinalize, 1, s.now, events.ArmSettled)
	})
	s.relay(4, events.KindFinalize, 1, 1)
	n := events.Counts{Total: 1, Cancelled: 1}
	s.tx(func() {
		s.add(events.RunStream(runID(4)), events.RunFinalized{Status: events.RunFailed, Reason: events.ReasonAllUnitsCancelled, Counts: n})
		s.add(events.JobStream(jobID(4)), events.JobClosed{Status: events.RunFailed, Counts: n})
	})

	s.plan(5, p, s.work("e", "commits")) // a cancel without totals
	s.tx(func() {
		s.add(unitStream(5, 1), events.UnitCancelled{Actor: "me", Reason: "run_cancelled"})
		s.add(events.RunStream(runID(5)), events.RunCancelled{Actor: "me", Reason: "wrong range", Counts: events.Counts{Cancelled: 1}})
		s.add(events.JobStream(jobID(5)), events.JobClosed{Status: events.RunIsCancelled, Counts: events.Counts{Cancelled: 1}})
	})

	s.retry(6, 1, p, s.work("a", "commits"), s.work("b", "commits")) // what failed of run 1, and what was cancelled
}

// parkedForEver: a run is cancelled whose wakeup is parked.
func parkedForEver(s *script) {
	s.start(1)
	s.plan(1, policy(), s.work("a", "commits"))
	s.act(reg(1, events.KindDispatch), events.OutboxParked{N: 1, Cause: events.ParkOperator, Text: "not now"})
	s.tx(func() {
		s.add(unitStream(1, 1), events.UnitCancelled{Actor: "me", Reason: "run_cancelled"})
		s.add(events.RunStream(runID(1)), events.RunCancelled{Actor: "me", Reason: "never", Counts: events.Counts{Total: 1, Cancelled: 1}})
		s.add(events.JobStream(jobID(1)), events.JobClosed{Status: events.RunIsCancelled, Counts: events.Counts{Total: 1, Cancelled: 1}})
	})
}

// parkedPost: a post_sync that is owed behind the end of its run is parked, and redriven.
func parkedPost(s *script) {
	s.start(1)
	s.succeeded(1, events.ExactlyOnce, "report")
	s.act(reg(1, events.KindPostSync), events.OutboxParked{N: 1, Cause: events.ParkOperator, Text: "not now"})
	s.act(reg(1, events.KindPostSync), events.OutboxArmed{N: 2, AvailableAt: s.now, Cause: events.ArmRedriven})
	s.relay(1, events.KindPostSync, 2, 1)
}

// around: messages, schedules, idempotency keys, a purge, a restore.
func around(s *script) {
	s.start(1)
	node := events.NodeStream(s.node)
	s.add(node, events.NodeConfigChanged{Changed: []byte(`{"cap": {"engine": "32"}}`)})
	app := events.AppStream("mail")
	message := func(n int) events.StreamID { return events.MessageStream(messageID(n)) }
	s.addAs(events.NodeID{}, app, events.MessageSubmitted{Message: messageID(1), Payload: []byte("1")})
	s.addAs(events.NodeID{}, app, events.MessageSubmitted{Message: messageID(2), Payload: []byte("2")})
	s.tx(func() {
		s.add(message(1), events.OutboxArmed{N: 1, AvailableAt: s.now, Cause: events.ArmMessage})
		s.add(message(2), events.OutboxArmed{N: 1, AvailableAt: s.now, Cause: events.ArmMessage})
		s.planFor(1, policy(), "key", "", s.work("a", "commits"))
	})
	s.add(message(1), events.OutboxClaimed{N: 1, Token: "m1", ClaimExpiresAt: s.now.Add(minute), Attempt: 1, MessageCount: 1})
	s.add(message(2), events.OutboxClaimed{N: 1, Token: "m2", ClaimExpiresAt: s.now.Add(minute), Attempt: 1, MessageCount: 1})
	s.add(app, events.MessageHandled{Message: messageID(1), DeliveryMessageID: messageID(1).String()})
	s.add(message(1), events.OutboxDispatched{N: 1, Token: "m1", Order: events.PublishFirst, Transport: "nats", MessageCount: 1})
	s.add(message(2), events.OutboxDispatched{N: 1, Token: "m2", Order: events.PublishFirst, Transport: "nats", MessageCount: 1})
	s.add(app, events.MessageRejected{Message: messageID(2), Category: events.InvalidPayload})

	nightly := events.ScheduleStream("nightly")
	occurrence := func(civil string) events.StreamID { return events.OccurrenceStream("nightly", civil) }
	s.add(nightly, events.ScheduleDefined{Cron: "0 3 * * *", TimeZone: "UTC"})
	s.add(nightly, events.SchedulePaused{Actor: "me"})
	s.add(nightly, events.ScheduleResumed{Actor: "me"})
	s.add(nightly, events.OccurrencesMissed{Count: 2})
	s.add(occurrence("1"), events.OccurrenceQueued{Instant: s.now})
	s.tx(func() {
		s.planFor(2, policy(), "", "nightly/1", s.work("a", "other"))
		s.add(occurrence("1"), events.OccurrenceTriggered{Instant: s.now, Job: jobID(2), Run: runID(2)})
	})
	s.add(occurrence("2"), events.OccurrenceSkipped{Instant: s.now, Reason: "overlap"})
	s.add(occurrence("3"), events.OccurrenceRejected{Instant: s.now, Category: "plan_too_large"})
	s.add(nightly, events.ScheduleRemoved{Actor: "me"})

	s.after(8 * 24 * hour) // the key has lived its time
	s.planFor(3, policy(), "key", "", s.work("a", "commits"))
	s.add(node, events.RunsArchived{Segment: "1"})
	s.add(node, events.StoreRestored{Epoch: 2, Head: 9})
	s.add(events.EngineControlStream(), events.RestoreHoldReleased{Actor: "me", Reason: "checked"})
	s.relay(3, events.KindDispatch, 1, 1)
}

// clock: a step of the wall clock, and the one grace lease that it grants. Renewals go on behind it, and the lifetime has
// moved with the clock; a second step grants nothing. Then an operator confirms that the clock is right.
func clock(s *script) {
	s.start(1)
	t := s.quick(1, "a")
	before := s.now.Add(10 * second)
	s.after(3 * hour)
	s.add(events.NodeStream(s.node), events.ClockStepped{Before: before, After: s.now, GraceUntil: s.now.Add(minute)})
	s.after(30 * second)
	s.add(unitStream(1, 1), events.UnitLeaseRenewed{Attempt: 1, Token: t, LeaseExpiresAt: s.now.Add(minute)})
	s.add(events.NodeStream(s.node), events.ClockStepped{Before: s.now, After: s.now.Add(-hour)})
	s.add(events.NodeStream(s.node), events.ClockStepped{Before: s.now, After: s.now.Add(-hour), Actor: "me", Reason: "it is right"})
	s.after(20 * second)
	s.tx(func() {
		s.succeed(1, 1, 1, t)
		s.arm(1, events.KindFinalize, 1, s.now, events.ArmSettled)
	})
}

// retries: two deferrals of a rate limit, a hand-back, a declared category; and the cooldown in between.
func retries(s *script) {
	s.start(1)
	t := s.quick(1, "a")
	first := s.now
	again := func(n int) {
		s.relay(1, events.KindDispatch, n, 1)
		s.dispatchUnits(1, n, false, to(1, n, n, events.DispatchRetry))
		s.relay(1, events.KindUnit, n, 1)
		t = s.claim(1, 1, n)
	}
	retry := func(n int, r events.UnitRetryScheduled) {
		r.Attempt, r.Token = n-1, t
		s.tx(func() {
			s.add(unitStream(1, 1), r)
			s.arm(1, events.KindDispatch, n, r.AvailableAt, events.ArmDeferred)
		})
		s.now = max(s.now, r.AvailableAt)
		again(n)
	}
	at := s.now.Add(minute)
	retry(2, events.UnitRetryScheduled{Cause: events.RateLimit, AvailableAt: at, RateLimitDeferrals: 1, RateLimitFirstAt: first, CooldownKey: "git/me", CooldownUntil: at})
	retry(3, events.UnitRetryScheduled{Cause: events.HandedBack, AvailableAt: s.now, HandBacks: 1, RateLimitDeferrals: 1, RateLimitFirstAt: first})
	retry(4, events.UnitRetryScheduled{Cause: events.RateLimit, AvailableAt: s.now.Add(minute), RateLimitDeferrals: 2, RateLimitFirstAt: first, CooldownKey: "git/me", CooldownUntil: s.now.Add(minute)})
	retry(5, events.UnitRetryScheduled{Cause: events.Network, AvailableAt: s.now.Add(10 * second), CategoryRetries: 1})
	retry(6, events.UnitRetryScheduled{Cause: events.Network, AvailableAt: s.now.Add(10 * second), CategoryRetries: 2})
	first = s.now // a retry for another cause has ended the episode (U-20)
	for n := 1; n <= 2; n++ {
		at := s.now.Add(minute)
		retry(6+n, events.UnitRetryScheduled{Cause: events.RateLimit, AvailableAt: at, RateLimitDeferrals: n, RateLimitFirstAt: first, CooldownKey: "git/me", CooldownUntil: at})
	}
	s.tx(func() {
		s.fail(1, 1, 8, t, events.RateLimitExhausted)
		s.arm(1, events.KindFinalize, 1, s.now, events.ArmSettled)
	})
}

// stale: a unit that nobody claims is dispatched again and again, and given up after a day; one that is claimed late.
func stale(s *script) {
	s.start(1)
	a, b := s.work("a", "commits"), s.work("b", "commits")
	a.Watermark, b.Watermark = false, false
	s.plan(1, policy(), a, b)
	s.relay(1, events.KindDispatch, 1, 1)
	s.dispatchUnits(1, 1, true, to(1, 1, 1, events.DispatchPlanned), to(2, 1, 1, events.DispatchPlanned))
	s.relay(1, events.KindUnit, 1, 2)
	s.after(16 * minute)
	s.claim(1, 2, 1) // stale, and a slot is free
	for n := 2; n <= 3; n++ {
		s.arm(1, events.KindDispatch, n, s.now, events.ArmMaterialized)
		s.relay(1, events.KindDispatch, n, 1)
		s.dispatchUnits(1, n, false, to(1, n, 1, events.DispatchStale))
		s.relay(1, events.KindUnit, n, 1)
		s.after([]events.Span{24 * hour, 20 * minute}[n-2])
	}
	s.arm(1, events.KindDispatch, 4, s.now, events.ArmMaterialized)
	s.relay(1, events.KindDispatch, 4, 1)
	s.tx(func() {
		s.add(unitStream(1, 1), events.UnitFailed{Category: events.NeverStarted, By: events.ByDispatch})
	})
}
