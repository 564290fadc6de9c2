package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// taken submits a message and lets a relay claim it.
func taken(t *testing.T, s *Store) events.MessageID {
	t.Helper()
	m := newMessage("{}")
	require.NoError(t, publish(t, s, topic, m))
	id, err := events.ParseMessageID(m.UUID)
	require.NoError(t, err)
	require.NoError(t, s.Write(context.Background(), appendTo(events.MessageStream(id), 0,
		events.OutboxArmed{N: 1, AvailableAt: 1, Cause: events.ArmMessage}, events.OutboxClaimed{N: 1, Token: "t", Attempt: 1})))
	return id
}

func consumeOne(t *testing.T, s *Store, id events.MessageID, effect func(*sql.Tx) error) (bool, error) {
	t.Helper()
	return s.Consume(t.Context(), id, id.String()+".message.1", func(_ context.Context, tx *sql.Tx) error { return effect(tx) })
}

func bookSeat(seat string) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO booking (seat) VALUES ($1)`, seat)
		return err
	}
}

func count(t *testing.T, s *Store, query string) (n int) {
	t.Helper()
	require.NoError(t, s.DB().QueryRow(query).Scan(&n))
	return n
}

// M-12, SC-322: the effect and MessageHandled are one transaction: both are there, or neither is.
func TestAnEffectCommitsWithItsRecord(t *testing.T) {
	s := box(t)
	id := taken(t, s)
	failed := errors.New("failed")
	for name, effect := range map[string]func(*sql.Tx) error{
		"an error":      func(tx *sql.Tx) error { return errors.Join(bookSeat("1")(tx), failed) },
		"a lost commit": func(tx *sql.Tx) error { return errors.Join(bookSeat("1")(tx), tx.Rollback()) },
	} {
		before := len(readAll(t, s))
		done, err := consumeOne(t, s, id, effect)
		require.Error(t, err, name)
		require.False(t, done)
		require.Len(t, readAll(t, s), before)
		require.Zero(t, count(t, s, `SELECT count(*) FROM booking`))
	}
	require.Panics(t, func() { _, _ = consumeOne(t, s, id, func(tx *sql.Tx) error { panic(bookSeat("1")(tx)) }) })
	require.Zero(t, count(t, s, `SELECT count(*) FROM booking`))

	done, err := consumeOne(t, s, id, bookSeat("1"))
	require.NoError(t, err)
	require.True(t, done)
	log := readAll(t, s)
	last := log[len(log)-1]
	require.Equal(t, events.MessageHandled{Message: id, DeliveryMessageID: id.String() + ".message.1"}, last.Event)
	require.Equal(t, events.AppStream(topic), last.Stream)
	require.True(t, last.Node.IsZero())
	require.Equal(t, 1, count(t, s, `SELECT count(*) FROM booking`))
}

// M-12: a replayed delivery has one effect, also when several come at once, and when the engine has not seen yet what the
// first has done.
func TestAReplayedDeliveryHasOneEffectInTheStore(t *testing.T) {
	s := box(t)
	id := taken(t, s)
	var mu sync.Mutex
	var ran, was int
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			done, err := s.Consume(context.Background(), id, "d", func(_ context.Context, tx *sql.Tx) error { return bookSeat("1")(tx) })
			mu.Lock()
			defer mu.Unlock()
			if err == nil && done {
				ran++
			} else if err == nil {
				was++
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, ran)
	require.Equal(t, 7, was)

	rejected := taken(t, s)
	require.NoError(t, s.Write(context.Background(), appendTo(events.AppStream(topic), 3, events.MessageRejected{Message: rejected, Category: events.InvalidPayload})))
	done, err := consumeOne(t, s, rejected, bookSeat("2"))
	require.NoError(t, err)
	require.False(t, done)
}

// M-1, M-12: an effect may submit further messages: they commit with it.
func TestAnEffectMaySubmitMessages(t *testing.T) {
	s := box(t)
	id := taken(t, s)
	done, err := consumeOne(t, s, id, func(tx *sql.Tx) error { return Outbox(tx).Publish("seat.paid", newMessage("1"), newMessage("2")) })
	require.NoError(t, err)
	require.True(t, done)
	require.Len(t, submitted(t, s), 3)
	require.Len(t, handledIn(t, s), 1)
}

// M-9, J-3: a message that is not there, and one that no relay has taken yet, has no effect.
func TestAnUnknownMessageHasNoEffect(t *testing.T) {
	s := box(t)
	m := newMessage("{}")
	require.NoError(t, publish(t, s, topic, m))
	untaken, err := events.ParseMessageID(m.UUID)
	require.NoError(t, err)
	for _, id := range []events.MessageID{{15: 9}, untaken} {
		_, err := consumeOne(t, s, id, bookSeat("1"))
		require.ErrorIs(t, err, store.ErrNoMessage)
	}
	require.Zero(t, count(t, s, `SELECT count(*) FROM booking`))
}

// M-12, L-9: an effect that runs into a store which cannot write is nobody's failure.
func TestAStoreThatIsAwayIsNoFailureOfAnEffect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "box.db")
	s := open(t, path, Options{busyTimeout: 50})
	id := taken(t, s)
	c := start(t, "lock", path)
	require.Equal(t, "ready", c.line(t))
	_, err := consumeOne(t, s, id, bookSeat("1"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	_, ok := c.end(t)
	require.True(t, ok)
	done, err := consumeOne(t, s, id, func(*sql.Tx) error { return nil })
	require.NoError(t, err)
	require.True(t, done)
	require.NoError(t, s.Close())
	_, err = consumeOne(t, s, id, bookSeat("1"))
	require.ErrorIs(t, err, store.ErrClosed)
}

// M-12, L-10: an effect that holds the store too long is undone.
func TestASlowEffectIsUndone(t *testing.T) {
	s := boxWith(t, Options{effectTime: 50 * time.Millisecond})
	id := taken(t, s)
	_, err := s.Consume(t.Context(), id, "d", func(ctx context.Context, tx *sql.Tx) error {
		require.NoError(t, bookSeat("1")(tx))
		<-ctx.Done()
		return nil
	})
	require.ErrorIs(t, err, errEffectTime)
	require.Zero(t, count(t, s, `SELECT count(*) FROM booking`))
	require.Empty(t, handledIn(t, s))
}

func handledIn(t *testing.T, s *Store) (out []events.MessageHandled) {
	t.Helper()
	for _, e := range readAll(t, s) {
		if h, ok := e.Event.(events.MessageHandled); ok {
			out = append(out, h)
		}
	}
	return out
}
