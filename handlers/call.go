package handlers

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// ObeyTimeout is how long a provider may take at most to hear that its context has ended. One that does not is left behind,
// and its worker goes on to the next unit (HU-4).
const ObeyTimeout = 10 * time.Second

// obey leaves the settle its time: a lifetime ends a third of a lease early (hold).
func obey(l towline.Lease) time.Duration { return min(ObeyTimeout, l.RenewEvery/2) }

var (
	errDeaf   = errors.New("the provider did not return when its context ended")
	errGoexit = errors.New("the provider ended its goroutine")
)

// returned is what a provider has said.
type returned struct {
	result provider.Result
	err    error
}

// call is one call of a provider, in a goroutine of its own: a provider that never returns, or that ends its goroutine,
// must not take a worker with it.
type call struct {
	h    *Handlers
	unit provider.Unit
	obey time.Duration
	sink *guarded
	done chan returned // of length 1
}

// sync calls the provider, unless the lease is lost already. A panic in it is a failure like any other (HU-6).
func (h *Handlers) sync(ctx context.Context, p provider.Provider, u provider.Unit, w sink.Writer, obey time.Duration) (provider.Result, error) {
	if ctx.Err() != nil {
		return provider.Result{}, context.Cause(ctx)
	}
	c := &call{h: h, unit: u, obey: obey, sink: &guarded{Writer: w, h: h, unit: u.ID}, done: make(chan returned, 1)}
	go c.run(ctx, p)
	r, ok := c.wait(ctx)
	if !ok {
		h.logger.Error("a provider ignores its context; it is left behind, and its worker goes on", "unit", u.Alias, "attempt", u.Attempt)
		return provider.Result{}, errDeaf
	}
	return r.result, r.err
}

func (c *call) run(ctx context.Context, p provider.Provider) {
	r := returned{err: provider.Fail(events.ProviderError, errGoexit)} // unless it returns or panics
	defer func() {
		if v := recover(); v != nil {
			c.h.logger.Error("the provider panicked", "unit", c.unit.Alias, "panic", v, "stack", string(debug.Stack()))
			r.err = provider.Fail(events.ProviderError, fmt.Errorf("panic: %v", v))
		}
		c.done <- r
	}()
	r.result, r.err = p.Sync(ctx, c.unit, c.sink)
}

// wait returns what the provider says; false: it did not hear that its context has ended. What it does with its sink
// from then on is refused, and the sink is closed behind it if it ever returns.
func (c *call) wait(ctx context.Context) (returned, bool) {
	select {
	case r := <-c.done:
		return r, true
	case <-ctx.Done():
	}
	timer := time.NewTimer(c.obey)
	defer timer.Stop()
	select {
	case r := <-c.done:
		return r, true
	case <-timer.C:
	}
	c.sink.over.Store(true)
	go func() {
		<-c.done
		c.h.abort(c.sink.Writer, c.unit)
	}()
	return returned{}, false
}

// guarded is the sink that a provider sees: it stops at a lost lease, gives failures of the destination their category,
// and reports progress.
type guarded struct {
	sink.Writer
	h    *Handlers
	unit events.UnitID
	over atomic.Bool // nobody waits for this provider any more
}

func (g *guarded) Put(ctx context.Context, surface, key string, row any) error {
	switch {
	case g.over.Load():
		return errDeaf
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if err := g.put(ctx, surface, key, row); err != nil {
		return sinkError(err)
	}
	g.h.progress.report(g.unit, func(u *UnitProgress) { u.Rows++ })
	return nil
}

// put does not let a panic of the destination look like one of the provider.
func (g *guarded) put(ctx context.Context, surface, key string, row any) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return g.Writer.Put(ctx, surface, key, row)
}

func (g *guarded) Progress(done, total int64) {
	if g.over.Load() {
		return
	}
	g.h.progress.report(g.unit, func(u *UnitProgress) { u.Done, u.Total = done, total })
	g.Writer.Progress(done, total)
}
