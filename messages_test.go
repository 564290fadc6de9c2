package towline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	watermill "github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store/sqlite"
	"github.com/towline-dev/towline/transport"
)

// commit submits messages in one transaction of an application.
func (w *workshop) commit(n int) []events.MessageID {
	w.t.Helper()
	tx, err := w.file.DB().Begin()
	require.NoError(w.t, err)
	ids := make([]events.MessageID, n)
	messages := make([]*watermill.Message, n)
	for i := range ids {
		w.made++
		ids[i] = events.MessageID{0: 1, 1: 0x9d, 14: byte(w.made >> 8), 15: byte(w.made)}
		messages[i] = watermill.NewMessage(ids[i].String(), []byte(`{"seat":"12A"}`))
	}
	require.NoError(w.t, sqlite.OutboxAt(tx, func() events.Micros { return events.MicrosOf(w.now.Now()) }).Publish("booking.made", messages...))
	require.NoError(w.t, tx.Commit())
	return ids
}

func (w *workshop) message(id events.MessageID) projections.Message {
	w.t.Helper()
	var m projections.Message
	w.view(func(v projections.View) {
		var ok bool
		var err error
		m, ok, err = v.Message(id)
		require.NoError(w.t, err)
		require.True(w.t, ok)
	})
	return m
}

// M-1, I-25, SC-308: the next engine transaction arms what an application has committed before it decides anything else, in
// its own name and with the message as the cause.
func TestASubmittedMessageIsArmedBeforeAnythingElse(t *testing.T) {
	w := newWorkshop(t)
	before := w.head()
	ids := w.commit(2)
	_, err := w.e.Plan(context.Background(), towline.RunSpec{Sync: "reports", By: towline.Actor{Name: "ada"}})
	require.NoError(t, err)
	log := w.since(before)
	require.Equal(t, []string{"MessageSubmitted", "MessageSubmitted", "OutboxArmed", "OutboxArmed", "JobOpened"}, enginetest.Types(log)[:5])
	oneTx(t, log[2:])
	for i, id := range ids {
		arm := log[2+i]
		require.Equal(t, events.MessageStream(id), arm.Stream)
		require.Equal(t, log[i].Position, arm.Cause)
		require.Empty(t, arm.Actor)
		require.Equal(t, events.OutboxArmed{N: 1, AvailableAt: arm.At, Cause: events.ArmMessage}, arm.Event)
	}
	require.Equal(t, "ada", log[4].Actor)
	w.unchanged(func() { require.NoError(t, w.e.Follow(context.Background())) })
}

// M-1, I-25: ten thousand messages that were committed at once do not make one endless transaction: some are armed in
// each, and whoever asked for something else waits until all are.
func TestManyMessagesAreArmedInBoundedTransactions(t *testing.T) {
	w := newWorkshop(t)
	before := w.head()
	const n, bound = 2500, 1000
	w.commit(n)
	_, err := w.e.Plan(context.Background(), towline.RunSpec{Sync: "reports"})
	require.NoError(t, err)
	perTx := map[events.Position]int{}
	arms := 0
	for _, env := range w.since(before) {
		if _, ok := env.Event.(events.OutboxArmed); ok && env.Stream.Family() == events.MessageStream(events.MessageID{}).Family() {
			arms++
			perTx[env.Tx]++
		}
		if _, ok := env.Event.(events.JobOpened); ok {
			require.Equal(t, n, arms)
		}
	}
	require.Equal(t, n, arms)
	require.Len(t, perTx, 3)
	for _, held := range perTx {
		require.LessOrEqual(t, held, bound)
	}
}

