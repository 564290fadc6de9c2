package towline

import (
	"sync"
	"time"

	"github.com/towline-dev/towline/events"
)

// Clock is engine time: the wall clock, but never backwards, and never slower than the monotonic clock (CLK-2). So a
// wall clock that is set back freezes no timer.
type Clock struct {
	mu   sync.Mutex
	wall func() time.Time
	last time.Time     // newest reading of wall
	at   events.Micros // engine time at that reading
}

// NewClock reads wall; nil is time.Now. A process has one clock: the engine gives its own to its store.
func NewClock(wall func() time.Time) *Clock {
	if wall == nil {
		wall = time.Now
	}
	return &Clock{wall: wall}
}

// Now is engine time.
func (c *Clock) Now() events.Micros {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.wall()
	at := events.MicrosOf(t)
	if !c.last.IsZero() {
		// Sub uses the monotonic readings where there are any.
		at = max(at, c.at.Add(events.SpanOf(max(t.Sub(c.last), 0))))
	}
	c.last, c.at = t, at
	return at
}

// Stopwatch measures the time from now on. Steps of the wall clock do not touch it where the clock has a monotonic
// reading, as time.Now has.
func (c *Clock) Stopwatch() (elapsed func() events.Span) {
	start := c.wall()
	return func() events.Span { return events.SpanOf(c.wall().Sub(start)) }
}

// reach moves engine time up to the newest event of the log. After a start on a clock that was set back, and beside a
// process whose clock runs ahead, time goes on from there; a clock that only waited would freeze every timer (CLK-2).
func (c *Clock) reach(at events.Micros) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at < at {
		c.last, c.at = c.wall(), at
	}
}
