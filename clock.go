package towline

import (
	"sync"
	"time"

	"github.com/towline-dev/towline/events"
)

// Clock is engine time: the wall clock, but never backwards, and never slower than the monotonic clock (CLK-2). So a
// wall clock that is set back freezes no timer.
type Clock struct {
	mu        sync.Mutex
	wall      func() time.Time
	monotonic func() time.Duration // nil: the reading that comes with wall

	last time.Time     // newest reading of wall
	ran  events.Span   // by the monotonic clock, up to then
	rest time.Duration // of it, less than a microsecond: a sum of rounded spans would be too slow
	at   events.Micros // engine time then
	base reading       // from which engine time follows the monotonic clock
}

// reading is one look at both clocks of the machine, and what engine time makes of it.
type reading struct {
	wall events.Micros
	ran  events.Span   // by the monotonic clock; only differences count
	at   events.Micros // engine time
}

// NewClock reads wall; nil is time.Now. A process has one clock: the engine gives its own to its store.
//
// Where the times of wall have no monotonic reading, as those of a test, the two clocks are one: what moves wall forward
// is time that has passed, and only what moves it back is a step (CLK-3).
func NewClock(wall func() time.Time) *Clock { return NewClockPair(wall, nil) }

// NewClockPair reads the wall clock and, apart from it, one that no step touches: how long it has run since any fixed
// moment. A nil wall is time.Now; with a nil monotonic it is NewClock.
func NewClockPair(wall func() time.Time, monotonic func() time.Duration) *Clock {
	if wall == nil {
		wall = time.Now
	}
	return &Clock{wall: wall, monotonic: monotonic}
}

// Now is engine time.
func (c *Clock) Now() events.Micros { return c.look().at }

func (c *Clock) look() reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.last.IsZero()
	r := c.read()
	if first || r.wall >= r.at {
		r.at = r.wall
		c.base = r
	}
	c.at = r.at
	return r
}

// read looks at the clocks. Engine time is what the monotonic one alone makes of it.
func (c *Clock) read() reading {
	t := c.wall()
	switch {
	case c.monotonic != nil:
		c.ran = max(c.ran, events.SpanOf(c.monotonic()))
	case !c.last.IsZero():
		passed := max(t.Sub(c.last), 0) // Sub uses the monotonic readings where there are any
		c.rest += passed % time.Microsecond
		c.ran += events.SpanOf(passed) + events.SpanOf(c.rest)
		c.rest %= time.Microsecond
	}
	c.last = t
	return reading{wall: events.MicrosOf(t), ran: c.ran, at: c.base.at.Add(c.ran - c.base.ran)}
}

// Stopwatch measures the time from now on. Steps of the wall clock do not touch it where the clock has a monotonic
// reading, as time.Now has.
func (c *Clock) Stopwatch() (elapsed func() events.Span) {
	if c.monotonic != nil {
		start := c.monotonic()
		return func() events.Span { return events.SpanOf(c.monotonic() - start) }
	}
	start := c.wall()
	return func() events.Span { return events.SpanOf(c.wall().Sub(start)) }
}

// reach moves engine time up to the newest event of the log. After a start on a clock that was set back, and beside a
// process whose clock runs ahead, time goes on from there; a clock that only waited would freeze every timer (CLK-2).
func (c *Clock) reach(at events.Micros) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at < at {
		r := c.read()
		r.at = at
		c.at, c.base = at, r
	}
}
