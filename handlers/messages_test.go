package handlers_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/handlers"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/transport"
)

const bookings = "booking.made"

// withConsumer gives the shop a consumer of bookings and a table of an application.
func (s *shop) withConsumer(c handlers.Consumer) {
	s.t.Helper()
	_, err := s.file.DB().Exec(`CREATE TABLE IF NOT EXISTS booking (seat TEXT NOT NULL) STRICT`)
	require.NoError(s.t, err)
	s.h.Stop()
	s.stop()
	require.NoError(s.t, <-s.done)
	s.h = handlers.New(s.e, handlers.Config{Messages: map[string]handlers.Consumer{bookings: c}, Inbox: s.file})
	ctx, cancel := context.WithCancel(context.Background())
	s.stop, s.done = cancel, make(chan error, 1)
	go func() { s.done <- s.h.Run(ctx) }()
}

// delivered submits a message, lets a relay claim it, and is what a transport delivers of it.
func (s *shop) delivered(body string) (*message.Message, events.MessageID) {
	s.t.Helper()
	m, err := s.e.Submit(context.Background(), towline.Message{Topic: bookings, Payload: []byte(body)})
	require.NoError(s.t, err)
	require.NoError(s.t, s.e.Transact(context.Background(), "", func(tx *towline.Tx) error {
		_, err := tx.Execute(decider.ClaimWakeup{
			Owner: events.RunID(m.Message), Kind: events.KindMessage, At: tx.Now(), Token: tx.NewToken(), Messages: 1,
			ExpiresAt: tx.Now().Add(events.SpanOf(time.Minute)), MaxAttempts: 20,
		})
		return err
	}))
	out := message.NewMessage(m.Message.String()+".message.1", []byte(body))
	out.Metadata.Set(events.MetadataMessageID, m.Message.String())
	return out, m.Message
}

func (s *shop) handleMessage(m *message.Message) error {
	return s.h.HandleMessage(m.Context(), bookings, m)
}

func (s *shop) message(id events.MessageID) (m projections.Message) {
	s.t.Helper()
	require.NoError(s.t, s.e.Follow(context.Background()))
	require.NoError(s.t, s.e.View(context.Background(), func(v projections.View) (err error) {
		m, _, err = v.Message(id)
		return err
	}))
	return m
}

func (s *shop) seats() (n int) {
	s.t.Helper()
	require.NoError(s.t, s.file.DB().QueryRow(`SELECT count(*) FROM booking`).Scan(&n))
	return n
}

