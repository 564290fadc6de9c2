package towline_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
)

// limited settles an attempt as limited by its provider.
func (w *workshop) limited(l towline.Lease, after time.Duration, account string) {
	w.t.Helper()
	w.must(w.e.Settle(context.Background(), l, towline.Failed{
		Category: events.RateLimit, Text: "429 slow down", After: after, Account: account, Result: events.Result{Rows: 7},
	}))
}

func (w *workshop) cooldowns() (out []projections.Cooldown) {
	w.t.Helper()
	w.view(func(v projections.View) {
		var err error
		out, err = v.Cooldowns(w.e.Now())
		require.NoError(w.t, err)
	})
	return out
}

// U-9, RL-1, RL-4, SC-262, SC-263, SC-274: a rate limit schedules the unit for the time that the provider asks for, else in
// a minute, with what the attempt has reported; nothing fails, and the wake is in the same transaction.
func TestARateLimitSchedulesTheUnit(t *testing.T) {
	for name, tt := range map[string]struct{ after, want time.Duration }{"it says": {30 * time.Second, 30 * time.Second}, "it does not": {0, time.Minute}} {
		t.Run(name, func(t *testing.T) {
			w := newWorkshop(t, single("north"))
			p := w.started(towline.RunSpec{Sync: "north"})
			lease := w.claim(w.unit(p.Run, 1).Unit)
			before := w.head()
			w.limited(lease, tt.after, "")
			due := start.Add(tt.want)
			log := w.since(before)
			oneTx(t, log)
			require.Equal(t, []string{"UnitRetryScheduled", "OutboxArmed"}, enginetest.Types(log))
			retry := log[0].Event.(events.UnitRetryScheduled)
			require.Equal(t, events.RateLimit, retry.Cause)
			require.Equal(t, "press/north", retry.CooldownKey)
			require.Equal(t, events.MicrosOf(due), retry.CooldownUntil)
			require.Equal(t, events.Result{Rows: 7}, retry.Result)
			u := w.unit(p.Run, 1)
			require.Equal(t, events.UnitIsRetrying, u.Status)
			require.Equal(t, 1, u.RateLimitDeferrals)
			require.Equal(t, start, u.RateLimitFirstAt)
			require.Equal(t, due, u.AvailableAt)
			require.Equal(t, due, w.pending(p.Run, events.KindDispatch).AvailableAt)
			require.Equal(t, []projections.Cooldown{{Key: "press/north", Until: due, Unit: u.Unit, Provider: "press", Source: "north"}}, w.cooldowns())
			w.advance(tt.want)
			require.Empty(t, w.cooldowns())
			w.deliver(w.complete)
			require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
		})
	}
}

// RL-2, U-20, SC-264, SC-265: ten deferrals, or two hours, and the unit fails under a category of its own; the knobs say how
// many and how long.
func TestTheBudgetOfARateLimit(t *testing.T) {
	for name, tt := range map[string]struct {
		knobs     towline.Knobs
		after     time.Duration
		deferrals int
		ends      time.Duration
	}{
		"number":          {towline.Knobs{}, time.Second, 10, 10 * time.Second},
		"time":            {towline.Knobs{}, 50 * time.Minute, 3, 2 * time.Hour},
		"one long wait":   {towline.Knobs{}, 24 * time.Hour, 1, 2 * time.Hour},
		"number, a knob":  {towline.Knobs{RateLimitMaxDeferrals: 2, RateLimitDefaultWait: 5 * time.Second}, 0, 2, 10 * time.Second},
		"time, a knob":    {towline.Knobs{RateLimitMaxWait: time.Minute}, time.Hour, 1, time.Minute},
		"none, by a knob": {towline.Knobs{RateLimitMaxDeferrals: -1}, time.Second, 0, 0},
		"no time at all":  {towline.Knobs{RateLimitMaxWait: -1}, time.Second, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: tt.knobs}})
			p := w.plan(towline.RunSpec{Sync: "north"})
			deferrals := 0
			for range 20 {
				w.deliver(func(l towline.Lease) { w.limited(l, tt.after, "") })
				u := w.unit(p.Run, 1)
				if u.Status != events.UnitIsRetrying {
					break
				}
				deferrals++
				require.Equal(t, deferrals, u.RateLimitDeferrals)
				w.advance(u.AvailableAt.Sub(w.now.Now()))
			}
			u := w.unit(p.Run, 1)
			require.Equal(t, events.UnitHasFailed, u.Status)
			require.Equal(t, events.RateLimitExhausted, u.ErrorCategory)
			require.Equal(t, "429 slow down", u.ErrorText)
			require.Equal(t, tt.deferrals, deferrals)
			require.Equal(t, start.Add(tt.ends), u.SettledAt)
		})
	}
}

// two is a sync of two sources, each of one dataset, and room for one unit of it at a time.
func two(t *testing.T) *workshop {
	t.Helper()
	return openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{reports()}, Knobs: daily(towline.Knobs{CapRun: 2})}})
}

