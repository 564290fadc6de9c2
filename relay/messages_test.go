package relay_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/relay"
	"github.com/towline-dev/towline/store/sqlite"
	"github.com/towline-dev/towline/transport"
)

// add commits messages in one transaction of an application.
func (x *office) add(topic string, bodies ...string) (ids []events.MessageID) {
	x.t.Helper()
	tx, err := x.file.DB().Begin()
	require.NoError(x.t, err)
	var messages []*message.Message
	for _, body := range bodies {
		x.made++
		id := events.MessageID{0: 1, 1: 0x9d, 14: byte(x.made >> 8), 15: byte(x.made)}
		messages = append(messages, message.NewMessage(id.String(), []byte(body)))
		ids = append(ids, id)
	}
	now := func() events.Micros { return events.MicrosOf(x.clock.Now()) }
	require.NoError(x.t, sqlite.OutboxAt(tx, now).Publish(topic, messages...))
	require.NoError(x.t, tx.Commit())
	return ids
}

func (x *office) message(id events.MessageID) (m projections.Message) {
	x.t.Helper()
	x.view(func(v projections.View) {
		var ok bool
		var err error
		m, ok, err = v.Message(id)
		require.NoError(x.t, err)
		require.True(x.t, ok)
	})
	return m
}

func (x *office) requireState(want projections.MessageState, id events.MessageID) projections.Message {
	x.t.Helper()
	m := x.message(id)
	require.Equal(x.t, want, m.State)
	return m
}

// consume delivers a message.
func (x *office) consume(m sent) bool {
	x.t.Helper()
	id, err := events.ParseMessageID(m.app.Metadata.Get(events.MetadataMessageID))
	require.NoError(x.t, err)
	done, err := x.file.Consume(context.Background(), id, m.id, func(context.Context, *sql.Tx) error { return nil })
	require.NoError(x.t, err)
	return done
}

// M-1, K-3, K-4, WMILL-3, SC-371: what an application has committed is found by the next relay step, without a
// notice of it, armed, and published to its own topic, byte for byte, under an id of its wakeup and with its own id beside.
func TestAMessageIsPublishedAsItWasSubmitted(t *testing.T) {
	x := newOffice(t)
	id := x.add("dispatch_sync_run", "{\"n\": 1}\n")[0] // a topic may have the name of a kind
	r := x.step()
	require.Equal(t, [2]int{1, 1}, [2]int{r.Claimed, r.Dispatched})
	got := x.broker.take()
	require.Len(t, got, 1)
	require.Equal(t, "dispatch_sync_run", got[0].topic)
	require.Equal(t, id.String()+".message.1", got[0].id)
	require.Equal(t, "{\"n\": 1}\n", string(got[0].app.Payload))
	require.Equal(t, message.Metadata{events.MetadataMessageID: id.String()}, got[0].app.Metadata)
	x.requireState(projections.MessageDispatched, id)
	x.unchanged(func() { x.pass() })

	_, err := x.e.Submit(context.Background(), towline.Message{Topic: "t", Payload: []byte("x"), Key: "k", Metadata: map[string]string{"a": "b"}})
	require.NoError(t, err)
	x.step()
	delivered := x.broker.take()[0].app
	require.Equal(t, "b", delivered.Metadata.Get("a"))
	require.Equal(t, "k", delivered.Metadata.Get(events.MetadataKey))
}

// M-1: a message waits for its own time.
func TestAMessageWaitsForItsTime(t *testing.T) {
	x := newOffice(t)
	_, err := x.e.Submit(context.Background(), towline.Message{Topic: "t", AvailableAt: start.Add(time.Hour)})
	require.NoError(t, err)
	require.Equal(t, events.MicrosOf(start.Add(time.Hour)), x.step().NextDue)
	x.clock.Step(time.Hour - time.Microsecond)
	x.unchanged(func() { x.step() })
	x.clock.Step(time.Microsecond)
	require.Equal(t, 1, x.step().Dispatched)
}

