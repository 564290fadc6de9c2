package sqlbus_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/transport"
	"github.com/towline-dev/towline/transport/sqlbus"
)

// O-15: what would never be taken is refused for ever, before the file sees it.
func TestWhatIsNeverTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus.db")
	o := quick()
	o.MaxPayload = 10
	b := open(t, path, o)
	odd := message.NewMessage("odd", nil)
	odd.Metadata.Set("bytes", "\xff")
	for name, r := range map[string]transport.Receipt{
		"large": b.Send(t.Context(), "topic", message.NewMessage("large", make([]byte, 11))),
		"odd":   b.Send(t.Context(), "topic", odd),
		"topic": b.Send(t.Context(), "a b", message.NewMessage("m", nil)),
		"none":  b.Send(t.Context(), "", message.NewMessage("m", nil)),
	} {
		require.Equal(t, events.Refused, r.Outcome, name)
		require.True(t, r.Permanent, name)
		require.Error(t, r.Err, name)
	}
	require.True(t, empty(t, path))
	require.Equal(t, events.Accepted, b.Send(t.Context(), "topic", message.NewMessage("m", make([]byte, 10))).Outcome)
}

// O-10: while another program holds the write lock nothing has begun, so the deadline refuses, and counts no attempt.
// Behind it the message is surely not in the file.
func TestALockedFileRefusesAtTheDeadline(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus.db")
	b := open(t, path, quick())
	letGo := hold(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	r := b.Send(ctx, "topic", message.NewMessage("late", nil))
	require.Equal(t, events.Refused, r.Outcome)
	require.True(t, r.Uncounted)
	require.ErrorIs(t, r.Err, context.DeadlineExceeded)
	letGo()
	publish(t, b, "in time")
	got := stored(t, path, "topic")
	require.Len(t, got, 1)
	require.Equal(t, "in time", got[0].UUID)
}

// B-8: a bus that has reached its bound refuses, counts no attempt, and can be emptied.
func TestAFullBusIsEmptied(t *testing.T) {
	o := quick()
	o.MaxBytes = 1 << 20
	path := filepath.Join(t.TempDir(), "bus.db")
	b := open(t, path, o)
	n := 0
	var r transport.Receipt
	for ; ; n++ {
		if r = b.Send(t.Context(), "topic", message.NewMessage(fmt.Sprint(n), make([]byte, 100_000))); r.Err != nil {
			break
		}
	}
	require.Equal(t, events.Refused, r.Outcome)
	require.True(t, r.Uncounted)
	require.ErrorIs(t, r.Err, sqlbus.ErrFull)
	in, err := b.Subscriber("group", 4).Subscribe(t.Context(), "topic")
	require.NoError(t, err)
	for range n {
		next(t, in, 5*time.Second).Ack()
	}
	require.Eventually(t, func() bool { return empty(t, path) }, 5*time.Second, 10*time.Millisecond)
	require.Equal(t, events.Accepted, b.Send(t.Context(), "topic", message.NewMessage("again", make([]byte, 100_000))).Outcome)
}

// WMILL-4: a refused message waits longer each time, in the file, and holds up nobody; in the end it is parked, and comes
// again when somebody says so. The deliveries are counted (M-11).
func TestARefusedMessageWaitsAndIsParked(t *testing.T) {
	o := quick()
	o.MaxDeliveries, o.RetryDelay, o.MaxRetryDelay = 4, 50*time.Millisecond, 10*time.Second
	path := filepath.Join(t.TempDir(), "bus.db")
	b := open(t, path, o)
	publish(t, b, "bad", "good")
	in, err := b.Subscriber("group", 1).Subscribe(t.Context(), "topic")
	require.NoError(t, err)
	m := next(t, in, 5*time.Second)
	require.Equal(t, "bad", m.UUID)
	m.Nack()
	good := next(t, in, 5*time.Second)
	require.Equal(t, "good", good.UUID, "it holds up nobody")
	good.Ack()
	for n := 2; n <= 4; n++ {
		refused := time.Now()
		m := next(t, in, 5*time.Second)
		require.Equal(t, "bad", m.UUID)
		require.Equal(t, n, transport.Delivery(m.Context()))
		if n > 2 { // before, there was another one in between
			require.GreaterOrEqual(t, time.Since(refused), o.RetryDelay<<(n-2)-10*time.Millisecond)
		}
		m.Nack()
	}
	var g sqlbus.Group
	require.Eventually(t, func() bool {
		groups, err := b.Groups(t.Context())
		require.NoError(t, err)
		g = groups[0]
		return g.Parked == 1
	}, 5*time.Second, 10*time.Millisecond)
	require.Equal(t, sqlbus.Group{Topic: "topic", Name: "group", Parked: 1}, g)
	n, err := b.Requeue(t.Context(), "topic", "group")
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	m = next(t, in, 5*time.Second)
	require.Equal(t, 1, transport.Delivery(m.Context()))
	m.Ack()
	require.Eventually(t, func() bool { return empty(t, path) }, 5*time.Second, 10*time.Millisecond)
}

// WMILL-4: a message stays until each group has it, and the file does not grow with what has gone through.
func TestTheFileDoesNotGrowWithHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus.db")
	b := open(t, path, quick())
	one, err := b.Subscriber("one", 8).Subscribe(t.Context(), "topic")
	require.NoError(t, err)
	two, err := b.Subscriber("two", 8).Subscribe(t.Context(), "topic")
	require.NoError(t, err)
	pages := func() (n int) {
		db, err := sql.Open("sqlite", "file:"+path)
		require.NoError(t, err)
		defer db.Close()
		require.NoError(t, db.QueryRow(`PRAGMA page_count`).Scan(&n))
		return n
	}
	var first int
	for round := range 20 {
		publish(t, b, numbers(100)...)
		for range 100 {
			next(t, one, 5*time.Second).Ack()
		}
		require.False(t, empty(t, path), "the other group has none yet")
		for range 100 {
			next(t, two, 5*time.Second).Ack()
		}
		require.Eventually(t, func() bool { return empty(t, path) }, 5*time.Second, time.Millisecond)
		if round == 2 {
			first = pages()
		}
	}
	require.LessOrEqual(t, pages(), first+2)
}

