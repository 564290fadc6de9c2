package decider

import "github.com/towline-dev/towline/events"

// ClaimWakeup takes a due wakeup for one relay (O-7). What is no longer owed is claimed and dropped in the same
// transaction, so that nothing is published for it (O-8).
//
// The release at the last attempt parks a wakeup. So one that is pending with its attempts spent was left by a higher
// maximum, and is parked here: else it would be due in every pass and claimed by none (O-S7b). But what is no longer owed is
// dropped even then (O-15): nothing arms a parked register for a time that its wakeup stood for, too (HD-6).
type ClaimWakeup struct {
	Owner       events.RunID
	Kind        events.Kind
	Mode        events.DeliveryMode
	At          events.Micros
	N           int // the number for which Messages and Drop were read; 0: whichever is current
	Token       events.Token
	ExpiresAt   events.Micros
	Messages    int // that the wakeup expands to
	MaxAttempts int
	MaxLosses   int               // of a message that is handled in process (M-16); 0: no bound
	Drop        events.DropReason // empty: the obligation stands, as read in this transaction
}

func (ClaimWakeup) Name() string              { return "claim_wakeup" }
func (c ClaimWakeup) Stream() events.StreamID { return events.RegisterStream(c.Owner, c.Kind) }
func (ClaimWakeup) Fresh() bool               { return false }

func (c ClaimWakeup) decide(s State) ([]events.Event, *Rejection) {
	r := s.(Register)
	if r.Status != RegisterPending || r.AvailableAt > c.At || c.N != 0 && c.N != r.Current {
		return nil, nil // another relay was faster, or it is not due: publish nothing (M-3)
	}
	markFirst := DeliveryOf(c.Kind, c.Mode).Order == events.MarkFirst
	if r.Attempts >= c.MaxAttempts && !markFirst && c.Drop == "" { // a mark_first number that was never marked goes on (O-15)
		return []events.Event{events.OutboxParked{
			N: r.Current, Cause: events.ParkAttempts, Attempts: r.Attempts, Text: r.LastText,
		}}, nil
	}
	if park := r.lostTooOften(c.MaxLosses); park != nil && c.Drop == "" {
		return park, nil
	}
	claimed := events.OutboxClaimed{
		N: r.Current, Token: c.Token, ClaimExpiresAt: c.ExpiresAt, Attempt: r.Attempts + 1, MessageCount: c.Messages,
	}
	if c.Drop != "" {
		return []events.Event{claimed, events.OutboxDropped{N: r.Current, Token: c.Token, Reason: c.Drop}}, nil
	}
	return []events.Event{claimed}, nil
}
