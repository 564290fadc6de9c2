package handlers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/transport"
)

// postSync runs the effect of one target, at most once in the life of the run (spec 10.4): that it was taken is on
// record before it begins, so a process that dies in between leaves it unconfirmed, never done twice.
func (h *Handlers) postSync(ctx context.Context, n transport.Notice) error {
	post, taken, err := h.e.StartPost(ctx, n.Run, n.Target)
	if err != nil {
		return fmt.Errorf("take post_sync of run %s: %w", n.Run, err)
	}
	if !taken {
		return nil
	}
	err = h.effect(ctx, post)
	if err == nil {
		return h.record(func() error { return h.e.CompletePost(ctx, post, "") })
	}
	text := towline.CleanText(err.Error(), h.e.Knobs().ErrorMaxBytes)
	h.logger.Error("post_sync failed", "run", n.Run, "target", n.Target, "error", text)
	category := events.SinkError
	if errors.Is(err, errUnconfigured) {
		category = events.Configuration
	}
	return h.record(func() error { return h.e.FailPost(ctx, post, category, text) })
}

// record says how an effect ended. It does not run a second time, so this is repeated for as long as a lease would last;
// behind that the effect stays unconfirmed (HP-4).
func (h *Handlers) record(write func() error) error {
	return h.again(write(), h.e.Knobs().Lease, write)
}

var errUnconfigured = errors.New("not configured here")

// effect runs the action of a target: a SQL script in one transaction of the sync's sink.
func (h *Handlers) effect(ctx context.Context, p towline.Post) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	ports, ok := h.c.Ports[p.Sync]
	if !ok || p.Target.SQL == "" {
		return fmt.Errorf("sync %q, target %q: %w", p.Sync, p.Target.Name, errUnconfigured)
	}
	scripter, ok := ports.Sink.(sink.Scripter)
	if !ok {
		return fmt.Errorf("sync %q, target %q: its sink runs no SQL: %w", p.Sync, p.Target.Name, errUnconfigured)
	}
	return scripter.Script(ctx, p.Target.SQL, sql.Named("run", p.Run.String()), sql.Named("generation", p.Generation))
}
