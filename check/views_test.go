package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// I-26: the fold that projections are compared with, in the middle of a run and at its end.
func TestTheFoldIsThatOfTheLog(t *testing.T) {
	s := newScript(t)
	fullRun(s)
	log := s.render()
	began := log[0].At

	claimed := findIn[events.UnitClaimed](s, unitStream(1, 3), 0)
	c := New(Options{})
	for _, e := range log[:claimed.position] {
		c.Apply(e)
	}
	c.EndTx()
	require.Equal(t, []Run{{
		ID: runID(1), Job: jobID(1), Sync: "code", TriggeredBy: events.TriggerManual, Mode: events.Incremental, Policy: policy(),
		Status: events.RunIsDispatching, Total: 3, Units: UnitCounts{Planned: 1, Running: 2},
		PlannedAt: began, StartedAt: began.Add(second), Version: 2,
	}}, c.Runs())
	units := c.Units(runID(1))
	require.Len(t, units, 3)
	require.Equal(t, Unit{
		ID: unitID(1, 3), Run: runID(1), Plan: find[events.UnitPlanned](s, 2).event.(events.UnitPlanned), Status: events.UnitIsRunning,
		PlannedAt: began, Dispatches: 1, AttemptDispatches: 1, FirstDispatchedAt: began.Add(second), LastDispatchedAt: began.Add(second),
		Wakeup: 1, Attempt: 1, Claimed: claimed.position, ClaimedAt: claimed.at, LeaseToken: claimed.event.(events.UnitClaimed).Token,
		LeaseExpiresAt: claimed.at.Add(minute), LeaseEndsAt: claimed.at.Add(hour), LeaseNode: nodeID(1), Worker: "w", Version: 3,
	}, units[2])
	require.Equal(t, events.UnitIsPlanned, units[1].Status)
	require.Equal(t, SlotCount{
		Engine: 2, Buckets: []BucketSlots{{"git/light", 2}}, Runs: []RunSlots{{runID(1), 2}},
	}, c.Slots(claimed.at, 15*minute))
	require.Zero(t, c.Slots(claimed.at.Add(minute), 15*minute), "a lease that is over holds no slot (B-3)")
	require.Equal(t, Register{
		Owner: runID(1), Kind: events.KindUnit, State: Idle, Newest: 1, Current: 1, Closed: 1,
		LastDispatchedAt: began.Add(2 * second), LastClosedAt: began.Add(2 * second), Transport: events.TransportLocal, Version: 3,
	}, c.Registers()[1])
	require.Equal(t, []Job{{
		ID: jobID(1), Run: runID(1), Sync: "code", Trigger: events.TriggerManual, OpenedAt: began, Version: 2,
	}}, c.Jobs())
	require.Empty(t, c.Watermarks())
	require.Nil(t, c.Units(runID(9)))

	c = checkLog(log, Options{Keep: true})
	run := c.Runs()[0]
	require.Equal(t, events.RunSucceeded, run.Status)
	require.Equal(t, UnitCounts{Succeeded: 3}, run.Units)
	require.True(t, run.PostSyncOwed)
	require.Equal(t, []Post{{Target: "report", Started: 1, Completed: 1}}, run.Posts)
	require.Len(t, c.Units(runID(1)), 3)
	require.Equal(t, []int{1}, c.Units(runID(1))[1].Late)
	require.Equal(t, []Watermark{
		{"a", "commits", began, unitID(1, 2)}, {"a", "refs", began, unitID(1, 1)}, {"b", "commits", began, unitID(1, 3)},
	}, c.Watermarks())
	require.Equal(t, events.RunSucceeded, c.Jobs()[0].Status)
	require.Zero(t, c.Slots(log[len(log)-1].At, 15*minute))
	require.True(t, c.Gone(nodeID(1)))

	require.Empty(t, checkLog(log, Options{}).Units(runID(1)), "an ended run is let go of")
}

