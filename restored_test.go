package towline_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store/sqlite"
)

// backup copies the store as it is now.
func (w *workshop) backup() string {
	w.t.Helper()
	to := filepath.Join(w.t.TempDir(), "copy.db")
	_, err := sqlite.Backup(context.Background(), w.o.path, to, sqlite.BackupOptions{})
	require.NoError(w.t, err)
	return to
}

// restore puts a copy in the place of the store, and starts an engine on it.
func (w *workshop) restore(from string) {
	w.t.Helper()
	require.NoError(w.t, w.file.Close())
	_, err := sqlite.Restore(context.Background(), from, w.o.path, sqlite.RestoreOptions{Now: w.now.Now})
	require.NoError(w.t, err)
	require.NoError(w.t, w.open())
}

func (w *workshop) releaseHold() bool {
	w.t.Helper()
	released, err := w.e.ReleaseHold(context.Background(), ada)
	require.NoError(w.t, err)
	return released
}

func (w *workshop) hold() (towline.Hold, bool) {
	w.t.Helper()
	h, held, err := w.e.Hold(context.Background())
	require.NoError(w.t, err)
	return h, held
}

// DUR-5, WHY-2, SC-358: a restored store says StoreRestored before it decides anything, shows what it would send, and sends
// nothing and hands nothing out, over restarts, until an operator says so; then all of it goes on, and fences lie above those
// of its earlier life.
func TestARestoredStoreHoldsWhatItWouldSend(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	first, second := w.claim(w.unit(p.Run, 1).Unit), w.unit(p.Run, 2).Unit
	waiting := w.plan(towline.RunSpec{Sync: "reports"})
	from, head := w.backup(), w.head()
	lost := w.plan(towline.RunSpec{Sync: "reports"})
	w.broker.take()
	w.restore(from)

	behind := w.since(head)
	require.IsType(t, events.NodeStarted{}, behind[0].Event)
	require.Equal(t, events.StoreRestored{Epoch: 2, Head: head}, behind[1].Event)
	require.Equal(t, behind[0].Position, behind[1].Tx)
	for range 2 { // a restart ends no hold, and no second life begins with it
		require.Equal(t, []string{towline.RestoredHold}, w.conditions())
		hold, held := w.hold()
		require.True(t, held)
		require.Equal(t, head, hold.Head)
		require.Positive(t, hold.Waiting[events.KindDispatch])
		require.Zero(t, w.pass().Claimed)
		require.Zero(t, w.step().Claimed)
		w.advance(2 * time.Hour)
		require.Zero(t, w.pass().NextDue, "nothing comes due, so no loop turns")
		require.Empty(t, w.broker.take())
		why := w.why("outbox/" + waiting.Run.String() + "/" + string(events.KindDispatch))
		require.Equal(t, decider.WaitRestoredHold, why.Reason.Why)
		require.Equal(t, behind[1].Position, why.Evidence.Position)
		_, err := w.e.Claim(context.Background(), second, towline.Worker{Name: "api", Remote: true})
		require.ErrorIs(t, err, towline.ErrRestoredHold)
		require.ErrorIs(t, err, towline.ErrNotClaimable)
		_, found, err := w.e.ClaimNext(context.Background(), towline.Worker{Name: "api", Remote: true}, nil)
		require.NoError(t, err)
		require.False(t, found)
		w.restart()
	}
	w.view(func(v projections.View) {
		_, found, err := v.Run(lost.Run)
		require.NoError(t, err)
		require.False(t, found, "what has happened behind the copy is not known")
	})
	accepted := w.plan(towline.RunSpec{Sync: "reports"}) // triggers are accepted meanwhile
	require.True(t, w.releaseHold())
	require.False(t, w.releaseHold(), "there is nothing left to release")
	_, held := w.hold()
	require.False(t, held)
	require.Empty(t, w.conditions())
	w.verify()
	higher := 0
	w.deliver(func(l towline.Lease) {
		require.Greater(t, l.Fence, first.Fence)
		higher++
		w.complete(l)
	})
	require.Positive(t, higher)
	require.Equal(t, events.RunSucceeded, w.run(waiting.Run).Status)
	require.Equal(t, events.RunSucceeded, w.run(accepted.Run).Status)
	for _, m := range w.posts {
		require.Regexp(t, `\.e2$`, m.id, "K-3: no broker knows it from the earlier life")
		require.NotContains(t, m.notice.Post.Generation, ".e", "K-4: consumers do")
	}
	require.Len(t, w.posts, 3)
}

