// Package transporttest holds the laws that every transport.Publisher passes, whatever broker is behind it.
package transporttest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/transport"
)

// Bench is a publisher under test, with a broker of its own that the test can look into and break.
type Bench struct {
	Publisher transport.Publisher
	// Stored lists what the broker holds of a topic, in any order. A message that was sent twice under one id may stand
	// there once or twice.
	Stored func(topic string) []*message.Message

	// Each of the following breaks the broker for every publish that begins later. nil: this broker cannot break so.

	Refuse func() // it takes nothing more, and says so
	Lose   func() // it takes messages, and its answer is lost
	Stall  func() // it neither takes messages nor answers
	Close  func() // the publisher is closed
}

const (
	topic   = "run_sync_unit"
	timeout = 2 * time.Second        // of a publish that should succeed
	short   = 150 * time.Millisecond // of one that cannot
	grace   = 5 * time.Second        // within which a publisher must return behind its deadline, on a busy machine
)

// Run proves the laws. open makes a new bench; what it starts it ends with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Bench) {
	for _, law := range []struct {
		name string
		hold func(*testing.T, Bench)
	}{
		{"it has a name", named},
		{"an accepted message is stored as it is", accepted},
		{"a refused message is not stored", refused},
		{"an answer that is lost is unknown", unknown},
		{"a message id may come twice", duplicate},
		{"a publish ends at its deadline", deadline},
		{"a publish that begins too late does not begin", lateStart},
		{"many publish at once", concurrent},
		{"a closed publisher accepts nothing", closed},
	} {
		t.Run(law.name, func(t *testing.T) { law.hold(t, open(t)) })
	}
}

func newMessage(id string) *message.Message {
	m := message.NewMessage(id, []byte(`{"kind":"run_sync_unit","note":"\u00e9 <&>"}`))
	m.Metadata.Set("kind", "run_sync_unit")
	m.Metadata.Set("empty", "")
	return m
}

// send publishes, and fails if the publisher comes back much later than it may or says what no publisher may.
func send(t *testing.T, b Bench, m *message.Message, within time.Duration) transport.Receipt {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	begun := time.Now()
	r := b.Publisher.Send(ctx, topic, m)
	require.Less(t, time.Since(begun), within+grace, "it came back behind its deadline")
	switch r.Outcome {
	case events.Accepted:
		require.NoError(t, r.Err)
		require.False(t, r.Permanent || r.Uncounted)
	case events.Refused, events.Unknown:
		require.Error(t, r.Err, "people must learn why")
	default:
		t.Fatalf("outcome %q is none of accepted, refused and unknown", r.Outcome)
	}
	if r.Outcome == events.Unknown {
		require.False(t, r.Permanent || r.Uncounted, "an unknown publish counts, and may succeed")
	}
	return r
}

// good is the outcome of a publish to a healthy broker.
func good(b Bench) events.Outcome {
	if transport.Confirms(b.Publisher) {
		return events.Accepted
	}
	return events.Unknown
}

func named(t *testing.T, b Bench) {
	require.NotEmpty(t, b.Publisher.Name())
	require.Equal(t, b.Publisher.Name(), b.Publisher.Name())
}

func accepted(t *testing.T, b Bench) {
	m := newMessage("RUN.run_sync_unit.1.UNIT.1")
	require.Equal(t, good(b), send(t, b, m, timeout).Outcome)
	stored := b.Stored(topic)
	require.Len(t, stored, 1)
	require.Equal(t, m.UUID, stored[0].UUID)
	require.Equal(t, []byte(m.Payload), []byte(stored[0].Payload))
	for key, value := range newMessage("").Metadata {
		require.Equal(t, value, stored[0].Metadata.Get(key), key)
	}
	require.Empty(t, b.Stored("another_topic"))
}

func refused(t *testing.T, b Bench) {
	if b.Refuse == nil {
		t.Skip("this broker cannot refuse")
	}
	b.Refuse()
	require.Equal(t, events.Refused, send(t, b, newMessage("refused"), timeout).Outcome)
	require.Empty(t, b.Stored(topic))
}

func unknown(t *testing.T, b Bench) {
	if b.Lose == nil {
		t.Skip("this broker cannot lose its answer")
	}
	b.Lose()
	require.Equal(t, events.Unknown, send(t, b, newMessage("unknown"), short).Outcome)
}

func duplicate(t *testing.T, b Bench) {
	for range 2 {
		require.Equal(t, good(b), send(t, b, newMessage("twice"), timeout).Outcome)
	}
	stored := b.Stored(topic)
	require.NotEmpty(t, stored)
	require.LessOrEqual(t, len(stored), 2)
	for _, m := range stored {
		require.Equal(t, "twice", m.UUID)
	}
}

func deadline(t *testing.T, b Bench) {
	if b.Stall == nil {
		t.Skip("this broker cannot stall")
	}
	b.Stall()
	require.NotEqual(t, events.Accepted, send(t, b, newMessage("stalled"), short).Outcome)
}

func lateStart(t *testing.T, b Bench) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 20 { // not by chance
		r := b.Publisher.Send(ctx, topic, newMessage("late"))
		require.Equal(t, events.Refused, r.Outcome)
		require.Error(t, r.Err)
		require.False(t, r.Permanent)
	}
	require.Empty(t, b.Stored(topic))
}

func concurrent(t *testing.T, b Bench) {
	const senders, each = 8, 8
	var wg sync.WaitGroup
	outcomes := make([][]events.Outcome, senders)
	for s := range senders {
		wg.Go(func() {
			for n := range each {
				ctx, cancel := context.WithTimeout(context.Background(), timeout)
				r := b.Publisher.Send(ctx, topic, newMessage(fmt.Sprintf("%d.%d", s, n)))
				cancel()
				outcomes[s] = append(outcomes[s], r.Outcome)
			}
		})
	}
	wg.Wait()
	for _, os := range outcomes {
		for _, o := range os {
			require.Equal(t, good(b), o)
		}
	}
	ids := map[string]bool{}
	for _, m := range b.Stored(topic) {
		ids[m.UUID] = true
	}
	require.Len(t, ids, senders*each)
}

func closed(t *testing.T, b Bench) {
	if b.Close == nil {
		t.Skip("this publisher cannot be closed")
	}
	b.Close()
	for range 20 { // not by chance
		require.NotEqual(t, events.Accepted, send(t, b, newMessage("closed"), short).Outcome)
	}
	require.Empty(t, b.Stored(topic))
}