// M-1, N-1, REC-11, C-34: a start arms what was committed before it, right behind its NodeStarted.
func TestAStartArmsWhatWasCommittedBeforeIt(t *testing.T) {
	w := newWorkshop(t)
	id := w.commit(1)[0]
	before := w.head()
	w.crash()
	log := w.since(before)
	require.Equal(t, []string{"NodeStarted", "OutboxArmed"}, enginetest.Types(log)[:2])
	oneTx(t, log[:2])
	w.step()
	require.Equal(t, projections.MessageDispatched, w.message(id).State)

	w.commit(2500)
	before = w.head()
	w.crash()
	require.Len(t, enginetest.Only[events.OutboxArmed](w.since(before)), 2500)
}

// M-1, L-2: a transaction that fails takes its arms back, and the next one arms.
func TestAFailedTransactionArmsNothing(t *testing.T) {
	w := newWorkshop(t)
	w.commit(3)
	failed := errors.New("failed")
	w.unchanged(func() {
		require.ErrorIs(t, w.transact(func(*towline.Tx) error { return failed }), failed)
	})
	w.store.lose = errPlanted
	require.ErrorIs(t, w.e.Follow(context.Background()), errPlanted)
	before := w.head()
	require.NoError(t, w.e.Follow(context.Background()))
	require.Len(t, enginetest.Only[events.OutboxArmed](w.since(before)), 3)
}

// REC-1, L-8: an application's commit counts as found, whatever it was; without one nothing is written, and no
// transaction opened.
func TestOnlyAnApplicationsCommitIsFollowed(t *testing.T) {
	w := newWorkshop(t)
	position := func() (p events.Position) {
		w.view(func(projections.View) {})
		require.NoError(t, w.file.DB().QueryRow(`SELECT min(position) FROM projection`).Scan(&p))
		return p
	}
	w.store.refuse = errPlanted
	require.NoError(t, w.e.Follow(context.Background()))
	w.commit(1)
	require.ErrorIs(t, w.e.Follow(context.Background()), errPlanted)
	w.store.refuse = nil
	require.NoError(t, w.e.Follow(context.Background()))
	require.Equal(t, w.head(), position())
}

// M-2, SC-323: the API adds a message once per key: same payload, same message; other payload, error.
func TestSubmitIsIdempotentByKey(t *testing.T) {
	w := newWorkshop(t)
	m := towline.Message{Topic: "t", Payload: []byte(`{"n":1}`), Key: "k", Metadata: map[string]string{"trace": "1"}}
	first, err := w.e.Submit(context.Background(), m)
	require.NoError(t, err)
	require.False(t, first.Replayed)
	require.Equal(t, []string{"MessageSubmitted", "OutboxArmed"}, enginetest.Types(w.since(w.head()-2)))
	w.step()
	w.advance(365 * 24 * time.Hour)
	w.unchanged(func() {
		again, err := w.e.Submit(context.Background(), m)
		require.NoError(t, err)
		require.Equal(t, towline.Submitted{Message: first.Message, Replayed: true}, again)
		m.Payload = []byte(`{"n":2}`)
		_, err = w.e.Submit(context.Background(), m)
		require.ErrorIs(t, err, towline.ErrKeyReused)
	})
	m.Topic = "other"
	other, err := w.e.Submit(context.Background(), m)
	require.NoError(t, err)
	require.False(t, other.Replayed)

	// The key of an application's transaction is the same key.
	tx, err := w.file.DB().Begin()
	require.NoError(t, err)
	same := watermill.NewMessage(events.MessageID{0: 1, 15: 77}.String(), []byte(`{"n":1}`))
	same.Metadata.Set(events.MetadataKey, "k")
	require.NoError(t, sqlite.Outbox(tx).Publish("t", same))
	require.NoError(t, tx.Commit())
	w.unchanged(func() { require.NoError(t, w.e.Follow(context.Background())) })
}

