package towline_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
)

// CFG-3, CFG-2, B-7: a reload is one event with its difference, and the next decision goes by it: a raised cap lets waiting
// units in at once, a lowered one stops new dispatch only. Memory, views and checker agree with the log all the while.
func TestAReloadChangesTheNextDecision(t *testing.T) {
	ctx := context.Background()
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{reports()}, Knobs: towline.Knobs{CapEngine: 1}}})
	p := w.started(towline.RunSpec{Sync: "reports"})
	dispatching := func() (n int) {
		for i := 1; i <= p.Units; i++ {
			if w.unit(p.Run, i).Status == events.UnitIsDispatching {
				n++
			}
		}
		return n
	}
	require.Equal(t, 1, dispatching())
	require.Greater(t, p.Units, 1)

	before := w.head()
	by := towline.Actor{Name: "SIGHUP"}
	raised := towline.Knobs{CapEngine: 64, CapBuckets: map[events.Bucket]int{"press/medium": 8}}
	require.NoError(t, w.e.Reload(ctx, raised, by))
	log := w.since(before)
	require.Equal(t, events.NodeConfigChanged{
		Changed: json.RawMessage(`{"cap.buckets":{"press/medium":8},"cap.engine":64}`), Actor: "SIGHUP",
	}, log[0].Event)
	require.Equal(t, "SIGHUP", log[0].Actor)
	w.pass() // the register was armed for now
	w.dispatch(p.Run)
	require.Equal(t, p.Units, dispatching())

	before = w.head()
	require.NoError(t, w.e.Reload(ctx, towline.Knobs{CapEngine: 1}, by))
	require.Equal(t, json.RawMessage(`{"cap.engine":1}`), w.since(before)[0].Event.(events.NodeConfigChanged).Changed, "a bucket that lost its own cap has the common one, by name")
	require.Equal(t, p.Units, dispatching())

	before = w.head()
	require.NoError(t, w.e.Reload(ctx, towline.Knobs{CapEngine: 1}, by))
	require.Empty(t, w.since(before), "nothing differs")
	w.verify()
	w.restart()
	w.verify()
}

// CFG-3: a value that is out of bounds changes nothing at all, and neither does nobody.
func TestAReloadThatIsRefused(t *testing.T) {
	w := newWorkshop(t, reports())
	before, knobs := w.head(), w.e.Knobs()
	require.ErrorContains(t, w.e.Reload(context.Background(), towline.Knobs{Lease: time.Minute, CapRun: -1}, towline.Actor{Name: "ada"}), "cap.run is -1: want at least 1")
	require.ErrorIs(t, w.e.Reload(context.Background(), towline.Knobs{CapRun: 3}, towline.Actor{}), towline.ErrInvalid)
	require.Equal(t, knobs, w.e.Knobs())
	require.Empty(t, w.since(before))
}

// CFG-3, L-3: a reload whose commit is lost was never in force: the transaction behind it, which may run before the caller
// hears of the failure, goes by the values on record.
func TestALostReloadWasNeverInForce(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{reports()}, Knobs: towline.Knobs{CapEngine: 1}}})
	before, knobs := w.head(), w.e.Knobs()
	var run events.RunID
	w.store.after = func() {
		require.Equal(t, knobs, w.e.Knobs())
		run = w.started(towline.RunSpec{Sync: "reports"}).Run
	}
	w.store.lose = errPlanted
	require.ErrorIs(t, w.e.Reload(context.Background(), towline.Knobs{CapEngine: 64}, ada), errPlanted)
	require.Equal(t, knobs, w.e.Knobs())
	require.Empty(t, enginetest.Only[events.NodeConfigChanged](w.since(before)))
	require.Equal(t, events.UnitIsDispatching, w.unit(run, 1).Status)
	require.Equal(t, events.UnitIsPlanned, w.unit(run, 2).Status, "the cap is still 1")
	w.verify()

	require.NoError(t, w.e.Reload(context.Background(), towline.Knobs{CapEngine: 64}, ada))
	w.store.lose = errPlanted // of a later commit: the reload is on disk
	require.ErrorIs(t, w.e.PauseEngine(context.Background(), ada), errPlanted)
	require.Equal(t, 64, w.e.Knobs().CapEngine)
}

// CFG-3: of two reloads at a time the second is the difference to the first, so that the log says what is in force.
func TestTwoReloadsAtATime(t *testing.T) {
	w := newWorkshop(t, reports())
	ctx, before := context.Background(), w.head()
	w.store.before = func() {
		require.NoError(t, w.e.Reload(ctx, towline.Knobs{CapBuckets: map[events.Bucket]int{"press/medium": 2}}, ada))
	}
	require.NoError(t, w.e.Reload(ctx, towline.Knobs{CapRun: 3}, ada))
	changes := enginetest.Only[events.NodeConfigChanged](w.since(before))
	require.Len(t, changes, 2)
	require.JSONEq(t, `{"cap.buckets":{"press/medium":8},"cap.run":3}`, string(changes[1].Changed))
	w.verify()
}
