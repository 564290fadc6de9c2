package towline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// Message is an application message that is submitted through the engine (M-2). An application whose message must commit
// with rows of its own publishes it through store/sqlite.Outbox instead.
type Message struct {
	Topic       string            // letters, digits and - $ : . _; at most 200 bytes
	Payload     []byte            // delivered byte for byte; at most 256 KiB
	Metadata    map[string]string // delivered as it is; at most 16 KiB; names with the prefix "towline-" are refused
	Key         string            // the producer's own, its scope is the topic; it makes submitting idempotent; empty: none
	AvailableAt time.Time         // not published before; at most the year 9999; zero: at once
}

// Submitted is an accepted message.
type Submitted struct {
	Message  events.MessageID
	Replayed bool // the key was known: this is the first message, and nothing was written
}

// Submit adds a message: on disk when it returns, published by the relay at least once (M-1, M-2). With the key of an
// earlier message of the topic and the same payload it returns that one, however long ago it was and whatever became of it.
// Errors, each of which has written nothing: *RequestError, which names the field and is ErrInvalid; ErrKeyReused, for
// another payload under the key; ErrUnavailable; ErrStopped.
func (e *Engine) Submit(ctx context.Context, m Message) (Submitted, error) {
	event, err := events.NewMessage(events.MessageID{}, m.Topic, m.Payload, m.Metadata, m.Key, events.MicrosOf(m.AvailableAt))
	if bad, ok := errors.AsType[*events.MessageError](err); ok {
		return Submitted{}, &RequestError{Field: bad.Field, Problem: bad.Problem, Fix: bad.Fix, Kind: ErrInvalid}
	}
	var submitted Submitted
	err = e.Transact(ctx, "", func(tx *Tx) (err error) {
		submitted, err = tx.submit(m.Topic, event)
		return err
	})
	return submitted, err
}

func (t *Tx) submit(topic string, m events.MessageSubmitted) (Submitted, error) {
	if first, known, err := t.keyed(topic, m); known || err != nil {
		return Submitted{Message: first, Replayed: known}, err
	}
	m.Message = t.e.mem.newULID(t.now)
	_, err := t.Execute(decider.SubmitMessage{Topic: topic, Message: m})
	return Submitted{Message: m.Message}, err
}

// keyed finds the message that was submitted under the key of m.
func (t *Tx) keyed(topic string, m events.MessageSubmitted) (events.MessageID, bool, error) {
	if m.Key == "" {
		return events.MessageID{}, false, nil
	}
	row, known, err := t.View().KeyedMessage(topic, m.Key)
	if err != nil || !known {
		return events.MessageID{}, false, err
	}
	first, err := t.View().Submitted(row)
	if err == nil && !first.SamePayload(m) {
		err = fmt.Errorf("key %q of topic %s: %w", m.Key, topic, ErrKeyReused)
	}
	return row.Message, err == nil, err
}

// RejectMessage records that a message can never be handled (M-8). One that is over stays as it is. Errors: ErrNoMessage;
// ErrUnavailable; ErrStopped.
func (e *Engine) RejectMessage(ctx context.Context, id events.MessageID, c events.Category, text string) error {
	return e.onDelivered(ctx, id, func(row projections.MessageRow) decider.Command {
		return decider.RejectMessage{
			Topic: row.Topic, Message: id, Taken: true, Category: c, Text: CleanText(text, e.inForce.Load().ErrorMaxBytes),
		}
	})
}

// FailMessage parks a message whose consumer has failed at every delivery, with what it said last (M-11): Redrive delivers
// it again. One that is over, or parked already, stays as it is. Errors: ErrNoMessage; ErrUnavailable; ErrStopped.
func (e *Engine) FailMessage(ctx context.Context, id events.MessageID, text string) error {
	return e.onDelivered(ctx, id, func(row projections.MessageRow) decider.Command {
		return decider.FailMessage{
			Owner: id, Over: row.Status != decider.MessageOpen, Text: CleanText(text, e.inForce.Load().ErrorMaxBytes),
		}
	})
}

// onDelivered decides about a message that a relay has taken: nobody has got another one.
func (e *Engine) onDelivered(ctx context.Context, id events.MessageID, command func(projections.MessageRow) decider.Command) error {
	return e.Transact(ctx, "", func(tx *Tx) error {
		row, found, err := tx.View().MessageRow(id)
		if err != nil {
			return err
		}
		r, err := tx.Register(events.RunID(id), events.KindMessage)
		if err != nil {
			return err
		}
		if taken := r.Attempts > 0 || r.Closed > 0 || r.Current > 1 || r.MaybePublished; !found || !taken {
			return fmt.Errorf("%w: %s", ErrNoMessage, id)
		}
		_, err = tx.Execute(command(row))
		return err
	})
}

// Follow brings the views to the head of the log, and arms what was submitted (M-1, REC-11), if an application's own
// transaction has left something behind them. Otherwise it opens no write transaction.
func (e *Engine) Follow(ctx context.Context) error {
	behind := false
	err := e.store.Read(ctx, func(r store.Reader) (err error) {
		behind, err = projections.IsBehind(r)
		return err
	})
	if err != nil || !behind {
		return err
	}
	return e.Transact(ctx, "", func(*Tx) error { return nil })
}

