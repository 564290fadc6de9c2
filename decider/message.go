package decider

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

// Topic is the fold of an app stream, as far as a decision asks for it. The stream is never folded as a whole: it has an
// entry for every message that there ever was. So a decision about one message gets a Topic of that message alone, read
// from the views in the same transaction.
//
//	   Submitted         Handled
//	∅ ───────────► open ───────────► handled
//	                │    Rejected
//	                └──────────────► rejected
type Topic struct {
	Messages []Message // by id
}

// Message is what a topic knows of one message (J-3). Whether it was published is the business of its register.
type Message struct {
	ID     events.MessageID
	Status MessageStatus
}

// MessageStatus is the state of a message.
type MessageStatus string

const (
	MessageOpen     MessageStatus = "open"
	MessageHandled  MessageStatus = "handled"
	MessageRejected MessageStatus = "rejected"
)

// Message is what is known of one message; its zero value was never submitted.
func (t Topic) Message(id events.MessageID) Message {
	if i, found := t.find(id); found {
		return t.Messages[i]
	}
	return Message{}
}

func (t Topic) find(id events.MessageID) (int, bool) {
	return slices.BinarySearchFunc(t.Messages, id, func(m Message, id events.MessageID) int { return m.ID.Compare(id) })
}

func (t Topic) evolve(env events.Envelope) Topic {
	switch e := env.Event.(type) {
	case events.MessageSubmitted:
		return t.with(e.Message, MessageOpen)
	case events.MessageHandled:
		return t.with(e.Message, MessageHandled)
	case events.MessageRejected:
		return t.with(e.Message, MessageRejected)
	}
	return t
}

// with copies: a state is a value.
func (t Topic) with(id events.MessageID, s MessageStatus) Topic {
	i, found := t.find(id)
	t.Messages = slices.Clone(t.Messages)
	if found {
		t.Messages[i].Status = s
	} else {
		t.Messages = slices.Insert(t.Messages, i, Message{id, s})
	}
	return t
}

// IsPartial reports the state of a stream that nobody folds as a whole: the state before an event is then the zero state.
func IsPartial(s State) bool {
	switch s.(type) {
	case Topic, Untracked:
		return true
	}
	return false
}

// AboutMessage is implemented by the commands of app streams: a decision needs to know of this message only.
type AboutMessage interface{ About() events.MessageID }

// SubmitMessage adds a message (M-2). One that is there already is left as it is.
type SubmitMessage struct {
	Topic   string
	Message events.MessageSubmitted
}

func (SubmitMessage) Name() string              { return "submit_message" }
func (c SubmitMessage) Stream() events.StreamID { return events.AppStream(c.Topic) }
func (SubmitMessage) Fresh() bool               { return false }
func (c SubmitMessage) About() events.MessageID { return c.Message.Message }

func (c SubmitMessage) decide(s State) ([]events.Event, *Rejection) {
	if s.(Topic).Message(c.Message.Message).Status != "" {
		return nil, nil
	}
	return []events.Event{c.Message}, nil
}

// ArmMessage is the wish that a message which was submitted be published (M-1): at once, or at its own time.
func ArmMessage(m events.MessageSubmitted, now events.Micros) ArmWakeup {
	return ArmWakeup{Owner: events.RunID(m.Message), Kind: events.KindMessage, At: max(m.AvailableAt, now), Cause: events.ArmMessage}
}
