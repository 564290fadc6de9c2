package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/foreign"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// ObeyTimeout is how long a provider may take at most to hear that its context has ended. One that does not is left behind,
// and its worker goes on to the next unit (HU-4).
const ObeyTimeout = 10 * time.Second

// obey leaves the settle its time: a lifetime ends a third of a lease early (hold).
func obey(l *towline.Lease) time.Duration { return min(ObeyTimeout, l.RenewEvery/2) }

var (
	errDeaf   = errors.New("the provider did not return when its context ended")
	errGoexit = errors.New("the provider ended its goroutine")
)

// attempt is one attempt at a unit, in a goroutine of its own: a provider that never returns, or a provider or a sink that
// ends its goroutine, must not take a worker with it. Whose code runs says who owns how it ends:
//
//	ofSink ──Sync──► ofProvider ──it returned──► ofSink     the attempt says how it ended
//	                      └──the worker went on──► ofNobody  the worker has said so
//
// Either way out of ofProvider is taken by compare-and-swap, so exactly one of them is.
type attempt struct {
	in     *Attempts
	lease  *towline.Lease
	ports  Ports
	unit   provider.Unit
	writer sink.Writer         // nil: the sink is not open
	runs   atomic.Int32        // whose code: ofSink, ofProvider, ofNobody
	done   chan towline.Settle // of length 1
}

const (
	ofSink int32 = iota
	ofProvider
	ofNobody // its provider was left behind
)

// run sends how the attempt ended, whatever the provider or the sink does in it. The sink is closed before.
func (a *attempt) run(ctx context.Context) {
	var ended towline.Settle
	returned := false
	defer func() { a.done <- ended }() // also if Abort ends the goroutine
	defer func() {
		if !returned {
			ended = a.broken(ctx, recover())
		}
		if a.writer != nil {
			a.abort()
		}
	}()
	ended = a.sync(ctx)
	returned = true
}

// broken is the end of an attempt in which a sink has panicked with v, or somebody's code has ended the goroutine. A panic
// of the provider has been caught before.
func (a *attempt) broken(ctx context.Context, v any) towline.Settle {
	if a.runs.CompareAndSwap(ofProvider, ofSink) {
		return a.uncommitted(ctx, provider.Fail(events.ProviderError, errGoexit))
	}
	broken := foreign.ErrGone
	if v != nil {
		broken = &foreign.PanicError{Value: v}
	}
	return brokenSink(broken)
}

// uncommitted is the end of an attempt whose provider has not returned: nothing was committed, and its writer need not be
// asked. The sink is, and it is somebody else's code here, too.
func (a *attempt) uncommitted(ctx context.Context, err error) towline.Settle {
	return foreign.Call(func() towline.Settle { return a.in.failed(ctx, a.lease, a.ports.Sink, nil, err) }, brokenSink)
}

func brokenSink(err error) towline.Settle {
	return towline.Failed{Category: events.SinkError, Text: err.Error()}
}

// sync opens the sink, lets the provider work, and commits what it has put.
func (a *attempt) sync(ctx context.Context) towline.Settle {
	failed := func(err error) towline.Settle { return a.in.failed(ctx, a.lease, a.ports.Sink, a.writer, err) }
	writer, err := a.ports.Sink.Open(ctx, a.unit.Scope())
	if err != nil {
		return failed(sinkError(err))
	}
	a.writer = writer
	if ctx.Err() != nil { // the lease is lost already
		return failed(context.Cause(ctx))
	}
	result, err := a.provide(ctx)
	if !a.runs.CompareAndSwap(ofProvider, ofSink) {
		return nil // it was left behind, and nobody waits
	}
	if err != nil {
		return a.detailed(failed(err), result.Detail)
	}
	if result.Rows == 0 {
		result.Rows = writer.Rows()
	}
	if len(result.State) == 0 {
		result.State = writer.Left()
	}
	err = towline.CheckResult(result) // before the sink takes what the log would refuse
	if err == nil {
		err = commit(ctx, writer)
	}
	if err != nil {
		return failed(err)
	}
	return towline.Completed{Result: result}
}

