package check

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

func (s *script) completed(run, n int, target string) {
	s.add(events.RunStream(runID(run)), events.PostSyncCompleted{
		Generation: runID(run).String() + ".1", Target: target, MessageID: postID(run, n, target),
	})
}

func (s *script) failedPost(run, n int, target string) {
	s.add(events.RunStream(runID(run)), events.PostSyncFailed{
		Generation: runID(run).String() + ".1", Target: target, MessageID: postID(run, n, target), Category: events.HandlerFailed,
	})
}

// exactlyOnce: an effect that is done at once, beside one that fails until it is held, is redriven by hand, and is done by
// a message that comes late, so that the last wakeup finds nothing owed. Then a message that dies with its process.
func exactlyOnce(s *script) {
	s.start(1)
	s.succeeded(1, events.ExactlyOnce, "report", "page")
	k := events.KindPostSync
	s.relay(1, k, 1, 2)
	s.completed(1, 1, "report")
	s.failedPost(1, 1, "page")
	s.after(15 * minute)
	s.arm(1, k, 2, s.now, events.ArmMaterialized)
	t := s.take(1, k, 2, 1, 1)
	s.failedPost(1, 2, "page") // faster than the mark
	s.mark(1, k, 2, t, 1)
	s.act(reg(1, k), events.OutboxArmed{N: 3, AvailableAt: s.now, Cause: events.ArmRedriven})
	t = s.take(1, k, 3, 1, 1)
	s.add(reg(1, k), events.OutboxReleased{N: 3, Token: t, Cause: events.ReleaseRefused, AvailableAt: s.now.Add(5 * second), Counted: true})
	s.completed(1, 3, "page")
	s.after(6 * second)
	s.tx(func() {
		t := s.take(1, k, 3, 2, 0)
		s.add(reg(1, k), events.OutboxDropped{N: 3, Token: t, Reason: events.DropNothingOwed})
	})

	s.succeeded(2, events.ExactlyOnce, "report")
	t = s.take(2, k, 1, 1, 1)
	s.add(reg(2, k), events.OutboxDispatched{N: 1, Token: t, Order: events.PublishFirst, Transport: events.TransportLocal, MessageCount: 1})
	s.start(2)
	s.arm(2, k, 2, s.now, events.ArmMaterialized) // its message died with its process (N-3)
	s.relay(2, k, 2, 1)
	s.completed(2, 2, "report")
}

