package check

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// script writes a log by hand, event by event, as the specification wants it. Places in the log are given out at the
// end, so that a test may drop, change, swap or insert events and still get a dense log.
type script struct {
	t       testing.TB
	entries []*entry
	now     events.Micros
	node    events.NodeID
	group   int
	inTx    bool
	tokens  int
}

type entry struct {
	group    int // transaction
	stream   events.StreamID
	at       events.Micros
	node     events.NodeID
	actor    string
	event    events.Event
	position events.Position // once rendered
}

const (
	second = events.Span(1e6)
	minute = 60 * second
	hour   = 60 * minute
)

// settings are those of the nodes in these tests, as a node writes them down.
const config = `{"cap.bucket": 8, "cap": {"engine": 64, "bucket.git/heavy": 2}, "dispatch.stale": "15m",
	"dispatch": {"never_started_after": "24h"}, "relay.max_attempts": 3, "relay.drain_rate": 4, "relay.backoff_base": "5s", "relay.backoff_cap": 300000000,
	"rate_limit.max_deferrals": 2, "rate_limit.max_wait": "2h", "post_sync.redrive_after": "15m", "api.idempotency_ttl": "7d", "plan.max_units": 1000,
	"clock.step_bound": "30s"}`

var run1 = events.RunStream(runID(1))