// RL-5, HD-3, HD-6, SC-269, SC-270, SC-272: while an account is left alone its units wait, lose no budget and are shown; the
// wake is at the end, with cause cooldown. Other keys go on. Behind it they go, within the caps.
func TestUnitsOfALimitedAccountWait(t *testing.T) {
	w := two(t)
	p := w.started(days("reports", 3)) // north 1 to 3, south 4 to 6
	unit := func(n int) events.UnitID { return w.unit(p.Run, n).Unit }
	w.limited(w.claim(unit(1)), time.Hour, "")
	require.Equal(t, events.UnitIsDispatching, w.unit(p.Run, 4).Status, "B-6: the slot goes to another account")
	w.complete(w.claim(unit(2))) // it was dispatched before
	for n := 4; n <= 6; n++ {
		w.complete(w.claim(unit(n)))
	}
	require.Equal(t, []events.UnitStatus{events.UnitIsRetrying, events.UnitHasSucceeded, events.UnitIsPlanned},
		[]events.UnitStatus{w.unit(p.Run, 1).Status, w.unit(p.Run, 2).Status, w.unit(p.Run, 3).Status})
	end := events.MicrosOf(start.Add(time.Hour))
	for _, n := range []int{1, 3} {
		require.Equal(t, decider.Wait{Reason: decider.WaitCooldown, At: end, On: "press/north"}, w.wait(unit(n)))
	}
	w.broker.take()
	before := w.head()
	for range 3 { // the net of before comes due, and finds nothing
		w.advance(time.Minute)
		w.pass()
	}
	require.Equal(t, decider.DispatchDeferred, w.dispatch(p.Run))
	require.Empty(t, armedFor(w.since(before), events.ArmMaterialized), "REC-7")
	require.Empty(t, enginetest.Only[events.UnitDispatched](w.since(before)))
	require.Equal(t, end.Time(), w.pending(p.Run, events.KindDispatch).AvailableAt)

	w.advance(end.Time().Sub(w.now.Now()) - time.Microsecond)
	require.Equal(t, decider.DispatchDeferred, w.dispatch(p.Run))
	w.advance(time.Microsecond)
	w.pass()
	w.deliver(w.complete)
	require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
	require.Zero(t, w.unit(p.Run, 3).RateLimitDeferrals)
}

// RL-5, HD-6: units of other runs wait for the same account, and are armed at the end of its latest cooldown, with cause
// cooldown; a net that was armed before moves there by itself.
func TestOtherRunsWaitForTheSameAccount(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: daily(towline.Knobs{CapRun: 1})}})
	a := w.started(days("north", 2))
	b := w.plan(days("north", 1))
	c := w.plan(days("north", 1))
	w.limited(w.claim(w.unit(a.Run, 1).Unit), 10*time.Minute, "")
	require.Equal(t, decider.DispatchDeferred, w.dispatch(b.Run), "SC-271: a cooldown of the commit before counts")
	w.step() // the wakeup of c, whose obligation is gone for now
	for _, run := range []events.RunID{b.Run, c.Run} {
		r := w.pending(run, events.KindDispatch)
		require.Equal(t, start.Add(10*time.Minute), r.AvailableAt)
	}
	require.Contains(t, armedFor(w.since(0), events.ArmCooldown), c.Run)

	w.advance(10 * time.Minute)
	w.dispatch(a.Run)
	w.limited(w.claim(w.unit(a.Run, 1).Unit), time.Hour, "") // again, and longer
	w.step()
	for _, run := range []events.RunID{b.Run, c.Run} {
		require.Equal(t, start.Add(70*time.Minute), w.pending(run, events.KindDispatch).AvailableAt)
	}
	w.advance(time.Hour)
	w.pass()
	w.deliver(w.complete)
	for _, p := range []towline.Planned{a, b, c} {
		require.Equal(t, events.RunSucceeded, w.run(p.Run).Status)
	}
	require.Empty(t, armedFor(w.since(0), events.ArmMaterialized))
}

// RL-4, RL-5: a provider may name the account. Sources that have reported it share its cooldowns, whoever reports the next;
// a source that has not is not known to share it.
func TestSourcesShareAnAccountThatTheProviderNames(t *testing.T) {
	s := reports()
	s.Sources = []string{"east", "north", "south"}
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{s}, Knobs: daily(towline.Knobs{})}})
	p := w.started(days("reports", 2)) // east 1, 2; north 3, 4; south 5, 6
	lease := func(n int) towline.Lease { return w.claim(w.unit(p.Run, n).Unit) }
	w.limited(lease(3), time.Second, "token of ada")
	w.limited(lease(5), time.Second, "token of ada")
	w.advance(time.Second)
	require.Equal(t, decider.DispatchDispatched, w.dispatch(p.Run))
	w.limited(lease(3), time.Hour, "token of ada")
	more := w.plan(days("reports", 1))
	require.Equal(t, decider.DispatchDispatched, w.dispatch(more.Run))
	require.Equal(t, events.UnitIsDispatching, w.unit(more.Run, 1).Status, "east")
	end := events.MicrosOf(start.Add(time.Second + time.Hour))
	for n := 2; n <= 3; n++ {
		require.Equal(t, decider.Wait{Reason: decider.WaitCooldown, At: end, On: "press/token of ada"}, w.wait(w.unit(more.Run, n).Unit))
	}
	require.Len(t, w.cooldowns(), 2, "one key, two sources")
	w.crash()
	require.Equal(t, decider.WaitCooldown, w.wait(w.unit(more.Run, 3).Unit).Reason, "it survives the process")
}

