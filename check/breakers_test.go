package check

import "github.com/towline-dev/towline/events"

// outage: the transport of two kinds takes a message, fails, is tried in vain, and comes back; then the backlog drains.
func outage(s *script) {
	s.start(1)
	d := events.KindDispatch
	plain := func(run int, source string) {
		u := s.work(source, "commits")
		u.Watermark = false
		s.plan(run, policy(), u)
	}
	through := func(run, attempt int) {
		t := s.take(run, d, 1, attempt, 1)
		s.add(reg(run, d), events.OutboxDispatched{N: 1, Token: t, Order: events.PublishFirst, Transport: "nats", MessageCount: 1})
	}
	fails := func(run, attempt int, r events.OutboxReleased, also ...events.Event) {
		r.N, r.Token, r.Transport = 1, s.take(run, d, 1, attempt, 1), "nats"
		s.tx(func() {
			for _, e := range also {
				s.add(events.NodeStream(s.node), e)
			}
			s.add(reg(run, d), r)
		})
	}
	opens := func(until events.Span) events.Event {
		return events.BreakerOpened{
			Transport: "nats", Cause: "no route", Until: s.now.Add(until), Kinds: []events.Kind{d, events.KindPostSync},
		}
	}
	for run, source := range []string{1: "a", 2: "b", 3: "c", 4: "d", 6: "f"} {
		if source != "" {
			plain(run, source)
		}
	}
	unit := s.quick(5, "e")
	s.tx(func() {
		s.succeed(5, 1, 1, unit)
		s.arm(5, events.KindFinalize, 1, s.now, events.ArmSettled)
	})

	fails(1, 1, events.OutboxReleased{Cause: events.ReleaseRefused, AvailableAt: s.now.Add(5 * second)}) // nobody can tell
	s.after(second)
	through(2, 1)
	s.after(5 * second)
	fails(1, 1, events.OutboxReleased{Cause: events.ReleaseRefused, AvailableAt: s.now.Add(5 * second), Counted: true}) // its own

	s.after(second)
	caught, tooLarge := s.take(4, d, 1, 1, 1), s.take(6, d, 1, 1, 1)
	fails(3, 1, events.OutboxReleased{Cause: events.ReleasePublishUnknown, AvailableAt: s.now.Add(5 * second), MaybePublished: true},
		opens(10*second))
	s.add(reg(4, d), events.OutboxReleased{N: 1, Token: caught, Cause: events.ReleaseBreakerOpen, AvailableAt: s.now})
	s.tx(func() { // it was no probe, so it gives none back
		s.add(reg(6, d), events.OutboxReleased{
			N: 1, Token: tooLarge, Cause: events.ReleaseRefused, AvailableAt: s.now.Add(5 * second), Counted: true, Text: "too large",
		})
		s.add(reg(6, d), events.OutboxParked{N: 1, Cause: events.ParkPermanent, Attempts: 1, Text: "too large"})
	})
	s.end(5, events.RunSucceeded, events.Counts{Total: 1, Succeeded: 1}, true)

	s.after(11 * second)
	fails(3, 1, events.OutboxReleased{Cause: events.ReleaseBreakerOpen, AvailableAt: s.now.Add(5 * second)}, opens(20*second))
	s.after(21 * second)
	probe := s.take(4, d, 1, 1, 1)
	s.tx(func() {
		s.add(events.NodeStream(s.node), events.BreakerClosed{Transport: "nats", Cause: "a message was accepted"})
		s.add(reg(4, d), events.OutboxDispatched{N: 1, Token: probe, Order: events.PublishFirst, Transport: "nats", MessageCount: 1})
	})
	through(3, 1)
	s.after(second / 4)
	through(1, 2)
	s.after(second / 4)
	s.tx(func() {
		t := s.take(5, events.KindPostSync, 1, 1, 1)
		s.add(reg(5, events.KindPostSync), events.OutboxDispatched{N: 1, Token: t, Order: events.MarkFirst, Transport: "nats", MessageCount: 1})
	})
	s.add(reg(5, events.KindPostSync), events.OutboxOutcome{N: 1, Target: "report", Outcome: events.Accepted})
	s.act(reg(6, d), events.OutboxArmed{N: 2, AvailableAt: s.now, Cause: events.ArmRedriven})
}

