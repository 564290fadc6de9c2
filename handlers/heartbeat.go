package handlers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
)

// heartbeat renews the leases of all running units of a process. Each is renewed every third of its lease; those that
// fall due together share one transaction (HU-3), so due times are rounded up to a common tick.
//
// A lease that can not be renewed ends by the local monotonic clock: the provider is told to stop then, whether or not
// the store can be asked (HU-4).
type heartbeat struct {
	leases Leases
	rt     Runtime
	logger *slog.Logger

	mu    sync.Mutex
	held  map[events.UnitID]*held
	wake  chan struct{}
	start time.Time
}

// held is one lease at work.
type held struct {
	lease  *towline.Lease
	due    time.Duration // since the start of the heartbeat
	every  time.Duration
	ends   Timer
	cancel context.CancelCauseFunc
}

var (
	errLeaseEnded = errors.New("the lease has ended and was not renewed")
	errLifetime   = errors.New("the lifetime of the attempt has ended")
)

func newHeartbeat(leases Leases, rt Runtime, logger *slog.Logger) *heartbeat {
	return &heartbeat{leases: leases, rt: rt, logger: logger, held: map[events.UnitID]*held{}, wake: make(chan struct{}, 1), start: rt.Now()}
}

// since is how long ago a time of the runtime was.
func (b *heartbeat) since(t time.Time) time.Duration { return b.rt.Now().Sub(t) }

// hold begins to renew a lease that was asked for at a time: all of its times are counted from before the request, so
// that it never ends later here than in the log. The context it returns ends when the lease is lost, when its lifetime
// ends, and when release is called, which must be.
//
// The lifetime ends a third of a lease early: the settle of a unit that ran out of time must still find its lease.
func (b *heartbeat) hold(ctx context.Context, l *towline.Lease, asked time.Time) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	since := b.since(asked)
	if since >= l.ExpiresIn { // first, for the lifetime may be over by the same clock, and that would be its own fault
		cancel(errLeaseEnded)
	}
	lifetime := b.rt.AfterFunc(l.Lifetime-l.RenewEvery-since, func() { cancel(errLifetime) })
	h := &held{lease: l, every: l.RenewEvery, cancel: cancel}
	h.ends = b.rt.AfterFunc(l.ExpiresIn-since, func() { cancel(errLeaseEnded) })
	b.mu.Lock()
	h.due = b.tick(h)
	b.held[l.Unit.Unit] = h
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return ctx, func() {
		lifetime.Stop()
		h.ends.Stop()
		b.drop(h)
		cancel(nil)
	}
}

// drop ends the renewals of a lease.
func (b *heartbeat) drop(h *held) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if unit := h.lease.Unit.Unit; b.held[unit] == h {
		delete(b.held, unit)
	}
}

// ticksPerRenewal is how finely due times are rounded, so that leases of one time fall together.
const ticksPerRenewal = 10

func (b *heartbeat) tick(h *held) time.Duration {
	tick := max(h.every/ticksPerRenewal, time.Millisecond)
	due := b.since(b.start) + h.every
	return (due + tick - 1).Truncate(tick)
}

// run renews until ctx ends.
func (b *heartbeat) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.wake:
		case <-b.leases.Revoked():
			b.renew(ctx, b.takeAll)
		case <-timer.C:
			b.renew(ctx, b.takeDue)
		}
		timer.Reset(b.untilNext())
	}
}

// turn is one turn of run.
func (b *heartbeat) turn(ctx context.Context) {
	select {
	case <-b.leases.Revoked():
		b.renew(ctx, b.takeAll)
	default:
		b.renew(ctx, b.takeDue)
	}
}

const idle = time.Hour

func (b *heartbeat) untilNext() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := idle
	now := b.since(b.start)
	for _, h := range b.held {
		next = min(next, h.due-now)
	}
	return max(next, 0)
}

// renew renews what take says, in one transaction. If the store cannot answer, the next tick tries again; until then the
// leases run on.
func (b *heartbeat) renew(ctx context.Context, take func() ([]*held, []towline.Lease)) {
	due, leases := take()
	if len(due) == 0 {
		return
	}
	asked := b.rt.Now()
	lost, err := b.leases.RenewAll(ctx, leases)
	if err != nil {
		b.logger.Warn("leases were not renewed", "leases", len(due), "error", err)
		return
	}
	var unknown []error
	for i, h := range due {
		switch {
		case errors.Is(lost[i], towline.ErrUnavailable):
			unknown = append(unknown, lost[i])
			b.soon(h)
		case lost[i] != nil:
			b.drop(h)
			h.cancel(causeOf(lost[i]))
		default:
			h.ends.Reset(leases[i].ExpiresIn - b.since(asked))
		}
	}
	if len(unknown) > 0 {
		b.logger.Warn("leases were not renewed", "leases", len(unknown), "error", unknown[0])
	}
}

// soon lets a lease of which nobody knows whether it was renewed be asked for again before it would be due.
func (b *heartbeat) soon(h *held) {
	const most = time.Second
	b.mu.Lock()
	defer b.mu.Unlock()
	h.due = b.since(b.start) + min(most, h.every)
}

// causeOf is what a provider reads of a lost lease.
func causeOf(lost error) error {
	if errors.Is(lost, towline.ErrCancelled) {
		return fmt.Errorf("%w: %w", provider.ErrCancelled, lost)
	}
	return lost
}

// takeAll are all leases, for an operator has taken one of them. Asking early costs no event, and moves no renewal: one
// that was put off by every such question would never come.
func (b *heartbeat) takeAll() (all []*held, leases []towline.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range b.held {
		all = append(all, h)
	}
	return byUnit(all)
}

func (b *heartbeat) takeDue() (due []*held, leases []towline.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.since(b.start)
	for _, h := range b.held {
		if h.due <= now {
			h.due = b.tick(h)
			due = append(due, h)
		}
	}
	return byUnit(due)
}

// byUnit are leases in the order in which their renewals go into the log.
func byUnit(all []*held) ([]*held, []towline.Lease) {
	slices.SortFunc(all, func(a, b *held) int { return bytes.Compare(a.lease.Unit.Unit[:], b.lease.Unit.Unit[:]) })
	leases := make([]towline.Lease, len(all))
	for i, h := range all {
		leases[i] = *h.lease
	}
	return all, leases
}
