// Package provider is the port to where data comes from. A provider does the work of one unit attempt; it may run again
// for the same unit with a higher fence, and writes only through its sink.
package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sink"
)

// Provider does the work of units.
type Provider interface {
	// Sync does one attempt of one unit. It may run again for the same unit with a higher fence, and must write only
	// through s. ctx ends when the lease ends, when it is lost, when an operator cancels the unit, and at a shutdown behind
	// its grace; its cause says which of them: ErrCancelled, ErrStopping (see Stopping), or another.
	// An error made by Fail or RateLimited has its category; any other is provider_error (E-1). ErrStopped hands the
	// unit back without using up a retry (U-16). Of a result beside an error only Detail is kept, for people.
	Sync(ctx context.Context, u Unit, s sink.Sink) (Result, error)
}

// Func is a function as a Provider.
type Func func(ctx context.Context, u Unit, s sink.Sink) (Result, error)

func (f Func) Sync(ctx context.Context, u Unit, s sink.Sink) (Result, error) { return f(ctx, u, s) }

// Result is what an attempt that succeeded reports. A zero Rows is filled in from the sink.
type Result = events.Result

// Category is the typed reason of a failure.
type Category = events.Category

// The categories that a provider may give (spec 19).
const (
	RateLimit     = events.RateLimit
	Timeout       = events.Timeout
	Network       = events.Network
	Auth          = events.Auth
	NotFound      = events.NotFound
	Configuration = events.Configuration
	OtherError    = events.ProviderError
	SinkError     = events.SinkError
)

// Unit is one attempt of one unit.
type Unit struct {
	Run         events.RunID
	ID          events.UnitID
	Alias       string // RUN:source/dataset/window, for people
	Sync        string
	Source      string
	Dataset     string
	Members     []string // of a family; else the dataset alone
	Mode        events.Mode
	Window      events.Window   // half-open, UTC; a zero From is an open start
	Surfaces    []string        // Put refuses any other (RW-6)
	Fingerprint string          // as planned (W-8); empty: none
	Attempt     int             // 1 for the first claim
	Fence       events.Fence    // orders the attempts at a sink, of one Store
	State       json.RawMessage // left by the last success of this source and dataset; nil: none
	Config      json.RawMessage // of the sync
	Store       string          // identity of the store whose fence it is
	Obey        time.Duration   // how long Sync may take to return once ctx has ended, before it is left behind (HU-4); zero: not known
}

// Scope is what the unit's fence protects, and who writes.
func (u Unit) Scope() sink.Scope {
	return sink.Scope{
		Source: u.Source, Dataset: u.Dataset, Window: u.Window, Run: u.Run, Unit: u.ID, Attempt: u.Attempt, Fence: u.Fence,
		Surfaces: u.Surfaces, Store: u.Store,
	}
}

// Error is a failure with its category. The text is redacted and bounded before it is stored (E-3).
type Error struct {
	Category Category
	After    time.Duration // of a rate limit; zero: the provider did not say
	// Account is whose rate limit it is, if several sources share one: a token's user or number, never the token. Empty: the
	// source has a limit of its own. A source is known to share it from when it has reported it.
	Account string
	Err     error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Category, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Fail makes a typed failure.
func Fail(c Category, err error) error { return &Error{Category: c, Err: err} }

// RateLimited makes the failure of a provider that asks to wait. after zero: it did not say how long. The unit is tried
// again, within the budget of rate_limit.max_deferrals and rate_limit.max_wait (RL-2), and meanwhile no unit of the source
// is dispatched (RL-5). Where sources share a limit, make an *Error with its Account.
func RateLimited(after time.Duration, err error) error {
	return &Error{Category: events.RateLimit, After: after, Err: err}
}

// ErrStopped says: I stopped cleanly because the process is stopping, and may be called again at any time (U-16).
var ErrStopped = errors.New("stopped cleanly")

// ErrStopping is the cause of a context that ended because the process is stopping. It is not ErrStopped, which only a
// provider can say: a provider that passes on why its context ended has not said that it stopped cleanly.
var ErrStopping = errors.New("the process is stopping")

// ErrCancelled is the cause of a context that ended because an operator has cancelled the unit or its run. Whatever the
// attempt comes to is refused, and what its sink has not committed is dropped: there is nothing to finish.
var ErrCancelled = errors.New("the unit was cancelled")

// Stopping reports that ctx was cancelled because the process is stopping, or without any cause. It is what to ask before
// ErrStopped is returned: a lease that was lost, a lifetime and a deadline end ctx too, and a unit that has used up its
// time must not look as if it had been stopped.
func Stopping(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, context.Canceled) || errors.Is(cause, ErrStopping)
}

// CategoryOf is the category of an error: that of the *Error in its chain if it is one of those above, timeout for a
// deadline, and provider_error for any other. Text is never looked at (E-1).
func CategoryOf(err error) Category {
	var typed *Error
	switch {
	case errors.As(err, &typed) && slices.Contains(events.Reported, typed.Category):
		return typed.Category
	case errors.Is(err, sink.ErrUndeclared):
		return events.UndeclaredSurface
	case errors.Is(err, context.DeadlineExceeded):
		return events.Timeout
	}
	return events.ProviderError
}

// Starter is optional: a provider that has to clear up behind a process that was killed.
type Starter interface {
	// Start is called by a process that has its store, before any unit may be claimed there, and perhaps more than once. An
	// error stops the start of the process: it should say what to do.
	Start(ctx context.Context) error
}

// Watched is optional: a provider of which silence says something. Its unit is shown as stalled when it has neither put a
// row nor reported progress for so long (WHY-1). Zero or less: never.
type Watched interface {
	StallAfter() time.Duration
}

// Lister is optional (P-12): a provider that can say which calendar periods of a dataset hold data.
type Lister interface {
	// Periods lists the whole UTC periods that hold data, each with a fingerprint of it. It runs before the
	// transaction of the plan and is bounded by ctx. An error leaves the source out of the plan, with its category;
	// not_found is recorded as "unavailable".
	Periods(ctx context.Context, source, dataset string, c events.Calendar, config json.RawMessage) ([]Period, error)
}

// Period is one calendar period. An empty one need not be listed; its fingerprint is empty.
type Period struct {
	Window      events.Window
	Fingerprint string
}

// LimitOf is what an error says of a rate limit: how long to wait, zero if it does not say, and whose it is. Of any other
// error it is zero.
func LimitOf(err error) (after time.Duration, account string) {
	var typed *Error
	if !errors.As(err, &typed) || typed.Category != events.RateLimit {
		return 0, ""
	}
	return typed.After, typed.Account
}
