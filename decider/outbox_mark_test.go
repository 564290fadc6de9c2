package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

func mark(after events.Span) MarkWakeup {
	return MarkWakeup{
		Owner: theRun, Kind: events.KindDispatch, At: t0.Add(after), N: 1, Token: tokenA, Transport: events.TransportLocal, Messages: 1,
	}
}

// O-9, O-11, O-S5: a mark closes the number that was published, and nothing else.
func TestAMarkClosesItsNumberOnly(t *testing.T) {
	given := and(claimedRegister(), at(second, armed(2, hour)))
	got := decide(t, givenRegister(events.KindDispatch, given...), mark(2*second))
	require.Equal(t, []events.Event{published(1, tokenA)}, got)
	r := givenRegister(events.KindDispatch, and(given, then(2*second, got)...)...)
	require.Equal(t, []any{RegisterPending, 2, 1, t0.Add(hour)}, []any{r.Status, r.Current, r.Closed, r.AvailableAt})
	require.Equal(t, t0.Add(2*second), r.LastDispatchedAt)
	require.Equal(t, t0.Add(2*second), r.LastClosedAt)
}

// O-12, 8.1, SC-050: post_sync is marked first.
func TestPostSyncIsMarkedFirst(t *testing.T) {
	c := mark(second)
	c.Kind, c.Mode, c.Transport, c.Messages = events.KindPostSync, events.AtMostOnce, "nats", 2
	require.Equal(t, []events.Event{marked(1, tokenA, 2)}, decide(t, givenRegister(events.KindPostSync, claimedRegister()...), c))
	again := givenRegister(events.KindPostSync, and(claimedRegister(), at(second, marked(1, tokenA, 2)))...)
	require.Empty(t, requireRefused(t, again, c, ErrClaimLost), "I-13: marked once")
}

// O-9, CLK-1, M-10, SC-019 to SC-021: a mark needs the token and a live claim of this number; a refused one is loud and
// changes nothing.
func TestAMarkWithoutTheClaimIsRefused(t *testing.T) {
	with := func(after events.Span, change func(*MarkWakeup)) MarkWakeup {
		c := mark(after)
		change(&c)
		return c
	}
	noChange := func(*MarkWakeup) {}
	taken2 := and(claimedRegister(), at(minute, released(1, tokenA, events.ReleaseClaimExpired, minute, true)),
		at(2*minute, taken(1, 2, tokenB, 2*minute)))
	next := and(claimedRegister(), at(second, armed(2, 0)), at(second, published(1, tokenA)), at(second, taken(2, 1, tokenA, 0)))
	endless := []happening{at(0, armed(1, 0)), at(0, events.OutboxClaimed{N: 1, Token: tokenA, Attempt: 1})}
	for name, tt := range map[string]struct {
		given   []happening
		command MarkWakeup
	}{
		"never armed":          {nil, with(0, noChange)},
		"not claimed":          {claimedRegister()[:1], with(0, noChange)},
		"other token":          {claimedRegister(), with(second, func(c *MarkWakeup) { c.Token = tokenB })},
		"no token":             {claimedRegister(), with(second, func(c *MarkWakeup) { c.Token = "" })},
		"other number":         {claimedRegister(), with(second, func(c *MarkWakeup) { c.N = 2 })},
		"exactly at its end":   {claimedRegister(), with(minute, noChange)},
		"claim without end":    {endless, with(0, noChange)},
		"taken over":           {taken2, with(2*minute+second, noChange)},
		"marked already":       {and(claimedRegister(), at(second, published(1, tokenA))), with(2*second, noChange)},
		"closed, next claimed": {next, with(2*second, noChange)},
	} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, requireRefused(t, givenRegister(events.KindDispatch, tt.given...), tt.command, ErrClaimLost))
		})
	}
	require.Len(t, decide(t, givenRegister(events.KindDispatch, claimedRegister()...), mark(minute-micro)), 1)
	b := with(2*minute+second, func(c *MarkWakeup) { c.Token = tokenB })
	require.Len(t, decide(t, givenRegister(events.KindDispatch, taken2...), b), 1, "the newer claim is intact")
}