// breakerCorruptions are faults of a breaker that the log shows.
var breakerCorruptions = []corruption{
	{"I-2", "O-16: a claim is given back for a breaker that is not open", outage, func(s *script) *entry {
		s.drop(find[events.BreakerOpened](s, 0))
		return findIn[events.OutboxReleased](s, reg(4, events.KindDispatch), 0)
	}},
	{"I-2", "O-16: an open breaker burns an attempt", outage, func(s *script) *entry {
		return change(findIn[events.OutboxReleased](s, reg(3, events.KindDispatch), 1), func(r *events.OutboxReleased) {
			r.Cause, r.Counted = events.ReleaseRefused, true
		})
	}},
	{"I-2", "O-16: the transport is blamed, and has taken another", outage, func(s *script) *entry {
		return change(findIn[events.OutboxReleased](s, reg(1, events.KindDispatch), 1), func(r *events.OutboxReleased) { r.Counted = false })
	}},
	{"I-2", "O-16: an unknown publish gives its attempt back, and no transport is to blame", outage, func(s *script) *entry {
		return change(findIn[events.OutboxReleased](s, reg(3, events.KindDispatch), 0), func(r *events.OutboxReleased) { r.Transport = "" })
	}},
	{"I-2", "O-16: a claim behind an open breaker", outage, func(s *script) *entry {
		return s.probeTooMany(findIn[events.OutboxReleased](s, reg(4, events.KindDispatch), 0))
	}},
	{"I-2", "O-16: a second claim while the probe is out", outage, func(s *script) *entry {
		return s.probeTooMany(findIn[events.OutboxClaimed](s, reg(3, events.KindDispatch), 1))
	}},
	{"I-2", "O-16: a post_sync is the probe, and another could be", outage, func(s *script) *entry {
		probe := findIn[events.OutboxClaimed](s, reg(3, events.KindDispatch), 1)
		probe.stream = reg(5, events.KindPostSync)
		return probe
	}},
	{"I-2", "O-16: the backlog is claimed faster than it may", outage, func(s *script) *entry {
		s.node1config(`{"relay.drain_rate": 1}`)
		return findIn[events.OutboxClaimed](s, reg(1, events.KindDispatch), 2)
	}},
	{"I-2", "O-16: a breaker closes that is not open", outage, func(s *script) *entry {
		b := find[events.BreakerClosed](s, 0)
		return s.alone(s.behind(find[events.NodeStarted](s, 0), b.stream, b.event))
	}},
	{"I-2", "O-16: a breaker opens anew without a probe", outage, func(s *script) *entry {
		b := find[events.BreakerOpened](s, 0)
		return s.alone(s.behind(findIn[events.OutboxReleased](s, reg(4, events.KindDispatch), 0), b.stream, b.event))
	}},
	{"I-2", "O-16: a breaker opens for no time", outage, func(s *script) *entry {
		b := find[events.BreakerOpened](s, 0)
		return change(b, func(o *events.BreakerOpened) { o.Until = b.at })
	}},
	{"I-2", "O-16: the breaker of no transport", outage, func(s *script) *entry {
		return change(find[events.BreakerOpened](s, 0), func(o *events.BreakerOpened) { o.Transport = "" })
	}},
	{"I-2", "O-16: the breaker of another incarnation opens", outage, func(s *script) *entry {
		b := find[events.BreakerOpened](s, 0)
		b.node = nodeID(9)
		return b
	}},
	{"I-2", "O-16: the breaker of another incarnation closes", outage, func(s *script) *entry {
		b := find[events.BreakerClosed](s, 0)
		b.node = nodeID(9)
		return b
	}},
}

// probeTooMany claims run 4 behind an entry.
func (s *script) probeTooMany(e *entry) *entry {
	return s.alone(s.behind(e, reg(4, events.KindDispatch), events.OutboxClaimed{
		N: 1, Token: s.token(), ClaimExpiresAt: e.at.Add(minute), Attempt: 1, MessageCount: 1,
	}))
}