// M-4, M-6, SC-309: a failed publish is published again on a later pass.
func TestAFailedPublishIsPublishedAgainOnALaterPass(t *testing.T) {
	for _, alone := range []bool{false, true} {
		x := newOffice(t)
		bodies := []string{"fails", "arrives"}
		if alone { // then it may be the transport (O-16)
			bodies = bodies[:1]
		}
		id := x.add("t", bodies...)[0]
		x.broker.script = func(s sent) transport.Receipt {
			if string(s.app.Payload) == "fails" {
				return transport.Refused(errBroker)
			}
			return transport.Accepted("")
		}
		require.Equal(t, 1, x.pass().Released)
		m := x.requireState(projections.MessagePending, id)
		require.Equal(t, len(bodies)-1, m.Attempts, "M-6: it counts, if it is its own fault")
		require.Equal(t, "refused", m.LastCause)
		x.broker.script = nil
		x.broker.take()
		x.unchanged(func() { x.pass() }) // M-5: not twice in a row
		x.clock.Step(6 * time.Second)
		require.Equal(t, 1, x.pass().Dispatched)
		require.Equal(t, []string{id.String() + ".message.1"}, idsOf(x.broker.take()))
		x.requireState(projections.MessageDispatched, id)
	}
}

// M-4, C-35, SC-310: a crash between claim and publish is recovered within M-4's bound: claim_ttl + backoff + one pass in
// shared mode, and at the restart in exclusive mode.
func TestACrashBetweenClaimAndPublishIsRecoveredWithinItsBound(t *testing.T) {
	for _, shared := range []bool{true, false} {
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) {
			x := openOffice(t, options{shared: shared})
			id := x.add("t", "1")[0]
			died := errors.New("died")
			x.broker.script = func(sent) transport.Receipt {
				x.store.away(died) // nothing that this process says from here on is heard
				return transport.Unknown(died)
			}
			require.Error(t, x.relay.Step(context.Background()).Err())
			x.store.away(nil)
			x.broker = &broker{}
			x.crash()
			if shared {
				x.unchanged(func() { x.pass() }) // M-5: a fresh claim is not reclaimed
				k := x.e.Knobs()
				bound := k.ClaimTTL + k.BackoffBase + k.BackoffBase/10
				x.clock.Step(k.ClaimTTL)
				x.pass()
				m := x.requireState(projections.MessagePending, id)
				require.Equal(t, "claim_expired", m.LastCause)
				x.clock.Step(bound - k.ClaimTTL)
			}
			require.Equal(t, 1, x.pass().Dispatched)
			require.Equal(t, []string{id.String() + ".message.1"}, idsOf(x.broker.take()))
		})
	}
}

// M-5, M-13, SC-311: a stale claim is reclaimed after its lease, with backoff, and a fresh one is not.
func TestAStaleClaimIsReclaimedAfterItsLeaseAndAFreshOneIsNot(t *testing.T) {
	x := newOffice(t)
	stale, fresh := x.add("t", "1")[0], x.add("t", "2")[0]
	claim := func(id events.MessageID) {
		require.NoError(t, x.e.Transact(context.Background(), "", func(tx *towline.Tx) error {
			_, err := tx.Execute(decider.ClaimWakeup{
				Owner: events.RunID(id), Kind: events.KindMessage, At: tx.Now(), Token: tx.NewToken(), Messages: 1,
				ExpiresAt: tx.Now().Add(events.SpanOf(time.Minute)), MaxAttempts: 20,
			})
			return err
		}))
	}
	claim(stale)
	x.clock.Step(time.Minute - time.Microsecond)
	claim(fresh)
	x.unchanged(func() { x.pass() })
	x.clock.Step(time.Microsecond)
	require.Equal(t, 1, x.pass().Released)
	require.Empty(t, x.broker.take())
	m := x.requireState(projections.MessagePending, stale)
	require.GreaterOrEqual(t, m.AvailableAt.Sub(x.clock.Now()), 5*time.Second)
	x.requireState(projections.MessageClaimed, fresh)
}

// M-6, O-15, SC-318: a message that can never be published ends parked: at once when the refusal says so, behind its
// attempts when it does not.
func TestAPoisonMessageEndsParked(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{MaxAttempts: 3}})
	ids := x.add("t", "too large", "refused", "good")
	x.broker.script = func(s sent) transport.Receipt {
		switch string(s.app.Payload) {
		case "too large":
			return transport.Receipt{Outcome: events.Refused, Permanent: true, Err: &transport.TooLargeError{Bytes: 9, Limit: 8}}
		case "refused":
			return transport.Refused(errBroker)
		}
		return transport.Accepted("")
	}
	r := x.pass()
	require.Equal(t, [2]int{1, 1}, [2]int{r.Parked, r.Dispatched})
	require.Contains(t, x.requireState(projections.MessageParked, ids[0]).LastText, "9 bytes")
	for range 2 {
		x.requireState(projections.MessagePending, ids[1])
		x.clock.Step(time.Minute)
		x.add("t", "good") // it shows that the transport works (O-16)
		x.pass()
	}
	x.requireState(projections.MessageParked, ids[1])
	x.requireState(projections.MessageDispatched, ids[2])
	require.Len(t, x.broker.take(), 7)
	x.clock.Step(24 * time.Hour)
	x.unchanged(func() { require.Equal(t, 2, x.pass().Held) })
}

