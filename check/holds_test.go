package check

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// configured is what the second life of the scenario lacks: the dataset "refs" of source "a".
var configured = []events.Configured{{Sync: "code", Provider: "git", Sources: []string{"a", "b"}, Datasets: []string{"commits"}}}

// startAs is a start that says what it is configured for.
func (s *script) startAs(n int, syncs []events.Configured) {
	s.start(n)
	change(s.entries[len(s.entries)-1], func(n *events.NodeStarted) { n.Syncs = syncs })
}

// suspects: two units whose process died at their last retry; the second waits until the first has settled.
func suspects(s *script) {
	s.start(1)
	p := policy()
	p.Targets = nil
	s.plan(1, p, s.backfill("x"), s.backfill("y"))
	s.relay(1, events.KindDispatch, 1, 1)
	s.dispatchUnits(1, 1, true, linearTo(1, 1, 1, events.DispatchPlanned), linearTo(2, 1, 1, events.DispatchPlanned))
	s.relay(1, events.KindUnit, 1, 2)
	s.claim(1, 1, 1)
	s.claim(1, 2, 1)
	until := s.now.Add(minute)
	s.start(2)
	due := s.now.Add(minute)
	s.tx(func() {
		for n := 1; n <= 2; n++ {
			s.add(unitStream(1, n), events.UnitLeaseExpired{Attempt: 1, LeaseExpiresAt: until, Cause: events.LeaseIncarnationGone, LeaseNode: nodeID(1)})
			s.add(unitStream(1, n), events.UnitRetryScheduled{
				Attempt: 1, Cause: events.ExpiredLease, AvailableAt: due, ExpiredLeaseRetries: 1, Suspect: true,
			})
		}
		s.arm(1, events.KindDispatch, 2, due, events.ArmDeferred)
	})
	s.now = due
	s.relay(1, events.KindDispatch, 2, 1)
	s.tx(func() {
		s.giveSlots(1, 2, false, linearTo(1, 2, 2, events.DispatchRetry))
		s.arm(1, events.KindDispatch, 3, s.now.Add(minute), events.ArmCapped)
	})
	s.relay(1, events.KindUnit, 2, 1)
	first := s.claim(1, 1, 2)
	s.tx(func() {
		s.succeed(1, 1, 2, first)
		s.giveSlots(1, 3, false, linearTo(2, 2, 2, events.DispatchRetry))
	})
	s.relay(1, events.KindUnit, 3, 1)
	second := s.claim(1, 2, 2)
	s.tx(func() {
		s.succeed(1, 2, 2, second)
		s.arm(1, events.KindFinalize, 1, s.now, events.ArmSettled)
	})
}

// unconfigured: a life that lacks a dataset drops the wakeup of its unit, and the next, which has it, wakes it again.
func unconfigured(s *script) {
	all := []events.Configured{{Sync: "code", Provider: "git", Sources: []string{"a"}, Datasets: []string{"refs", "commits"}}}
	s.startAs(1, all)
	u := s.work("a", "refs")
	u.Watermark = false
	s.plan(1, policy(), u)
	s.startAs(2, configured)
	s.tx(func() {
		t := s.take(1, events.KindDispatch, 1, 1, 0)
		s.add(reg(1, events.KindDispatch), events.OutboxDropped{N: 1, Token: t, Reason: events.DropNothingOwed})
	})
	s.startAs(3, all)
	s.arm(1, events.KindDispatch, 2, s.now, events.ArmResumed)
	s.relay(1, events.KindDispatch, 2, 1)
	s.dispatchUnits(1, 1, true, to(1, 1, 1, events.DispatchPlanned))
	s.relay(1, events.KindUnit, 1, 1)
	t := s.claim(1, 1, 1)
	s.tx(func() {
		s.succeed(1, 1, 1, t)
		s.arm(1, events.KindFinalize, 1, s.now, events.ArmSettled)
	})
}

// cooldown: two units of a source; while the first is deferred the second waits, and so does its wakeup.
func cooldown(s *script) {
	s.start(1)
	p := policy()
	p.RunCap, p.Targets = 1, nil
	a, b := s.work("a", "commits"), s.work("a", "issues")
	a.Watermark, b.Watermark = false, false
	s.plan(1, p, a, b)
	s.relay(1, events.KindDispatch, 1, 1)
	s.tx(func() {
		s.giveSlots(1, 1, true, to(1, 1, 1, events.DispatchPlanned))
		s.arm(1, events.KindDispatch, 2, s.now.Add(minute), events.ArmCapped)
	})
	s.relay(1, events.KindUnit, 1, 1)
	t := s.claim(1, 1, 1)
	at := s.now.Add(hour)
	s.add(unitStream(1, 1), events.UnitRetryScheduled{
		Attempt: 1, Token: t, Cause: events.RateLimit, AvailableAt: at, RateLimitDeferrals: 1, RateLimitFirstAt: s.now,
		CooldownKey: "git/a", CooldownUntil: at,
	})
	s.after(minute)
	s.tx(func() {
		t := s.take(1, events.KindDispatch, 2, 1, 0)
		s.add(reg(1, events.KindDispatch), events.OutboxDropped{N: 2, Token: t, Reason: events.DropNothingOwed})
		s.arm(1, events.KindDispatch, 3, at, events.ArmCooldown)
	})
}

