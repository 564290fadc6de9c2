package decider

import "github.com/towline-dev/towline/events"

// RejectMessage says that a message can never be handled (M-8). Nothing is delivered any more; one whose handler has failed
// too often waits for a person instead (FailMessage). A message that is over stays what it is: a late failure never undoes an
// effect.
type RejectMessage struct {
	Topic    string
	Message  events.MessageID
	Taken    bool // a relay has claimed it, as read in this transaction: nobody rejects what was never published (J-3)
	Category events.Category
	Text     string
}

func (RejectMessage) Name() string              { return "reject_message" }
func (c RejectMessage) Stream() events.StreamID { return events.AppStream(c.Topic) }
func (RejectMessage) Fresh() bool               { return false }
func (c RejectMessage) About() events.MessageID { return c.Message }

func (c RejectMessage) decide(s State) ([]events.Event, *Rejection) {
	if s.(Topic).Message(c.Message).Status != MessageOpen || !c.Taken {
		return nil, nil
	}
	return []events.Event{events.MessageRejected{Message: c.Message, Category: c.Category, Text: c.Text}}, nil
}
