package check

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

var mail = events.AppStream("mail")

func (s *script) armMessage(n, wakeup int, cause events.ArmCause) {
	s.add(events.MessageStream(messageID(n)), events.OutboxArmed{
		N: wakeup, AvailableAt: s.now, Cause: cause, Died: cause == events.ArmMaterialized,
	})
}

func (s *script) takeMessage(n, wakeup int) events.Token {
	t := s.token()
	s.add(events.MessageStream(messageID(n)), events.OutboxClaimed{N: wakeup, Token: t, ClaimExpiresAt: s.now.Add(minute), Attempt: 1, MessageCount: 1})
	return t
}

func (s *script) markMessage(n, wakeup int, t events.Token, transport string) {
	s.add(events.MessageStream(messageID(n)), events.OutboxDispatched{N: wakeup, Token: t, Order: events.PublishFirst, Transport: transport, MessageCount: 1})
}

// appMessages: an application submits while no engine runs; a start arms behind its NodeStarted, a part of them in a
// transaction of its own; one is handled by an application's transaction, one dies in the memory of its process and is
// armed again, one is parked and redriven; two are taken over from an older outbox.
func appMessages(s *script) {
	for n := range 4 {
		s.addAs(events.NodeID{}, mail, events.MessageSubmitted{Message: messageID(n + 1), Payload: []byte("1"), Key: string(rune('a' + n))})
	}
	s.node = nodeID(1)
	s.tx(func() {
		s.add(events.NodeStream(s.node), events.NodeStarted{StoreMode: events.StoreExclusive, Config: []byte(config)})
		s.armMessage(1, 1, events.ArmMessage)
		s.armMessage(2, 1, events.ArmMessage)
	})
	s.tx(func() {
		s.armMessage(3, 1, events.ArmMessage)
		s.armMessage(4, 1, events.ArmMessage)
	})
	one, two, three := s.takeMessage(1, 1), s.takeMessage(2, 1), s.takeMessage(3, 1)
	s.markMessage(1, 1, one, events.TransportLocalMessages)
	s.addAs(events.NodeID{}, mail, events.MessageHandled{Message: messageID(1), DeliveryMessageID: "d"})
	s.markMessage(2, 1, two, events.TransportLocalMessages)
	s.tx(func() {
		third := events.MessageStream(messageID(3))
		s.add(third, events.OutboxReleased{N: 1, Token: three, Cause: events.ReleaseRefused, Counted: true, AvailableAt: s.now.Add(5 * second)})
		s.add(third, events.OutboxParked{N: 1, Cause: events.ParkPermanent, Attempts: 1})
	})
	s.act(events.MessageStream(messageID(3)), events.OutboxArmed{N: 2, AvailableAt: s.now, Cause: events.ArmRedriven})

	s.start(2)
	s.armMessage(2, 2, events.ArmMaterialized)
	s.markMessage(2, 2, s.takeMessage(2, 2), "nats")
	s.add(mail, events.MessageRejected{Message: messageID(2), Category: events.HandlerFailed})

	s.tx(func() {
		stuck := events.MessageStream(messageID(5))
		s.add(mail, events.MessageSubmitted{Message: messageID(5), Payload: []byte("5"), Key: "old/5"})
		s.add(stuck, events.OutboxArmed{N: 1, AvailableAt: s.now, Cause: events.ArmMessage})
		s.add(stuck, events.OutboxClaimed{N: 1, Token: "old", Attempt: 1, MessageCount: 1})
		s.add(stuck, events.OutboxReleased{N: 1, Token: "old", Cause: events.ReleaseNoClaimTime, AvailableAt: s.now.Add(4 * minute)})
	})
	s.tx(func() {
		spent := events.MessageStream(messageID(6))
		s.add(mail, events.MessageSubmitted{Message: messageID(6), Payload: []byte("6"), Key: "old/6"})
		s.add(spent, events.OutboxArmed{N: 1, AvailableAt: s.now, Cause: events.ArmMessage})
		s.act(spent, events.OutboxParked{N: 1, Cause: events.ParkOperator, Text: "over its retry limit"})
	})
}