// holdCorruptions are faults in what is held, and why.
var holdCorruptions = []corruption{
	{"I-2", "RW-8: two suspects at once", suspects, func(s *script) *entry {
		d := findIn[events.UnitDispatched](s, unitStream(1, 1), 1)
		return s.behindInTx(d, unitStream(1, 2), linearTo(2, 2, 2, events.DispatchRetry))
	}},
	{"I-2", "RW-8: a suspect that nobody calls one", suspects, func(s *script) *entry {
		return change(find[events.UnitRetryScheduled](s, 0), func(r *events.UnitRetryScheduled) { r.Suspect = false })
	}},
	{"I-2", "RW-8: a unit is called a suspect that has a retry left", suspects, func(s *script) *entry {
		change(find[events.RunPlanned](s, 0), func(r *events.RunPlanned) { r.Policy.Retry[0].MaxRetries = 2 })
		return find[events.UnitRetryScheduled](s, 0)
	}},
	{"I-2", "RW-8: a deferred unit is called a suspect", retries, func(s *script) *entry {
		return change(find[events.UnitRetryScheduled](s, 0), func(r *events.UnitRetryScheduled) { r.Suspect = true })
	}},
	{"I-2", "X-9: a dispatch of what the node is not configured for", unconfigured, func(s *script) *entry {
		change(find[events.NodeStarted](s, 2), func(n *events.NodeStarted) { n.Syncs = configured })
		return find[events.UnitDispatched](s, 0)
	}},
	{"I-2", "X-9: a dispatch by a node that is configured for nothing", unconfigured, func(s *script) *entry {
		change(find[events.NodeStarted](s, 2), func(n *events.NodeStarted) { n.Syncs = []events.Configured{} })
		return find[events.UnitDispatched](s, 0)
	}},
	{"I-2", "O-8, X-9: a wakeup is dropped by a node that is configured for its unit", unconfigured, func(s *script) *entry {
		change(find[events.NodeStarted](s, 1), func(n *events.NodeStarted) { n.Syncs = find[events.NodeStarted](s, 0).event.(events.NodeStarted).Syncs })
		return find[events.OutboxDropped](s, 0)
	}},
	{"I-2", "X-4: a plan with a unit of a paused source", fullRun, func(s *script) *entry {
		first := find[events.JobOpened](s, 0)
		s.alone(s.before(first, events.SourceControlStream("a"), events.SourcePaused{Actor: "me"}))
		u := find[events.UnitPlanned](s, 0)
		s.alone(s.before(find[events.OutboxClaimed](s, 0), events.SourceControlStream("a"), events.SourceResumed{Actor: "me"}))
		return u
	}},
	{"I-2", "X-3: a pause of what is paused", operator, func(s *script) *entry {
		p := find[events.EnginePaused](s, 0)
		return s.alone(s.behind(p, p.stream, events.EnginePaused{Actor: "you"}))
	}},
	{"I-2", "X-4: a resume of what is not paused", operator, func(s *script) *entry {
		r := find[events.SourceResumed](s, 0)
		return s.alone(s.behind(r, r.stream, events.SourceResumed{Actor: "you"}))
	}},
	{"I-2", "X-7: a pause by nobody", operator, func(s *script) *entry {
		return change(find[events.SourcePaused](s, 0), func(p *events.SourcePaused) { p.Actor = "" })
	}},
	{"I-2", "X-3: the engine is paused in the stream of a source", operator, func(s *script) *entry {
		p := find[events.EnginePaused](s, 0)
		p.stream = events.SourceControlStream("z")
		return p
	}},
	{"I-2", "RL-4: a deferral that names no account", retries, func(s *script) *entry {
		return change(find[events.UnitRetryScheduled](s, 2), func(r *events.UnitRetryScheduled) { r.CooldownKey, r.CooldownUntil = "", 0 })
	}},
	{"I-2", "RL-4: a hand-back that begins a cooldown", retries, func(s *script) *entry {
		return change(find[events.UnitRetryScheduled](s, 1), func(r *events.UnitRetryScheduled) {
			r.CooldownKey, r.CooldownUntil = "git/me", r.AvailableAt
		})
	}},
	{"I-20", "RL-2: a budget that is not spent", retries, func(s *script) *entry {
		s.node1config(`{"rate_limit.max_deferrals": 3, "rate_limit.max_wait": "2h"}`)
		return find[events.UnitFailed](s, 0)
	}},
	{"I-20", "RL-2: a rate limit that fails at once", retries, func(s *script) *entry {
		return change(find[events.UnitFailed](s, 0), func(f *events.UnitFailed) { f.Category = events.RateLimit })
	}},
	{"I-20", "RL-2: a deferral where the knob says none", retries, func(s *script) *entry {
		s.node1config(`{"rate_limit.max_deferrals": 0}`)
		return find[events.UnitRetryScheduled](s, 0)
	}},
	{"I-20", "RL-2: a deferral where the knob says not at all", retries, func(s *script) *entry {
		s.node1config(`{"rate_limit.max_wait_us": 0}`)
		return find[events.UnitRetryScheduled](s, 0)
	}},
	{"I-2", "RL-5, HD-6: a drop that leaves nobody to wake at the end of the cooldown", cooldown, func(s *script) *entry {
		s.drop(find[events.OutboxArmed](s, len(armsOf(s))-1))
		return find[events.OutboxDropped](s, 0)
	}},
	{"I-2", "RL-5, HD-6: a drop that wakes behind the end of the cooldown", cooldown, func(s *script) *entry {
		return change(find[events.OutboxArmed](s, len(armsOf(s))-1), func(a *events.OutboxArmed) { a.AvailableAt++ })
	}},
	{"I-2", "U-14: given up, and its newest message is a day old", stale, func(s *script) *entry {
		f := find[events.UnitFailed](s, 0)
		s.shift(s.entries[s.index(f)-5], 24*hour)
		return f
	}},
	{"I-2", "RW-8: a suspect beside one that is running", suspects, func(s *script) *entry {
		c := findIn[events.UnitClaimed](s, unitStream(1, 1), 1)
		d := linearTo(3, 2, 2, events.DispatchRetry) // names wakeup 3
		return s.alone(s.behind(c, unitStream(1, 2), d))
	}},
	{"I-2", "X-9: a dispatch of a source that the node is not configured for", unconfigured, func(s *script) *entry {
		change(find[events.NodeStarted](s, 2), func(n *events.NodeStarted) { n.Syncs[0].Sources = []string{"b"} })
		return find[events.UnitDispatched](s, 0)
	}},
	{"I-2", "X-9: a dispatch of a sync that the node is not configured for", unconfigured, func(s *script) *entry {
		change(find[events.NodeStarted](s, 2), func(n *events.NodeStarted) { n.Syncs = []events.Configured{} })
		return find[events.UnitDispatched](s, 0)
	}},
}

