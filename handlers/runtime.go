package handlers

import (
	"context"
	"time"
)

// Runtime is what the handlers ask of their process beside the ports: its clock, goroutines, and to wait. A simulator has
// one in which one goroutine runs at a time and time is virtual. nil in a Config: that of Go.
type Runtime interface {
	// Now is monotonic: only differences count.
	Now() time.Time
	// AfterFunc calls f once d has passed, as time.AfterFunc does. f does not wait.
	AfterFunc(d time.Duration, f func()) Timer
	// Go runs f beside its caller.
	Go(f func())
	// Wait comes before a select. ready says that the select would not wait, so a runtime that decides who runs returns when
	// it does. That of Go returns at once. Where several cases may be ready, what follows must not depend on which one
	// select takes.
	Wait(ready func() bool)
}

// Timer is a *time.Timer of AfterFunc.
type Timer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

type goRuntime struct{}

func (goRuntime) Now() time.Time                            { return time.Now() }
func (goRuntime) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
func (goRuntime) Go(f func())                               { go f() }
func (goRuntime) Wait(func() bool)                          {}

// pause waits for d; false: ctx ended before.
func pause(ctx context.Context, r Runtime, d time.Duration) bool {
	over := make(chan struct{}, 1)
	timer := r.AfterFunc(d, func() { over <- struct{}{} })
	defer timer.Stop()
	r.Wait(func() bool { return len(over) > 0 || ctx.Err() != nil })
	select {
	case <-over:
	case <-ctx.Done():
	}
	return ctx.Err() == nil // where both have come, select takes any
}
