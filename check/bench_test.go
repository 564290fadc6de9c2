package check

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// many is a log of at least n events: runs of ten units each, a hundred of them open at any time.
func many(t testing.TB, n int) []events.Envelope {
	s := newScript(t)
	s.node = nodeID(1)
	s.add(events.NodeStream(s.node), events.NodeStarted{StoreMode: events.StoreExclusive, Config: []byte(`{"cap.bucket": 10000, "cap.engine": 10000, "dispatch.stale": "15m", "relay.max_attempts": 20}`)})
	const units, open = 10, 100
	tokens := map[int][]events.Token{}
	for run := 1; len(s.entries) < n || len(tokens) > 0; run++ {
		s.after(second)
		if old := run - open; tokens[old] != nil {
			s.finishMany(old, tokens[old])
			delete(tokens, old)
		}
		if len(s.entries) < n {
			tokens[run] = s.beginMany(run, units)
		}
	}
	return s.render()
}

func (s *script) beginMany(run, units int) []events.Token {
	var plan []events.UnitPlanned
	var to []events.UnitDispatched
	for i := range units {
		u := s.work("a", "commits")
		u.Window = events.NewWindow(s.now.Add(-hour*events.Span(i+2)).Time(), s.now.Add(-hour*events.Span(i+1)).Time())
		u.Watermark = false
		plan = append(plan, u)
		to = append(to, events.UnitDispatched{Wakeup: i + 1, Dispatch: 1, Attempt: 1, Cause: events.DispatchPlanned, Bucket: "git/light"})
	}
	p := policy()
	p.Lease, p.Lifetime = hour, hour
	s.plan(run, p, plan...)
	s.relay(run, events.KindDispatch, 1, 1)
	s.dispatchUnits(run, 1, true, to...)
	s.relay(run, events.KindUnit, 1, units)
	tokens := make([]events.Token, units)
	for i := range tokens {
		tokens[i] = s.token()
		s.add(unitStream(run, i+1), events.UnitClaimed{Attempt: 1, Token: tokens[i], LeaseExpiresAt: s.now.Add(hour), LeaseEndsAt: s.now.Add(hour)})
	}
	return tokens
}

func (s *script) finishMany(run int, tokens []events.Token) {
	for i, t := range tokens {
		s.tx(func() {
			s.succeed(run, i+1, 1, t)
			if i == len(tokens)-1 {
				s.arm(run, events.KindFinalize, 1, s.now, events.ArmSettled)
			}
		})
	}
	c := s.take(run, events.KindFinalize, 1, 1, 1)
	s.end(run, events.RunSucceeded, events.Counts{Total: len(tokens), Succeeded: len(tokens)}, true)
	s.mark(run, events.KindFinalize, 1, c, 1)
	k := reg(run, events.KindPostSync)
	c = s.take(run, events.KindPostSync, 1, 1, 1)
	s.add(k, events.OutboxDispatched{N: 1, Token: c, Order: events.MarkFirst, Transport: "local", MessageCount: 1})
	s.add(k, events.OutboxOutcome{N: 1, Target: "report", Outcome: events.Accepted})
}

// Section 23: a long log is read in one pass, and what has ended is let go of.
func TestALongLogLeavesLittleBehind(t *testing.T) {
	c := checkLog(many(t, 20_000), Options{})
	require.Empty(t, c.Violations())
	require.Empty(t, c.units)
	require.Empty(t, c.slots.flight)
	require.Less(t, len(c.slots.due), 3000, "void entries are thrown out")
	require.Less(t, cap(c.tx.claimed), 1000)
}

func BenchmarkCheck200kEvents(b *testing.B) {
	log := many(b, 200_000)
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		c := New(Options{})
		for i := range log {
			c.Apply(log[i])
		}
		if v := c.Finish(); len(v) > 0 {
			b.Fatal(v[0])
		}
	}
	b.ReportMetric(float64(len(log))*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