// WMILL-4: a group that is gone for good holds nothing back when it is removed.
func TestARemovedGroupOwesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bus.db")
	b := open(t, path, quick())
	s := b.Subscriber("gone", 1)
	_, err := s.Subscribe(t.Context(), "topic")
	require.NoError(t, err)
	require.NoError(t, s.Close())
	in, err := b.Subscriber("here", 1).Subscribe(t.Context(), "topic")
	require.NoError(t, err)
	publish(t, b, "a")
	next(t, in, 5*time.Second).Ack()
	require.Eventually(t, func() bool {
		groups, err := b.Groups(t.Context())
		require.NoError(t, err)
		return groups[1].Claimed == 0 && groups[1].Fresh == 0 && groups[0].Fresh == 1
	}, 5*time.Second, time.Millisecond)
	require.NoError(t, b.RemoveGroup(t.Context(), "topic", "gone"))
	require.True(t, empty(t, path))
}

// What is another program's is left as it is.
func TestAnotherDatabaseIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(t, err)
	_, err = db.Exec(`CREATE TABLE t (a)`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	_, err = sqlbus.Open(t.Context(), path, quick())
	require.ErrorContains(t, err, "another program's database")
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// WMILL-4: ten thousand messages are a matter of seconds.
func TestTenThousandMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector makes SQLite ten times slower")
	}
	const messages = 10_000
	b := open(t, filepath.Join(t.TempDir(), "bus.db"), quick())
	in, err := b.Subscriber("group", 64).Subscribe(t.Context(), "topic")
	require.NoError(t, err)
	begun := time.Now()
	var failed atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; i < messages; i += 100 {
			ms := make([]*message.Message, 100)
			for k := range ms {
				ms[k] = message.NewMessage(fmt.Sprint(i+k), []byte(`{"kind":"run_sync_unit"}`))
			}
			if b.Publisher().Publish("topic", ms...) != nil {
				failed.Add(1)
			}
		}
	}()
	for range messages {
		next(t, in, 30*time.Second).Ack()
	}
	<-done
	require.Zero(t, failed.Load())
	require.Less(t, time.Since(begun), 30*time.Second)
	t.Logf("%d messages in %s", messages, time.Since(begun))
}

func BenchmarkPublish(b *testing.B) {
	bus := open(b, filepath.Join(b.TempDir(), "bus.db"), quick())
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if r := bus.Send(context.Background(), "topic", message.NewMessage("id", []byte(`{"kind":"run_sync_unit"}`))); r.Err != nil {
				b.Error(r.Err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

func BenchmarkConsume(b *testing.B) {
	bus := open(b, filepath.Join(b.TempDir(), "bus.db"), quick())
	for n := 0; n < b.N; n += 500 {
		ms := make([]*message.Message, min(500, b.N-n))
		for i := range ms {
			ms[i] = message.NewMessage("id", []byte(`{"kind":"run_sync_unit"}`))
		}
		require.NoError(b, bus.Publisher().Publish("topic", ms...))
	}
	in, err := bus.Subscriber("group", 16).Subscribe(context.Background(), "topic")
	require.NoError(b, err)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		(<-in).Ack()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}
