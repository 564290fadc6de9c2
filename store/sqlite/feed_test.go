package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/feed"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/storetest"
)

// never is longer than any test: what is seen in time was not found by a poll.
const never = time.Hour

// quick is for tests in which somebody else must be noticed.
const quick = time.Millisecond

// subscription is one consumer, as a test sees it.
type subscription struct {
	t        *testing.T
	messages <-chan *message.Message
	close    func()
}

func subscribe(t *testing.T, s *Store, group string, o feed.Options) *subscription {
	t.Helper()
	f, err := s.Feed(group, o)
	require.NoError(t, err)
	messages, err := f.Subscribe(context.Background(), feed.Topic)
	require.NoError(t, err)
	c := &subscription{t: t, messages: messages, close: func() { require.NoError(t, f.Close()) }}
	t.Cleanup(c.close)
	return c
}

// next is the next message, not yet acknowledged.
func (c *subscription) next() *message.Message {
	c.t.Helper()
	select {
	case m, ok := <-c.messages:
		require.True(c.t, ok, "the subscription has ended")
		return m
	case <-time.After(30 * time.Second):
		require.FailNow(c.t, "nothing was delivered")
		return nil
	}
}

// take acknowledges the next n messages and returns their positions.
func (c *subscription) take(n int) []int {
	c.t.Helper()
	var out []int
	for range n {
		m := c.next()
		out = append(out, at(c.t, m))
		require.True(c.t, m.Ack())
	}
	return out
}

func at(t *testing.T, m *message.Message) int {
	t.Helper()
	p, err := feed.PositionOf(m)
	require.NoError(t, err)
	return int(p)
}

func span(from, to int) (out []int) {
	for n := from; n <= to; n++ {
		out = append(out, n)
	}
	return out
}

// grow appends n events in one transaction.
func grow(t *testing.T, s *Store, n int) {
	t.Helper()
	require.NoError(t, s.Write(context.Background(), func(tx store.Tx) error {
		history, err := tx.Stream(unit(1))
		if err != nil {
			return err
		}
		var evs []events.Event
		for i := range n {
			evs = append(evs, renewed(len(history)+i))
		}
		_, err = tx.Append(unit(1), events.Version(len(history)), events.Meta{}, evs...)
		return err
	}))
}

func groupOf(t *testing.T, s *Store, name string) feed.Group {
	t.Helper()
	groups, err := s.FeedGroups(context.Background())
	require.NoError(t, err)
	i := slices.IndexFunc(groups, func(g feed.Group) bool { return g.Name == name })
	require.GreaterOrEqual(t, i, 0, "no group %s", name)
	return groups[i]
}

// WMILL-2, E-4: a message is its event: the id names store and position, the payload is its JSON without a secret, and the
// metadata says the rest.
func TestAMessageOfTheFeed(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{Now: func() events.Micros { return 1_700_000_000_000_001 }})
	node := events.NodeID{15: 7}
	require.NoError(t, s.Write(context.Background(), func(tx store.Tx) error {
		if _, err := tx.Append(events.NodeStream(node), 0, events.Meta{Node: node}, events.NodeStarted{Host: "h"}); err != nil {
			return err
		}
		_, err := tx.Append(unit(1), 0, events.Meta{Node: node, Actor: "ada", Command: "RenewLease", Cause: 1},
			events.UnitLeaseRenewed{Attempt: 2, Token: storetest.Secret, LeaseExpiresAt: 5})
		return err
	}))
	c := subscribe(t, s, "g", feed.Options{Poll: never})
	c.take(1)
	m := c.next()
	require.Equal(t, node.String()+".2", m.UUID)
	require.JSONEq(t, `{"attempt": 2, "token": "***", "lease_expires_at": 5}`, string(m.Payload))
	require.Equal(t, message.Metadata{
		"source": "/towline/" + node.String(), "type": "UnitLeaseRenewed", "subject": unit(1).String(), "time": "2023-11-14T22:13:20.000001Z",
		"schema": "1", "position": "2", "tx": "1", "version": "1", "actor": "ada", "command": "RenewLease", "cause": "1", "node": node.String(),
	}, m.Metadata)
	e, err := feed.Event(m)
	require.NoError(t, err)
	require.Equal(t, events.UnitLeaseRenewed{Attempt: 2, Token: "***", LeaseExpiresAt: 5}, e)
	m.Ack()
}

// WMILL-2: an event that is committed by this process is delivered at once, not at the next poll.
func TestTheFeedFollowsTheLogLive(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	c := subscribe(t, s, "g", feed.Options{Poll: never})
	for n := range 50 {
		require.NoError(t, appendNext(s, n))
		require.Equal(t, []int{n + 1}, c.take(1))
	}
}

