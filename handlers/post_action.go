package handlers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/foreign"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// What a target does. Each action runs once for each delivery, with no transaction of the engine open (L-10). In
// exactly_once mode one that was done before does nothing and succeeds.

// effect runs the action of a target. result is for people.
func (h *Handlers) effect(ctx context.Context, p towline.Post) (result string, err error) {
	err = foreign.Call(func() (err error) {
		result, err = h.act(ctx, p)
		return err
	}, func(broken error) error { return &effectError{actionCategory(p.Target), broken} })
	return result, err
}

func (h *Handlers) act(ctx context.Context, p towline.Post) (result string, err error) {
	switch t := p.Target; {
	case t.SQL != "":
		return "", h.script(ctx, p)
	case t.Func != nil:
		return "", h.function(h.life, p)
	case len(t.Exec) > 0:
		return h.command(h.life, p)
	}
	return "", unconfigured(p, "it has no action here")
}

// effectError is a failure with its category. Its text is that of the cause alone.
type effectError struct {
	category events.Category
	err      error
}

func (e *effectError) Error() string { return e.err.Error() }
func (e *effectError) Unwrap() error { return e.err }

// actionCategory is that of a failure which has none of its own.
func actionCategory(t towline.Target) events.Category {
	if t.SQL != "" {
		return events.SinkError
	}
	return events.HandlerFailed
}

// effectCategory never looks at a text (E-1).
func effectCategory(err error) events.Category {
	var e *effectError
	if errors.As(err, &e) {
		return e.category
	}
	return events.HandlerFailed
}

func unconfigured(p towline.Post, why string) error {
	return &effectError{events.Configuration, fmt.Errorf("sync %q, target %q: %s", p.Sync, p.Target.Name, why)}
}

// script runs SQL in one transaction of the sync's sink.
func (h *Handlers) script(ctx context.Context, p towline.Post) error {
	args := []any{sql.Named("run", p.Run.String()), sql.Named("generation", p.Generation)}
	opener := h.c.Ports[p.Sync].Sink
	scripter, ok := opener.(sink.Scripter)
	if !ok {
		return unconfigured(p, "its sink runs no SQL")
	}
	var err error
	if p.Mode == events.ExactlyOnce {
		once, ok := opener.(sink.OnceScripter)
		if !ok {
			return unconfigured(p, "its sink keeps no once-ledger")
		}
		_, err = once.ScriptOnce(ctx, p.Key(), p.Target.SQL, args...)
	} else {
		err = scripter.Script(ctx, p.Target.SQL, args...)
	}
	if err != nil {
		return &effectError{events.SinkError, err}
	}
	return nil
}

// function runs a function in a transaction of its database, which is the effect (L-10).
func (h *Handlers) function(ctx context.Context, p towline.Post) error {
	db := p.Target.DB
	if db == nil {
		db = h.c.DB
	}
	if db == nil {
		return unconfigured(p, "there is no database for its function")
	}
	if db != h.c.DB && p.Mode == events.ExactlyOnce {
		if err := towline.MakeOnce(ctx, db); err != nil {
			return &effectError{events.HandlerFailed, err}
		}
	}
	if db == h.c.DB {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, storeTime, errStoreTime)
		defer cancel()
		ctx = towline.InTransaction(ctx, db)
		defer h.e.Nudge() // it may have added what the engine must know (M-1)
	}
	err := inTransaction(ctx, db, p)
	var typed *provider.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), errStoreTime):
		return &effectError{events.Timeout, fmt.Errorf("%w: %w", errStoreTime, err)}
	case errors.As(err, &typed):
		return &effectError{provider.CategoryOf(err), err}
	}
	return &effectError{events.HandlerFailed, err}
}

// storeTime bounds the transaction of a function in the store, as that of an application message is (M-12): while it lasts
// the engine writes nothing, and one that hangs would be the end of everything.
const storeTime = 4 * time.Second

var errStoreTime = errors.New("the function has held the store for too long and was rolled back")

func inTransaction(ctx context.Context, db *sql.DB, p towline.Post) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // behind a commit it does nothing
	if p.Mode == events.ExactlyOnce {
		first, err := towline.Once(ctx, tx, p.Key())
		if err != nil || !first {
			return err
		}
	}
	if err := p.Target.Func(ctx, tx, p); err != nil {
		return err
	}
	return tx.Commit()
}
