package towline_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// fragile is a sync whose lost workers are tried again so many times.
func fragile(retries int) towline.Sync {
	s := single("north")
	s.Datasets[0].Retry = towline.Retry{Max: retries, Backoff: 10 * time.Second}
	return s
}

// RW-8, HC-12, SC-357: three units run side by side in one process, and one of them kills it each time. It is exhausted
// after three attempts; its neighbours, which shared its first crashes, succeed.
func TestAUnitThatKillsItsProcessTakesNobodyWithIt(t *testing.T) {
	for killer := 1; killer <= 3; killer++ {
		w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{fragile(2)}, Knobs: daily(towline.Knobs{})}})
		p := w.plan(days("north", 3))
		started := map[int]int{}
		for lives := 1; w.run(p.Run).Status != events.RunPartialFailed; lives++ {
			require.Less(t, lives, 10)
			var running []towline.Lease
			dies := false
			w.deliver(func(l towline.Lease) { // all that can run does, before the first comes to its end
				started[l.Unit.Ordinal]++
				dies = dies || l.Unit.Ordinal == killer
				running = append(running, l)
			})
			for !dies && len(running) > 0 {
				l := running[0]
				running = running[1:]
				w.complete(l)
				w.deliver(func(next towline.Lease) {
					started[next.Unit.Ordinal]++
					dies = dies || next.Unit.Ordinal == killer
					running = append(running, next)
				})
			}
			if dies {
				w.crash()
				w.broker.take()
			}
			w.advance(10 * time.Second)
			w.pass()
		}
		require.Equal(t, 3, started[killer], "killer %d: %v", killer, started)
		for n := 1; n <= 3; n++ {
			u := w.unit(p.Run, n)
			if n == killer {
				require.Equal(t, events.WorkerLostExhausted, u.ErrorCategory)
				continue
			}
			require.Equal(t, events.UnitHasSucceeded, u.Status)
			require.LessOrEqual(t, started[n], 3)
		}
	}
}

// RW-8, HD-4, HD-6, B-6: suspects go one at a time, over all runs. One left aside is left over and shown behind whom it
// waits; other units go on; the settle of the one gives its place to the next.
func TestSuspectsWaitForEachOther(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{fragile(1)}, Knobs: daily(towline.Knobs{})}})
	a, b := w.started(days("north", 2)), w.started(days("north", 1))
	for _, p := range []towline.Planned{a, b} {
		for _, u := range w.units(p.Run) {
			w.claim(u.Unit)
		}
	}
	w.crash()
	healthy := w.plan(days("north", 1))
	w.advance(10 * time.Second)
	w.step()
	require.Equal(t, decider.DispatchDispatched, w.dispatch(a.Run))
	first, second, third := w.unit(a.Run, 1), w.unit(a.Run, 2), w.unit(b.Run, 1)
	require.Equal(t, []events.UnitStatus{events.UnitIsDispatching, events.UnitIsRetrying}, []events.UnitStatus{first.Status, second.Status})
	require.Equal(t, w.now.Now().Add(time.Minute), w.pending(a.Run, events.KindDispatch).AvailableAt, "HD-6: left over")
	require.Equal(t, decider.DispatchCapped, w.dispatch(b.Run), "of another run, too")
	require.Equal(t, decider.DispatchDispatched, w.dispatch(healthy.Run), "no suspect")
	behind := decider.Wait{Reason: decider.WaitCrashSuspect, Behind: first.Unit}
	require.True(t, first.Suspect && second.Suspect)
	require.False(t, w.unit(healthy.Run, 1).Suspect)
	require.Equal(t, behind, w.wait(second.Unit))
	require.Equal(t, behind, w.wait(third.Unit))

	w.complete(w.claim(w.unit(healthy.Run, 1).Unit)) // a slot is freed, and it is no suspect's
	require.Equal(t, events.UnitIsRetrying, w.unit(a.Run, 2).Status)
	lease := w.claim(first.Unit)
	require.Equal(t, behind, w.wait(second.Unit), "also while it runs")
	w.complete(lease)
	require.False(t, w.unit(a.Run, 1).Suspect, "until its next settle")
	require.Equal(t, events.UnitIsDispatching, w.unit(a.Run, 2).Status)
	w.complete(w.claim(second.Unit))
	require.Equal(t, events.UnitIsDispatching, w.unit(b.Run, 1).Status, "B-6: of the other run")
	w.complete(w.claim(third.Unit))
}

// RW-8, U-5: a suspect that nobody claims gives its turn away when it is stale, and cannot be claimed beside the next.
func TestAStaleSuspectGivesItsTurnAway(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{fragile(1)}, Knobs: daily(towline.Knobs{})}})
	p := w.started(days("north", 2))
	for _, u := range w.units(p.Run) {
		w.claim(u.Unit)
	}
	w.crash()
	w.advance(10 * time.Second)
	w.dispatch(p.Run)
	w.advance(15 * time.Minute) // the first is stale: it is taken again, as the first in order
	require.Equal(t, decider.DispatchDispatched, w.dispatch(p.Run))
	require.Equal(t, events.UnitIsRetrying, w.unit(p.Run, 2).Status)
	for range 3 {
		w.advance(15 * time.Minute)
		w.dispatch(p.Run)
	}
	require.Equal(t, events.UnitIsDispatching, w.unit(p.Run, 2).Status, "HD-3: often reclaimed, it goes last")
	first, second := w.unit(p.Run, 1), w.unit(p.Run, 2)
	_, err := w.e.Claim(t.Context(), first.Unit, towline.Worker{Name: "late"})
	require.ErrorIs(t, err, towline.ErrNotClaimable)
	w.complete(w.claim(second.Unit))
	w.complete(w.claim(first.Unit))
}

// RW-8, L-3: who is a suspect at work is folded from the log, and survives the process.
func TestSuspectsAreReadFromTheLog(t *testing.T) {
	w := openWorkshop(t, options{shared: true, config: towline.Config{Syncs: []towline.Sync{fragile(1)}, Knobs: daily(towline.Knobs{})}})
	p := w.started(days("north", 2))
	for _, u := range w.units(p.Run) {
		w.claim(u.Unit)
	}
	w.restart() // a clean stop that left them behind: in shared mode only this is known to be gone
	w.advance(10 * time.Second)
	w.dispatch(p.Run)
	w.claim(w.unit(p.Run, 1).Unit)
	w.e.ForgetMemory()
	require.Equal(t, decider.WaitCrashSuspect, w.wait(w.unit(p.Run, 2).Unit).Reason)
	require.Equal(t, decider.DispatchCapped, w.dispatch(p.Run))
}