// WMILL-2: a group goes on where it was, in the next process too, and groups know nothing of each other.
func TestGroupsAreDurableAndApart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	s := open(t, path, Options{})
	grow(t, s, 250)
	a, b := subscribe(t, s, "a", feed.Options{}), subscribe(t, s, "b", feed.Options{})
	require.Equal(t, span(1, 150), a.take(150))
	require.Equal(t, span(1, 20), b.take(20))
	a.close()
	require.NoError(t, s.Close(), "which ends b")
	_, ok := <-b.messages
	require.False(t, ok)

	s = open(t, path, Options{})
	grow(t, s, 10)
	late := subscribe(t, s, "late", feed.Options{FromEnd: true, Poll: never})
	require.Equal(t, span(151, 260), subscribe(t, s, "a", feed.Options{FromEnd: true}).take(110), "a known group has a place")
	require.Equal(t, span(21, 260), subscribe(t, s, "b", feed.Options{}).take(240))
	grow(t, s, 1)
	require.Equal(t, []int{261}, late.take(1))
}

// L-11: what was acknowledged before a subscription ends is not delivered again, whatever the subscriber saw first.
func TestAnAcknowledgementAndAnEndTogether(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	grow(t, s, 30)
	f, err := s.Feed("g", feed.Options{})
	require.NoError(t, err)
	for n := range 30 {
		ctx, cancel := context.WithCancel(context.Background())
		messages, err := f.Subscribe(ctx, feed.Topic)
		require.NoError(t, err)
		m := <-messages
		require.Equal(t, n+1, at(t, m))
		m.Ack()
		cancel()
		for range messages { // one may have been on its way; it comes again
		}
	}
	require.NoError(t, f.Close())
	require.EqualValues(t, 30, groupOf(t, s, "g").Position)
}

// L-11, WMILL-2: the same of a message that was refused before: to Watermill what comes again is another message.
func TestAnAcknowledgementBehindARefusalAndAnEndTogether(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	grow(t, s, 30)
	f, err := s.Feed("g", feed.Options{Resend: quick})
	require.NoError(t, err)
	for n := range 30 {
		ctx, cancel := context.WithCancel(context.Background())
		messages, err := f.Subscribe(ctx, feed.Topic)
		require.NoError(t, err)
		(<-messages).Nack()
		for range 50 { // meanwhile the subscriber comes to offer it again, and sees the end and the acknowledgement at once
			_, err := s.FeedGroups(context.Background())
			require.NoError(t, err)
		}
		m := <-messages
		require.Equal(t, n+1, at(t, m))
		m.Ack()
		cancel()
		for range messages { // one may have been on its way; it comes again
		}
	}
	require.NoError(t, f.Close())
	require.EqualValues(t, 30, groupOf(t, s, "g").Position)
}

// WMILL-2: a refused message comes again before anything behind it.
func TestARefusedMessageComesAgain(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	grow(t, s, 3)
	c := subscribe(t, s, "g", feed.Options{Resend: quick})
	c.take(1)
	for range 5 {
		m := c.next()
		require.Equal(t, 2, at(t, m))
		m.Nack()
	}
	require.Equal(t, []int{2, 3}, c.take(2))
}

// WMILL-2: behind the deadline of a message its context has ended and it comes again; what its first handler says then
// changes nothing.
func TestAHandlerBeyondItsDeadline(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	grow(t, s, 12)
	c := subscribe(t, s, "g", feed.Options{AckDeadline: 50 * time.Millisecond, Poll: never})
	last, slow := 0, (*message.Message)(nil)
	for last < 12 {
		m := c.next()
		p := at(t, m)
		require.True(t, p == last+1 || p == last, "%d behind %d", p, last) // a slow machine may miss any deadline
		last = p
		switch {
		case p == 6 && slow == nil: // in the middle of a page
			slow = m
			<-m.Context().Done()
			continue
		case p == 6:
			require.Equal(t, slow.UUID, m.UUID)
			slow.Ack()
		}
		m.Ack()
	}
	require.NotNil(t, slow)
}

