package decider

import (
	"hash/fnv"

	"github.com/towline-dev/towline/events"
)

// Imported is what an older outbox knew of a message that is taken over (M-7).
type Imported string

const (
	ImportPending    Imported = "pending"
	ImportInProgress Imported = "in_progress" // by a relay of the old outbox, since nobody knows when
	ImportSpent      Imported = "spent"       // its attempts are used up
)

// ImportWakeup opens the register of a message that was taken over, in the transaction that submits it. One that was in
// progress counts as claimed without a time, which is expired (O-14), and is released at once, so that no row is left which
// no scan selects; one whose attempts are spent is parked, where a person sees it.
type ImportWakeup struct {
	Owner     events.RunID
	At        events.Micros
	Available events.Micros // when it may be published; never before At
	State     Imported
	Token     events.Token
	Text      string // of a spent one: what the old outbox says of it
}

func (ImportWakeup) Name() string { return "import_wakeup" }
func (c ImportWakeup) Stream() events.StreamID {
	return events.RegisterStream(c.Owner, events.KindMessage)
}
func (ImportWakeup) Fresh() bool { return false }

func (c ImportWakeup) decide(s State) ([]events.Event, *Rejection) {
	if s.(Register).Newest > 0 {
		return nil, nil
	}
	available := max(c.Available, c.At)
	switch c.State {
	case ImportInProgress:
		return []events.Event{
			events.OutboxArmed{N: 1, AvailableAt: c.At, Cause: events.ArmMessage},
			events.OutboxClaimed{N: 1, Token: c.Token, Attempt: 1, MessageCount: 1},
			events.OutboxReleased{N: 1, Token: c.Token, Cause: events.ReleaseNoClaimTime, AvailableAt: available},
		}, nil
	case ImportSpent:
		return []events.Event{
			events.OutboxArmed{N: 1, AvailableAt: c.At, Cause: events.ArmMessage},
			events.OutboxParked{N: 1, Cause: events.ParkOperator, Text: c.Text},
		}, nil
	}
	return []events.Event{events.OutboxArmed{N: 1, AvailableAt: available, Cause: events.ArmMessage}}, nil
}

// Spread is a part of a span, a fixed hash of a name: things that come back together do not come back at once (M-7).
func Spread(name string, over events.Span) events.Span {
	const steps = 1 << 20
	h := fnv.New64a()
	h.Write([]byte(name))
	part := events.Span(h.Sum64() % steps)
	return over/steps*part + over%steps*part/steps
}
