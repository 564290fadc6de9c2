package sim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/sink"
)

// G-18: the same seed gives the same log, byte for byte; another seed gives another one.
func TestTheSameSeedGivesTheSameLog(t *testing.T) {
	b := measure(t, small())
	run := func(seed uint64) (log []string) {
		v := judge(t.TempDir(), func(v *verdict) {
			s := b
			s.scenario.seed = seed
			w := s.world(v)
			require.NoError(v, w.Run(context.Background()))
			log = look(v, w).log
		})
		require.Empty(t, v.problems, "%s", v)
		return log
	}
	require.Equal(t, run(7), run(7))
	require.NotEqual(t, run(7), run(8))
}

// G-18, SC-355: fifty worlds, each with faults of its own at every port, are run twice. Both times they give the same log, byte
// for byte: the hashes are equal.
func TestFiftySeedsTwice(t *testing.T) {
	template := emptyStore(t)
	seeds := make([]uint64, 50)
	for i := range seeds {
		seeds[i] = uint64(i + 1)
	}
	if *seed != 0 {
		seeds = []uint64{*seed}
	}
	again := func(seed uint64) string {
		return fmt.Sprintf("go test ./sim -run 'TestFiftySeedsTwice$' -seed %d", seed)
	}
	logs := make([][2]string, len(seeds))
	enumerate(t, "seeds, each twice", 2*len(seeds), 1, func(v *verdict, i int) {
		s := small()
		s.seed = seeds[i/2]
		v.name = again(s.seed)
		b := baseline{scenario: s, template: template}
		c := b.config(v)
		c.Nodes, c.Broker = 1+int((s.seed-1)%3), s.seed%2 == 0
		c.Faults = chanceOf(s.seed)
		w := b.worldOf(v, c)
		v.ended(w.Run(context.Background()))
		log, err := w.Log(context.Background())
		require.NoError(v, err)
		reachLog(log)
		logs[i/2][i%2] = strings.Join(look(v, w).log, "\n")
	})
	for i, log := range logs {
		require.Equal(t, log[0], log[1], "the second time seed %d has gone another way: %s", seeds[i], again(seeds[i]))
	}
}

// chanceOf lets a call in twelve go wrong, in any way that its port knows, until so many have. What is refused for ever is
// parked, and here is nobody who redrives it.
func chanceOf(seed uint64) func(sim.Call) sim.Fault {
	chance := rand.New(rand.NewPCG(seed, 0))
	left := 12
	return func(c sim.Call) sim.Fault {
		const oneIn = 12
		if left == 0 || chance.IntN(oneIn) > 0 {
			return sim.Fault{}
		}
		left--
		kinds := slices.DeleteFunc(sim.FaultKinds(c.Port), func(k sim.FaultKind) bool { return k == sim.RefuseEver })
		return sim.Fault{How: kinds[chance.IntN(len(kinds))], For: time.Duration(chance.IntN(90)) * time.Second}
	}
}

// G-4, design 10.1: a kill is a kill. What a dead node still calls, because a deferred function runs or somebody has kept
// a part of it, has no effect, also when the next incarnation lives.
func TestADeadNodeHasNoEffect(t *testing.T) {
	var kept []sink.Sink
	s := small()
	s.syncs[0].Provider = provider.Func(func(ctx context.Context, u provider.Unit, to sink.Sink) (provider.Result, error) {
		kept = append(kept, to)
		return copyRows(ctx, u, to)
	})
	b := measure(t, s)
	beforeCommit := 0
	for _, at := range b.boundaries {
		if at.Port == sim.PortSink {
			beforeCommit = at.N
			break
		}
	}
	ctx := context.Background()
	v := judge(t.TempDir(), func(v *verdict) {
		kept = nil
		w := b.world(v, beforeCommit)
		require.ErrorIs(v, w.Live(ctx), sim.ErrDead)
		dead := w.Engine()
		fromTheGrave := func() {
			_, err := dead.Plan(ctx, towline.RunSpec{Sync: "traffic", Key: "from the grave"})
			require.ErrorIs(v, err, sim.ErrDead)
			require.ErrorIs(v, dead.Stop(ctx, "late"), sim.ErrDead)
			require.ErrorIs(v, dead.Log(ctx, 0, func(events.Envelope) error { return nil }), sim.ErrDead)
			require.Error(v, kept[0].Put(ctx, "codes", "late", map[string]any{}))
		}
		fromTheGrave()
		require.NoError(v, w.Bury())
		fromTheGrave()
		require.Empty(v, w.Outside().Destination.Places(), "nothing was committed")

		require.NoError(v, w.Run(ctx))
		head := len(look(v, w).log)
		fromTheGrave()
		require.Len(v, look(v, w).log, head)
		require.Equal(v, 2, len(w.Lives()))
	})
	require.Empty(t, v.problems, "%s", v)
}

