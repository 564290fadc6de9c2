package docs_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/transport"
)

// beginAgain cancels a run, and runs again what did not succeed of it.
func beginAgain(ctx context.Context, e *towline.Engine, run events.RunID, by towline.Actor) (towline.Planned, error) {
	if err := e.CancelRun(ctx, run, by); err != nil {
		return towline.Planned{}, err
	}
	return e.RetryFailed(ctx, towline.RetrySpec{Run: run, Cancelled: true, By: by})
}

// endWaits ends what waits for a person: it publishes what is parked, and says of every post_sync that nobody knows of
// what arrived found out.
func endWaits(ctx context.Context, e *towline.Engine, by towline.Actor, arrived func(run events.RunID, target string) events.Resolution) error {
	var held []projections.Register
	err := e.View(ctx, func(v projections.View) (err error) {
		held, err = v.HeldRegisters(100)
		return err
	})
	for _, r := range held {
		if r.Status == decider.RegisterParked && err == nil {
			err = e.Redrive(ctx, r.Key(), by)
		}
		for _, o := range r.Outcomes {
			if r.Status == decider.RegisterUnresolved && o.Outcome == events.Unknown && err == nil {
				err = e.Resolve(ctx, r.Key(), o.Target, arrived(r.Owner, o.Target), by)
			}
		}
	}
	return err
}

// O-17, O-18, X-1, X-6: what the document says of stepping in is what happens.
func TestSteppingIn(t *testing.T) {
	by := towline.Actor{Name: "ada", Reason: "a look at it"}
	asked := make(chan struct{}, 1)
	silent := moody{nil, "silent", func(transport.Notice) transport.Receipt {
		asked <- struct{}{}
		return transport.Unknown(errMood)
	}}
	sync := readings(destination(t, filepath.Join(t.TempDir(), "readings.db")), writes)
	sync.PostSync.Targets = []towline.Target{{Name: "report"}}
	c := node.Config{
		Store: filepath.Join(t.TempDir(), "towline.db"), Syncs: []node.Sync{sync},
		Routes: map[events.Kind]transport.Publisher{events.KindPostSync: silent},
	}
	held := func(n *node.Node) (held []projections.Register) {
		require.NoError(t, n.Engine().View(t.Context(), func(v projections.View) (err error) {
			held, err = v.HeldRegisters(10)
			return err
		}))
		return held
	}

	n := open(t, c)
	stopped := plan(t, n, towline.RunSpec{Sync: "readings"})
	again, err := beginAgain(t.Context(), n.Engine(), stopped.Run, by)
	require.NoError(t, err)
	require.Equal(t, stopped.Units, again.Units)
	require.NoError(t, n.Engine().Park(t.Context(), towline.RegisterKey{Owner: again.Run, Kind: events.KindDispatch}, by))
	require.Len(t, held(n), 1)
	require.NoError(t, endWaits(t.Context(), n.Engine(), by, nil))
	require.Empty(t, held(n))
	while(t, n, func() {
		run, err := n.Engine().Wait(t.Context(), again.Run)
		require.NoError(t, err)
		require.Equal(t, events.RunSucceeded, run.Status)
		<-asked
	})

	n = open(t, c)
	require.Len(t, held(n), 1)
	require.NoError(t, endWaits(t.Context(), n.Engine(), by, func(run events.RunID, target string) events.Resolution {
		require.Equal(t, again.Run, run)
		require.Equal(t, "report", target)
		return events.ResolvedLost
	}))
	require.Empty(t, held(n))
}
