package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/feed"
)

// WMILL-2: a consumer may be killed at any moment. Every event comes, in order; what comes twice was delivered last before
// the kill, without a gap, and is no more than a page.
func TestAKilledConsumerGoesOn(t *testing.T) {
	const kills = 10
	n := 10_000
	if testing.Short() {
		n = 3000 // with the race detector SQLite is ten times slower
	}
	path := filepath.Join(t.TempDir(), "towline.db")
	s := open(t, path, Options{Synchronous: "normal"})
	for range n / 1000 {
		grow(t, s, 1000)
	}
	require.NoError(t, s.Close())
	seen := 0
	follow := func(c *child, until int) {
		t.Helper()
		first := true
		for seen < until && c.lines.Scan() {
			p, err := strconv.Atoi(c.lines.Text())
			if err != nil {
				return // it was killed in the middle of a line
			}
			if first {
				first = false
				require.LessOrEqual(t, p, seen+1, "an event is missing")
				require.Greater(t, p, seen-feedPage, "more comes again than a page")
				seen = p - 1
			}
			require.Equal(t, seen+1, p)
			seen = p
		}
	}
	for kill := range kills {
		c := start(t, "consume", path)
		follow(c, (kill+1)*n/(kills+1)+kill*n/300) // at no round number
		c.kill(t)
		for c.lines.Scan() { // what it still said
			if p, err := strconv.Atoi(c.lines.Text()); err == nil && p == seen+1 {
				seen = p
			}
		}
		_ = c.cmd.Wait()
	}
	c := start(t, "consume", path)
	follow(c, n)
	require.Equal(t, n, seen)
	c.kill(t)
}

func init() {
	// consume says the position of every event that it gets, has written about it to the same file, and acknowledges it.
	roles["consume"] = func(path string) error {
		return consume(path, Options{}, func(s *Store, p events.Position) error {
			if p%10 != 0 {
				return nil
			}
			_, err := s.DB().Exec(`CREATE TABLE IF NOT EXISTS seen (position INTEGER); INSERT INTO seen VALUES ($1)`, p)
			return err
		})
	}
	roles["consume-shared"] = func(path string) error {
		return consume(path, Options{Shared: true}, func(*Store, events.Position) error { return nil })
	}
}

func consume(path string, o Options, do func(*Store, events.Position) error) error {
	s, err := Open(context.Background(), path, o)
	if err != nil {
		return err
	}
	f, err := s.Feed("g", feed.Options{Poll: quick})
	if err != nil {
		return err
	}
	messages, err := f.Subscribe(context.Background(), feed.Topic)
	if err != nil {
		return err
	}
	for m := range messages {
		p, err := feed.PositionOf(m)
		if err != nil {
			return err
		}
		if err := do(s, p); err != nil {
			return err
		}
		fmt.Println(int64(p))
		m.Ack()
	}
	return nil
}

// WMILL-2, SC-351: of two processes one consumes. When it is killed in its handler, the other gets the event again, and
// all behind it, in order; and whoever writes is not kept waiting.
func TestTheNextProcessTakesAGroupOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	s := open(t, path, Options{Shared: true})
	grow(t, s, 1)
	c := start(t, "consume-shared", path)
	require.Equal(t, "1", c.line(t))
	standby := subscribe(t, s, "g", feed.Options{Poll: quick})
	for n := 2; n <= 40; n++ { // found by the poll of the other process
		require.NoError(t, appendNext(s, n))
		require.Equal(t, strconv.Itoa(n), c.line(t))
	}
	select {
	case m := <-standby.messages:
		require.Fail(t, "two consumers", m.UUID)
	default:
	}
	c.kill(t)
	_ = c.cmd.Wait()
	grow(t, s, 1)
	m := standby.next()
	first := at(t, m)
	require.LessOrEqual(t, first, 41)
	m.Ack()
	require.Equal(t, span(first+1, 41), standby.take(41-first))
}

// WMILL-2: a log that two processes write is followed in its order, without a gap.
func TestTheFeedOfALogWithTwoWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	s := open(t, path, Options{Shared: true})
	c := subscribe(t, s, "g", feed.Options{Poll: quick})
	a, b := start(t, "race", path), start(t, "race", path)
	require.Equal(t, span(1, 200), c.take(200))
	for _, other := range []*child{a, b} {
		_, ok := other.end(t)
		require.True(t, ok)
	}
}