// M-2, HC-45: what cannot be taken is refused with its field, and nothing is written.
func TestSubmitRefusesWhatCannotBeTaken(t *testing.T) {
	w := newWorkshop(t)
	for field, m := range map[string]towline.Message{
		"topic":    {Topic: "a b"},
		"payload":  {Topic: "t", Payload: make([]byte, events.MaxPayloadBytes+1)},
		"metadata": {Topic: "t", Metadata: map[string]string{events.MetadataMessageID: "1"}},
		"key":      {Topic: "t", Key: strings.Repeat("k", events.MaxMessageKeyBytes+1)},
	} {
		w.unchanged(func() {
			_, err := w.e.Submit(context.Background(), m)
			refused, ok := errors.AsType[*towline.RequestError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, field, refused.Field)
			require.ErrorIs(t, err, towline.ErrInvalid)
		})
	}
}

// M-8, M-9, J-3: a message is rejected once, after a relay took it; one that nobody knows, or that is over, is left alone.
func TestAMessageIsRejectedOnce(t *testing.T) {
	w := newWorkshop(t)
	id := w.commit(1)[0]
	reject := func(id events.MessageID) error {
		return w.e.RejectMessage(context.Background(), id, events.InvalidPayload, "password=hunter2")
	}
	require.ErrorIs(t, reject(events.MessageID{15: 9}), towline.ErrNoMessage)
	require.ErrorIs(t, reject(id), towline.ErrNoMessage, "it was never published")
	w.step()
	require.NoError(t, reject(id))
	m := w.message(id)
	require.Equal(t, projections.MessageRejected, m.State)
	require.Equal(t, events.InvalidPayload, m.Category)
	require.Equal(t, "password=***", m.Text, "E-3")
	require.Equal(t, w.now.Now(), m.SettledAt)
	w.unchanged(func() { require.NoError(t, reject(id)) })
}