// WMILL-2, L-10: no transaction is open while a handler works: it writes to the same file, by the engine's way and by that
// of an application, and each event comes once.
func TestAHandlerWritesToTheSameFile(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	const n = 300
	grow(t, s, n)
	_, err := s.DB().Exec(`CREATE TABLE seen (position INTEGER PRIMARY KEY)`)
	require.NoError(t, err)
	c := subscribe(t, s, "g", feed.Options{Types: []events.Type{events.TypeUnitLeaseRenewed}})
	for i := range n {
		m := c.next()
		require.Equal(t, i+1, at(t, m))
		tx, err := s.DB().Begin() // takes the write lock
		require.NoError(t, err)
		_, err = tx.Exec(`INSERT INTO seen VALUES ($1)`, i+1)
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		require.NoError(t, s.Write(m.Context(), appendTo(events.AppStream("x"), events.Version(i), events.MessageHandled{})))
		m.Ack()
	}
	c.close()
	require.GreaterOrEqual(t, groupOf(t, s, "g").Position, events.Position(n))
}

// WMILL-2, L-2: what is not committed is not delivered, and what is rolled back never is.
func TestTheFeedHasNothingUncommitted(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	grow(t, s, 1)
	c := subscribe(t, s, "g", feed.Options{Poll: quick})
	c.take(1)
	insert := func(tx *sql.Tx, data string) {
		_, err := tx.Exec(`INSERT INTO events (position, tx, stream, version, at, type, schema, data)
			SELECT max(position) + 1, max(position) + 1, $1, 1, max(at), $2, 1, $3 FROM events`,
			events.AppStream(data).Key(), int(events.TypeMessageHandled), fmt.Sprintf(`{"delivery_message_id": %q}`, data))
		require.NoError(t, err)
	}
	for _, how := range []string{"rolled back", "committed"} {
		tx, err := s.DB().Begin()
		require.NoError(t, err)
		insert(tx, how)
		for range 100 { // polls have passed it by, if they could
			_, err := s.FeedGroups(context.Background())
			require.NoError(t, err)
		}
		if how == "committed" {
			require.NoError(t, tx.Commit())
		} else {
			require.NoError(t, tx.Rollback())
		}
	}
	m := c.next()
	e, err := feed.Event(m)
	require.NoError(t, err)
	require.Equal(t, events.MessageHandled{DeliveryMessageID: "committed"}, e)
	require.Equal(t, 2, at(t, m), "found by a poll: nobody told this process")
	m.Ack()
}

// WMILL-2, L-7: an event of a newer release stops its consumers, and the error says where. What lies before it is delivered.
func TestAnEventOfANewerReleaseStopsTheFeed(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	grow(t, s, 3)
	_, err := s.DB().Exec(`INSERT INTO events (position, tx, stream, version, at, type, schema, data)
		SELECT 4, 4, $1, 1, max(at), 9999, 1, '{}' FROM events`, events.AppStream("x").Key())
	require.NoError(t, err)
	heard := make(chan error, 1)
	log := slog.New(faults(func(err error) {
		select {
		case heard <- err:
		default:
		}
	}))
	c := subscribe(t, s, "g", feed.Options{Logger: log, Poll: quick})
	require.Equal(t, span(1, 3), c.take(3))
	require.ErrorContains(t, <-heard, "event at position 4: type 9999")
	c.close()
	require.EqualValues(t, 3, groupOf(t, s, "g").Position)
}

// faults is told the error of each line that has one.
type faults func(error)

func (faults) Enabled(context.Context, slog.Level) bool { return true }
func (f faults) WithAttrs([]slog.Attr) slog.Handler     { return f }
func (f faults) WithGroup(string) slog.Handler          { return f }

func (f faults) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			f(err)
		}
		return true
	})
	return nil
}

// REC-1: what a consumer acknowledges is written, and is no event: it makes nothing due.
func TestAnAcknowledgementAppendsNothing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	hooked := 0
	s.Attach(store.Hooks{BeforeCommit: func(store.Tx) error { hooked++; return nil }})
	grow(t, s, 1000)
	c := subscribe(t, s, "g", feed.Options{})
	c.take(1000)
	c.close()
	require.Equal(t, 1, hooked, "the hook of a commit with events")
	stats := s.Stats()
	require.EqualValues(t, 1000, stats.Events)
	require.GreaterOrEqual(t, stats.Commits, int64(1+1+1000/feedPage), "the events, the group, and each page")
	require.Less(t, stats.Commits, int64(100), "not each message")
}

// K-3, DUR-5: behind a restore the positions of an earlier life are used again, and so the ids say which life it is.
func TestIdsBehindARestore(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	node := events.NodeID{15: 7}
	require.NoError(t, s.Write(context.Background(), appendTo(events.NodeStream(node), 0, events.NodeStarted{})))
	grow(t, s, 1)
	again := events.NodeID{15: 8}
	require.NoError(t, s.Write(context.Background(), appendTo(events.NodeStream(again), 0,
		events.NodeStarted{}, events.StoreRestored{Epoch: 2, Head: 2})))
	grow(t, s, 1)
	c := subscribe(t, s, "g", feed.Options{})
	var ids []string
	for range 5 {
		m := c.next()
		ids = append(ids, strings.TrimPrefix(m.UUID, node.String()))
		m.Ack()
	}
	require.Equal(t, []string{".1", ".2", ".3", ".4.e2", ".5.e2"}, ids)
}

