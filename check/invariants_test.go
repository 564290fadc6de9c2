package check

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// Section 23: no invariant is listed that no planted corruption has shown to be checked.
func TestEveryInvariantHasAPlantedCorruption(t *testing.T) {
	planted := map[string]string{}
	for _, c := range slices.Concat(corruptions, holdCorruptions, messageCorruptions) {
		planted[c.rule] = ByLog
	}
	for _, c := range rawCorruptions {
		planted[c.rule] = ByLog
	}
	for _, c := range brokerCorruptions {
		planted[c.rule] = ByBroker
	}
	for _, c := range providerCorruptions {
		planted["I-29"] = ByProviders
		require.NotEmpty(t, c.name)
	}
	for _, c := range standstills {
		planted["I-27"] = ByStandstill
		require.NotEmpty(t, c.name)
	}
	seen := map[string]bool{}
	for _, i := range Invariants {
		require.False(t, seen[i.Number], "%s is listed twice", i.Number)
		seen[i.Number] = true
		require.NotEmpty(t, i.Statement)
		require.Equal(t, i.By, planted[i.Number], "%s has no planted corruption, or another method finds it", i.Number)
	}
	for rule := range planted {
		require.True(t, seen[rule], "a corruption is planted for %s, which is not listed", rule)
	}
}

// rawCorruptions change the places of events, which render would put in order again.
var rawCorruptions = []struct {
	rule, name string
	plant      func([]events.Envelope) ([]events.Envelope, events.Position)
}{
	{"I-1", "an event is missing", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		return slices.Delete(l, 9, 10), 10
	}},
	{"I-1", "the first event is missing", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		return l[1:], 1
	}},
	{"I-1", "an event comes twice", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		return slices.Insert(l, 10, l[9]), l[9].Position
	}},
	{"I-1", "two events change places", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		l[8], l[9] = l[9], l[8]
		return l, l[9].Position
	}},
	{"I-1", "a version is left out", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		l[9].Version++
		return l, l[9].Position
	}},
	{"I-1", "a version of a node is left out", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		l[0].Version++
		return l, 1
	}},
	{"I-1", "time goes back", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		l[9].At -= events.Micros(2 * second)
		return l, l[9].Position
	}},
	{"I-1", "a transaction has two times", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		l[6].At++
		return l, l[6].Position
	}},
	{"I-1", "a transaction that is over goes on", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		l[9].Tx = 2
		return l, l[9].Position
	}},
	{"I-1", "a transaction begins in the future", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		l[9].Tx = l[9].Position + 1
		return l, l[9].Position
	}},
	{"I-1", "a purge names what is still there", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		last := l[len(l)-1]
		last.Event = events.SegmentPurged{Positions: []events.Position{3, 99}}
		l[len(l)-1] = last
		return l, last.Position
	}},
	{"I-2", "no event", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		l[9].Event = nil
		return l, l[9].Position
	}},
	{"I-2", "a pointer is no event of the catalogue", func(l []events.Envelope) ([]events.Envelope, events.Position) {
		ev := l[9].Event.(events.OutboxDispatched)
		l[9].Event = &ev
		return l, l[9].Position
	}},
}

// I-1: the places of the events themselves.
func TestPlantedPlacesAreNamed(t *testing.T) {
	for _, c := range rawCorruptions {
		t.Run(c.rule+" "+c.name, func(t *testing.T) {
			s := newScript(t)
			fullRun(s)
			log, want := c.plant(s.render())
			got := checkLog(log, Options{}).Violations()
			require.True(t, slices.ContainsFunc(got, func(v Violation) bool { return v.Rule == c.rule && v.Position == want }),
				"want %s at %d, got:\n%s", c.rule, want, lines(got))
			require.True(t, slices.IsSortedFunc(got, func(a, b Violation) int { return int(a.Position - b.Position) }))
		})
	}
}