func armsOf(s *script) (out []*entry) {
	for _, e := range s.entries {
		if _, ok := e.event.(events.OutboxArmed); ok {
			out = append(out, e)
		}
	}
	return out
}

// I-27, X-4, X-9, RL-5: what waits behind a pause, a cooldown or a configuration does not stand still, in whatever state it
// is; and what one of the nodes is configured for does.
func TestHeldUnitsDoNotStandStill(t *testing.T) {
	dropped := func(s *script) {
		unconfigured(s)
		s.entries = s.entries[:s.index(find[events.OutboxDropped](s, 0))+1]
	}
	for name, tt := range map[string]struct {
		play  func(*script)
		stand bool
	}{
		"unconfigured": {dropped, false},
		"configured": {func(s *script) {
			dropped(s)
			change(find[events.NodeStarted](s, 1), func(n *events.NodeStarted) { n.StoreMode = events.StoreShared })
		}, true},
		"the node does not say": {func(s *script) {
			dropped(s)
			change(find[events.NodeStarted](s, 1), func(n *events.NodeStarted) { n.Syncs = nil })
		}, true},
		"due, and its source is paused": {func(s *script) {
			retries(s)
			r := find[events.UnitRetryScheduled](s, 3)
			s.entries = s.entries[:s.index(r)+1]
			s.now = r.at.Add(minute)
			s.add(events.SourceControlStream("a"), events.SourcePaused{Actor: "me"})
		}, false},
		"under a cooldown": {func(s *script) {
			cooldown(s)
			s.drop(armsOf(s)[len(armsOf(s))-1])
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			tt.play(s)
			c := checkLog(s.render(), Options{})
			_, now := c.Head()
			require.Equal(t, tt.stand, len(c.Standstills(now)) > 0)
		})
	}
}

// RL-2: a budget of none is known as such, and one of which nothing is said is not known.
func TestABudgetOfNoneIsKnown(t *testing.T) {
	none := Settings{}.with(json.RawMessage(`{"rate_limit.max_deferrals": 0, "rate_limit.max_wait_us": 0}`))
	require.Equal(t, -1, none.MaxDeferrals)
	require.Equal(t, events.Span(-1), none.MaxWait)
	require.Zero(t, Settings{}.with(json.RawMessage(`{}`)).MaxDeferrals)
	require.Equal(t, 10, Settings{}.with(json.RawMessage(`{"rate_limit.max_deferrals": 10}`)).MaxDeferrals)
}

// a plan that names its sources has those that are paused as well; one that does not leaves them out.
func TestAPlanMayNameAPausedSource(t *testing.T) {
	s := newScript(t)
	s.start(1)
	s.add(events.SourceControlStream("a"), events.SourcePaused{Actor: "me"})
	s.plan(1, policy(), s.work("a", "commits"))
	got := checkLog(s.render(), Options{}).Violations()
	require.Len(t, got, 1)
	require.Contains(t, got[0].Text, "X-4")

	change(find[events.RunPlanned](s, 0), func(r *events.RunPlanned) { r.Selection.Sources = []string{"a"} })
	require.Empty(t, checkLog(s.render(), Options{}).Violations())
}
