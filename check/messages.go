package check

import "github.com/towline-dev/towline/events"

// Message is the checker's own fold of an application's message (J-3): submitted, then a register like any other, then
// handled or rejected.
type Message struct {
	ID     events.MessageID
	Topic  string
	Status MessageStatus
}

// MessageStatus says whether a message is over. Whether it was published is in its register.
type MessageStatus string

const (
	MessageOpen     MessageStatus = "open"
	MessageHandled  MessageStatus = "handled"
	MessageRejected MessageStatus = "rejected"
)

type message struct {
	Message
	key         string
	submitted   events.Position
	submittedTx events.Position
	stream      events.StreamID
	armedTx     events.Position // 0: not yet
	register    *register
}

func (m *message) over() bool { return m.Status != MessageOpen }

// messageKey is a producer's key in its topic (M-2).
type messageKey struct{ topic, key string }

func (c *Checker) messageEvent(e events.Envelope) {
	c.namedVersion(e)
	switch ev := e.Event.(type) {
	case events.MessageSubmitted:
		c.messageSubmitted(e, ev)
	case events.MessageHandled:
		c.messageOver(e, ev.Message, MessageHandled)
	case events.MessageRejected:
		if ev.Category != events.InvalidPayload && ev.Category != events.HandlerFailed {
			c.wrong("I-2", e, "message %s is rejected for %q; a consumer says invalid_payload or handler_failed (M-8, M-11)", ev.Message, ev.Category)
		}
		c.messageOver(e, ev.Message, MessageRejected)
	}
}

func (c *Checker) messageSubmitted(e events.Envelope, ev events.MessageSubmitted) {
	topic, _ := e.Stream.Topic()
	if c.messages[ev.Message] != nil {
		c.wrong("I-2", e, "message %s is submitted a second time (M-2)", ev.Message)
		return
	}
	m := &message{
		Message: Message{ID: ev.Message, Topic: topic, Status: MessageOpen}, key: ev.Key,
		submitted: e.Position, submittedTx: c.tx.position, stream: e.Stream,
	}
	if k := (messageKey{topic, ev.Key}); ev.Key != "" {
		if first := c.messageKeys[k]; first != nil {
			c.wrong("I-2", e, "key %q of the topic has submitted message %s already (M-2)", ev.Key, first.ID)
		} else {
			c.messageKeys[k] = m
		}
	}
	c.messages[ev.Message] = m
	c.messageOrder = append(c.messageOrder, m)
	c.unarmed = append(c.unarmed, m)
}

// messageOver: a message is handled or rejected once, after a relay took it (J-3, M-12), in the stream of its topic.
func (c *Checker) messageOver(e events.Envelope, id events.MessageID, s MessageStatus) {
	m := c.messages[id]
	switch {
	case m == nil:
		c.wrong("I-2", e, "message %s was never submitted (M-9)", id)
		return
	case m.over():
		c.wrong("I-2", e, "message %s was %s already (M-12)", id, m.Status)
		return
	case m.stream != e.Stream:
		c.wrong("I-2", e, "message %s was submitted to %s", id, m.stream)
	case m.register == nil || m.register.claims == 0:
		c.wrong("I-2", e, "message %s was never claimed by a relay (J-3)", id)
	}
	m.Status = s
}

// mayArmMessage: wakeup 1 is for the time that was submitted, or at once (M-1). Behind it a message is armed by an
// operator, and by the materialization when it died in the memory of a process before it was over (REC-11).
func (c *Checker) mayArmMessage(e events.Envelope, r *register, ev events.OutboxArmed) {
	if r.Newest == 0 {
		r.message.armedTx = c.tx.position
		return
	}
	switch ev.Cause {
	case events.ArmRedriven:
		r.lost = 0
	case events.ArmMaterialized:
		if died := c.diedWith(r.markNode); ev.Died != died {
			c.wrong("I-2", e, "message %s is said to have died with its process: %t (M-16)", r.message.ID, ev.Died)
		}
		if ev.Died {
			r.lost++
		}
		stale := c.settings(e.Node).Stale
		died := c.gone(r.markNode) || stale > 0 && r.LastDispatchedAt.Add(stale) <= e.At
		switch {
		case r.message.over():
			c.wrong("I-2", e, "message %s is %s, and is armed again (O-8)", r.message.ID, r.message.Status)
		case r.State != Idle || !events.InProcess(r.Transport) || !died:
			c.wrong("I-2", e, "a message is armed again that did not die in the memory of a process: it is %s, by %q (REC-11)", r.describe(), r.Transport)
		}
	default:
		c.wrong("I-2", e, "a message is armed again by redrive only (section 7)")
	}
}

// diedWith reports an incarnation that is gone and has not stopped.
func (c *Checker) diedWith(id events.NodeID) bool { return c.gone(id) && !c.nodes[id].stopped }

// endOfMessages is I-25: a submitted message is an obligation, and no transaction of an engine decides anything before it
// is armed. A transaction that does nothing but arm may leave some to the next.
func (c *Checker) endOfMessages() {
	if !c.tx.engine || len(c.unarmed) == 0 {
		return
	}
	left := c.unarmed[:0]
	for _, m := range c.unarmed {
		switch {
		case m.armedTx != 0:
		case m.submittedTx == c.tx.position, !c.tx.decides:
			left = append(left, m)
		default:
			c.report("I-25", m.submitted, m.stream, "message %s was submitted, and the next engine transaction, at position %d, does not arm it", m.ID, c.tx.position)
		}
	}
	clear(c.unarmed[len(left):])
	c.unarmed = left
}
