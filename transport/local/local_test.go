package local_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/transport"
	"github.com/towline-dev/towline/transport/local"
	"github.com/towline-dev/towline/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// drain takes n messages of a topic. It is told how many: what a lane is about to hand out does not wait any more.
func drain(t *testing.T, b *local.Bus, topic string, n int) (out []*message.Message) {
	t.Helper()
	s := b.Subscriber(1)
	messages, err := s.Subscribe(context.Background(), topic)
	require.NoError(t, err)
	for range n {
		m := <-messages
		require.NotNil(t, m, "the subscription has ended")
		out = append(out, m)
		m.Ack()
	}
	require.NoError(t, s.Close())
	return out
}

// O-10, B-8: the in-process transport keeps the laws of all transports.
func TestTheBusKeepsTheLaws(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) transporttest.Bench {
		const capacity = 100
		b := local.New(local.Options{Capacity: capacity})
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		var kept []*message.Message
		fill := func() {
			for range capacity {
				b.Send(context.Background(), "run_sync_unit", message.NewMessage("filler", nil))
			}
		}
		return transporttest.Bench{
			Publisher: b,
			Stored: func(topic string) []*message.Message {
				for _, m := range drain(t, b, topic, b.Waiting(topic)) {
					if m.UUID != "filler" {
						kept = append(kept, m)
					}
				}
				if topic != "run_sync_unit" {
					return nil
				}
				return kept
			},
			Refuse: fill, Stall: fill, Close: func() { require.NoError(t, b.Close()) },
		}
	})
}

// N-3: the name is the one by which the engine knows that a message has died with its process.
func TestTheBusHasTheReservedName(t *testing.T) {
	require.Equal(t, events.TransportLocal, local.New(local.Options{}).Name())
	require.True(t, transport.Confirms(local.New(local.Options{})))
}

func send(b *local.Bus, id string, within time.Duration) transport.Receipt {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return b.Send(ctx, "topic", message.NewMessage(id, []byte(id)))
}

// B-8, SC-348: a full queue makes a publish wait for room until its deadline, and refuses it then, uncounted.
func TestAFullQueueRefusesAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New(local.Options{Capacity: 2})
		require.Equal(t, events.Accepted, send(b, "a", time.Second).Outcome)
		require.Equal(t, events.Accepted, send(b, "b", time.Second).Outcome)
		begun := time.Now()
		r := send(b, "c", 5*time.Second)
		require.Equal(t, 5*time.Second, time.Since(begun))
		require.Equal(t, events.Refused, r.Outcome)
		require.True(t, r.Uncounted, "it is not the message's fault")
		require.False(t, r.Permanent)
		require.Equal(t, 2, b.Waiting("topic"))
		require.Zero(t, b.Waiting("other"), "a topic has a queue of its own")

		done := make(chan transport.Receipt)
		go func() { done <- send(b, "d", time.Hour) }()
		synctest.Wait()
		begun = time.Now()
		drain(t, b, "topic", 3)
		require.Zero(t, b.Waiting("topic"))
		require.Equal(t, events.Accepted, (<-done).Outcome)
		require.Zero(t, time.Since(begun), "room ends the wait at once")
	})
}

// B-8: a publish that waits for room ends with the bus.
func TestCloseEndsAWaitingPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New(local.Options{Capacity: 1})
		send(b, "a", time.Second)
		done := make(chan transport.Receipt)
		go func() { done <- send(b, "b", time.Hour) }()
		synctest.Wait()
		require.NoError(t, b.Close())
		r := <-done
		require.Equal(t, events.Refused, r.Outcome)
		require.True(t, r.Uncounted)
		require.NoError(t, b.Close(), "twice is once")
	})
}

// Section 10, HC-13: a message that is refused comes again, behind a wait that doubles up to 5 s, with a life of its
// own; it is dropped, and that is logged, when it was delivered too often.
func TestARefusedMessageComesAgainAndIsDroppedInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b := local.New(local.Options{
			Logger: slog.New(slog.NewTextHandler(&log, nil)), Again: func(topic string) string { return topic + " in 15m0s" },
		})
		s := b.Subscriber(1)
		messages, err := s.Subscribe(t.Context(), "topic")
		require.NoError(t, err)
		send(b, "stubborn", time.Second)
		waits := []time.Duration{0, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000}
		for _, wait := range waits {
			begun := time.Now()
			m := <-messages
			require.Equal(t, wait*time.Millisecond, time.Since(begun))
			require.Equal(t, "stubborn", m.UUID)
			require.Equal(t, "stubborn", string(m.Payload))
			require.Empty(t, m.Metadata.Get("seen"))
			require.NoError(t, m.Context().Err())
			m.Metadata.Set("seen", "yes") // by a consumer: the next delivery does not see it
			m.Nack()
		}
		<-time.After(time.Hour) // of the bubble
		select {
		case <-messages:
			t.Fatal("it came once more")
		default:
		}
		require.NoError(t, s.Close())
		require.Contains(t, log.String(), "message dropped after too many deliveries")
		require.Contains(t, log.String(), `deliveries=10 again="topic in 15m0s"`)
	})
}