// L-1: positions that a purge names are not missing, also if the purge took the middle of the log and a transaction in
// part; a position that it leaves out is.
func TestPurgedPositionsAreNotMissing(t *testing.T) {
	s := newScript(t)
	s.start(1)
	s.quickToEnd(1)
	s.tx(func() {
		s.planFor(2, policy(), "", "nightly/1", s.work("a", "other"))
		s.add(events.OccurrenceStream("nightly", "1"), events.OccurrenceTriggered{Job: jobID(2), Run: runID(2)})
	})
	s.relay(2, events.KindDispatch, 1, 1)
	log := s.render()

	for _, run := range []int{1, 2} { // run 2 is not over, but that is not what is tested
		var kept []events.Envelope
		var gone []events.Position
		for _, e := range log {
			owner, _, _ := e.Stream.Register()
			id, _ := e.Stream.Run()
			job, _ := e.Stream.Job()
			u, _ := e.Stream.Unit()
			if owner == runID(run) || id == runID(run) || job == jobID(run) || u == unitID(run, 1) {
				gone = append(gone, e.Position)
				continue
			}
			kept = append(kept, e)
		}
		purge := log[len(log)-1]
		purge.Position++
		purge.Tx, purge.Stream, purge.Version = purge.Position, events.NodeStream(nodeID(1)), 2
		purge.Event = events.SegmentPurged{Segment: "1", Positions: gone}
		require.Empty(t, checkLog(append(slices.Clip(kept), purge), Options{}).Violations())

		purge.Event = events.SegmentPurged{Segment: "1", Positions: gone[1:]}
		got := checkLog(append(slices.Clip(kept), purge), Options{}).Violations()
		require.Len(t, got, 1)
		require.Equal(t, "I-1", got[0].Rule)
	}
}

// quickToEnd is a run of one unit, from its plan to the outcome of its post_sync.
func (s *script) quickToEnd(run int) {
	t := s.quick(run, "a")
	s.tx(func() {
		s.succeed(run, 1, 1, t)
		s.arm(run, events.KindFinalize, 1, s.now, events.ArmSettled)
	})
	c := s.take(run, events.KindFinalize, 1, 1, 1)
	s.end(run, events.RunSucceeded, events.Counts{Total: 1, Succeeded: 1}, true)
	s.mark(run, events.KindFinalize, 1, c, 1)
	k := reg(run, events.KindPostSync)
	c = s.take(run, events.KindPostSync, 1, 1, 1)
	s.add(k, events.OutboxDispatched{N: 1, Token: c, Order: events.MarkFirst, Transport: "nats", MessageCount: 1})
	s.add(k, events.OutboxOutcome{N: 1, Target: "report", Outcome: events.Accepted})
}

// published is the broker's record of a run of quickToEnd.
func published(s *script) []Published {
	id, r := runID(1).String(), runID(1)
	marked := findIn[events.OutboxDispatched](s, reg(1, events.KindPostSync), 0).position
	claim := func(k events.Kind) events.Position { return findIn[events.OutboxClaimed](s, reg(1, k), 0).position }
	return []Published{
		{ID: id + ".dispatch_sync_run.1", Kind: events.KindDispatch, Run: r, N: 1, After: claim(events.KindDispatch)},
		{ID: id + ".run_sync_unit.1." + unitID(1, 1).String() + ".1", Kind: events.KindUnit, Run: r, N: 1, After: claim(events.KindUnit)},
		{ID: id + ".finalize_sync_run.1", Kind: events.KindFinalize, Run: r, N: 1, After: claim(events.KindFinalize)},
		{ID: id + ".post_sync.1.report", Kind: events.KindPostSync, Run: r, N: 1, Target: "report", After: marked},
	}
}

