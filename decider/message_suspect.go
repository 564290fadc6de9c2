package decider

import (
	"fmt"

	"github.com/towline-dev/towline/events"
)

// SuspectAfter is how many processes in a row die with a message before it is a crash suspect (M-16). Once is what happens
// to everything that a process has in its memory. Of what was lost twice, one may be at fault, and from then on each is
// handed out by itself: only that one is lost again, and the others are handled.
const SuspectAfter = 2

// Suspect reports a message that may be what kills its processes.
func (r Register) Suspect() bool { return r.Lost >= SuspectAfter }

// lostTooOften parks a suspect that has taken so many processes with it; empty: it may go on. most is 0 where messages go
// to a broker, which hands them out as it likes.
func (r Register) lostTooOften(most int) []events.Event {
	if most == 0 || r.Lost < most {
		return nil
	}
	return []events.Event{events.OutboxParked{
		N: r.Current, Cause: events.ParkCrashSuspect, Attempts: r.Attempts,
		Text: fmt.Sprintf("%d processes in a row have died with it", r.Lost),
	}}
}