// book writes the payload of a message into the application's table.
func book(ctx context.Context, tx *sql.Tx, m *message.Message) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO booking (seat) VALUES ($1)`, string(m.Payload))
	return err
}

// M-12, SC-322: a replayed delivery has one effect, under whatever id it comes.
func TestAReplayedDeliveryHasOneEffect(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		s.withConsumer(handlers.Consumer{Handle: book})
		m, id := s.delivered("12A")
		for n := range 3 {
			again := m.Copy()
			again.UUID = fmt.Sprintf("%s.message.%d", id, n+1)
			require.NoError(t, s.handleMessage(again))
		}
		require.Equal(t, 1, s.seats())
		require.EqualValues(t, 2, s.e.Tally().Absorbed)
		require.Equal(t, projections.MessageHandled, s.message(id).State)
	})
}

// M-8, SC-314, HC-48: a bad identifier is rejected before any look-up, once, and is not delivered again.
func TestABadIdentifierIsRejectedBeforeLookUp(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		lookedUp := 0
		s.withConsumer(handlers.Consumer{
			Validate: func(m *message.Message) error {
				_, err := events.ParseUnitID(string(m.Payload))
				return err
			},
			Handle: func(context.Context, *sql.Tx, *message.Message) error { lookedUp++; return nil },
		})
		for _, payload := range []string{"", "null", "17", "{01ARZ3NDEKTSV4RRFFQ69G5FAV}", "01ARZ3NDEKTSV4RRFFQ69G5FA"} {
			m, id := s.delivered(payload)
			require.NoError(t, s.handleMessage(m))
			require.NoError(t, s.handleMessage(m))
			got := s.message(id)
			require.Equal(t, projections.MessageRejected, got.State)
			require.Equal(t, events.InvalidPayload, got.Category)
			require.Contains(t, got.Text, "want a ULID")
		}
		require.Zero(t, lookedUp)
		m, id := s.delivered("01arz3ndektsv4rrffq69g5fav")
		require.NoError(t, s.handleMessage(m))
		require.Equal(t, 1, lookedUp)
		require.Equal(t, projections.MessageHandled, s.message(id).State)
	})
}

// M-8: a handler that finds out later says so with Invalid; nothing of it is kept.
func TestAHandlerMayFindAMessageInvalid(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		s.withConsumer(handlers.Consumer{Handle: func(ctx context.Context, tx *sql.Tx, m *message.Message) error {
			return errors.Join(book(ctx, tx, m), handlers.Invalid(errors.New("no such seat")))
		}})
		m, id := s.delivered("99Z")
		require.NoError(t, s.handleMessage(m))
		require.Zero(t, s.seats())
		got := s.message(id)
		require.Equal(t, events.InvalidPayload, got.Category)
		require.Equal(t, "no such seat", got.Text)
	})
}

// M-9, SC-315, SC-316: a message that nobody has submitted, and one without a readable id, is acknowledged, counted and
// logged; its neighbours are not touched.
func TestAnUnknownMessageIsAcknowledged(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		s.withConsumer(handlers.Consumer{Handle: book, Validate: func(m *message.Message) error {
			if len(m.Payload) == 0 {
				return errors.New("empty")
			}
			return nil
		}})
		unknown := message.NewMessage("x", []byte("1"))
		unknown.Metadata.Set(events.MetadataMessageID, events.MessageID{15: 9}.String())
		require.NoError(t, s.handleMessage(unknown))
		unknown.Payload = nil
		require.NoError(t, s.handleMessage(unknown))
		require.EqualValues(t, 2, s.e.Tally().UnknownMessages)
		require.Contains(t, s.log.String(), "unknown message")
		require.NoError(t, s.handleMessage(message.NewMessage("y", nil)))
		require.EqualValues(t, 1, s.e.Tally().BadMessages)
		require.Contains(t, s.log.String(), "bad message")
		require.Zero(t, s.seats())
		require.Error(t, s.h.HandleMessage(context.Background(), "other", unknown), "a topic that nobody consumes is a mistake of the wiring")
	})
}

// M-11, SC-321: a consumer's failure is tried again by the transport alone, up to handler.max_deliveries, and the log of the
// process says how often; then the message is parked. The outbox publishes nothing for it until somebody redrives it.
func TestAConsumerThatFailsIsTriedAgainByTheTransport(t *testing.T) {
	for name, fails := range map[string]func() error{
		"an error": func() error { return errors.New("password=hunter2") },
		"a panic":  func() error { panic("password=hunter2") },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, options{knobs: towline.Knobs{MaxDeliveries: 3}}, func(t *testing.T, s *shop) {
				s.withConsumer(handlers.Consumer{Handle: func(ctx context.Context, tx *sql.Tx, m *message.Message) error {
					return errors.Join(book(ctx, tx, m), fails())
				}})
				m, id := s.delivered("12A")
				for n := 1; n <= 2; n++ {
					m.SetContext(transport.WithDelivery(context.Background(), n))
					require.ErrorContains(t, s.handleMessage(m), "password=***")
					require.Equal(t, projections.MessageClaimed, s.message(id).State)
				}
				m.SetContext(context.Background())
				require.Error(t, s.handleMessage(m), "a transport that does not count gives up by itself")
				m.SetContext(transport.WithDelivery(context.Background(), 3))
				require.NoError(t, s.handleMessage(m))
				got := s.message(id)
				require.Equal(t, projections.MessageParked, got.State)
				require.Equal(t, string(events.ParkHandlerFailed), got.LastCause)
				require.Contains(t, got.LastText, "password=***")
				require.Empty(t, got.Category)
				for _, line := range []string{"delivery=1 of=3", "delivery=2 of=3", `msg="message parked; a redrive delivers it again"`} {
					require.Contains(t, s.log.String(), line)
				}
				require.NotContains(t, s.log.String(), "hunter2")
				require.Equal(t, 1, got.Attempts, "the outbox knows nothing of it")
				require.Zero(t, s.seats())

				require.NoError(t, s.handleMessage(m), "a delivery that comes late")
				require.NoError(t, s.e.Redrive(t.Context(), towline.MessageRegister(id), towline.Actor{Name: "ada"}))
				require.Equal(t, projections.MessagePending, s.message(id).State)
			})
		})
	}
}

// M-11, HC-11: a consumer that ends its goroutine, as a test library does, has failed: it leaves nothing of its effect, and
// whoever delivers goes on.
func TestAConsumerThatEndsItsGoroutineHasFailed(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		exits := true
		s.withConsumer(handlers.Consumer{Handle: func(ctx context.Context, tx *sql.Tx, m *message.Message) error {
			err := book(ctx, tx, m)
			if exits {
				runtime.Goexit()
			}
			return err
		}})
		m, id := s.delivered("12A")
		require.ErrorContains(t, s.handleMessage(m), "it ended its goroutine")
		require.Zero(t, s.seats())
		exits = false
		require.NoError(t, s.handleMessage(m))
		require.Equal(t, projections.MessageHandled, s.message(id).State)
		require.Equal(t, 1, s.seats())
	})
}

// M-8: a validator that panics is a failure of the consumer, not of the message.
func TestAValidatorThatPanicsRejectsNothingAtOnce(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		s.withConsumer(handlers.Consumer{Validate: func(*message.Message) error { panic("planted") }, Handle: book})
		m, id := s.delivered("12A")
		m.SetContext(transport.WithDelivery(context.Background(), 1))
		require.ErrorContains(t, s.handleMessage(m), "planted")
		require.Equal(t, projections.MessageClaimed, s.message(id).State)
	})
}

// M-11, C-44: a store that is away uses up no delivery, whatever the count is.
func TestAnEffectWhoseStoreIsAwayUsesUpNoDelivery(t *testing.T) {
	run(t, options{knobs: towline.Knobs{MaxDeliveries: 1}}, func(t *testing.T, s *shop) {
		s.withConsumer(handlers.Consumer{Handle: func(context.Context, *sql.Tx, *message.Message) error {
			return fmt.Errorf("insert: %w", towline.ErrUnavailable)
		}})
		m, id := s.delivered("12A")
		m.SetContext(transport.WithDelivery(context.Background(), 1))
		require.ErrorIs(t, s.handleMessage(m), towline.ErrUnavailable)
		require.Equal(t, projections.MessageClaimed, s.message(id).State)

		s.withConsumer(handlers.Consumer{Handle: func(context.Context, *sql.Tx, *message.Message) error { return errors.New("no") }})
		s.store.gone.Store(true)
		require.ErrorIs(t, s.handleMessage(m), towline.ErrUnavailable, "that it is parked could not be written")
		s.store.gone.Store(false)
		require.NoError(t, s.handleMessage(m))
		require.Equal(t, projections.MessageParked, s.message(id).State)
	})
}