var brokerCorruptions = []struct {
	rule, name string
	plant      func(*script, []Published) ([]Published, events.Position)
}{
	{"I-14", "post_sync is published twice", func(s *script, p []Published) ([]Published, events.Position) {
		return append(p, p[3]), p[3].After
	}},
	{"I-14", "post_sync is published before its mark", func(s *script, p []Published) ([]Published, events.Position) {
		p[3].After--
		return p, p[3].After
	}},
	{"I-15", "a mark without a message", func(s *script, p []Published) ([]Published, events.Position) {
		return p[1:], findIn[events.OutboxDispatched](s, reg(1, events.KindDispatch), 0).position
	}},
	{"I-15", "a mark without the message of a unit", func(s *script, p []Published) ([]Published, events.Position) {
		return slices.Delete(p, 1, 2), findIn[events.OutboxDispatched](s, reg(1, events.KindUnit), 0).position
	}},
	{"I-16", "a message before its claim", func(s *script, p []Published) ([]Published, events.Position) {
		p[0].After--
		return p, p[0].After
	}},
	{"I-16", "a message of no wakeup", func(s *script, p []Published) ([]Published, events.Position) {
		return append(p, Published{ID: runID(1).String() + ".dispatch_sync_run.2", Kind: events.KindDispatch, Run: runID(1), N: 2, After: 7}), 7
	}},
	{"I-16", "a message of a kind that does not exist", func(s *script, p []Published) ([]Published, events.Position) {
		return append(p, Published{ID: "x", Kind: "x", After: 7}), 7
	}},
	{"I-16", "a message for an attempt that it does not invite", func(s *script, p []Published) ([]Published, events.Position) {
		p[1].ID = p[1].ID[:len(p[1].ID)-1] + "2"
		return p, p[1].After
	}},
}

// I-14 to I-16: the broker's record against the log.
func TestPlantedBrokerRecordsAreNamed(t *testing.T) {
	s := newScript(t)
	s.start(1)
	s.quickToEnd(1)
	log := s.render()
	clean := checkLog(log, Options{Broker: true})
	require.Empty(t, clean.Broker(published(s)))
	require.Zero(t, clean.Total())
	for _, c := range brokerCorruptions {
		t.Run(c.rule+" "+c.name, func(t *testing.T) {
			record, want := c.plant(s, published(s))
			checker := checkLog(log, Options{Broker: true})
			got := checker.Broker(record)
			require.True(t, slices.ContainsFunc(got, func(v Violation) bool { return v.Rule == c.rule && v.Position == want }),
				"want %s at %d, got:\n%s", c.rule, want, lines(got))
			require.Equal(t, got, checker.Violations())
		})
	}
	require.Panics(t, func() { checkLog(log, Options{}).Broker(nil) })
}

// K-3: after a restore the ids of an earlier life are no ids of this one.
func TestIDsOfARestoredStore(t *testing.T) {
	s := newScript(t)
	s.start(1)
	s.add(events.NodeStream(s.node), events.StoreRestored{Epoch: 2})
	s.add(events.EngineControlStream(), events.RestoreHoldReleased{Actor: "me"})
	s.quickToEnd(1)
	s.post(1, 1, "report")
	change(find[events.PostSyncStarted](s, 0), func(p *events.PostSyncStarted) { p.MessageID += ".e2" })
	log := s.render()
	record := published(s)
	require.Len(t, checkLog(log, Options{Broker: true}).Broker(record[:1]), 1+3, "one message of nothing, three marks without one")
	for i := range record {
		record[i].ID += ".e2"
	}
	c := checkLog(log, Options{Broker: true})
	require.Empty(t, c.Broker(record))
	require.Empty(t, c.Violations())
	require.Equal(t, 2, c.Epoch())
}

var providerCorruptions = []struct {
	name   string
	calls  []Called
	writes []Written
}{
	{"a call without a claim", []Called{{unitID(1, 1), 1}, {unitID(1, 1), 1}}, nil},
	{"a call of a unit that nobody knows", []Called{{unitID(9, 9), 1}}, nil},
	{"an old attempt writes", []Called{{unitID(1, 1), 1}}, []Written{{unitID(1, 1), 2}, {unitID(1, 1), 1}}},
}

