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
//
// Once a minute it looks whether that makes the backlog smaller. Where as much comes in as goes out it doubles its rate, and
// ends when a step is a whole batch: what went through the transport before the outage goes through it again.
type drain struct {
	next  events.Micros // the next step; 0: there is no limit
	times int           // so many times the rate of the knob; 0: once
	look  events.Micros // at the backlog, the next time; 0: at the first step
	due   int           // the backlog at the last look
}

// betweenLooks is how often a drain counts its backlog, which is a walk along it.
const betweenLooks = time.Minute

// drainKnobs are relay.drain_rate as steps: so many wakeups, so long apart.
type drainKnobs struct {
	step  int
	every events.Span
}

// stepsPerSecond keeps the steps small, and their transactions few.
const stepsPerSecond = 4

func (d drain) knobs(k towline.Knobs) drainKnobs {
	rate := k.DrainRate * max(d.times, 1)
	step := min(max(rate/stepsPerSecond, 1), k.RelayBatch)
	every := (int64(step)*time.Second.Microseconds() + int64(rate) - 1) / int64(rate) // never faster than the rate
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

// looks reports that it is time to count the backlog.
func (d drain) looks(now events.Micros) bool { return d.limited() && now >= d.look }

// looked is the drain behind a look at now, at which so many wakeups were due.
func (d drain) looked(now events.Micros, due int, k towline.Knobs) drain {
	grown := d.look != 0 && due >= d.due
	d.due, d.look = due, now.Add(events.SpanOf(betweenLooks))
	if !grown {
		return d
	}
	if d.knobs(k).step >= k.RelayBatch {
		return drain{}
	}
	d.times = 2 * max(d.times, 1)
	return d
}

// stepped is the drain behind a step at now.
func (d drain) stepped(now events.Micros, k drainKnobs) drain {
	d.next = max(d.next.Add(k.every), now)
	return d
}