// HC-13: refused messages hold up nobody: they wait outside of the window, where there is room for many of them. With
// more, the window waits too, so that a fault that meets every message does not use up the deliveries of all.
func TestARefusedMessageHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window, aside = 2, 64
		b := local.New(local.Options{})
		s := b.Subscriber(window)
		messages, err := s.Subscribe(t.Context(), "topic")
		require.NoError(t, err)
		begun := time.Now()
		for range aside {
			send(b, "bad", time.Second)
			(<-messages).Nack()
		}
		send(b, "good", time.Second)
		m := <-messages
		require.Equal(t, "good", m.UUID)
		require.Zero(t, time.Since(begun))
		m.Ack()

		for range window { // there is no room for these
			send(b, "bad", time.Second)
			(<-messages).Nack()
		}
		send(b, "good", time.Second)
		for m = <-messages; m.UUID != "good"; m = <-messages {
			require.Equal(t, 100*time.Millisecond, time.Since(begun))
			m.Ack()
		}
		m.Ack()
		require.NoError(t, s.Close())
	})
}

// N-6: a subscription that ends gives back at once what it had put aside, and leaves no goroutine behind: the bubble
// ends only when every one has.
func TestAClosedSubscriptionGivesBackWhatItHadPutAside(t *testing.T) {
	for _, by := range []string{"close", "context", "bus"} {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := local.New(local.Options{RetryDelay: time.Hour})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := b.Subscriber(2)
				messages, err := s.Subscribe(ctx, "topic")
				require.NoError(t, err)
				for i := range 5 {
					send(b, fmt.Sprint(i), time.Second)
					(<-messages).Nack()
				}
				synctest.Wait()
				require.Zero(t, b.Waiting("topic"))
				begun := time.Now()
				switch by {
				case "close":
					require.NoError(t, s.Close())
				case "context":
					cancel()
				case "bus":
					require.NoError(t, b.Close())
				}
				_, open := <-messages
				require.False(t, open)
				require.Zero(t, time.Since(begun))
				require.Equal(t, 5, b.Waiting("topic"))
			})
		})
	}
}

// Section 20: handler.max_deliveries bounds the deliveries of one message.
func TestMaxDeliveriesIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New(local.Options{MaxDeliveries: 2, RetryDelay: time.Second, Logger: slog.New(slog.DiscardHandler)})
		s := b.Subscriber(3)
		messages, err := s.Subscribe(t.Context(), "topic")
		require.NoError(t, err)
		for i := range 4 {
			send(b, fmt.Sprint(i), time.Second)
		}
		got := map[string]int{}
		for range 8 {
			m := <-messages
			got[m.UUID]++
			m.Nack()
		}
		require.Equal(t, map[string]int{"0": 2, "1": 2, "2": 2, "3": 2}, got)
		<-time.After(time.Hour)
		require.Zero(t, b.Waiting("topic"))
		require.NoError(t, s.Close())
	})
}

// Section 10: a subscription hands out at most as many messages at once as its window, and each message to one
// subscription.
func TestTheWindowBoundsWhatIsAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New(local.Options{})
		for i := range 20 {
			send(b, fmt.Sprint(i), time.Second)
		}
		first, second := b.Subscriber(3), b.Subscriber(0)
		a, err := first.Subscribe(t.Context(), "topic")
		require.NoError(t, err)
		c, err := second.Subscribe(t.Context(), "topic")
		require.NoError(t, err)
		seen := map[string]bool{}
		var held []*message.Message
		take := func(from <-chan *message.Message, want int) {
			n := 0
			for {
				synctest.Wait()
				select {
				case m := <-from:
					require.False(t, seen[m.UUID], "twice")
					seen[m.UUID] = true
					held = append(held, m)
					n++
					continue
				default:
				}
				break
			}
			require.Equal(t, want, n)
		}
		take(a, 3)
		take(c, 1)
		for len(seen) < 20 {
			held[0].Ack()
			held = held[1:]
			synctest.Wait()
			select {
			case m := <-a:
				seen[m.UUID], held = true, append(held, m)
			case m := <-c:
				seen[m.UUID], held = true, append(held, m)
			default:
			}
			require.LessOrEqual(t, len(held), 4)
		}
		for _, m := range held {
			m.Ack()
		}
		require.NoError(t, first.Close())
		require.NoError(t, second.Close())
	})
}