// B-5, O-6, SC-354: the enumeration is worth what its scenario does. This is what it must do without a fault.
func TestTheScenarioDoesEverything(t *testing.T) {
	b := measure(t, whole())
	v := judge(t.TempDir(), func(v *verdict) {
		w := b.world(v)
		require.NoError(v, w.Run(context.Background()))
		log, err := w.Log(context.Background())
		require.NoError(v, err)
		counts := map[events.Type]int{}
		fold := check.New(check.Options{Keep: true, Settings: w.Settings()})
		running, waiting, wakeups := 0, 0, 0
		var tx []events.Envelope
		for i, env := range log {
			fold.Apply(env)
			tx = append(tx, env)
			counts[env.Event.EventType()]++
			if a, ok := env.Event.(events.OutboxArmed); ok {
				if _, k, _ := env.Stream.Register(); k == events.KindUnit {
					wakeups = max(wakeups, a.N)
				}
			}
			if i+1 < len(log) && log[i+1].Tx == env.Tx {
				continue
			}
			fold.EndTx()
			busy := 0
			for _, run := range fold.Runs() {
				busy += run.Units.Running
				requireNet(v, fold, run, tx)
			}
			tx = tx[:0]
			running = max(running, busy)
			for _, r := range fold.Registers() {
				if r.State == check.Claimed && r.Next != 0 {
					waiting++
				}
			}
		}
		require.GreaterOrEqual(v, running, 2, "units run at once")
		require.Positive(v, waiting, "a wish waits behind a claimed number (O-6)")
		require.GreaterOrEqual(v, wakeups, 4, "wakeups of one run_sync_unit register")
		require.GreaterOrEqual(v, counts[events.TypeUnitLeaseRenewed], 2)
		require.Positive(v, counts[events.TypeUnitRetryScheduled])
		require.Positive(v, counts[events.TypeOutboxDropped])
		require.Equal(v, 4, counts[events.TypePostSyncCompleted])
		require.Equal(v, 2, counts[events.TypeRunFinalized])
	})
	require.Empty(t, v.problems, "%s", v)
}

// requireNet: B-5, HD-6: behind the success of a reference unit, which opens a tier, its run has a dispatch wakeup open for
// the units that no free slot lets in.
func requireNet(v *verdict, fold *check.Checker, run check.Run, tx []events.Envelope) {
	opened := false
	for _, env := range tx {
		_, succeeded := env.Event.(events.UnitSucceeded)
		id, _ := env.Stream.Unit()
		for _, u := range fold.Units(run.ID) {
			opened = opened || succeeded && u.ID == id && u.Plan.Tier == events.TierReference
		}
	}
	if !opened || run.Units.Planned == 0 {
		return
	}
	for _, r := range fold.Registers() {
		if r.Owner == run.ID && r.Kind == events.KindDispatch {
			open := r.State == check.Pending || r.State == check.Claimed || r.Next != 0
			require.True(v, open, "B-5: run of %s has %d planned units behind position %d, and its dispatch register is %s",
				run.Sync, run.Units.Planned, tx[0].Position, r.State)
		}
	}
}