// I-29: the calls of providers and the writes of sinks against the log.
func TestPlantedCallsAreNamed(t *testing.T) {
	s := newScript(t)
	s.start(1)
	s.quickToEnd(1)
	log := s.render()
	for _, keep := range []bool{false, true} {
		require.Empty(t, checkLog(log, Options{Keep: keep}).Providers(
			[]Called{{unitID(1, 1), 1}}, []Written{{unitID(1, 1), 1}, {unitID(1, 1), 1}}))
		for _, c := range providerCorruptions {
			got := checkLog(log, Options{Keep: keep}).Providers(c.calls, c.writes)
			require.Len(t, got, 1, c.name)
			require.Equal(t, "I-29", got[0].Rule)
		}
	}
}

// standstills are runs that go nowhere: everything that was owed is closed, or due and left.
var standstills = []struct {
	name string
	play func(*script)
	wait events.Span
}{
	{"planned, and its wakeup is gone", func(s *script) { s.plan(1, policy(), s.work("a", "x")); s.relay(1, events.KindDispatch, 1, 1) }, 0},
	{"planned, and its wakeup is due for ever", func(s *script) { s.plan(1, policy(), s.work("a", "x")) }, 0},
	{"dispatched and stale", func(s *script) { s.quick(1, "a"); s.entries = s.entries[:len(s.entries)-1] }, 15*minute - second},
	{"running, and its lease is over", func(s *script) { s.quick(1, "a") }, minute},
	{"a claim that nobody releases", func(s *script) { s.plan(1, policy(), s.work("a", "x")); s.take(1, events.KindDispatch, 1, 1, 1) }, minute},
}

// I-27: what stands still is told from what waits.
func TestStandstillsAreNamed(t *testing.T) {
	for _, c := range standstills {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			s.start(1)
			c.play(s)
			checker := checkLog(s.render(), Options{})
			require.Empty(t, checker.Violations())
			_, now := checker.Head()
			if c.wait > 0 {
				require.Empty(t, checker.Standstills(now.Add(c.wait-1)))
			}
			got := checker.Standstills(now.Add(c.wait))
			require.Len(t, got, 1)
			require.Equal(t, "I-27", got[0].Rule)
			require.Equal(t, run1, got[0].Stream)

			for _, hold := range []func(){
				func() { s.add(events.EngineControlStream(), events.EnginePaused{Actor: "me"}) },
				func() { s.add(events.NodeStream(s.node), events.StoreRestored{Epoch: 2}) },
			} {
				n := len(s.entries)
				hold()
				require.Empty(t, checkLog(s.render(), Options{}).Standstills(now.Add(c.wait)))
				s.entries = s.entries[:n]
			}
		})
	}
}

// I-27: a run that is held by somebody does not stand still.
func TestWhatIsHeldDoesNotStandStill(t *testing.T) {
	s := newScript(t)
	s.start(1)
	s.plan(1, policy(), s.work("a", "x"))
	s.relay(1, events.KindDispatch, 1, 1)
	n := len(s.entries)
	s.add(events.SourceControlStream("a"), events.SourcePaused{Actor: "me"})
	require.Empty(t, checkLog(s.render(), Options{}).Standstills(s.now))

	s.entries = s.entries[:n]
	s.arm(1, events.KindDispatch, 2, s.now, events.ArmMaterialized)
	s.add(reg(1, events.KindDispatch), events.OutboxParked{N: 2, Cause: events.ParkOperator})
	require.Empty(t, checkLog(s.render(), Options{}).Standstills(s.now))

	s = newScript(t)
	retries(s)
	r := s.lastOfTx(find[events.UnitRetryScheduled](s, 0))
	s.entries = s.entries[:s.index(r)+1]
	s.drop(r) // the wake of the retry is lost; the time is ahead all the same (REC-7)
	c := checkLog(s.render(), Options{})
	require.Empty(t, c.Standstills(r.at))
	require.Len(t, c.Standstills(r.at.Add(minute)), 1)
}

