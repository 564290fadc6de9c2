package decider

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

// late answers a settle that does not hold its lease (U-19): nothing changes, the refusal is recorded once per
// attempt, and the worker learns that it lost. Repeating the accepted settle of an attempt is no late result; it
// gets the first answer again (HU-9).
func (u Unit) late(command string, attempt int, t events.Token, o Outcome, reason events.LateReason) ([]events.Event, *Rejection) {
	if u.accepted(attempt, t, o) {
		return nil, nil
	}
	lost := &Rejection{Command: command, Reason: string(reason), Err: ErrLeaseLost}
	// A stranger with a guessed token must not use up the one record of a worker that is still at work.
	claimed := attempt >= 1 && attempt <= u.Attempt
	atWork := attempt == u.Attempt && u.Status == events.UnitIsRunning && u.Lease.Token != t
	if !claimed || atWork || slices.Contains(u.Late, attempt) {
		return nil, lost
	}
	return []events.Event{events.UnitLateResult{
		Attempt: attempt, Outcome: string(o), Reason: reason, Text: events.LateResultText,
	}}, lost
}
