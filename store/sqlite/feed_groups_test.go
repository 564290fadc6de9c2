package sqlite

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/feed"
	"github.com/towline-dev/towline/store"
)

// WMILL-2: a group that takes some types only moves over the others, also over a stretch of the log in which there are none.
func TestAGroupOfSomeTypes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	s := open(t, path, Options{Synchronous: "normal"})
	app := events.AppStream("x")
	require.NoError(t, s.Write(context.Background(), appendTo(app, 0, events.MessageHandled{})))
	grow(t, s, 2*feedLook+500)
	require.NoError(t, s.Write(context.Background(), appendTo(app, 1, events.MessageHandled{}, events.MessageRejected{})))
	o := feed.Options{Types: []events.Type{events.TypeMessageHandled, events.TypeMessageRejected}, Poll: never}
	c := subscribe(t, s, "g", o)
	require.Equal(t, []int{1, 2*feedLook + 502, 2*feedLook + 503}, c.take(3))
	c.close()
	require.Zero(t, groupOf(t, s, "g").Lag())

	grow(t, s, feedLook)
	c = subscribe(t, s, "g", o)
	require.Eventually(t, func() bool { return groupOf(t, s, "g").Lag() == 0 }, 30*time.Second, time.Millisecond,
		"it keeps a whole look that held nothing")
	require.NoError(t, s.Write(context.Background(), appendTo(app, 3, events.MessageHandled{})))
	require.Equal(t, []int{3*feedLook + 504}, c.take(1))
}

// WMILL-2: a group has one consumer. The next one waits, and goes on behind what the first has acknowledged.
func TestAGroupHasOneConsumer(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	grow(t, s, 300)
	first := subscribe(t, s, "g", feed.Options{})
	require.Equal(t, span(1, 130), first.take(130))
	second := subscribe(t, s, "g", feed.Options{Poll: never})
	require.Equal(t, span(131, 140), first.take(10))
	select {
	case m := <-second.messages:
		require.Fail(t, "delivered twice", m.UUID)
	default:
	}
	require.ErrorIs(t, s.RemoveFeedGroup(context.Background(), "g"), feed.ErrGroupInUse)
	first.close()
	require.Equal(t, span(141, 300), second.take(160))
}

// WMILL-2: a group has its consumer when Subscribe returns: it cannot be removed any more, and a second consumer gets
// nothing.
func TestAGroupIsInUseWhenSubscribeReturns(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	grow(t, s, 3)
	for range 50 {
		c := subscribe(t, s, "g", feed.Options{})
		require.ErrorIs(t, s.RemoveFeedGroup(context.Background(), "g"), feed.ErrGroupInUse)
		c.close()
		require.NoError(t, s.RemoveFeedGroup(context.Background(), "g"))
	}
}

// WMILL-2: a group that is removed while somebody takes it is not taken: without a row nothing would keep a second consumer
// out.
func TestAGroupThatIsGoneIsNotTaken(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	grow(t, s, 1)
	_, err := s.DB().Exec(`CREATE TRIGGER gone AFTER INSERT ON feed_groups BEGIN DELETE FROM feed_groups; END`)
	require.NoError(t, err)
	f := &follower{store: s, group: "g", ctx: t.Context()}
	ok, err := f.enter(t.Context())
	require.NoError(t, err)
	require.False(t, ok)
	require.Nil(t, f.lock)
}

// WMILL-2: groups are listed with their lag, also in a plain shell, and one that is not used can be removed.
func TestGroupsAreListedAndRemoved(t *testing.T) {
	ctx := context.Background()
	at := events.Micros(1_700_000_000_000_000)
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{Now: func() events.Micros { at += 1_500_000; return at }})
	grow(t, s, 3)
	grow(t, s, 2)
	c := subscribe(t, s, "b", feed.Options{})
	c.take(3)
	c.close()
	subscribe(t, s, "a", feed.Options{FromEnd: true}).close()
	groups, err := s.FeedGroups(ctx)
	require.NoError(t, err)
	require.Len(t, groups, 2)
	require.Equal(t, feed.Group{Name: "a", Position: 5, Head: 5}, groups[0])
	since := groups[1].WaitingSince
	require.Equal(t, feed.Group{Name: "b", Position: 3, Head: 5, WaitingSince: since}, groups[1])
	require.EqualValues(t, 2, groups[1].Lag())

	rows, err := s.DB().Query(`SELECT name, position, lag, coalesce(waiting_since, '') FROM feed_groups_view ORDER BY name`)
	require.NoError(t, err)
	require.Equal(t, [][]string{{"a", "5", "0", ""}, {"b", "3", "2", events.MicrosOf(since).String()}}, textRows(t, rows))

	require.NoError(t, s.RemoveFeedGroup(ctx, "b"))
	require.NoError(t, s.RemoveFeedGroup(ctx, "b"), "it is removed already")
	require.Equal(t, span(1, 5), subscribe(t, s, "b", feed.Options{}).take(5), "a new group")
}

// WMILL-2: the place of a group cannot fall, whoever writes it, and is out of reach of a transaction of the engine.
func TestThePlaceOfAGroupIsGuarded(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	grow(t, s, 3)
	c := subscribe(t, s, "g", feed.Options{})
	c.take(3)
	c.close()
	_, err := s.DB().Exec(`UPDATE feed_groups SET position = 1`)
	require.ErrorContains(t, err, "never falls")
	require.ErrorContains(t, s.Write(context.Background(), func(tx store.Tx) error { return tx.Exec(`DELETE FROM feed_groups`) }), "not the log")
}
