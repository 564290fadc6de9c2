package decider

import "github.com/towline-dev/towline/events"

// FailMessage gives a message up whose consumer has failed at every delivery (M-11): it waits for a person, as a wakeup does
// that cannot be published. Its register is parked in whatever state the delivery finds it: closed; claimed still, for a
// consumer may be faster than the mark; or released under a message that was out already. A number that was surely never
// published is not the one that has failed.
type FailMessage struct {
	Owner [16]byte // the message
	Over  bool     // it is handled or rejected, as read in this transaction
	Text  string   // of the last failure; redacted and bounded by the caller
}

func (FailMessage) Name() string { return "fail_message" }
func (c FailMessage) Stream() events.StreamID {
	return events.RegisterStream(c.Owner, events.KindMessage)
}
func (FailMessage) Fresh() bool { return false }

func (c FailMessage) decide(s State) ([]events.Event, *Rejection) {
	r := s.(Register)
	out := r.Status == RegisterClaimed || r.Status == RegisterPending && r.MaybePublished ||
		r.Status == RegisterIdle && r.Closed > 0
	if c.Over || !out {
		return nil, nil
	}
	return []events.Event{events.OutboxParked{N: r.Current, Cause: events.ParkHandlerFailed, Attempts: r.Attempts, Text: c.Text}}, nil
}

// gaveUp reports that the consumer of wakeup n has parked it before the mark of its claim.
func (r Register) gaveUp(n int, t events.Token) bool {
	return r.Status == RegisterParked && r.Current == n && t != "" && t == r.Claim.Token
}
