package relay

import (
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
)

// drain limits the claims of a transport whose breaker has closed, until nothing of the backlog is due (O-16): a broker
// that comes back must not get all of an outage in one second. The zero value is no limit.
//
// It claims in steps, each in one transaction, and saves nothing up: a step that comes late is not made good for.
type drain struct {
	next events.Micros // the next step; 0: there is no limit
}

// drainKnobs are relay.drain_rate as steps: so many wakeups, so long apart.
type drainKnobs struct {
	step  int
	every events.Span
}

// stepsPerSecond keeps the steps small, and their transactions few.
const stepsPerSecond = 4

func drainKnobsOf(k towline.Knobs) drainKnobs {
	step := min(max(k.DrainRate/stepsPerSecond, 1), k.RelayBatch)
	every := (int64(step)*time.Second.Microseconds() + int64(k.DrainRate) - 1) / int64(k.DrainRate) // never faster than the rate
	return drainKnobs{step: step, every: events.Span(every)}
}

func (d drain) limited() bool { return d.next != 0 }

// room is how many of at most so many wakeups may be claimed at now.
func (d drain) room(now events.Micros, most int, k drainKnobs) int {
	switch {
	case !d.limited():
		return most
	case now < d.next:
		return 0
	}
	return min(most, k.step)
}

// stepped is the drain behind a step at now.
func (d drain) stepped(now events.Micros, k drainKnobs) drain {
	return drain{next: max(d.next.Add(k.every), now)}
}