// DUR-5: an API worker that was at work when the copy was made reports to the restored store, in the hold.
func TestALeaseOutlivesARestore(t *testing.T) {
	w := newWorkshop(t)
	p := w.started(towline.RunSpec{Sync: "reports"})
	l, err := w.e.Claim(context.Background(), w.unit(p.Run, 1).Unit, towline.Worker{Name: "api", Remote: true})
	require.NoError(t, err)
	w.restore(w.backup())
	_, err = w.e.Renew(context.Background(), l)
	require.NoError(t, err)
	w.complete(l)
	require.Equal(t, events.UnitHasSucceeded, w.unit(p.Run, 1).Status)
}

// O-17, O-S10, HP-1, SC-358: a post_sync that waits in a restored hold may have been sent in the earlier life. With the word of an
// operator it is closed, for whatever targets, and never sent; a message of the earlier life that comes later starts nothing.
func TestAPostSyncThatWasSentBeforeTheRestoreIsNotSentAgain(t *testing.T) {
	w := openWorkshop(t, options{config: towline.Config{Syncs: []towline.Sync{tracker()}}})
	p := w.started(towline.RunSpec{Sync: "tracker"})
	w.broker.take()
	for _, u := range w.units(p.Run) {
		w.complete(w.claim(u.Unit))
	}
	require.True(t, w.finalize(p.Run))
	key := towline.RegisterKey{Owner: p.Run, Kind: events.KindPostSync}
	by := towline.Actor{Name: "ada", Reason: "the receiver has it"}
	resolve := func(target string) error {
		return w.e.Resolve(context.Background(), key, target, events.ResolvedDelivered, by)
	}
	require.ErrorIs(t, resolve(""), towline.ErrConflict, "SC-055: it waits, and there is no hold")
	from := w.backup()
	w.step()
	require.NotEmpty(t, w.broker.take(), "it went out behind the copy")
	w.restore(from)
	require.ErrorIs(t, resolve("mail"), towline.ErrConflict, "it is resolved as a whole")
	require.NoError(t, resolve(""))
	require.ErrorIs(t, resolve(""), towline.ErrConflict, "the first word stands")
	require.True(t, w.releaseHold())
	w.advance(time.Hour)
	w.deliver(nil)
	require.Empty(t, w.posts)
	_, taken, err := w.e.StartPost(context.Background(), p.Run, "mail")
	require.NoError(t, err)
	require.False(t, taken, "a message of the earlier life")
	r, _ := w.register(p.Run, events.KindPostSync)
	require.Equal(t, decider.RegisterIdle, r.Status)
	require.Equal(t, []decider.Resolution{{Outcome: events.ResolvedDelivered, Actor: "ada", Reason: by.Reason}}, r.Resolved)
}

// DUR-5, S-5: a schedule mints nothing in a restored hold, whatever is due; behind it catch-up decides what was missed.
func TestASchedulesMintsNothingInARestoredHold(t *testing.T) {
	w := scheduled(t, hourly())
	w.restore(w.backup())
	w.advance(150 * time.Minute)
	head := w.head()
	require.Empty(t, w.tick("hourly").Planned)
	require.Equal(t, head, w.head())
	require.True(t, w.releaseHold())
	require.Len(t, w.tick("hourly").Planned, 1)
}

// DUR-5: a hold ends by a person who says why.
func TestTheReleaseOfAHoldNeedsAReason(t *testing.T) {
	w := newWorkshop(t)
	_, err := w.e.ReleaseHold(context.Background(), towline.Actor{Name: "ada"})
	require.ErrorIs(t, err, towline.ErrInvalid)
	head := w.head()
	require.False(t, w.releaseHold(), "nothing was restored")
	require.Equal(t, head, w.head())
}