// givenUp: a message that two processes have died with, one that its consumer refuses, and one whose last attempt was made
// before the maximum was lowered. Each is parked.
func givenUp(s *script) {
	start := func(n int) {
		s.start(n)
		change(s.entries[len(s.entries)-1], func(n *events.NodeStarted) {
			n.Config = []byte(`{"handler.max_deliveries": 2, "relay.max_attempts": 3, "relay.backoff_base": "5s", "relay.backoff_cap": "300s"}`)
		})
	}
	start(1)
	s.tx(func() {
		for n := 1; n <= 3; n++ {
			s.add(mail, events.MessageSubmitted{Message: messageID(n), Payload: []byte("1")})
			s.armMessage(n, 1, events.ArmMessage)
		}
	})
	one, two, three := events.MessageStream(messageID(1)), events.MessageStream(messageID(2)), events.MessageStream(messageID(3))
	s.markMessage(2, 1, s.takeMessage(2, 1), events.TransportLocalMessages)
	s.add(two, events.OutboxParked{N: 1, Cause: events.ParkHandlerFailed})
	s.act(two, events.OutboxArmed{N: 2, AvailableAt: s.now, Cause: events.ArmRedriven})

	s.add(three, events.OutboxReleased{
		N: 1, Token: s.takeMessage(3, 1), Cause: events.ReleaseRefused, Counted: true, AvailableAt: s.now.Add(5 * second),
	})
	s.add(events.NodeStream(s.node), events.NodeConfigChanged{Changed: []byte(`{"relay.max_attempts": 1}`)})
	s.after(5 * second)
	s.add(three, events.OutboxParked{N: 1, Cause: events.ParkAttempts, Attempts: 1})

	for died := 1; died <= 2; died++ {
		t := s.token()
		s.add(one, events.OutboxClaimed{N: 1, Token: t, ClaimExpiresAt: s.now.Add(minute), Attempt: died, MessageCount: 1})
		start(1 + died)
		s.add(one, events.OutboxReleased{
			N: 1, Token: t, Cause: events.ReleaseIncarnationGone, AvailableAt: s.now, Counted: true, MaybePublished: true,
		})
	}
	s.add(one, events.OutboxParked{N: 1, Cause: events.ParkCrashSuspect, Attempts: 2})
}