// M-14, O-19, SC-317: one bad row leaves its neighbours delivered: one that raises, and one that cannot be built.
func TestOneBadRowLeavesItsNeighboursDelivered(t *testing.T) {
	x := openOffice(t, options{unverified: true})
	ids := x.add("t", "1", "raises", "2", "unreadable", "3")
	x.sql(`DROP TRIGGER events_no_update`, `UPDATE events SET data = json_set(data, '$.encoding', 'rot13') WHERE data LIKE '%unreadable%'`)
	x.broker.script = func(s sent) transport.Receipt {
		if string(s.app.Payload) == "raises" {
			panic("planted")
		}
		return transport.Accepted("")
	}
	x.pass()
	for _, i := range []int{0, 2, 4} {
		x.requireState(projections.MessageDispatched, ids[i])
	}
	require.Equal(t, "publish_unknown", x.message(ids[1]).LastCause)
	require.Equal(t, projections.MessageParked, x.message(ids[3]).State)
	require.Equal(t, []string{"1", "raises", "2", "3"}, bodiesOf(x.broker.take()))
}

func bodiesOf(messages []sent) (out []string) {
	for _, m := range messages {
		out = append(out, string(m.app.Payload))
	}
	return out
}

// M-3, M-10, SC-319: a lost claim race publishes nothing; and a relay whose claim was taken over can neither mark nor
// release, nor move a handled message back.
func TestALostClaimRacePublishesNothing(t *testing.T) {
	x := newOffice(t)
	id := x.add("t", "1")[0]
	other, second := &broker{}, (*relay.Relay)(nil)
	second = x.newRelay(other)
	x.broker.script = func(sent) transport.Receipt { // the first is at its publish when the second looks
		require.NoError(t, second.Step(context.Background()).Err())
		require.Empty(t, other.take(), "the claim is the first one's")
		x.clock.Step(time.Minute) // and it stays there for too long
		require.NoError(t, second.Step(context.Background()).Err())
		x.clock.Step(6 * time.Second)
		require.Equal(t, 1, second.Step(context.Background()).Dispatched)
		require.True(t, x.consume(other.take()[0]))
		return transport.Accepted("")
	}
	r := x.relay.Step(context.Background())
	require.ErrorIs(t, r.Err(), decider.ErrClaimLost)
	require.EqualValues(t, 1, x.e.Tally().RefusedMarks)
	require.False(t, x.consume(x.broker.take()[0]), "one effect")
	x.step()
	x.requireState(projections.MessageHandled, id)
	x.unchanged(func() { x.pass() })
}

// O-8, M-12: a message that was handled before its claim is not published again.
func TestAHandledMessageIsDropped(t *testing.T) {
	x := newOffice(t)
	id := x.add("t", "1")[0]
	x.broker.script = always(transport.Unknown(context.DeadlineExceeded))
	x.step()
	require.True(t, x.consume(x.broker.take()[0])) // it had arrived all the same
	x.broker.script = nil
	x.clock.Step(time.Minute)
	r := x.pass()
	require.Equal(t, [2]int{1, 0}, [2]int{r.Dropped, r.Dispatched})
	require.Empty(t, x.broker.take())
	x.requireState(projections.MessageHandled, id)
}

// M-13, SC-320: what waits in a broker's queue is not published again, however long it waits.
func TestAMessageInABrokersQueueIsLeftThere(t *testing.T) {
	x := newOffice(t)
	id := x.add("t", "1")[0]
	x.step()
	x.clock.Step(30 * 24 * time.Hour)
	x.unchanged(func() { x.pass() })
	x.crash()
	before := x.head()
	x.pass()
	require.Equal(t, before, x.head())
	require.True(t, x.consume(x.broker.take()[0]))
	x.step()
	x.requireState(projections.MessageHandled, id)
}