// O-6: what the engine's view may lose is in the checker's: the waiting number, its time, and what a broker may know.
func TestTheFoldOfARegisterHoldsTheWaitingNumber(t *testing.T) {
	s := newScript(t)
	outboxTrouble(s)
	log := s.render()
	released := find[events.OutboxReleased](s, 0)
	c := New(Options{})
	for _, e := range log[:released.position] {
		c.Apply(e)
	}
	r := c.Registers()[0]
	require.Equal(t, Register{
		Owner: runID(1), Kind: events.KindDispatch, State: Pending, Newest: 2, Current: 1, AvailableAt: released.at.Add(5 * second),
		Attempts: 1, Floor: true, MaybePublished: true, Next: 2, NextAt: log[0].At.Add(30 * second), Version: 5,
	}, r)

	parked := find[events.OutboxParked](s, 1)
	c = New(Options{})
	for _, e := range log[:parked.position] {
		c.Apply(e)
	}
	r = c.Registers()[0]
	require.Equal(t, Parked, r.State)
	require.Equal(t, 2, r.Current)
	require.Zero(t, r.Closed, "a parked number is not closed (K-1)")
}

// DUR-5, O-17: in a restored hold an operator may say that an at-most-once wakeup was sent before the restore.
func TestAResolveInARestoredHold(t *testing.T) {
	s := newScript(t)
	s.start(1)
	s.quickToEnd(1)
	s.entries = s.entries[:s.index(findIn[events.OutboxClaimed](s, reg(1, events.KindPostSync), 0))]
	s.add(events.NodeStream(s.node), events.StoreRestored{Epoch: 2})
	s.add(reg(1, events.KindPostSync), events.OutboxResolved{N: 1, Outcome: events.ResolvedDelivered, Actor: "me", Reason: "seen"})
	c := checkLog(s.render(), Options{})
	require.Empty(t, c.Violations())
	last := c.Registers()[3]
	require.Equal(t, events.KindPostSync, last.Kind)
	require.Equal(t, Idle, last.State)
	require.Equal(t, 1, last.Closed)

	s.drop(find[events.StoreRestored](s, 0))
	require.Len(t, checkLog(s.render(), Options{}).Violations(), 1)
}

// B-1: the slots of several buckets and runs, at a moment behind the log.
func TestSlotsOfSeveralBuckets(t *testing.T) {
	s := newScript(t)
	s.start(1)
	s.quick(1, "a")
	s.plan(2, policy(), s.backfill("b"))
	s.relay(2, events.KindDispatch, 1, 1)
	s.dispatchUnits(2, 1, true, linearTo(1, 1, 1, events.DispatchPlanned))
	c := checkLog(s.render(), Options{})
	require.Empty(t, c.Violations())
	require.Equal(t, SlotCount{
		Engine: 2, Buckets: []BucketSlots{{"git/light", 1}, {"linear/medium", 1}}, Runs: []RunSlots{{runID(1), 1}, {runID(2), 1}},
	}, c.Slots(s.now, 15*minute))
	require.Equal(t, SlotCount{
		Engine: 1, Buckets: []BucketSlots{{"linear/medium", 1}}, Runs: []RunSlots{{runID(2), 1}},
	}, c.Slots(s.now.Add(14*minute), 15*minute))
}

// CFG-2: the values in force are those of the node that decides, in whatever form its configuration has.
func TestSettings(t *testing.T) {
	base := Settings{CapBucket: 4, MaxAttempts: 5}
	got := base.with([]byte(config))
	require.Equal(t, Settings{
		CapBucket: 8, CapBuckets: map[events.Bucket]int{"git/heavy": 2}, CapEngine: 64,
		Stale: 15 * minute, NeverStartedAfter: 24 * hour, MaxAttempts: 3, DrainRate: 4, BackoffBase: 5 * second, BackoffCap: 300 * second,
		PostRedriveAfter: 15 * minute, MaxDeferrals: 2, MaxWait: 2 * hour, IdempotencyTTL: 7 * 24 * hour, MaxUnits: 1000,
		StepBound: 30 * second,
	}, got)
	require.Equal(t, 2, got.capOf("git/heavy"))
	require.Equal(t, 8, got.capOf("git/light"))

	changed := got.with([]byte(`{"cap": {"bucket": {"default": 1, "git/heavy": "3"}}, "dispatch.stale_us": 1000000, "dispatch.never_started_after": "0s"}`))
	require.Equal(t, 1, changed.CapBucket)
	require.Equal(t, 3, changed.capOf("git/heavy"))
	require.Equal(t, 2, got.capOf("git/heavy"), "a reload changes no older values")
	require.Equal(t, events.SpanOf(time.Second), changed.Stale)
	require.Equal(t, events.Span(-1), changed.NeverStartedAfter)
	require.Equal(t, 64, changed.CapEngine)

	recorded := Settings{}.with([]byte(`{"cap.buckets": {"git/heavy": 3}, "dispatch.never_started_after_us": 0, "dispatch.stale_us": 900000000}`))
	require.Equal(t, 3, recorded.capOf("git/heavy"))
	require.Equal(t, events.Span(-1), recorded.NeverStartedAfter)
	require.Equal(t, 15*minute, recorded.Stale)

	for _, junk := range []string{``, `null`, `[]`, `{`, `7`, `{"cap.bucket": "many", "dispatch.stale": "soon", "relay.max_attempts": null}`} {
		got := base.with([]byte(junk))
		require.Equal(t, base.CapBucket, got.CapBucket, junk)
		require.Equal(t, base.MaxAttempts, got.MaxAttempts, junk)
		require.Zero(t, got.Stale, junk)
	}
	custom := checkLog(nil, Options{Settings: base})
	require.Equal(t, 4, custom.settings(nodeID(9)).CapBucket, "what no node says, the options say")
}