// armsPerTransaction bounds how many messages one transaction arms before it makes room for others.
const armsPerTransaction = 1000

// armSubmitted arms what applications have submitted before anything else is decided (M-1). It is false if there is more:
// the next transaction goes on with it. NodeStarted comes before anything else, so a start arms for itself (N-1).
func (t *Tx) armSubmitted() (all bool, err error) {
	if !t.e.up {
		return true, nil
	}
	return t.armMessages()
}

func (t *Tx) armMessages() (all bool, err error) {
	if t.hot.Unarmed() == 0 {
		return true, nil
	}
	page, err := t.View().UnarmedMessages(armsPerTransaction)
	if err != nil {
		return false, err
	}
	caller := t.actor
	t.actor = "" // it did not ask for this
	defer func() { t.actor = caller }()
	for _, row := range page {
		m, err := t.View().Submitted(row)
		if err != nil {
			return false, err
		}
		arm := decider.ArmMessage(m, t.now)
		arm.New = true
		if _, err := t.execute(arm, row.Position, new([]reaction)); err != nil { // nothing follows from an arm
			return false, err
		}
	}
	return t.hot.Unarmed() == 0, nil
}

// foldTopic is the part of a topic's fold that a decision about one message needs, out of the views: the stream itself is
// as long as the life of the store.
func (t *Tx) foldTopic(id events.StreamID, about events.MessageID) (fold, error) {
	version, err := t.tx.Version(id)
	if err != nil {
		return fold{}, fmt.Errorf("read the version of %s: %w", id, err)
	}
	topic := decider.Topic{}
	row, found, err := t.View().MessageRow(about)
	if found {
		topic.Messages = []decider.Message{{ID: about, Status: row.Status}}
	}
	return fold{state: topic, version: version}, err
}

// dropMessage: a message that is over need not be published any more (O-8).
func (t *Tx) dropMessage(id events.MessageID) (events.DropReason, error) {
	row, found, err := t.View().MessageRow(id)
	if err != nil || found && row.Status == decider.MessageOpen {
		return "", err
	}
	return events.DropNothingOwed, nil
}

// Outgoing is what is published of a message: byte for byte what was submitted, and the id that stays the same whatever
// wakeup carries it (K-4).
type Outgoing struct {
	Topic    string
	Payload  []byte
	Metadata map[string]string
	Err      error // it can never be published: the log cannot say what it carries
}

// Outgoing reads a message for its publish.
func (t *Tx) Outgoing(id events.MessageID) (Outgoing, error) {
	row, found, err := t.View().MessageRow(id)
	if err != nil {
		return Outgoing{}, err
	}
	if !found {
		return Outgoing{}, fmt.Errorf("%w: %s", ErrNoMessage, id)
	}
	m, err := t.View().Submitted(row)
	if err != nil {
		return Outgoing{}, err
	}
	out := Outgoing{Topic: row.Topic, Metadata: map[string]string{events.MetadataMessageID: id.String()}}
	for k, v := range m.Metadata {
		out.Metadata[k] = v
	}
	if m.Key != "" {
		out.Metadata[events.MetadataKey] = m.Key
	}
	out.Payload, out.Err = m.Body()
	return out, nil
}

// ArmLost arms messages again that died in the memory of a process before anybody handled them, each only if that is still
// so (REC-11). It returns how many were.
func (e *Engine) ArmLost(ctx context.Context, ids []events.MessageID) (armed int, err error) {
	err = e.Transact(ctx, "", func(tx *Tx) error {
		armed = 0
		for _, id := range ids {
			changed, err := tx.armLost(id)
			if err != nil {
				return err
			}
			if changed {
				armed++
			}
		}
		return nil
	})
	if err != nil {
		return 0, err // nothing of it is kept
	}
	return armed, nil
}

func (t *Tx) armLost(id events.MessageID) (bool, error) {
	if drop, err := t.dropMessage(id); drop != "" || err != nil {
		return false, err
	}
	r, err := t.Register(events.RunID(id), events.KindMessage)
	if err != nil {
		return false, err
	}
	d := decider.Redrive{
		Now: t.now, Stale: events.SpanOf(t.e.inForce.Load().Stale), CloserGone: t.Gone(r.ClosedBy), CloserShared: t.hot.Shared(r.ClosedBy),
	}
	if !d.Materialize(events.KindMessage, r) {
		return false, nil
	}
	died, err := t.died(r.ClosedBy)
	if err != nil {
		return false, err
	}
	results, err := t.Execute(decider.ArmWakeup{
		Owner: events.RunID(id), Kind: events.KindMessage, At: t.now, Cause: events.ArmMaterialized, Died: died,
	})
	return err == nil && len(results[0].Events) > 0, err
}

// died reports an incarnation that is gone and has not stopped: a stop lets handlers finish, so what it leaves in its queue
// was in nobody's hands (N-6). Of one that shares its store and is not gone nobody knows.
func (t *Tx) died(n events.NodeID) (bool, error) {
	f, err := t.fold(events.NodeStream(n), false)
	if err != nil {
		return false, err
	}
	return t.Gone(n) && f.state.(decider.Node).StoppedAt == 0, nil
}
