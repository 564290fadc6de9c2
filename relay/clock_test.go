package relay_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/relay"
	"github.com/towline-dev/towline/transport"
)

// CLK-8, O-12: a clock that is set forward while a post_sync is with the broker does not make its relay look dead: nobody
// gives the outcome up, and what the broker says is on record. A relay that says nothing for a claim time is dead.
func TestAStepDoesNotGiveAnOutcomeUp(t *testing.T) {
	x := newOffice(t)
	run := x.ended()
	other := x.newRelay(x.broker)
	x.broker.script = func(sent) transport.Receipt {
		x.clock.Jump(time.Hour)
		for range 2 {
			r := other.Pass(context.Background())
			require.NoError(t, r.Err())
			require.Zero(t, r.Unknown)
			x.clock.Step(29 * time.Second)
		}
		return transport.Accepted("")
	}
	x.step()
	reg := x.requireStatus(decider.RegisterIdle, run, events.KindPostSync)
	require.Equal(t, []decider.TargetOutcome{{Target: "index", Outcome: events.Accepted}}, reg.Outcomes)
	require.Zero(t, x.e.Tally().LateOutcomes)
	require.Len(t, enginetest.Only[events.ClockStepped](x.since(0)), 1)
	require.Len(t, x.broker.take(), 1)

	x.broker.script = nil
	second := x.ended()
	x.broker.script = func(sent) transport.Receipt {
		x.clock.Jump(time.Hour)
		require.Zero(t, other.Step(context.Background()).Unknown)
		x.clock.Step(time.Minute)
		require.Equal(t, 1, other.Step(context.Background()).Unknown)
		return transport.Accepted("")
	}
	x.step()
	x.requireStatus(decider.RegisterUnresolved, second, events.KindPostSync)
	require.Len(t, x.broker.take(), 1, "it is never sent again")
}

// CLK-8, O-9, O-14, C-4: a clock that is set forward while a wakeup is with the broker costs its mark: it is loud, and the
// wakeup goes out again under the same id, which harms nobody. Its place in the claim time is told by a stopwatch, so
// what waits behind it in the batch is published (O-20).
func TestAStepCostsAMark(t *testing.T) {
	x := newOffice(t)
	one, two := x.plan(1), x.plan(1)
	jump := true
	x.broker.script = func(sent) transport.Receipt {
		if jump {
			x.clock.Jump(time.Hour)
			jump = false
		}
		return transport.Accepted("")
	}
	r := x.relay.Step(context.Background())
	var refused *relay.RefusedMarkError
	require.ErrorAs(t, r.Err(), &refused)
	require.EqualValues(t, 2, x.e.Tally().RefusedMarks)
	ids := idsOf(x.broker.take())
	require.Len(t, ids, 2)
	require.Equal(t, 2, x.pass().Released)
	x.clock.Step(6 * time.Second)
	x.step()
	require.ElementsMatch(t, ids, idsOf(x.broker.take()))
	x.requireStatus(decider.RegisterIdle, one.Run, events.KindDispatch)
	x.requireStatus(decider.RegisterIdle, two.Run, events.KindDispatch)
}

// CLK-3, REC-1, REC-18: a pass that finds nothing opens no transaction behind a step either: an idle engine writes nothing.
func TestAStepOfAnIdleEngineWaits(t *testing.T) {
	x := newOffice(t)
	x.ended()
	x.step()
	x.clock.Step(time.Hour)
	x.pass()
	x.unchanged(func() {
		x.clock.Jump(-time.Hour)
		x.pass()
		x.clock.Jump(30 * time.Minute)
		x.pass()
	})
	before := x.head()
	x.plan(1)
	require.Equal(t, "ClockStepped", enginetest.Types(x.since(before))[0])
}
