package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// effectTime bounds the transaction of an effect. It is shorter than the time for which the engine waits for the lock
// (busyTimeout), so a handler that hangs costs the engine a pause, and no error.
const effectTime = 4 * time.Second

// errEffectTime is why a slow effect was undone.
var errEffectTime = errors.New("the effect has held the store for too long and was rolled back")

// Consume runs the effect of an application message in one transaction of the application's (M-12): the effect and
// MessageHandled commit together or not at all. done is false, without an error, if the message was handled or rejected
// before: then the effect does not run. delivery is the id under which the message came.
//
// The transaction is the one exception from "no transaction is open across a handler" (L-10): the effect calls no port and
// is short. It has the write lock, so everything else waits for it. After 4 seconds its ctx ends and it is undone.
//
// Errors: what effect returned; one that wraps store.ErrNoMessage when no relay has taken a message of this id;
// store.ErrUnavailable when the store cannot write now. Nothing of the effect is kept after any of them.
func (s *Store) Consume(ctx context.Context, id events.MessageID, delivery string, effect func(context.Context, *sql.Tx) error) (done bool, err error) {
	defer func() {
		if err != nil {
			done, err = false, classify(err)
		}
	}()
	if s.alive.Err() != nil {
		return false, store.ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	tx, err := s.app.BeginTx(ctx, nil)
	if err != nil {
		return false, fmt.Errorf("begin the transaction of message %s: %w", id, err)
	}
	defer tx.Rollback() // also when effect panics or ends this goroutine
	slow := time.AfterFunc(s.effectTime, func() { cancel(errEffectTime) })
	defer slow.Stop()
	if done, err = s.handled(ctx, tx, id, delivery); err != nil || !done {
		return false, err
	}
	if err = effect(store.Inside(ctx, s.app), tx); err == nil {
		err = tx.Commit()
	}
	if err != nil && errors.Is(context.Cause(ctx), errEffectTime) {
		err = errors.Join(errEffectTime, err)
	}
	return err == nil, err
}

// insertHandled appends MessageHandled behind the head of the log, unless the message is over or was never taken.
const insertHandled = `
INSERT INTO events (position, tx, stream, version, at, type, schema, data)
WITH head AS MATERIALIZED (
  SELECT position, at
  FROM events
  ORDER BY position DESC
  LIMIT 1
), submitted AS MATERIALIZED (
  SELECT s.stream, (SELECT max(version) FROM events WHERE stream = s.stream) AS version
  FROM events AS s
  WHERE s.type = 120 AND s.data ->> '$.message_id' = $1
)
SELECT head.position + 1, head.position + 1, submitted.stream, submitted.version + 1, max($3, head.at), $4, $5, $6
FROM head
CROSS JOIN submitted
WHERE EXISTS (SELECT 1 FROM events WHERE stream = $2 AND type = 41)
  AND NOT EXISTS (SELECT 1 FROM events WHERE type BETWEEN 121 AND 122 AND data ->> '$.message_id' = $1)`

// isOver asks why nothing was appended.
const isOver = `
SELECT EXISTS (SELECT 1 FROM events WHERE type BETWEEN 121 AND 122 AND data ->> '$.message_id' = $1)`

func (s *Store) handled(ctx context.Context, tx *sql.Tx, id events.MessageID, delivery string) (bool, error) {
	record, err := events.Encode(events.MessageHandled{Message: id, DeliveryMessageID: delivery})
	if err != nil {
		return false, err
	}
	result, err := tx.ExecContext(ctx, insertHandled, id.String(), events.MessageStream(id).Key(), int64(s.writer.clock()),
		int64(record.Type), int64(record.Schema), string(record.Data))
	if err != nil {
		return false, fmt.Errorf("append to the log: %w", err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return n == 1, err
	}
	var over bool
	if err := tx.QueryRowContext(ctx, isOver, id.String()).Scan(&over); err != nil {
		return false, err
	}
	if !over {
		return false, fmt.Errorf("%w: %s", store.ErrNoMessage, id)
	}
	return false, nil
}