// I-2: of a correct log no event may be taken out unnoticed, but for those that nothing later depends on.
func TestNoEventIsMissedUnnoticed(t *testing.T) {
	free := map[events.Type]string{
		events.TypeUnitLateResult:      "a record for people (U-19)",
		events.TypeNodeRecovered:       "a record for people (N-4)",
		events.TypeNodeStopped:         "an incarnation may die without it",
		events.TypeNodeConfigChanged:   "a value in force",
		events.TypeClockStepped:        "found only if somebody needed the grace",
		events.TypeRunsArchived:        "moves streams, changes nothing",
		events.TypeStoreRestored:       "found only if something depends on the hold",
		events.TypeEngineResumed:       "found only if something is dispatched after it",
		events.TypeSourceResumed:       "found only if something is dispatched after it",
		events.TypeScheduleDefined:     "no invariant reads schedules",
		events.TypeSchedulePaused:      "no invariant reads schedules",
		events.TypeScheduleResumed:     "no invariant reads schedules",
		events.TypeScheduleRemoved:     "no invariant reads schedules",
		events.TypeOccurrencesMissed:   "no invariant reads schedules",
		events.TypeOccurrenceQueued:    "an occurrence may be triggered at once (J-2)",
		events.TypeOccurrenceSkipped:   "an occurrence may never be decided",
		events.TypeOccurrenceRejected:  "an occurrence may never be decided",
		events.TypePostSyncFailed:      "exactly_once may fail any number of times, or none",
		events.TypeUnitLeaseRenewed:    "found only if the settle needed it",
		events.TypeOutboxOutcome:       "the last step of its register",
		events.TypeMessageHandled:      "the last step of its message",
		events.TypeMessageRejected:     "the last step of its message",
		events.TypeRestoreHoldReleased: "found only if something is claimed after it",
	}
	for _, sc := range scenarios {
		whole := newScript(t)
		sc.play(whole)
		for i, e := range whole.entries {
			if free[e.event.EventType()] != "" || lastOfItsOwn(whole, i) || spare(sc.name, e) {
				continue
			}
			s := newScript(t)
			sc.play(s)
			s.drop(s.entries[i])
			if len(checkLog(s.render(), Options{}).Violations()) == 0 {
				t.Errorf("%s: entry %d, %s in %s, is missed unnoticed", sc.name, i+1, events.Describe(e.event), e.stream)
			}
		}
	}
}

// spare are single events without which the rest of their scenario is a correct log too.
func spare(scenario string, e *entry) bool {
	switch ev := e.event.(type) {
	case events.OutboxArmed: // one of two arms of a waiting number
		return scenario == "outbox" && ev.N == 2 && ev.Cause == events.ArmCapped ||
			scenario == "suspects" && ev.Cause == events.ArmCapped // a net that the settle makes superfluous
	case events.OutboxDispatched: // the claim is not over where the log ends
		return (scenario == "restart" || scenario == "suspects") && ev.N == 2 && e.stream == reg(1, events.KindDispatch) ||
			scenario == "outage" && e.stream == reg(4, events.KindDispatch)
	case events.OutboxDropped: // the same
		return scenario == "cooldown"
	case events.OutboxParked: // what nobody parks is pending
		return scenario == "application messages" && ev.Cause == events.ParkOperator
	}
	return false
}

// lastOfItsOwn reports the last event of its stream that stands alone in its transaction: a log that ends before it is
// as correct.
func lastOfItsOwn(s *script, i int) bool {
	for j, e := range s.entries {
		if j != i && (e.group == s.entries[i].group || j > i && e.stream == s.entries[i].stream) {
			return false
		}
	}
	return true
}

// The list of violations is bounded; the count is not.
func TestViolationsAreBounded(t *testing.T) {
	s := newScript(t)
	s.start(1)
	for range 300 {
		s.add(run1, events.UnitClaimed{})
	}
	c := checkLog(s.render(), Options{})
	require.Len(t, c.Violations(), DefaultAtMost)
	require.Equal(t, 300, c.Total())
	require.Len(t, checkLog(s.render(), Options{AtMost: 3}).Violations(), 3)
	require.Len(t, c.Standstills(s.now), 0)
	require.Equal(t, "I-2 at 2 "+run1.String()+": UnitClaimed does not belong into this stream", fmt.Sprint(c.Violations()[0]))
}
