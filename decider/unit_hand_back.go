package decider

import "github.com/towline-dev/towline/events"

// MaxHandBacks in a row end a unit: a unit that never fits into the time it gets must be seen (U-16).
const MaxHandBacks = 10

const lastHandBack = "handed back 10 times in a row: "

// HandBackRoom is by how many bytes the text of a unit that ends so is longer than the reason of its last hand-back. The
// caller cuts every reason to error.max_bytes less this room, since rules cut no text (E-3).
const HandBackRoom = len(lastHandBack)

// HandBackUnit gives a unit back without using up a retry (U-16): its provider stopped cleanly. It is due at once the
// first time; later the wait grows, so that no unit is handed around in a hot loop.
type HandBackUnit struct {
	Unit    events.UnitID
	At      events.Micros
	RunOpen bool
	Attempt int
	Token   events.Token
	Grace   Grace
	Reason  string // with HandBackRoom to spare
	Backoff Backoff
}

func (HandBackUnit) Name() string              { return "hand_back_unit" }
func (c HandBackUnit) Stream() events.StreamID { return events.UnitStream(c.Unit) }
func (HandBackUnit) Fresh() bool               { return false }

func (c HandBackUnit) decide(s State) ([]events.Event, *Rejection) {
	u := s.(Unit)
	if reason, held := u.holds(c.Attempt, c.Token, c.At, c.RunOpen, c.Grace); !held {
		if u.HandBacks == MaxHandBacks-1 && u.accepted(c.Attempt, c.Token, OutcomeFailed) {
			return nil, nil // the last of the row, which was accepted as a failure (HU-9)
		}
		return u.late(c.Name(), c.Attempt, c.Token, OutcomeHandedBack, reason)
	}
	n := u.HandBacks + 1
	if n >= MaxHandBacks {
		return []events.Event{events.UnitFailed{
			Attempt: c.Attempt, Token: c.Token, Category: events.ProviderError, By: events.ByWorker, Retries: u.Retries(),
			Text: lastHandBack + c.Reason,
		}}, nil
	}
	at := c.At
	if n > 1 {
		at = at.Add(c.Backoff.After(c.Unit.String(), n-1))
	}
	return []events.Event{events.UnitRetryScheduled{
		Attempt: c.Attempt, Token: c.Token, Cause: events.HandedBack, Text: c.Reason, AvailableAt: at, HandBacks: n,
		ExpiredLeaseRetries: u.ExpiredLeaseRetries, RateLimitDeferrals: u.RateLimitDeferrals,
		RateLimitFirstAt: u.RateLimitFirstAt,
	}}, nil
}
