package relay_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/transport"
)

// O-19, REC-14, REC-15, SC-038: one wakeup that cannot be claimed, whatever the reason, keeps none of the others, in
// this step and in any later one; it is named.
func TestOneBadWakeupKeepsNoOther(t *testing.T) {
	x := newOffice(t)
	var runs []towline.Planned
	for range 60 {
		runs = append(runs, x.plan(1))
	}
	bad := runs[3].Run
	x.store.failing = func(query string, args []any) bool {
		return strings.HasPrefix(query,
			"UPDATE outbox SET status = 'claimed'") && string(args[0].([]byte)) == string(bad[:])
	}
	r := x.relay.Step(context.Background())
	require.ErrorContains(t, r.Err(), bad.String())
	require.ErrorIs(t, r.Err(), errPlanted)
	require.Equal(t, 59, r.Dispatched)
	require.Len(t, x.broker.take(), 59)
	x.plan(1)
	r = x.relay.Step(context.Background())
	require.ErrorContains(t, r.Err(), bad.String())
	require.Equal(t, 1, r.Dispatched)

	x.store.failing = nil
	x.step()
	x.requireStatus(decider.RegisterIdle, bad, events.KindDispatch)
}

// O-19: bad wakeups, however old and however many, are in nobody's way.
func TestBadWakeupsDoNotFillTheBatch(t *testing.T) {
	for _, batch := range []int{1, 5} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) { badWakeupsFirst(t, batch) })
	}
}

func badWakeupsFirst(t *testing.T, batch int) {
	x := openOffice(t, options{knobs: towline.Knobs{RelayBatch: batch}})
	bad := map[string]bool{}
	for range 11 {
		id := x.plan(1).Run
		bad[string(id[:])] = true
	}
	x.clock.Step(time.Second)
	for range 20 {
		x.plan(1)
	}
	x.store.failing = func(query string, args []any) bool {
		return strings.HasPrefix(query, "UPDATE outbox SET status = 'claimed'") && bad[string(args[0].([]byte))]
	}
	r := x.relay.Step(context.Background())
	require.Error(t, r.Err())
	require.Equal(t, 20, r.Dispatched)
	x.store.failing = nil
	x.step()
}

// O-19, SC-038, SC-041: one mark that fails keeps none of the others; its wakeup is found again when its claim has
// ended, and goes out under its id (C-4, SC-040).
func TestOneMarkThatFailsKeepsNoOther(t *testing.T) {
	x := newOffice(t)
	var runs []towline.Planned
	for range 5 {
		runs = append(runs, x.plan(1))
	}
	bad := runs[2].Run
	x.store.failing = func(query string, args []any) bool {
		return strings.HasPrefix(query, "UPDATE outbox SET status = $3") && string(args[0].([]byte)) == string(bad[:])
	}
	r := x.relay.Step(context.Background())
	require.ErrorIs(t, r.Err(), errPlanted)
	require.Equal(t, 4, r.Dispatched)
	x.store.failing = nil
	x.broker.take()
	x.clock.Step(time.Minute)
	require.Equal(t, 1, x.step().Released)
	x.clock.Step(6 * time.Second)
	x.step()
	require.Equal(t, []string{bad.String() + ".dispatch_sync_run.1"}, idsOf(x.broker.take()))
	require.Equal(t, 2, enginetest.Only[events.OutboxClaimed](x.since(0))[5].Attempt)
}

// I-16, SC-048: when the claim does not commit, nothing is published.
func TestNothingIsPublishedWithoutACommittedClaim(t *testing.T) {
	x := newOffice(t)
	x.plan(1)
	x.store.away(errAway)
	r := x.relay.Step(context.Background())
	require.ErrorIs(t, r.Err(), towline.ErrUnavailable)
	require.Empty(t, x.broker.take())
	x.store.away(nil)
	x.step()
	require.Len(t, x.broker.take(), 1)
}

// REC-3, I-16, L-11, SC-049, C-44: when the store is lost between publish and mark, the step ends and says so, and
// publishes nothing more. What was published is recorded as soon as the store is back, and not sent a second time.
func TestAStoreThatIsLostEndsTheStep(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{RelayBatch: 2}})
	for range 4 {
		x.plan(1)
	}
	x.broker.script = func(sent) transport.Receipt {
		x.store.away(errAway)
		return transport.Accepted("")
	}
	r := x.relay.Step(context.Background())
	require.ErrorIs(t, r.Err(), towline.ErrUnavailable)
	first := idsOf(x.broker.take())
	require.Len(t, first, 2, "one batch")
	r = x.relay.Step(context.Background())
	require.ErrorIs(t, r.Err(), towline.ErrUnavailable)
	require.Empty(t, x.broker.take())

	x.store.away(nil)
	x.broker.script = nil
	require.Equal(t, 4, x.step().Dispatched)
	require.NotSubset(t, idsOf(x.broker.take()), first)
	x.clock.Step(2 * time.Minute)
	x.step()
	require.Empty(t, x.broker.take())
	require.Len(t, enginetest.Only[events.OutboxDispatched](x.since(0)), 4)
}

// L-11, O-12, C-23: the outcome of a post_sync is not lost with one failed commit: it is recorded as it was, though its
// claim has run out meanwhile.
func TestAnOutcomeOutlivesAStoreThatIsLost(t *testing.T) {
	x := newOffice(t)
	p := x.plan(1)
	x.step()
	x.dispatch(p.Run)
	x.step()
	x.complete(x.claim(x.units(p.Run)[0].Unit))
	x.finalize(p.Run)
	x.broker.script = func(sent) transport.Receipt {
		x.store.away(errAway)
		return transport.Accepted("it has it")
	}
	require.ErrorIs(t, x.relay.Step(context.Background()).Err(), towline.ErrUnavailable)
	x.clock.Step(2 * time.Minute)
	x.store.away(nil)
	x.step()
	outcomes := enginetest.Only[events.OutboxOutcome](x.since(0))
	require.Len(t, outcomes, 1)
	require.Equal(t, events.Accepted, outcomes[0].Outcome)
}
