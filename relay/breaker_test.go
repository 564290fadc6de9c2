package relay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
)

const (
	second = events.Span(1_000_000)
	t0     = events.Micros(1_000_000_000)
)

var defaults = breakerKnobs{failures: 5, open: 10 * second, longest: 300 * second}

// failing is a breaker behind so many failures at t0, of two registers in turn.
func failing(n int) breaker {
	b := breaker{}
	for i := range n {
		b = b.next(t0, failed, []string{"a", "b"}[i%2], defaults)
	}
	return b
}

// O-16: a breaker opens with so many failures in a row, and one acceptance makes the row anew.
func TestABreakerOpensWithARowOfFailures(t *testing.T) {
	require.False(t, failing(4).isOpen())
	require.True(t, failing(5).isOpen())
	require.Equal(t, t0.Add(10*second), failing(5).until)
	b := failing(4).next(t0, accepted, "a", defaults)
	for range 4 {
		b = b.next(t0, failed, "a", defaults)
	}
	require.False(t, b.isOpen())
	require.True(t, b.next(t0, failed, "a", defaults).isOpen())
}

// O-16, SC-034: it is half-open exactly at its time, and each probe that fails doubles the wait, up to five minutes.
func TestAFailedProbeDoublesTheWait(t *testing.T) {
	b := failing(5)
	for _, wait := range []events.Span{10, 20, 40, 80, 160, 300, 300, 300} {
		require.False(t, b.halfOpen(b.until-1))
		require.True(t, b.halfOpen(b.until))
		require.Equal(t, wait*second, b.wait)
		now := b.until.Add(second) // a probe takes its time
		b = b.next(now, probeFailed, "a", defaults)
		require.Equal(t, now.Add(min(2*wait, 300)*second), b.until)
	}
}

// O-16: what was on its way when the breaker opened tells nothing new, unless it is accepted.
func TestALateReceipt(t *testing.T) {
	open := failing(5)
	late := open.next(t0.Add(second), failed, "c", defaults)
	require.Equal(t, open.until, late.until)
	require.False(t, open.next(t0.Add(second), accepted, "c", defaults).isOpen())
}

// row is b behind as many failures as open it.
func row(b breaker, now events.Micros) breaker {
	for range defaults.failures {
		b = b.next(now, failed, "a", defaults)
	}
	return b
}

// O-16: a transport that comes and goes is waited for longer each time. One that has worked for as long as it was waited
// for is not, nor one that came back long ago.
func TestAFlappingTransportIsWaitedForLonger(t *testing.T) {
	b := failing(5)
	for _, wait := range []events.Span{20, 40, 80, 160, 300, 300} {
		b = b.next(b.until, accepted, "a", defaults)
		b = b.next(b.closed.Add(b.wait-1), accepted, "a", defaults)
		now := b.closed.Add(299 * second)
		b = row(b, now)
		require.Equal(t, now.Add(wait*second), b.until)
	}
	for name, came := range map[string][2]events.Span{
		"has worked": {300 * second, 300 * second}, "came back long ago": {0, 300 * second},
	} {
		back := b.next(b.until, accepted, "a", defaults)
		back = back.next(back.closed.Add(came[0]), accepted, "a", defaults)
		now := back.closed.Add(came[1])
		require.Equal(t, now.Add(10*second), row(back, now).until, name)
	}
}

// O-16: while all failures are those of one register they may be its own fault, and any other is let through at once.
func TestAnotherRegisterIsTheProof(t *testing.T) {
	b := row(breaker{}, t0)
	require.False(t, b.admits(t0, "a"))
	require.True(t, b.admits(t0, "b"))
	require.True(t, b.admits(b.until, "a"))
	both := b.next(t0, probeFailed, "b", defaults)
	require.Equal(t, t0.Add(20*second), both.until)
	for _, register := range []string{"a", "b", "c"} {
		require.False(t, both.admits(both.until-1, register))
		require.True(t, both.admits(both.until, register))
	}
	again := both.next(both.until, probeFailed, "a", defaults)
	require.False(t, again.admits(both.until, "c"), "several have failed, whoever fails next")
	require.False(t, failing(5).admits(t0, "c"))
	require.False(t, breaker{}.admits(t0, "a"), "a closed one needs no probe")
}

// O-16: whatever happens, an open breaker ends its wait within its bounds, and it is closed behind every acceptance.
func TestABreakerKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, now := breaker{}, t0
		for range rapid.IntRange(1, 60).Draw(t, "receipts") {
			now = now.Add(events.Span(rapid.Int64Range(0, int64(400*second)).Draw(t, "later")))
			o := rapid.SampledFrom([]outcome{accepted, failed, failed, failed, probeFailed}).Draw(t, "outcome")
			before := b
			b = b.next(now, o, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "register"), defaults)
			require.Equal(t, o == accepted, b.row == 0)
			switch {
			case o == accepted:
				require.False(t, b.isOpen())
				require.Equal(t, now, b.accepted)
			case b.until != before.until:
				require.GreaterOrEqual(t, b.until.Sub(now), defaults.open)
				require.LessOrEqual(t, b.until.Sub(now), defaults.longest)
				require.GreaterOrEqual(t, b.row, defaults.failures)
			}
		}
	})
}

// O-16: a wait that is configured longer than five minutes is not cut, and does not double.
func TestALongWaitIsNotCut(t *testing.T) {
	k := breakerKnobsOf(towline.Knobs{BreakerFailures: 1, BreakerOpen: time.Hour})
	b := breaker{}.next(t0, failed, "a", k)
	require.Equal(t, t0.Add(events.SpanOf(time.Hour)), b.until)
	require.Equal(t, b.until.Add(events.SpanOf(time.Hour)), b.next(b.until, probeFailed, "a", k).until)
}