func newScript(t testing.TB) *script {
	return &script{t: t, now: events.MicrosOf(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
}

func id(family byte, n int) (b [16]byte) {
	b[0], b[14], b[15] = family, byte(n>>8), byte(n)
	return b
}

func runID(n int) events.RunID         { return id('r', n) }
func jobID(n int) events.JobID         { return id('j', n) }
func nodeID(n int) events.NodeID       { return id('n', n) }
func messageID(n int) events.MessageID { return id('m', n) }
func unitID(run, n int) events.UnitID {
	u := id('u', n)
	u[1], u[2] = byte(run>>8), byte(run)
	return u
}
func unitStream(run, n int) events.StreamID              { return events.UnitStream(unitID(run, n)) }
func reg(run int, k events.Kind) events.StreamID         { return events.RegisterStream(runID(run), k) }
func (s *script) after(d events.Span)                    { s.now = s.now.Add(d) }
func (s *script) add(id events.StreamID, e events.Event) { s.addAs(s.node, id, e) }

func (s *script) addAs(node events.NodeID, id events.StreamID, e events.Event) {
	if !s.inTx {
		s.group++
	}
	s.entries = append(s.entries, &entry{group: s.group, stream: id, at: s.now, node: node, event: e})
}

// act is what an operator does.
func (s *script) act(id events.StreamID, e events.Event) {
	s.add(id, e)
	s.entries[len(s.entries)-1].actor = "me"
}

// tx makes everything that f adds one transaction.
func (s *script) tx(f func()) {
	s.group++
	s.inTx = true
	f()
	s.inTx = false
}

func (s *script) token() events.Token {
	s.tokens++
	return events.Token(fmt.Sprintf("token-%d", s.tokens))
}

// render gives every entry its place.
func (s *script) render() []events.Envelope {
	log := make([]events.Envelope, 0, len(s.entries))
	versions := map[events.StreamID]events.Version{}
	group, tx := -1, events.Position(0)
	for i, e := range s.entries {
		e.position = events.Position(i + 1)
		if e.group != group {
			group, tx = e.group, e.position
		}
		versions[e.stream]++
		log = append(log, events.Envelope{
			Position: e.position, Tx: tx, Stream: e.stream, Version: versions[e.stream], At: e.at,
			Meta: events.Meta{Node: e.node, Actor: e.actor}, Event: e.event,
		})
	}
	return log
}

// find is the nth entry that holds an E, from 0.
func find[E events.Event](s *script, n int) *entry {
	return s.where(n, func(e *entry) bool { _, ok := e.event.(E); return ok })
}

// findIn is the nth entry that holds an E in one stream, from 0.
func findIn[E events.Event](s *script, id events.StreamID, n int) *entry {
	return s.where(n, func(e *entry) bool { _, ok := e.event.(E); return ok && e.stream == id })
}

func (s *script) where(n int, is func(*entry) bool) *entry {
	s.t.Helper()
	for _, e := range s.entries {
		if is(e) {
			if n == 0 {
				return e
			}
			n--
		}
	}
	require.FailNow(s.t, "the script has no such event")
	return nil
}

// change edits the payload of an entry.
func change[E events.Event](e *entry, f func(*E)) *entry {
	ev := e.event.(E)
	f(&ev)
	e.event = ev
	return e
}

func (s *script) index(e *entry) int {
	for i, x := range s.entries {
		if x == e {
			return i
		}
	}
	require.FailNow(s.t, "the script does not hold the entry")
	return 0
}

func (s *script) drop(e *entry) {
	i := s.index(e)
	s.entries = append(s.entries[:i:i], s.entries[i+1:]...)
}

// before and behind put an event beside another, into its transaction.
func (s *script) before(e *entry, id events.StreamID, ev events.Event) *entry {
	return s.insert(s.index(e), &entry{group: e.group, stream: id, at: e.at, node: e.node, event: ev})
}

func (s *script) behind(e *entry, id events.StreamID, ev events.Event) *entry {
	return s.insert(s.index(e)+1, &entry{group: e.group, stream: id, at: e.at, node: e.node, event: ev})
}

func (s *script) insert(i int, e *entry) *entry {
	s.entries = append(s.entries[:i:i], append([]*entry{e}, s.entries[i:]...)...)
	return e
}

// alone puts an entry into a transaction of its own.
func (s *script) alone(e *entry) *entry {
	s.group++
	e.group = s.group
	return e
}

func (s *script) swap(a, b *entry) {
	i, j := s.index(a), s.index(b)
	s.entries[i], s.entries[j] = b, a
	a.group, b.group = b.group, a.group
}

// node1config replaces the configuration of the first node.
func (s *script) node1config(c string) {
	require.True(s.t, json.Valid([]byte(c)))
	change(find[events.NodeStarted](s, 0), func(n *events.NodeStarted) { n.Config = []byte(c) })
}

func (s *script) behindInTx(e *entry, id events.StreamID, d events.UnitDispatched) *entry {
	d.Wakeup = e.wakeupOrOne()
	return s.behind(e, id, d)
}

func (e *entry) wakeupOrOne() int {
	if d, ok := e.event.(events.UnitDispatched); ok {
		return d.Wakeup
	}
	return 1
}

func (s *script) wakeup(e *entry, n int) *entry {
	return change(e, func(d *events.UnitDispatched) { d.Wakeup = n })
}

// shift moves the time of e, of its transaction and of all behind it.
func (s *script) shift(e *entry, by events.Span) {
	i := s.index(e)
	for i > 0 && s.entries[i-1].group == e.group {
		i--
	}
	for _, x := range s.entries[i:] {
		x.at = x.at.Add(by)
	}
}

// move takes e out and puts it before another, in a transaction of its own.
func (s *script) move(e, to *entry) {
	s.drop(e)
	e.at = to.at
	s.alone(s.insert(s.index(to), e))
}

func (s *script) lastOfTx(e *entry) *entry {
	i := s.index(e)
	for i+1 < len(s.entries) && s.entries[i+1].group == e.group {
		i++
	}
	return s.entries[i]
}

// start is a NodeStarted in exclusive mode.
func (s *script) start(n int) {
	s.node = nodeID(n)
	s.add(events.NodeStream(s.node), events.NodeStarted{Host: "h", StoreMode: events.StoreExclusive, Config: []byte(config)})
}

func policy() events.Policy {
	family := []string{"work-items", "work-item-labels"}
	return events.Policy{
		Lease: minute, Lifetime: hour, Countdown: minute, RunCap: 16, PostSync: events.AtMostOnce, Targets: []string{"report"},
		Retry: []events.RetryPolicy{
			{Name: "linear", Provider: "linear", Modes: []events.Mode{events.Backfill}, Family: family, Surfaces: family, MaxRetries: 1, Backoff: minute},
			{Name: "network", Provider: "git", Modes: []events.Mode{events.Incremental}, Family: []string{"commits", "refs"},
				Surfaces: []string{"commits", "refs"}, MaxRetries: 2, Backoff: 10 * second, RetryOn: []events.Category{events.Network}},
		},
	}
}

// work is a work item of the git provider, and reference a reference unit; both move a watermark.
func (s *script) work(source, dataset string) events.UnitPlanned {
	return events.UnitPlanned{
		Source: source, Provider: "git", Dataset: dataset, Tier: events.TierWorkItem, Cost: events.CostLight, Mode: events.Incremental,
		Window: events.NewWindow(s.now.Add(-24*hour).Time(), s.now.Time()), Surfaces: []string{dataset}, Watermark: true,
	}
}

func (s *script) reference(source string) events.UnitPlanned {
	u := s.work(source, "refs")
	u.Tier = events.TierReference
	return u
}

// backfill is a unit that the policy linear lets be tried again.
func (s *script) backfill(source string) events.UnitPlanned {
	family := []string{"work-items", "work-item-labels"}
	return events.UnitPlanned{
		Source: source, Provider: "linear", Dataset: "work_item", Members: family, Tier: events.TierWorkItem, Cost: events.CostMedium,
		Mode: events.Backfill, Surfaces: family, Window: events.NewWindow(s.now.Add(-48*hour).Time(), s.now.Add(-24*hour).Time()),
	}
}

// plan is R-1, for run n and its job n.
func (s *script) plan(n int, p events.Policy, us ...events.UnitPlanned) {
	s.planFor(n, p, "", "", us...)
}

// retry plans run n again from what did not succeed of an older run.
func (s *script) retry(n, old int, p events.Policy, us ...events.UnitPlanned) {
	s.plan(n, p, us...)
	change(findIn[events.RunPlanned](s, events.RunStream(runID(n)), 0), func(r *events.RunPlanned) {
		r.TriggeredBy, r.RetryOf = events.TriggerRetry, runID(old)
	})
	change(findIn[events.JobOpened](s, events.JobStream(jobID(n)), 0), func(j *events.JobOpened) {
		j.Trigger, j.Actor = events.TriggerRetry, "me"
	})
}

func (s *script) planFor(n int, p events.Policy, key, occurrence string, us ...events.UnitPlanned) {
	mode := events.Incremental
	if len(us) > 0 {
		mode = us[0].Mode
	}
	trigger := events.TriggerManual
	if occurrence != "" {
		trigger = events.TriggerSchedule
	}
	body := func() {
		s.add(events.JobStream(jobID(n)), events.JobOpened{Trigger: trigger, Sync: "code", IdempotencyKey: key})
		s.add(events.RunStream(runID(n)), events.RunPlanned{
			Job: jobID(n), Sync: "code", TriggeredBy: trigger, Occurrence: occurrence, Mode: mode, TotalUnits: len(us), Policy: p,
		})
		for i, u := range us {
			u.Run, u.Ordinal = runID(n), i+1
			s.add(unitStream(n, i+1), u)
		}
		if len(us) > 0 {
			s.arm(n, events.KindDispatch, 1, s.now, events.ArmPlanned)
		} else {
			s.add(events.RunStream(runID(n)), events.RunFinalized{Status: events.RunFailed, Reason: events.ReasonNoUnits})
		}
		s.add(events.JobStream(jobID(n)), events.JobLinked{Run: runID(n)})
		if len(us) == 0 {
			s.add(events.JobStream(jobID(n)), events.JobClosed{Status: events.RunFailed})
		}
	}
	if s.inTx {
		body()
		return
	}
	s.tx(body)
}

func (s *script) arm(run int, k events.Kind, n int, at events.Micros, cause events.ArmCause) {
	s.add(reg(run, k), events.OutboxArmed{N: n, AvailableAt: at, Cause: cause})
}

// take is a claim of a wakeup for one minute.
func (s *script) take(run int, k events.Kind, n, attempt, messages int) events.Token {
	t := s.token()
	s.add(reg(run, k), events.OutboxClaimed{N: n, Token: t, ClaimExpiresAt: s.now.Add(minute), Attempt: attempt, MessageCount: messages})
	return t
}

func (s *script) mark(run int, k events.Kind, n int, t events.Token, messages int) {
	s.add(reg(run, k), events.OutboxDispatched{N: n, Token: t, Order: events.PublishFirst, Transport: events.TransportLocal, MessageCount: messages})
}

// relay publishes a wakeup: claim, then mark.
func (s *script) relay(run int, k events.Kind, n, messages int) {
	t := s.take(run, k, n, 1, messages)
	s.after(second)
	s.mark(run, k, n, t, messages)
}

// dispatchUnits is the dispatch decision of a run: the units, the start of the run if it is the first, the arm.
func (s *script) dispatchUnits(run, wakeup int, first bool, units ...events.UnitDispatched) {
	s.tx(func() { s.giveSlots(run, wakeup, first, units...) })
}

func (s *script) giveSlots(run, wakeup int, first bool, ds ...events.UnitDispatched) {
	for _, d := range ds {
		unit := d.Wakeup // the caller's number of the unit; the wakeup is one for all
		d.Wakeup = wakeup
		s.add(unitStream(run, unit), d)
	}
	if first {
		s.add(events.RunStream(runID(run)), events.RunDispatchStarted{})
	}
	s.arm(run, events.KindUnit, wakeup, s.now, events.ArmDispatched)
}

// to is the dispatch of a unit: its number in the run, its dispatch and attempt, and why.
func to(unit, dispatch, attempt int, cause events.DispatchCause) events.UnitDispatched {
	return events.UnitDispatched{Wakeup: unit, Dispatch: dispatch, Attempt: attempt, Cause: cause, Bucket: "git/light"}
}

func linearTo(unit, dispatch, attempt int, cause events.DispatchCause) events.UnitDispatched {
	d := to(unit, dispatch, attempt, cause)
	d.Bucket = "linear/medium"
	return d
}

func (s *script) claim(run, unit, attempt int) events.Token {
	t := s.token()
	s.add(unitStream(run, unit), events.UnitClaimed{
		Attempt: attempt, Token: t, LeaseExpiresAt: s.now.Add(minute), LeaseEndsAt: s.now.Add(hour), Worker: "w",
	})
	return t
}

func (s *script) succeed(run, unit, attempt int, t events.Token, marks ...events.Watermark) {
	s.add(unitStream(run, unit), events.UnitSucceeded{Attempt: attempt, Token: t, Watermarks: marks})
}

func (s *script) fail(run, unit, attempt int, t events.Token, c events.Category) {
	s.add(unitStream(run, unit), events.UnitFailed{Attempt: attempt, Token: t, Category: c, By: events.ByWorker})
}

// end is R-3.
func (s *script) end(run int, status events.RunStatus, n events.Counts, owed bool) {
	s.tx(func() {
		s.add(events.RunStream(runID(run)), events.RunFinalized{Status: status, Counts: n, PostSyncOwed: owed})
		s.add(events.JobStream(jobID(run)), events.JobClosed{Status: status, Counts: n})
		if owed {
			s.arm(run, events.KindPostSync, 1, s.now, events.ArmFinalized)
		}
	})
}

func mark(source, dataset string, at events.Micros) events.Watermark {
	return events.Watermark{Source: source, Dataset: dataset, At: at}
}

// quick is a run of one unit that succeeds, up to the settle.
func (s *script) quick(run int, source string) events.Token {
	u := s.work(source, "commits")
	u.Watermark = false
	s.plan(run, policy(), u)
	s.relay(run, events.KindDispatch, 1, 1)
	s.dispatchUnits(run, 1, true, to(1, 1, 1, events.DispatchPlanned))
	s.relay(run, events.KindUnit, 1, 1)
	return s.claim(run, 1, 1)
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

func checkLog(log []events.Envelope, o Options) *Checker {
	c := New(o)
	for _, e := range log {
		c.Apply(e)
	}
	c.Finish()
	return c
}