// N-6, REC-16: a subscriber that closes waits for what is at work, ends its channel, and leaves what it has not handed
// out to others; so does one whose context ends.
func TestAClosedSubscriptionLosesNothing(t *testing.T) {
	for _, by := range []string{"close", "context"} {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := local.New(local.Options{RetryDelay: time.Minute})
				for i := range 6 {
					send(b, fmt.Sprint(i), time.Second)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := b.Subscriber(3)
				messages, err := s.Subscribe(ctx, "topic")
				require.NoError(t, err)
				working := <-messages
				refused := <-messages
				refused.Nack() // it waits to be delivered again
				synctest.Wait()
				closed := make(chan struct{})
				go func() {
					if by == "context" {
						cancel()
					} else {
						require.NoError(t, s.Close())
					}
					for m := range messages { // one that was just being handed out
						m.Nack()
					}
					close(closed)
				}()
				synctest.Wait()
				select {
				case <-closed:
					t.Fatal("it did not wait for the message at work")
				default:
				}
				working.Ack()
				<-closed
				require.Equal(t, 5, b.Waiting("topic"))
				drain(t, b, "topic", 5)
				require.NoError(t, s.Close())
			})
		})
	}
}

// N-3: a bus that closes ends its subscriptions; what waits is lost, as it is when the process dies.
func TestAClosedBusEndsItsSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New(local.Options{})
		messages, err := b.Subscriber(4).Subscribe(t.Context(), "topic")
		require.NoError(t, err)
		require.NoError(t, b.Close())
		_, open := <-messages
		require.False(t, open)
	})
}

// N-6, C-46: a topic is drained when its last message is settled: handled, or given up behind its last delivery.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New(local.Options{MaxDeliveries: 2, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, b.Drain(t.Context(), "t"), "an empty one is")
		for range 3 {
			require.Equal(t, events.Accepted, b.Send(t.Context(), "t", message.NewMessage("m", nil)).Outcome)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, b.Drain(soon, "t"), context.DeadlineExceeded, "nobody takes them")

		sub := b.Subscriber(1)
		out, err := sub.Subscribe(t.Context(), "t")
		require.NoError(t, err)
		drained := make(chan error, 1)
		go func() { drained <- b.Drain(t.Context(), "t") }()
		(<-out).Ack()
		(<-out).Nack()
		(<-out).Ack()
		synctest.Wait()
		require.Empty(t, drained)
		(<-out).Nack() // given up
		require.NoError(t, <-drained)

		b.Send(t.Context(), "t", message.NewMessage("m", nil))
		go func() { drained <- b.Drain(t.Context(), "t") }()
		m := <-out
		require.NoError(t, b.Close())
		require.Error(t, <-drained)
		m.Ack()
		require.NoError(t, sub.Close())
	})
}

// M-11: a consumer learns how often a message has come.
func TestADeliveryIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New(local.Options{MaxDeliveries: 3, Logger: slog.New(slog.DiscardHandler)})
		s := b.Subscriber(1)
		in, err := s.Subscribe(t.Context(), "t")
		require.NoError(t, err)
		require.Equal(t, events.Accepted, b.Send(t.Context(), "t", message.NewMessage("m", nil)).Outcome)
		for n := 1; n <= 3; n++ {
			m := <-in
			require.Equal(t, n, transport.Delivery(m.Context()))
			m.Nack()
		}
		require.NoError(t, b.Drain(t.Context(), "t"))
		require.NoError(t, s.Close())
	})
	require.Zero(t, transport.Delivery(context.Background()))
}

// M-11, C-36: a refused message finds no room in a queue that is full, and comes again all the same: nobody else knows
// that it was not handled.
func TestAFullQueueLosesNoRefusedMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := local.New(local.Options{Capacity: 1, Logger: slog.New(slog.DiscardHandler)})
		s := b.Subscriber(1)
		in, err := s.Subscribe(t.Context(), "t")
		require.NoError(t, err)
		send := func(id string) {
			require.Equal(t, events.Accepted, b.Send(t.Context(), "t", message.NewMessage(id, nil)).Outcome)
		}
		send("refused")
		first := <-in
		first.Nack()
		synctest.Wait()
		send("a") // the lane has taken it
		synctest.Wait()
		send("b")               // and this one fills the queue
		time.Sleep(time.Second) // of the bubble: the refused one comes back
		var got []string
		for range 3 {
			m := <-in
			got = append(got, m.UUID)
			m.Ack()
		}
		require.ElementsMatch(t, []string{"refused", "a", "b"}, got)
		require.NoError(t, b.Drain(t.Context(), "t"))
		require.NoError(t, s.Close())
	})
}