// messageCorruptions are those of application messages.
var messageCorruptions = []corruption{
	{"I-2", "M-2: a key submits two messages", appMessages, func(s *script) *entry {
		return change(find[events.MessageSubmitted](s, 1), func(m *events.MessageSubmitted) { m.Key = "a" })
	}},
	{"I-2", "J-3: a message is handled that was never submitted", appMessages, func(s *script) *entry {
		return change(find[events.MessageHandled](s, 0), func(h *events.MessageHandled) { h.Message = messageID(9) })
	}},
	{"I-2", "J-3: a message is handled that no relay has taken", appMessages, func(s *script) *entry {
		return change(find[events.MessageHandled](s, 0), func(h *events.MessageHandled) { h.Message = messageID(4) })
	}},
	{"I-2", "J-3: a message is handled in another topic", appMessages, func(s *script) *entry {
		e := find[events.MessageHandled](s, 0)
		e.stream = events.AppStream("other")
		return e
	}},
	{"I-2", "M-12: a handled message is rejected", appMessages, func(s *script) *entry {
		return change(find[events.MessageRejected](s, 0), func(r *events.MessageRejected) { r.Message = messageID(1) })
	}},
	{"I-2", "M-8: a message is rejected for a reason of units", appMessages, func(s *script) *entry {
		return change(find[events.MessageRejected](s, 0), func(r *events.MessageRejected) { r.Category = events.Network })
	}},
	{"I-2", "M-11: a consumer gives up a message that was never published", appMessages, func(s *script) *entry {
		return change(findIn[events.OutboxParked](s, events.MessageStream(messageID(6)), 0), func(p *events.OutboxParked) { p.Cause = events.ParkHandlerFailed })
	}},
	{"I-2", "REC-11: a message that its process still has is armed again", appMessages, func(s *script) *entry {
		again := find[events.NodeStarted](s, 1)
		return s.alone(s.before(again, events.MessageStream(messageID(2)), events.OutboxArmed{N: 2, AvailableAt: again.at, Cause: events.ArmMaterialized}))
	}},
	{"I-2", "REC-11: a message that a broker has is armed again", appMessages, func(s *script) *entry {
		change(findIn[events.OutboxDispatched](s, events.MessageStream(messageID(2)), 0), func(d *events.OutboxDispatched) { d.Transport = "nats" })
		return findIn[events.OutboxArmed](s, events.MessageStream(messageID(2)), 1)
	}},
	{"I-2", "REC-11: a handled message is armed again", appMessages, func(s *script) *entry {
		a := findIn[events.OutboxArmed](s, events.MessageStream(messageID(2)), 1)
		return s.alone(s.before(a, events.MessageStream(messageID(1)), a.event))
	}},
	{"I-2", "O-S8: a parked message is armed by the materialization", appMessages, func(s *script) *entry {
		return change(findIn[events.OutboxArmed](s, events.MessageStream(messageID(3)), 1), func(a *events.OutboxArmed) { a.Cause = events.ArmMaterialized })
	}},
	{"I-2", "section 7: a message is armed again by another submit", appMessages, func(s *script) *entry {
		return change(findIn[events.OutboxArmed](s, events.MessageStream(messageID(2)), 1), func(a *events.OutboxArmed) { a.Cause = events.ArmMessage })
	}},
	{"I-25", "M-1: something is decided before a message is armed", appMessages, func(s *script) *entry {
		a := findIn[events.OutboxArmed](s, events.MessageStream(messageID(4)), 0)
		s.move(a, find[events.OutboxDispatched](s, 0))
		return find[events.MessageSubmitted](s, 3)
	}},
	{"I-2", "M-7: a claim without a time is released later", appMessages, func(s *script) *entry {
		return s.alone(findIn[events.OutboxReleased](s, events.MessageStream(messageID(5)), 0))
	}},
	{"I-30", "M-7: a claim without a time is not released", appMessages, func(s *script) *entry {
		s.drop(findIn[events.OutboxReleased](s, events.MessageStream(messageID(5)), 0))
		return findIn[events.OutboxClaimed](s, events.MessageStream(messageID(5)), 0)
	}},
	{"I-2", "M-7: a taken over message is spread beyond one backoff cap", appMessages, func(s *script) *entry {
		return change(findIn[events.OutboxReleased](s, events.MessageStream(messageID(5)), 0), func(r *events.OutboxReleased) {
			r.AvailableAt = r.AvailableAt.Add(2 * minute)
		})
	}},
	{"I-2", "O-7: a claim of a run without a time", fullRun, func(s *script) *entry {
		return change(find[events.OutboxClaimed](s, 0), func(c *events.OutboxClaimed) { c.ClaimExpiresAt = 0 })
	}},
	{"I-2", "M-16: a message died with its process, and nobody says so", appMessages, func(s *script) *entry {
		return change(findIn[events.OutboxArmed](s, events.MessageStream(messageID(2)), 1), func(a *events.OutboxArmed) { a.Died = false })
	}},
	{"I-2", "M-16: a crash suspect that no process has died with", appMessages, func(s *script) *entry {
		change(find[events.NodeStarted](s, 1), func(n *events.NodeStarted) { n.Config = []byte(`{"handler.max_deliveries": 1}`) })
		return change(findIn[events.OutboxParked](s, events.MessageStream(messageID(6)), 0), func(p *events.OutboxParked) { p.Cause = events.ParkCrashSuspect })
	}},
	{"I-2", "M-11: a consumer gives up what it has handled", appMessages, func(s *script) *entry {
		h := find[events.MessageHandled](s, 0)
		again := find[events.OutboxDispatched](s, 1)
		require.Less(s.t, s.index(h), s.index(again))
		return s.alone(s.behind(again, events.MessageStream(messageID(1)), events.OutboxParked{N: 1, Cause: events.ParkHandlerFailed}))
	}},
	{"I-2", "M-11: a consumer gives up another delivery", appMessages, func(s *script) *entry {
		m := findIn[events.OutboxDispatched](s, events.MessageStream(messageID(2)), 0)
		return s.alone(s.behind(m, m.stream, events.OutboxParked{N: 2, Cause: events.ParkHandlerFailed}))
	}},
	{"I-2", "REC-11: a message that is armed again is armed again", appMessages, func(s *script) *entry {
		a := findIn[events.OutboxArmed](s, events.MessageStream(messageID(2)), 1)
		return s.alone(s.behind(a, a.stream, a.event))
	}},
	{"I-2", "M-16: a message is parked before enough processes have died with it", givenUp, func(s *script) *entry {
		change(find[events.NodeStarted](s, 2), func(n *events.NodeStarted) { n.Config = []byte(`{"handler.max_deliveries": 3}`) })
		return findIn[events.OutboxParked](s, events.MessageStream(messageID(1)), 0)
	}},
	{"I-2", "O-S7b: a message is parked for a lowered maximum before it is due", givenUp, func(s *script) *entry {
		p := findIn[events.OutboxParked](s, events.MessageStream(messageID(3)), 0)
		s.shift(p, -second)
		return p
	}},
	{"I-2", "O-S7b: a message is parked that has an attempt left", givenUp, func(s *script) *entry {
		change(find[events.NodeConfigChanged](s, 0), func(c *events.NodeConfigChanged) { c.Changed = []byte(`{"relay.max_attempts": 2}`) })
		return findIn[events.OutboxParked](s, events.MessageStream(messageID(3)), 0)
	}},
	{"I-2", "O-S7b: a message that is handled is parked for a lowered maximum", givenUp, func(s *script) *entry {
		p := findIn[events.OutboxParked](s, events.MessageStream(messageID(3)), 0)
		s.alone(s.before(p, mail, events.MessageHandled{Message: messageID(3)}))
		return p
	}},
}

// I-26, J-3: the fold of the messages, for a comparison with the views.
func TestMessagesAreFolded(t *testing.T) {
	s := newScript(t)
	appMessages(s)
	want := []Message{
		{messageID(1), "mail", MessageHandled}, {messageID(2), "mail", MessageRejected}, {messageID(3), "mail", MessageOpen},
		{messageID(4), "mail", MessageOpen}, {messageID(5), "mail", MessageOpen}, {messageID(6), "mail", MessageOpen},
	}
	require.Equal(t, want, checkLog(s.render(), Options{}).Messages())
}
