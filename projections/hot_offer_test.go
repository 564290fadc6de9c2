package projections_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// telling folds hand-written events into a hot view, and counts how often the cap of a bucket is asked for.
type telling struct {
	hot    *projections.Hot
	folds  map[events.StreamID]decider.State
	at     events.Position
	now    events.Micros
	looked int
}

func newTelling(capBucket int) *telling {
	w := &telling{folds: map[events.StreamID]decider.State{}, now: 1}
	w.hot = projections.NewHot(projections.HotKnobs{StaleAfter: 1000, CapEngine: 100, CapBucket: func(events.Bucket) int {
		w.looked++
		return capBucket
	}})
	return w
}

func (w *telling) happens(id events.StreamID, e events.Event) {
	w.at++
	before, ok := w.folds[id]
	if !ok {
		before = decider.Zero(id)
	}
	env := events.Envelope{Position: w.at, Tx: w.at, Stream: id, At: w.now, Event: e}
	w.folds[id] = decider.Evolve(before, env)
	w.hot.Apply(env, before, w.folds[id])
}

// run plans a run of one source, with a unit for each tier given.
func (w *telling) run(n byte, provider string, tiers ...events.Tier) (run events.RunID, units []events.UnitID) {
	run = events.RunID{0: n}
	w.happens(events.RunStream(run), events.RunPlanned{TotalUnits: len(tiers), Policy: events.Policy{RunCap: 10}})
	for i, tier := range tiers {
		id := events.UnitID{0: n, 14: byte(i >> 8), 15: byte(i)}
		w.happens(events.UnitStream(id), events.UnitPlanned{
			Run: run, Ordinal: i + 1, Source: "s", Provider: provider, Tier: tier, Cost: events.CostMedium,
		})
		units = append(units, id)
	}
	return run, units
}

func (w *telling) dispatched(unit events.UnitID) {
	w.happens(events.UnitStream(unit), events.UnitDispatched{Dispatch: 1, Wakeup: 1, Attempt: 1})
}

// looks is how often fn asks for the cap of a bucket.
func (w *telling) looks(fn func()) int {
	before := w.looked
	fn()
	return w.looked - before
}

// B-6, HD-4: whether a free slot lets a unit in is counted, not walked: the answer for the usual state, everything full,
// looks at each bucket of each run once, however many units wait in it. Every settle asks for it, in the one writer.
func TestWhetherThereIsRoomIsNoWalk(t *testing.T) {
	const now, many = 2, 300
	w := newTelling(1)
	tiers := []events.Tier{events.TierReference}
	for range many {
		tiers = append(tiers, events.TierWorkItem)
	}
	blocked, units := w.run(1, "p", tiers...)
	w.dispatched(units[0]) // its source waits behind it
	for n := range byte(5) {
		_, full := w.run(2+n, "q", tiers[1:]...)
		if n == 0 {
			w.dispatched(full[0])
		}
	}
	require.LessOrEqual(t, w.looks(func() {
		_, ok := w.hot.OldestWithRoom(now)
		require.False(t, ok)
	}), 2, "the buckets")
	require.LessOrEqual(t, w.looks(func() { require.False(t, w.hot.Fits(events.RunID{0: 2}, now)) }), 1)
	require.LessOrEqual(t, w.looks(func() { require.False(t, w.hot.Fits(blocked, now)) }), 1)

	w.happens(events.UnitStream(units[0]), events.UnitSucceeded{Attempt: 1})
	require.True(t, w.hot.Fits(blocked, now), "P-9: the tier is open")
	w.dispatched(units[1])
	require.LessOrEqual(t, w.looks(func() {
		_, ok := w.hot.OldestWithRoom(now)
		require.False(t, ok)
	}), 2)
	require.Empty(t, w.hot.Miscounted(now))
}

// B-6, B-1, U-3, U-4: what the clock alone puts on offer is counted too: a retry when it is due, and a dispatched unit
// when it is stale; each of them until it is dispatched again.
func TestTheClockOffersRetriesAndStaleUnits(t *testing.T) {
	w := newTelling(1)
	run, units := w.run(1, "p", events.TierWorkItem)
	stream := events.UnitStream(units[0])
	offered := func(now events.Micros, want bool) {
		t.Helper()
		require.Equal(t, want, w.hot.Fits(run, now))
		require.Equal(t, want, w.hot.Owing(w.folds[events.RunStream(run)].(decider.Run), 0, now).Dispatchable)
		require.Empty(t, w.hot.Miscounted(now))
	}
	offered(1, true)
	w.dispatched(units[0])
	offered(1000, false)
	offered(1001, true) // stale
	w.now = 1001
	w.dispatched(units[0])
	w.happens(stream, events.UnitClaimed{Attempt: 1, LeaseExpiresAt: 1500, LeaseEndsAt: 1500})
	offered(1001, false)
	offered(1500, false) // the lease has ended: its unit is not dispatched before somebody has decided what follows
	w.happens(stream, events.UnitRetryScheduled{Attempt: 1, AvailableAt: 1600})
	offered(1599, false)
	offered(1600, true)
	w.now = 1600
	w.dispatched(units[0])
	offered(1600, false)
	offered(2600, true)
}

// RL-5, B-6: what holds a source takes its units off offer as a whole, and puts them on again; asking whether
// there is room still looks at buckets, never at what waits behind a pause, a cooldown or a closed tier.
func TestWhatIsHeldIsNotOnOffer(t *testing.T) {
	const many = 300
	w := newTelling(1000)
	var tiers []events.Tier
	for range many {
		tiers = append(tiers, events.TierWorkItem)
	}
	run, units := w.run(1, "p", tiers...)
	for n := range byte(5) {
		w.run(2+n, "p", tiers...)
	}
	source, engine := events.SourceControlStream("s"), events.EngineControlStream()
	offered := func(now events.Micros, want bool) {
		t.Helper()
		require.LessOrEqual(t, w.looks(func() {
			_, ok := w.hot.OldestWithRoom(now)
			require.Equal(t, want, ok)
			require.Equal(t, want, w.hot.Fits(run, now))
		}), 3)
		require.Equal(t, want, w.hot.Owing(w.folds[events.RunStream(run)].(decider.Run), 0, now).Dispatchable)
		n := 0
		for range w.hot.Waiting(run, now).InOrder() {
			n++
		}
		require.Equal(t, want, n > 0)
		require.Empty(t, w.hot.Miscounted(now))
	}
	offered(1, true)
	w.happens(source, events.SourcePaused{Actor: "ada"})
	offered(1, false)
	w.happens(engine, events.EnginePaused{Actor: "ada"})
	w.happens(source, events.SourceResumed{Actor: "ada"})
	offered(1, false)
	w.happens(engine, events.EngineResumed{Actor: "ada"})
	offered(1, true)

	w.dispatched(units[0])
	w.happens(events.UnitStream(units[0]), events.UnitClaimed{Attempt: 1, LeaseExpiresAt: 500, LeaseEndsAt: 500})
	w.happens(events.UnitStream(units[0]), events.UnitRetryScheduled{
		Attempt: 1, Cause: events.RateLimit, AvailableAt: 100, CooldownKey: "p/s", CooldownUntil: 100,
	})
	offered(99, false)
	require.Equal(t, decider.Later{At: 100, Cause: events.ArmCooldown}, w.hot.Later(run, 99))
	offered(100, true)
	require.Zero(t, w.hot.Later(run, 100))
}