var effectCorruptions = []corruption{
	{"I-2", "HP-3: an effect that is taken, where the ledger decides", exactlyOnce, func(s *script) *entry {
		e := findIn[events.PostSyncCompleted](s, run1, 0)
		c := e.event.(events.PostSyncCompleted)
		return s.alone(s.before(e, e.stream, events.PostSyncStarted{Generation: c.Generation, Target: c.Target, MessageID: c.MessageID}))
	}},
	{"I-2", "HP-3: an effect that completes twice", exactlyOnce, func(s *script) *entry {
		e := findIn[events.PostSyncCompleted](s, run1, 0)
		return s.alone(s.behind(e, e.stream, e.event))
	}},
	{"I-2", "HP-3: one wakeup that fails twice", exactlyOnce, func(s *script) *entry {
		e := findIn[events.PostSyncFailed](s, run1, 0)
		return s.alone(s.behind(e, e.stream, e.event))
	}},
	{"I-2", "HP-3: a failure behind the end", exactlyOnce, func(s *script) *entry {
		e := findIn[events.PostSyncFailed](s, run1, 0)
		return change(s.alone(s.behind(e, e.stream, e.event)), func(f *events.PostSyncFailed) {
			f.Target, f.MessageID = "report", postID(1, 1, "report")
		})
	}},
	{"I-2", "HP-1: an effect before any claim", exactlyOnce, func(s *script) *entry {
		e := findIn[events.PostSyncCompleted](s, run1, 0)
		s.move(e, findIn[events.OutboxClaimed](s, reg(1, events.KindPostSync), 0))
		return e
	}},
	{"I-2", "K-8: a claim that sends again what is done", exactlyOnce, func(s *script) *entry {
		return change(findIn[events.OutboxClaimed](s, reg(1, events.KindPostSync), 1), func(c *events.OutboxClaimed) { c.MessageCount = 2 })
	}},
	{"I-2", "K-8: a mark of more than was claimed", exactlyOnce, func(s *script) *entry {
		return change(findIn[events.OutboxDispatched](s, reg(1, events.KindPostSync), 1), func(d *events.OutboxDispatched) { d.MessageCount = 2 })
	}},
	{"I-2", "8.1: it is marked before it is published", exactlyOnce, func(s *script) *entry {
		return change(findIn[events.OutboxDispatched](s, reg(1, events.KindPostSync), 0), func(d *events.OutboxDispatched) { d.Order = events.MarkFirst })
	}},
	{"I-2", "REC-10: it is armed again too early", exactlyOnce, func(s *script) *entry {
		a := findIn[events.OutboxArmed](s, reg(1, events.KindPostSync), 1)
		s.shift(a, -second)
		return a
	}},
	{"I-2", "REC-10: it is armed again while its message lives", exactlyOnce, func(s *script) *entry {
		change(findIn[events.OutboxDispatched](s, reg(2, events.KindPostSync), 0), func(d *events.OutboxDispatched) { d.Transport = "nats" })
		return findIn[events.OutboxArmed](s, reg(2, events.KindPostSync), 1)
	}},
	{"I-2", "REC-10: what is held is materialized", exactlyOnce, func(s *script) *entry {
		return change(findIn[events.OutboxArmed](s, reg(1, events.KindPostSync), 2), func(a *events.OutboxArmed) { a.Cause = events.ArmMaterialized })
	}},
	{"I-2", "REC-10: what is done is materialized", exactlyOnce, func(s *script) *entry {
		e := findIn[events.PostSyncCompleted](s, events.RunStream(runID(2)), 0)
		return s.alone(s.behind(e, reg(2, events.KindPostSync), events.OutboxArmed{N: 3, AvailableAt: e.at, Cause: events.ArmMaterialized}))
	}},
	{"I-2", "section 7: it is armed by something else", exactlyOnce, func(s *script) *entry {
		return change(findIn[events.OutboxArmed](s, reg(1, events.KindPostSync), 1), func(a *events.OutboxArmed) { a.Cause = events.ArmSettled })
	}},
	{"I-2", "O-18: a redrive of effects of which none has failed", exactlyOnce, func(s *script) *entry {
		e := findIn[events.OutboxArmed](s, reg(2, events.KindPostSync), 1)
		e.actor = "me"
		return change(e, func(a *events.OutboxArmed) { a.Cause = events.ArmRedriven })
	}},
	{"I-2", "O-18: a redrive of failed effects while their message is on its way", exactlyOnce, func(s *script) *entry {
		c := findIn[events.OutboxClaimed](s, reg(1, events.KindPostSync), 1)
		e := s.alone(s.behind(c, c.stream, events.OutboxArmed{N: 3, AvailableAt: c.at, Cause: events.ArmRedriven}))
		e.actor = "me"
		return e
	}},
	{"I-2", "O-8: it is dropped, and something is owed", exactlyOnce, func(s *script) *entry {
		s.drop(findIn[events.PostSyncCompleted](s, run1, 1))
		change(findIn[events.OutboxClaimed](s, reg(1, events.KindPostSync), 3), func(c *events.OutboxClaimed) { c.MessageCount = 1 })
		return findIn[events.OutboxDropped](s, reg(1, events.KindPostSync), 0)
	}},
	{"I-2", "O-8: it is claimed for nothing, and not dropped", exactlyOnce, func(s *script) *entry {
		s.drop(findIn[events.OutboxDropped](s, reg(1, events.KindPostSync), 0))
		return findIn[events.OutboxClaimed](s, reg(1, events.KindPostSync), 3)
	}},
}

// REC-10, K-8: the checker says by its own fold how far the effects of a run are.
func TestEffectsOfARun(t *testing.T) {
	s := newScript(t)
	exactlyOnce(s)
	c := New(Options{})
	var states []string
	for _, e := range s.render() {
		c.Apply(e)
		if run := c.Runs(); len(run) > 0 {
			if state := run[0].Effects(); len(states) == 0 || states[len(states)-1] != state {
				states = append(states, state)
			}
		}
	}
	require.Equal(t, []string{"", "open", "held", "done"}, states)
	s = newScript(t)
	postSyncs(s)
	require.Empty(t, checkLog(s.render(), Options{}).Runs()[0].Effects(), "at_most_once has no such state")
}
