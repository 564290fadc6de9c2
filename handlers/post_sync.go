package handlers

import (
	"context"
	"fmt"
	"sync"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/transport"
)

// postSync runs the effect of one target (spec 10.4).
//
// At most once: that it was taken is on record before it begins, so a process that dies in between leaves it unknown
// (HP-5), never done twice. Exactly once: it commits with its row of the once-ledger, so it may be begun as often as it is
// asked for, and is done when that is on record.
//
// A process is at it once at a time: a second message that comes meanwhile is a duplicate of the one in work, which comes to
// an end, or again, by itself. An effect that has no ledger, a command's, would else run beside itself.
func (h *Handlers) postSync(ctx context.Context, n transport.Notice) error {
	if h.life.Err() != nil { // the grace of a stop is over: it would be killed as soon as it began
		return fmt.Errorf("post_sync of run %s, target %q: %w", n.Run, n.Target, provider.ErrStopping)
	}
	if !h.effects.begin(n) {
		h.e.Absorb(events.KindPostSync)
		return nil
	}
	defer h.effects.end(n)
	post, taken, err := h.e.StartPost(ctx, n.Run, n.Target)
	if err != nil {
		return fmt.Errorf("take post_sync of run %s: %w", n.Run, err)
	}
	if !taken {
		return nil
	}
	result, err := h.effect(ctx, post)
	if err == nil {
		return h.record(func() error { return h.e.CompletePost(ctx, post, result) })
	}
	if post.Mode == events.ExactlyOnce {
		return h.notDone(ctx, post, err)
	}
	category, text := h.describe(err)
	h.logger.Error("post_sync failed", "run", n.Run, "target", n.Target, "error", text)
	return h.record(func() error { return h.e.FailPost(ctx, post, category, text) })
}

// effects are those at work in a process.
type effects struct {
	mu   sync.Mutex
	open map[effectKey]bool
}

type effectKey struct {
	run    events.RunID
	target string
}

// begin is false while the effect of the same target is at work.
func (x *effects) begin(n transport.Notice) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	k := effectKey{n.Run, n.Target}
	if x.open[k] {
		return false
	}
	if x.open == nil {
		x.open = map[effectKey]bool{}
	}
	x.open[k] = true
	return true
}

func (x *effects) end(n transport.Notice) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.open, effectKey{n.Run, n.Target})
}

// notDone says what an effect in exactly_once mode has come to, and asks the transport to deliver its message again (HP-3).
// It does not ask where that would help nobody: what is not configured here stays so for the life of the process, and a
// process that stops leaves it to the next one. REC-10 finds both.
func (h *Handlers) notDone(ctx context.Context, p towline.Post, err error) error {
	if h.life.Err() != nil { // our own stop has ended it, so it is no failure
		return fmt.Errorf("post_sync of run %s, target %q: %w", p.Run, p.Target.Name, provider.ErrStopping)
	}
	category, text := h.describe(err)
	if err := h.record(func() error { return h.e.FailPost(ctx, p, category, text) }); err != nil {
		return err
	}
	if stopping := h.intake.Err() != nil; stopping || category == events.Configuration {
		h.logger.Error("post_sync failed", "run", p.Run, "target", p.Target.Name, "error", text)
		return nil //nolint:nilerr // it is on record, and no redelivery helps
	}
	return fmt.Errorf("post_sync of run %s, target %q: %s", p.Run, p.Target.Name, text)
}

// record says how an effect ended. That of at_most_once does not run a second time, so this is repeated for as long as a
// lease would last; behind that the effect stays unconfirmed (HP-4).
func (h *Handlers) record(write func() error) error {
	return h.attempts.again(write(), h.e.Knobs().Lease, write)
}

func (h *Handlers) describe(err error) (events.Category, string) {
	return effectCategory(err), towline.CleanText(err.Error(), h.e.Knobs().ErrorMaxBytes)
}