// N-3: in shared mode a start ends nobody, and a stop does.
func TestSharedMode(t *testing.T) {
	s := newScript(t)
	s.start(1)
	change(find[events.NodeStarted](s, 0), func(n *events.NodeStarted) { n.StoreMode = events.StoreShared })
	s.quick(1, "a")
	s.node = nodeID(2)
	s.add(events.NodeStream(s.node), events.NodeStarted{StoreMode: events.StoreShared, Config: []byte(`{"dispatch.stale": "1m"}`)})
	s.addAs(nodeID(1), unitStream(1, 1), events.UnitLateResult{Attempt: 1, Reason: events.LateLeaseLost})
	require.Empty(t, checkLog(s.render(), Options{}).Violations())

	until := findIn[events.UnitClaimed](s, unitStream(1, 1), 0).event.(events.UnitClaimed).LeaseExpiresAt
	gone := func() {
		s.tx(func() {
			s.add(unitStream(1, 1), events.UnitLeaseExpired{Attempt: 1, LeaseExpiresAt: until, Cause: events.LeaseIncarnationGone, LeaseNode: nodeID(1)})
			s.add(unitStream(1, 1), events.UnitFailed{Attempt: 1, Category: events.WorkerLost, By: events.ByReconciler})
			s.arm(1, events.KindFinalize, 1, s.now, events.ArmSettled)
		})
	}
	n := len(s.entries)
	gone()
	got := checkLog(s.render(), Options{}).Violations()
	require.Len(t, got, 1)
	require.Equal(t, "I-2", got[0].Rule)

	s.entries = s.entries[:n]
	s.addAs(nodeID(1), events.NodeStream(nodeID(1)), events.NodeStopped{})
	gone()
	require.Empty(t, checkLog(s.render(), Options{}).Violations())
}

// O-15: where a dead claim was the last attempt and nothing is owed any more, a drop stands for its release.
func TestADropEndsADeadClaimThatIsSpent(t *testing.T) {
	s := newScript(t)
	s.start(1)
	s.node1config(`{"relay.max_attempts": 1}`)
	token := s.quick(1, "a")
	s.tx(func() {
		s.succeed(1, 1, 1, token)
		s.arm(1, events.KindFinalize, 1, s.now, events.ArmSettled)
	})
	claim := s.take(1, events.KindFinalize, 1, 1, 1)
	s.end(1, events.RunSucceeded, events.Counts{Total: 1, Succeeded: 1}, true)
	s.after(2 * minute)
	s.add(reg(1, events.KindFinalize), events.OutboxDropped{N: 1, Token: claim, Reason: events.DropRunTerminal})
	require.Empty(t, checkLog(s.render(), Options{}).Violations())

	s.node1config(`{"relay.max_attempts": 2}`)
	got := checkLog(s.render(), Options{}).Violations()
	require.Len(t, got, 1, "an attempt is left: the claim is released, and the next one drops the wakeup")
	require.Equal(t, "I-11", got[0].Rule)
}
