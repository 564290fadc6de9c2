package check

import "github.com/towline-dev/towline/events"

// message is an application's message (J-3): submitted, then a register like any other, then handled or rejected.
type message struct {
	id          events.MessageID
	submitted   events.Position
	submittedTx events.Position
	stream      events.StreamID
	armedTx     events.Position // 0: not yet
	register    *register
	over        bool // handled or rejected
}

func (c *Checker) messageEvent(e events.Envelope) {
	c.namedVersion(e)
	switch ev := e.Event.(type) {
	case events.MessageSubmitted:
		if c.messages[ev.Message] != nil {
			c.wrong("I-2", e, "message %s is submitted a second time (M-2)", ev.Message)
			return
		}
		m := &message{id: ev.Message, submitted: e.Position, submittedTx: c.tx.position, stream: e.Stream}
		c.messages[ev.Message] = m
		c.unarmed = append(c.unarmed, m)
	case events.MessageHandled:
		c.messageOver(e, ev.Message)
	case events.MessageRejected:
		c.messageOver(e, ev.Message)
	}
}

// messageOver: a message is handled or rejected once, after a relay took it (J-3, M-12).
func (c *Checker) messageOver(e events.Envelope, id events.MessageID) {
	m := c.messages[id]
	switch {
	case m == nil:
		c.wrong("I-2", e, "message %s was never submitted (M-9)", id)
		return
	case m.over:
		c.wrong("I-2", e, "message %s was handled or rejected already (M-12)", id)
	case m.register == nil || m.register.claims == 0:
		c.wrong("I-2", e, "message %s was never claimed by a relay (J-3)", id)
	}
	m.over = true
}

// endOfMessages is I-25: a submitted message is an obligation, and the next engine transaction arms it.
func (c *Checker) endOfMessages() {
	if !c.tx.engine || len(c.unarmed) == 0 {
		return
	}
	left := c.unarmed[:0]
	for _, m := range c.unarmed {
		switch {
		case m.armedTx != 0:
		case m.submittedTx == c.tx.position:
			left = append(left, m)
		default:
			c.report("I-25", m.submitted, m.stream, "message %s was submitted, and the next engine transaction, at position %d, does not arm it", m.id, c.tx.position)
		}
	}
	clear(c.unarmed[len(left):])
	c.unarmed = left
}