// REC-11, N-3, C-36: a message that the in-process transport has taken dies with its process if nobody has handled it; the
// next one arms it again, under a new id and with the same own id (K-4).
func TestAnInProcessMessageThatDiedIsArmedAgain(t *testing.T) {
	x := newOffice(t)
	x.broker.name = events.TransportLocalMessages
	ids := x.add("t", "handled", "waiting")
	x.step()
	require.True(t, x.consume(x.broker.take()[0]))
	x.clock.Step(24 * time.Hour)
	require.Zero(t, x.pass().Materialized[events.KindMessage], "a process that lives keeps what it has")
	x.crash()
	before := x.head()
	r := x.pass()
	require.Equal(t, [2]int{1, 1}, [2]int{r.Materialized[events.KindMessage], r.Dispatched})
	require.Equal(t, events.OutboxArmed{N: 2, AvailableAt: events.MicrosOf(x.clock.Now()), Cause: events.ArmMaterialized, Died: true},
		enginetest.Only[events.OutboxArmed](x.since(before))[0])
	got := x.broker.take()
	require.Len(t, got, 1)
	require.Equal(t, ids[1].String()+".message.2", got[0].id)
	require.Equal(t, ids[1].String(), got[0].app.Metadata.Get(events.MetadataMessageID))
	require.Zero(t, x.pass().Materialized[events.KindMessage])
	require.True(t, x.consume(got[0]))
}

// REC-11: where several processes share a store, the death of one is not seen: what it has taken is armed again behind
// dispatch.stale.
func TestAnInProcessMessageOfASharedStoreIsArmedAgainWhenItIsStale(t *testing.T) {
	x := openOffice(t, options{shared: true})
	x.broker.name = events.TransportLocalMessages
	x.add("t", "1")
	x.step()
	x.crash()
	x.clock.Step(15*time.Minute - time.Microsecond)
	require.Zero(t, x.pass().Materialized[events.KindMessage])
	x.clock.Step(time.Microsecond)
	require.Equal(t, 1, x.pass().Materialized[events.KindMessage])
}

// M-16, RW-8: a message that kills its process takes its neighbours with it twice. From then on what was lost is handed out
// one at a time, behind everything else: the neighbours are handled, the one at fault comes last each time, and is parked
// when so many processes in a row have died with it. A redrive begins anew.
func TestAMessageThatKillsItsProcessIsParkedAlone(t *testing.T) {
	for _, tt := range []struct {
		name string
		soon bool // it kills before the mark
	}{{"behind the mark", false}, {"before the mark", true}} {
		t.Run(tt.name, func(t *testing.T) {
			x := openOffice(t, options{knobs: towline.Knobs{MaxDeliveries: 5}})
			x.broker.name = events.TransportLocalMessages
			bodies := []string{"a", "killer", "b", "c"}
			ids := x.add("t", bodies...)
			isKiller := func(s sent) bool { return string(s.app.Payload) == "killer" }
			var inMemory []sent
			crashes := 0
			x.broker.script = func(s sent) transport.Receipt {
				inMemory = append(inMemory, s)
				if tt.soon && isKiller(s) {
					x.store.away(errPlanted) // nothing of this batch is marked
				}
				return transport.Accepted("")
			}
			require.NoError(t, x.e.Follow(context.Background()))
			for round := 0; x.message(ids[1]).State != projections.MessageParked; round++ {
				require.Less(t, round, 50)
				x.clock.Step(time.Second)
				x.relay.Pass(context.Background()) // with errors, where the store is away
				batch := inMemory
				inMemory = nil
				if crashes >= 2 {
					require.LessOrEqual(t, len(batch), 1, "a suspect goes by itself")
				}
				if i := slices.IndexFunc(batch, isKiller); i >= 0 {
					crashes++
					x.crash()
					continue
				}
				for _, s := range batch {
					require.True(t, x.consume(s))
				}
			}
			require.Equal(t, 5, crashes)
			require.NoError(t, x.e.Follow(context.Background()))
			m := x.requireState(projections.MessageParked, ids[1])
			require.Equal(t, [2]string{"crash_suspect", "5 processes in a row have died with it"}, [2]string{m.LastCause, m.LastText})
			for _, innocent := range []events.MessageID{ids[0], ids[2], ids[3]} {
				x.requireState(projections.MessageHandled, innocent)
			}
			require.NoError(t, x.e.Redrive(context.Background(), towline.MessageRegister(ids[1]), towline.Actor{Name: "ada"}))
			x.relay.Pass(context.Background())
			require.Len(t, inMemory, 1)
			require.Zero(t, x.message(ids[1]).Lost)
			x.crash()
		})
	}
}

// M-16, N-6: what a clean stop leaves in the queue was in nobody's hands, however often that happens.
func TestAStopMakesNobodySuspect(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{MaxDeliveries: 2}})
	x.broker.name = events.TransportLocalMessages
	ids := x.add("t", "1", "2")
	for range 5 {
		x.pass()
		require.Len(t, x.broker.take(), 2)
		require.NoError(t, x.e.Stop(context.Background(), "deploy"))
		x.crash()
	}
	require.Zero(t, x.message(ids[0]).Lost)
}

