package sim_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
)

// WHY-1, G-1: a world that does not come to its end says of each thing that is open what it waits for.
func TestAStrandedWorldSaysWhatItWaitsFor(t *testing.T) {
	s := small()
	s.knobs.ReconcileInterval = time.Hour // two days of passes are soon over
	b := baseline{scenario: s, template: emptyStore(t)}
	v := judge(t.TempDir(), func(v *verdict) {
		c := b.config(v)
		c.Faults = func(c sim.Call) sim.Fault {
			if c.Kind == events.KindUnit {
				return sim.Fault{How: sim.RefuseEver} // it is parked, and nobody redrives it
			}
			return sim.Fault{}
		}
		err := b.worldOf(v, c).Run(context.Background())
		require.ErrorIs(v, err, sim.ErrStranded)
		require.ErrorContains(v, err, "nothing has ended in 48h0m0s of waiting; this is open:\n")
		require.ErrorContains(v, err, "unit traffic 1 pier/codes: dispatching, waits for outbox_parked of run_sync_unit (permanent), which somebody must end")
		require.ErrorContains(v, err, "unit traffic 2 pier/counts: planned, waits for waiting_for_reference")
		require.ErrorContains(v, err, ": parked (permanent), which somebody must end")
	})
	require.Empty(t, v.problems, "%s", v)
}

// Design 10.1: a fault that the port of a call does not know would never happen, and what was to be tested with it would pass.
func TestAFaultThatItsPortDoesNotKnowIsRefused(t *testing.T) {
	for port, wrong := range map[sim.Port]sim.FaultKind{
		sim.PortCommit: sim.Refuse, sim.PortPublish: sim.Busy, sim.PortProvider: sim.Torn, sim.PortSink: sim.Full, sim.PortEffect: sim.Fail,
	} {
		b := baseline{scenario: small(), template: emptyStore(t)}
		v := judge(t.TempDir(), func(v *verdict) {
			c := b.config(v)
			c.Faults = func(c sim.Call) sim.Fault {
				if c.Port == port {
					return sim.Fault{How: wrong}
				}
				return sim.Fault{}
			}
			err := b.worldOf(v, c).Run(context.Background())
			require.ErrorContains(v, err, "Config.Faults: a call of port "+string(port)+" does not meet \""+string(wrong)+"\": return one of ")
		})
		require.Empty(t, v.problems, "%s", v)
	}
}