// detailed adds what the provider has left for people to a failure. A detail that the log cannot take is no reason to lose
// the category of the failure.
func (a *attempt) detailed(s towline.Settle, detail json.RawMessage) towline.Settle {
	f, failed := s.(towline.Failed)
	if !failed {
		return s
	}
	if err := towline.CheckResult(events.Result{Detail: detail}); err != nil {
		a.in.logger.Warn("detail of a failure cannot be stored", "unit", a.unit.Alias, "error", err)
		return f
	}
	f.Result.Detail = detail
	return f
}

// provide calls the provider. A panic in it is a failure like any other (HU-6).
func (a *attempt) provide(ctx context.Context) (result provider.Result, err error) {
	a.runs.Store(ofProvider)
	defer func() {
		if v := recover(); v != nil {
			a.in.logger.Error("the provider panicked", "unit", a.unit.Alias, "panic", v, "stack", string(debug.Stack()))
			err = provider.Fail(events.ProviderError, fmt.Errorf("panic: %v", v))
		}
	}()
	result, err = a.ports.Provider.Sync(ctx, a.unit, &guarded{a.writer, a})
	return result, err
}

// wait returns how the attempt ended. A provider that does not hear that its context has ended is left behind: what it does
// with its sink from then on is refused, and the sink is closed behind it if it ever returns. A sink is waited for.
func (a *attempt) wait(ctx context.Context) towline.Settle {
	rt := a.in.rt
	rt.Wait(func() bool { return len(a.done) > 0 || ctx.Err() != nil })
	select {
	case s := <-a.done:
		return s
	case <-ctx.Done():
	}
	// Not once: the context may have ended between the attempt's look at it and the call of the provider.
	patience := make(chan struct{}, 1)
	timer := rt.AfterFunc(obey(a.lease), func() { patience <- struct{}{} })
	defer timer.Stop()
	for ; ; timer.Reset(obey(a.lease)) {
		rt.Wait(func() bool { return len(a.done) > 0 || len(patience) > 0 })
		select {
		case s := <-a.done:
			return s
		case <-patience:
		}
		if a.runs.CompareAndSwap(ofProvider, ofNobody) {
			a.in.logger.Error("a provider ignores its context; it is left behind, and its worker goes on", "unit", a.unit.Alias, "attempt", a.unit.Attempt)
			return a.uncommitted(ctx, errDeaf)
		}
	}
}

// abort clears up behind an attempt. What it cannot clear up does not change how the attempt ended.
func (a *attempt) abort() {
	defer func() {
		if v := recover(); v != nil {
			a.in.logger.Warn("abort", "unit", a.unit.Alias, "panic", v)
		}
	}()
	if err := a.writer.Abort(); err != nil {
		a.in.logger.Warn("abort", "unit", a.unit.Alias, "error", err)
	}
}

// guarded is the sink that a provider sees: it stops at a lost lease, gives failures of the destination their category,
// and reports progress.
type guarded struct {
	sink.Writer
	a *attempt
}

// over: nobody waits for this provider any more.
func (g *guarded) over() bool { return g.a.runs.Load() == ofNobody }

func (g *guarded) Put(ctx context.Context, surface, key string, row any) error {
	switch {
	case g.over():
		return errDeaf
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if err := g.put(ctx, surface, key, row); err != nil {
		return sinkError(err)
	}
	g.a.in.progress.report(g.a.unit.ID, func(u *UnitProgress) { u.Rows++ })
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
	if g.over() {
		return
	}
	g.a.in.progress.report(g.a.unit.ID, func(u *UnitProgress) { u.Done, u.Total = done, total })
	defer func() { // it is for people, and a provider may say it in a goroutine where a panic would end the process
		if v := recover(); v != nil {
			g.a.in.logger.Warn("progress", "unit", g.a.unit.Alias, "panic", v)
		}
	}()
	g.Writer.Progress(done, total)
}