// REC-4: the scan for lost messages goes on from its cursor.
func TestLostMessagesAreArmedInPages(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{RepairLimit: 3}})
	x.broker.name = events.TransportLocalMessages
	x.add("t", slices.Repeat([]string{"1"}, 7)...)
	x.step()
	x.crash()
	for _, want := range []int{3, 3, 1, 0} {
		r := x.pass()
		require.Equal(t, want, r.Materialized[events.KindMessage])
		require.Equal(t, want == 3, r.ScanTruncated)
	}
}

// M-15, SC-324: messages and the kinds of runs share the batch half and half; unused room goes to the other half; and
// neither stands in the way of the other, whoever came first.
func TestTheBatchIsSharedHalfAndHalf(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{RelayBatch: 10, MaxAttempts: 100}})
	x.add("t", slices.Repeat([]string{"1"}, 2000)...)
	var order []string
	x.broker.script = func(s sent) transport.Receipt {
		kind := "engine"
		if s.app != nil {
			kind = "message"
		}
		order = append(order, kind)
		return transport.Accepted("")
	}
	for range 7 {
		x.clock.Step(time.Second)
		x.plan(1)
	}
	x.step()
	count := func(from, to int) (n int) {
		for _, kind := range order[from:to] {
			if kind == "engine" {
				n++
			}
		}
		return n
	}
	require.Equal(t, 5, count(0, 10))
	require.Equal(t, 2, count(10, 20))
	require.Equal(t, 0, count(20, len(order)))
	require.Len(t, order, 2007)
}

// M-15: shares of a batch, in every proportion.
func TestSharesOfABatch(t *testing.T) {
	for _, tt := range []struct {
		most, engine, messages int
		odd                    bool
		forEngine, forMessages int
	}{
		{10, 10, 10, true, 5, 5}, {10, 3, 10, true, 3, 7}, {10, 10, 3, true, 7, 3}, {10, 2, 3, true, 2, 3}, {10, 0, 10, true, 0, 10},
		{10, 10, 0, true, 10, 0}, {5, 5, 5, true, 3, 2}, {5, 5, 5, false, 2, 3}, {1, 1, 1, true, 1, 0}, {1, 1, 1, false, 0, 1},
		{1, 0, 1, true, 0, 1}, {1, 1, 0, false, 1, 0}, {1000, 0, 0, false, 0, 0},
	} {
		e, m := relay.Share(tt.most, tt.engine, tt.messages, tt.odd)
		require.Equal(t, [2]int{tt.forEngine, tt.forMessages}, [2]int{e, m}, "%+v", tt)
	}
}

// REC-2: a process that publishes no messages leaves them to another, and publishes the rest.
func TestMessagesWithoutAPublisherAreLeftToOthers(t *testing.T) {
	x := openOffice(t, options{knobs: towline.Knobs{RelayBatch: 2}})
	x.add("t", slices.Repeat([]string{"1"}, 20)...)
	x.plan(1)
	half, err := relay.Synchronous(x.e, func(k events.Kind) transport.Publisher {
		if k == events.KindMessage {
			return nil
		}
		return x.broker
	})
	require.NoError(t, err)
	r := half.Step(context.Background())
	require.NoError(t, r.Err())
	require.Equal(t, 1, r.Dispatched)
	require.Equal(t, 20, x.step().Dispatched)
}

// M-7, SC-312: a stuck row without claim time is recovered by the migration, and published within one backoff cap.
func TestAStuckRowWithoutClaimTimeIsRecoveredByTheMigration(t *testing.T) {
	x := newOffice(t)
	const rows = 200
	n, err := x.e.Import(context.Background(), "old", func(yield func(towline.OldMessage, error) bool) {
		for i := range rows {
			if !yield(towline.OldMessage{ID: fmt.Sprint(i), Topic: "t", Payload: []byte("1"), State: towline.OldInProgress}, nil) {
				return
			}
		}
	}, towline.Actor{Name: "ada"})
	require.NoError(t, err)
	require.Equal(t, towline.Imported{Released: rows}, n)
	released := enginetest.Only[events.OutboxReleased](x.since(0))
	require.Len(t, released, rows)
	published := 0
	for range 10 {
		x.clock.Step(30 * time.Second)
		now := x.step().Dispatched
		require.Less(t, now, rows/4, "they do not fire at once")
		published += now
	}
	require.Equal(t, rows, published, "none is left behind")
}