// M-7, SC-312, SC-313: every row of an older outbox comes into a state that a scan selects or a person sees; an import that
// is repeated takes each row once, and one that was killed goes on.
func TestRowsOfAnOlderOutboxAreTakenOver(t *testing.T) {
	w := newWorkshop(t)
	now := w.now.Now()
	row := func(id string, s towline.OldState) towline.OldMessage {
		return towline.OldMessage{ID: id, Topic: "t", Payload: []byte(id), State: s, Metadata: map[string]string{"old": id}}
	}
	later, fresh, dead, spent := row("later", towline.OldPending), row("fresh", towline.OldInProgress), row("dead", towline.OldInProgress), row("spent", towline.OldSpent)
	later.AvailableAt = now.Add(time.Hour)
	fresh.ClaimedAt, dead.ClaimedAt = now.Add(-10*time.Second), now.Add(-time.Hour)
	spent.Attempts, spent.LastError = 25, "token=abcdefghij"
	tooLarge, unread := row("too large", towline.OldPending), row("unread", towline.OldPending)
	tooLarge.Payload, unread.Err = make([]byte, events.MaxPayloadBytes+1), errors.New("no time")
	never := row("never", towline.OldInProgress)
	never.ClaimedAt = time.Unix(now.UnixMilli(), 0) // the unit was taken for another
	rows := []towline.OldMessage{
		row("due", towline.OldPending), later, row("stuck", towline.OldInProgress), fresh, dead, spent, row("done", towline.OldDone), tooLarge,
		unread, row("", towline.OldPending), row("odd", "odd"), never,
	}
	died := errors.New("died")
	n, err := w.e.Import(context.Background(), "old", func(yield func(towline.OldMessage, error) bool) {
		_ = yield(rows[0], nil) && yield(rows[2], nil) && yield(towline.OldMessage{}, died)
	}, ada)
	require.ErrorIs(t, err, died)
	require.Equal(t, towline.Imported{Pending: 1, Released: 1}, n)

	w.crash()
	all := func(yield func(towline.OldMessage, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
	n, err = w.e.Import(context.Background(), "old", all, ada)
	require.ErrorIs(t, err, towline.ErrInvalid)
	for _, name := range []string{"too large", "unread", `""`, "odd", "never"} {
		require.ErrorContains(t, err, name)
	}
	require.Equal(t, towline.Imported{Pending: 3, Parked: 1, Done: 1, Known: 2, Refused: 5}, n)
	w.unchanged(func() {
		n, _ = w.e.Import(context.Background(), "old", all, ada)
		require.Equal(t, towline.Imported{Done: 1, Known: 6, Refused: 5}, n)
		rows[0].Payload = []byte("changed since")
		n, err = w.e.Import(context.Background(), "old", all, ada)
		require.ErrorContains(t, err, "row due: key")
		require.Equal(t, towline.Imported{Done: 1, Known: 5, Refused: 6}, n)
	})

	states := map[string]projections.Message{}
	w.view(func(v projections.View) {
		messages, err := v.Messages(events.MessageID{}, 100)
		require.NoError(t, err)
		for _, m := range messages {
			states[m.Metadata["old"]] = m
			require.Equal(t, "old/"+m.Metadata["old"], m.Key)
		}
	})
	require.Len(t, states, 6)
	k := w.e.Knobs()
	require.Equal(t, now, states["due"].AvailableAt)
	require.Equal(t, later.AvailableAt, states["later"].AvailableAt)
	require.Equal(t, fresh.ClaimedAt.Add(k.ClaimTTL), states["fresh"].AvailableAt, "a claim that has not run out is due when it does")
	for _, id := range []string{"stuck", "dead"} {
		require.Equal(t, projections.MessagePending, states[id].State)
		require.False(t, states[id].AvailableAt.Before(now))
		require.Less(t, states[id].AvailableAt.Sub(now), k.BackoffCap)
	}
	require.Equal(t, "migration_no_claim_time", states["stuck"].LastCause)
	require.Equal(t, projections.MessageParked, states["spent"].State)
	require.Equal(t, "taken over with its attempts used up (25): token=***", states["spent"].LastText)

	w.advance(time.Hour)
	w.step()
	require.Equal(t, 5, len(w.broker.take()))
}

// M-7, X-7: an import has a name, which keeps its keys apart from those of others, and names who imports.
func TestAnImportNeedsANameAndAnActor(t *testing.T) {
	w := newWorkshop(t)
	for _, name := range []string{"", strings.Repeat("n", 101)} {
		_, err := w.e.Import(context.Background(), name, func(func(towline.OldMessage, error) bool) {}, ada)
		require.ErrorIs(t, err, towline.ErrInvalid)
	}
	rows := func(yield func(towline.OldMessage, error) bool) {
		yield(towline.OldMessage{ID: "1", Topic: "t", State: towline.OldPending}, nil)
	}
	w.requireRefused("by.name", towline.ErrInvalid, func() error {
		_, err := w.e.Import(context.Background(), "a", rows, towline.Actor{})
		return err
	})
	before := w.head()
	for _, name := range []string{"a", "b"} {
		n, err := w.e.Import(context.Background(), name, rows, ada)
		require.NoError(t, err)
		require.Equal(t, 1, n.Pending)
	}
	for _, env := range w.since(before) {
		require.Equal(t, "ada", env.Actor)
	}
}

// L-9, M-7: a store that is away ends an import; what was taken over stays, and the next goes on behind it.
func TestAnImportEndsWithItsStore(t *testing.T) {
	w := newWorkshop(t)
	rows := func(yield func(towline.OldMessage, error) bool) {
		for i := range 250 {
			if i == 150 {
				w.store.refuse = towline.ErrUnavailable
			}
			if !yield(towline.OldMessage{ID: fmt.Sprint(i), Topic: "t", State: towline.OldPending}, nil) {
				return
			}
		}
	}
	n, err := w.e.Import(context.Background(), "old", rows, ada)
	require.ErrorIs(t, err, towline.ErrUnavailable)
	require.Equal(t, 100, n.Pending)
	w.store.refuse = nil
	n, err = w.e.Import(context.Background(), "old", func(yield func(towline.OldMessage, error) bool) {
		for i := range 250 {
			if !yield(towline.OldMessage{ID: fmt.Sprint(i), Topic: "t", State: towline.OldPending}, nil) {
				return
			}
		}
	}, ada)
	require.NoError(t, err)
	require.Equal(t, towline.Imported{Pending: 150, Known: 100}, n)
}

// Spec 4.2, SC-313: messages are listed newest first, page by page, with their payload; a person finds those that nobody
// could handle, and those that are parked.
func TestMessagesAreListed(t *testing.T) {
	w := newWorkshop(t)
	ids := w.commit(5)
	var first projections.Message
	w.view(func(v projections.View) {
		_, ok, err := v.Message(ids[0])
		require.NoError(t, err)
		require.False(t, ok, "the views are behind the application's commit")
	})
	require.NoError(t, w.e.Follow(context.Background()))
	first = w.message(ids[0])
	require.Equal(t, projections.Message{
		Message: ids[0], Topic: "booking.made", Payload: []byte(`{"seat":"12A"}`), State: projections.MessagePending,
		SubmittedAt: w.now.Now(), AvailableAt: w.now.Now(),
	}, first)
	body, err := first.Body()
	require.NoError(t, err)
	require.Equal(t, `{"seat":"12A"}`, string(body))

	w.step()
	require.NoError(t, w.e.RejectMessage(context.Background(), ids[2], events.HandlerFailed, "no"))
	w.view(func(v projections.View) {
		var got []events.MessageID
		for before := (events.MessageID{}); ; {
			page, err := v.Messages(before, 2)
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			for _, m := range page {
				got = append(got, m.Message)
			}
			before = page[len(page)-1].Message
		}
		slices.Reverse(got)
		require.Equal(t, ids, got)
		rejected, err := v.RejectedMessages(events.MessageID{}, 10)
		require.NoError(t, err)
		require.Len(t, rejected, 1)
		require.Equal(t, ids[2], rejected[0].Message)
	})
	var state, payload string
	require.NoError(t, w.file.DB().QueryRow(`SELECT state, payload FROM messages_view WHERE message_id = $1`, ids[2].String()).Scan(&state, &payload))
	require.Equal(t, []string{"rejected", `{"seat":"12A"}`}, []string{state, payload})
}

// O-18, K-4, SC-326: a parked message that is redriven goes out under a new id, and with the same id of its own.
func TestARedrivenMessageKeepsItsOwnId(t *testing.T) {
	w := newWorkshop(t)
	id := w.commit(1)[0]
	w.broker.script = func(sent) transport.Receipt {
		return transport.Receipt{Outcome: events.Refused, Permanent: true, Err: errPlanted}
	}
	w.step()
	require.Equal(t, projections.MessageParked, w.message(id).State)
	w.broker.script = nil
	w.broker.take()
	require.NoError(t, w.e.Redrive(context.Background(), towline.MessageRegister(id), ada))
	w.step()
	got := w.broker.take()
	require.Equal(t, id.String()+".message.2", got[0].id)
	require.Equal(t, id.String(), got[0].app.Metadata.Get(events.MetadataMessageID))
}

// O-15, O-18: a parked message waits for a person until it is settled, be it by a publish of which nobody knew that it had
// arrived. From then on nobody redrives it.
func TestAParkedMessageThatIsSettledWaitsForNobody(t *testing.T) {
	w := newWorkshop(t)
	id := w.commit(1)[0]
	w.broker.script = func(sent) transport.Receipt {
		return transport.Receipt{Outcome: events.Refused, Permanent: true, Err: errPlanted}
	}
	w.step()
	require.Equal(t, 1, w.held())
	require.NoError(t, w.e.RejectMessage(context.Background(), id, events.HandlerFailed, ""))
	require.Zero(t, w.held())
	w.view(func(v projections.View) {
		held, err := v.HeldRegisters(10)
		require.NoError(t, err)
		require.Empty(t, held)
	})
	w.requireConflict("register", func() error {
		return w.e.Redrive(context.Background(), towline.MessageRegister(id), ada)
	})
}
