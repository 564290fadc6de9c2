package relay

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
)

// O-16, SC-033: at most the rate in any second, whatever the rate and the batch, but for the step that is under way; and
// no slower than that.
func TestADrainKeepsItsRate(t *testing.T) {
	for _, k := range []towline.Knobs{
		{DrainRate: 40, RelayBatch: 50}, {DrainRate: 1, RelayBatch: 50}, {DrainRate: 3, RelayBatch: 50},
		{DrainRate: 7, RelayBatch: 1}, {DrainRate: 1000, RelayBatch: 50}, {DrainRate: 4, RelayBatch: 1000},
	} {
		t.Run(fmt.Sprintf("%d a second in batches of %d", k.DrainRate, k.RelayBatch), func(t *testing.T) {
			const seconds = 10
			steps := drain{}.knobs(k)
			var claimed []events.Micros
			for d, now := (drain{next: t0}), t0; now < t0.Add(seconds*second); now = d.next {
				require.Zero(t, d.room(now-1, k.RelayBatch, steps))
				n := d.room(now, k.RelayBatch, steps)
				require.Positive(t, n)
				for range n {
					claimed = append(claimed, now)
				}
				d = d.stepped(now, steps)
			}
			require.LessOrEqual(t, len(claimed), seconds*k.DrainRate)
			require.GreaterOrEqual(t, len(claimed), (seconds*k.DrainRate)*99/100)
			for i := k.DrainRate; i < len(claimed); i++ {
				require.GreaterOrEqual(t, claimed[i].Sub(claimed[i-k.DrainRate]), second-events.Span(k.DrainRate))
			}
		})
	}
}

// O-16: a step that comes late is not made good for.
func TestADrainSavesNothingUp(t *testing.T) {
	k := drain{}.knobs(towline.Knobs{DrainRate: 40, RelayBatch: 50})
	late := t0.Add(60 * second)
	d := drain{next: t0}.stepped(late, k)
	require.Equal(t, drain{next: late}, d)
	require.Equal(t, 10, d.room(late, 50, k))
	require.Zero(t, d.stepped(late, k).room(late.Add(k.every-1), 50, k))
}

// O-16: a drain that makes its backlog smaller keeps its rate. One that does not doubles it each minute, and ends.
func TestADrainThatGainsNothingGrows(t *testing.T) {
	k := towline.Knobs{DrainRate: 40, RelayBatch: 50}
	d := drain{next: t0}
	require.True(t, d.looks(t0))
	for i, c := range []struct{ due, step int }{{1000, 10}, {999, 10}, {999, 20}, {1200, 40}, {1199, 40}, {1199, 50}, {1199, 0}} {
		now := t0.Add(events.Span(i) * 60 * second)
		require.Equal(t, i == 0, d.looks(now-1))
		require.True(t, d.looks(now))
		d = d.looked(now, c.due, k)
		require.Equal(t, c.step != 0, d.limited())
		if c.step != 0 {
			require.Equal(t, c.step, d.knobs(k).step)
		}
	}
}

// O-16: without an outage there is no limit.
func TestWithoutADrainThereIsNoLimit(t *testing.T) {
	require.Equal(t, 50, drain{}.room(t0, 50, drain{}.knobs(towline.Knobs{DrainRate: 1, RelayBatch: 50})))
	require.Equal(t, 3, drain{next: t0}.room(t0, 3, drain{}.knobs(towline.Knobs{DrainRate: 40, RelayBatch: 50})))
}