// WMILL-2, HU-5: an application may have written before the first incarnation, which gives the store its name. Ids from
// there on have it, also for a consumer that was there before; those in front of it have none, at whatever delivery.
func TestIdsOfAStoreThatAnApplicationBegan(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	require.NoError(t, publish(t, s, "topic", newMessage("1")))
	early := subscribe(t, s, "early", feed.Options{Poll: quick})
	require.Equal(t, []int{1}, early.take(1))
	node := events.NodeID{15: 7}
	require.NoError(t, s.Write(context.Background(), appendTo(events.NodeStream(node), 0, events.NodeStarted{})))
	grow(t, s, 1)
	late := subscribe(t, s, "late", feed.Options{})
	for want, c := range map[string]*subscription{"early": early, "late": late} {
		var ids, sources []string
		for p := 1; p <= 3; p++ {
			if c == early && p == 1 {
				continue
			}
			m := c.next()
			ids, sources = append(ids, m.UUID), append(sources, m.Metadata.Get(feed.Source))
			m.Ack()
		}
		named := []string{node.String() + ".2", node.String() + ".3"}
		source := "/towline/" + node.String()
		if want == "late" {
			require.Equal(t, append([]string{"1"}, named...), ids)
			require.Equal(t, []string{"", source, source}, sources)
			continue
		}
		require.Equal(t, named, ids)
		require.Equal(t, []string{source, source}, sources)
	}
}

// WMILL-2: what cannot be is refused before anything is delivered, and the log is not written by publishing to it.
func TestFeedsThatAreRefused(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	for problem, of := range map[string]func() (message.Subscriber, error){
		"group is empty":    func() (message.Subscriber, error) { return s.Feed("", feed.Options{}) },
		"at most 200 bytes": func() (message.Subscriber, error) { return s.Feed(strings.Repeat("x", 201), feed.Options{}) },
		"not below zero":    func() (message.Subscriber, error) { return s.Feed("g", feed.Options{Poll: -1}) },
		"Types is empty":    func() (message.Subscriber, error) { return s.Feed("g", feed.Options{Types: []events.Type{}}) },
		"9999 is no event":  func() (message.Subscriber, error) { return s.Feed("g", feed.Options{Types: []events.Type{9999}}) },
	} {
		_, err := of()
		require.ErrorContains(t, err, problem)
	}
	f, err := s.Feed("g", feed.Options{})
	require.NoError(t, err)
	_, err = f.Subscribe(context.Background(), "runs")
	require.ErrorContains(t, err, `no topic "runs"`)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	_, err = f.Subscribe(context.Background(), feed.Topic)
	require.ErrorIs(t, err, errFeedClosed)
	_, err = feedSchema{}.InsertQuery(struct {
		Topic string
		Msgs  message.Messages
	}{})
	require.ErrorIs(t, err, errReadOnly)

	other := open(t, filepath.Join(t.TempDir(), "other.db"), Options{})
	f, err = other.Feed("g", feed.Options{})
	require.NoError(t, err)
	require.NoError(t, other.Close())
	_, err = f.Subscribe(context.Background(), feed.Topic)
	require.ErrorIs(t, err, store.ErrClosed)
}

// DUR-4: a page is found by position, whatever the group takes, and groups are few.
func TestPlansOfTheFeed(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "towline.db"), Options{})
	for query, want := range map[string]string{
		selectFeed(nil):                              "SEARCH events USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
		selectFeed([]events.Type{1, 2}):              "SEARCH events USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
		strings.ReplaceAll(selectRestores, "\t", ""): "SEARCH events USING INDEX sqlite_autoindex_events_1 (stream>? AND stream<?)",
		selectFirstNode:                              "SEARCH events USING INDEX sqlite_autoindex_events_1 (stream>? AND stream<?)",
		selectGroup:                                  "SEARCH feed_groups USING INDEX sqlite_autoindex_feed_groups_1 (name=?)",
	} {
		rows, err := s.DB().Query("EXPLAIN QUERY PLAN "+query, make([]any, strings.Count(query, "$"))...)
		require.NoError(t, err)
		plan := textRows(t, rows)
		require.Equal(t, want, plan[0][len(plan[0])-1], query)
	}
}