// RL-4: the name of an account is bounded and cleaned like every text of a provider.
func TestTheNameOfAnAccountIsBounded(t *testing.T) {
	w := newWorkshop(t, single("north"))
	p := w.started(towline.RunSpec{Sync: "north"})
	w.limited(w.claim(w.unit(p.Run, 1).Unit), time.Second, strings.Repeat("x", 1000)+"\xff")
	require.LessOrEqual(t, len(w.cooldowns()[0].Key), len("press/")+200)
}

// U-19, SC-268: a rate limit that comes behind the end of the lease is refused: no counter moves, and no cooldown begins.
func TestALateRateLimitCoolsNothing(t *testing.T) {
	w := newWorkshop(t, single("north"))
	p := w.started(towline.RunSpec{Sync: "north"})
	lease := w.claim(w.unit(p.Run, 1).Unit)
	w.advance(time.Minute)
	err := w.e.Settle(context.Background(), lease, towline.Failed{Category: events.RateLimit, After: time.Hour})
	require.ErrorIs(t, err, towline.ErrLeaseLost)
	require.Zero(t, w.unit(p.Run, 1).RateLimitDeferrals)
	require.Empty(t, w.cooldowns())
}

// RL-5, L-3: a transaction that is undone takes its cooldown back, also one that had prolonged another.
func TestAnUndoneCooldownHoldsNothing(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: daily(towline.Knobs{CapRun: 2})}})
	p := w.started(days("north", 3))
	first, second := w.claim(w.unit(p.Run, 1).Unit), w.claim(w.unit(p.Run, 2).Unit)
	undone := func(l towline.Lease) {
		t.Helper()
		w.store.failExec = "INSERT INTO cooldown_sources"
		err := w.e.Settle(context.Background(), l, towline.Failed{Category: events.RateLimit, After: time.Hour, Account: "other"})
		require.ErrorIs(t, err, errPlanted)
		w.store.failExec = ""
		differences, err := w.e.CompareMemory(context.Background())
		require.NoError(t, err)
		require.Empty(t, differences)
	}
	undone(first)
	require.NotEqual(t, decider.WaitCooldown, w.wait(w.unit(p.Run, 3).Unit).Reason)
	w.limited(first, time.Minute, "")
	undone(second)
	require.Equal(t, events.MicrosOf(start.Add(time.Minute)), w.wait(w.unit(p.Run, 3).Unit).At)
}

// RL-5, SC-273: a far reset time fails the unit that met it at the end of its budget; its siblings wait that long, and are
// not failed for it.
func TestSiblingsOutliveAFarResetTime(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{single("north")}, Knobs: daily(towline.Knobs{CapRun: 1})}})
	p := w.started(days("north", 2))
	w.limited(w.claim(w.unit(p.Run, 1).Unit), 30*24*time.Hour, "")
	w.advance(2 * time.Hour)
	w.broker.take()
	w.pass()
	w.deliver(func(l towline.Lease) {
		if l.Unit.Ordinal == 1 {
			w.limited(l, 30*24*time.Hour, "")
			return
		}
		w.complete(l)
	})
	require.Equal(t, events.RateLimitExhausted, w.unit(p.Run, 1).ErrorCategory)
	require.Equal(t, events.UnitHasSucceeded, w.unit(p.Run, 2).Status)
	require.Equal(t, events.RunPartialFailed, w.run(p.Run).Status)
}

// P-9, B-6, RL-5: a tier that opens under a cooldown leaves somebody to wake its units at the end.
func TestATierThatOpensUnderACooldownIsWoken(t *testing.T) {
	w := newWorkshop(t, tiered())
	p := w.started(towline.RunSpec{Sync: "tracker", Sources: []string{"a"}})
	other := w.started(towline.RunSpec{Sync: "tracker", Sources: []string{"a"}})
	reference := w.claim(w.unit(p.Run, 1).Unit)
	w.limited(w.claim(w.unit(other.Run, 1).Unit), 20*time.Second, "") // the same account
	w.complete(reference)
	require.Equal(t, start.Add(20*time.Second), w.pending(p.Run, events.KindDispatch).AvailableAt)
	require.Contains(t, armedFor(w.since(0), events.ArmCooldown), p.Run)
	require.Equal(t, decider.WaitReference, w.wait(w.unit(other.Run, 2).Unit).Reason)
	require.Equal(t, w.unit(other.Run, 1).Unit, w.wait(w.unit(other.Run, 2).Unit).Behind)
}
