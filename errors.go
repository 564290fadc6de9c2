package towline

import (
	"errors"
	"fmt"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// The errors that a caller may act on. Each is found with errors.Is or errors.As.
var (
	// ErrNotFound: there is no such sync, source, run or unit.
	ErrNotFound = errors.New("not found")
	// ErrInvalid: the request can never be carried out as it is. Nothing was written.
	ErrInvalid = errors.New("invalid request")
	// ErrConflict: what the request is about is not in a state for it. Nothing was written.
	ErrConflict = decider.ErrConflict
	// ErrSourcePaused: every source that was asked for is paused. Nothing was written.
	ErrSourcePaused = errors.New("source is paused")
	// ErrKeyReused: the idempotency key belongs to another request or message (P-11, M-2). Nothing was written.
	ErrKeyReused = errors.New("idempotency key was used for another request")
	// ErrLeaseLost: the lease is no longer the caller's. Stop, and write nothing more.
	ErrLeaseLost = decider.ErrLeaseLost
	// ErrCancelled: the unit was cancelled by an operator. Where it is returned, ErrLeaseLost is too.
	ErrCancelled = errors.New("cancelled by an operator")
	// ErrNotClaimable: the unit is not waiting for a worker.
	ErrNotClaimable = decider.ErrNotClaimable
	// ErrTooEarly: the unit waits for its next attempt.
	ErrTooEarly = decider.ErrTooEarly
	// ErrUnavailable: the store cannot write now. Nothing was accepted; the same call may succeed later.
	ErrUnavailable = store.ErrUnavailable
	// ErrReadOnly: the engine only reads (OpenReader). Nothing was written.
	ErrReadOnly = store.ErrReadOnly
	// ErrInTransaction: the method needs the writer of the store, and was called with the context of a transaction that holds
	// it: inside of Target.Func without a DB of its own, or of a message consumer. It would have waited for itself. Nothing
	// was written; do it behind the commit.
	ErrInTransaction = store.ErrInTransaction
	// ErrMoved: the store's file, its WAL or its lock was deleted, moved or replaced under the process. Nothing is accepted
	// any more; stop, put it back, and start again.
	ErrMoved = store.ErrMoved
	// ErrNoMessage: there is no application message of that id, or none that a relay has taken.
	ErrNoMessage = store.ErrNoMessage
	// ErrStopped: this incarnation has ended (Engine.Stop). Nothing was accepted.
	ErrStopped = errors.New("the engine has stopped")
)

// RequestError names the field of a request that is wrong, and what to do about it. Nothing was written.
type RequestError struct {
	Field   string // as in the request, lower case: "since", "by.name"
	Problem string
	Fix     string
	Kind    error // ErrInvalid, ErrNotFound, ErrConflict or ErrSourcePaused
}

func (e *RequestError) Error() string {
	s := fmt.Sprintf("%s: %s", e.Field, e.Problem)
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

func (e *RequestError) Unwrap() error { return e.Kind }

// PlanTooLargeError says that a request would make more units than a run may hold (P-4). Nothing was written.
type PlanTooLargeError = decider.PlanTooLargeError

// RunExistsError says that a sync that allows one run at a time has an open one (P-10). It is ErrConflict. Nothing was
// written.
type RunExistsError struct {
	Sync string
	Run  events.RunID
}

func (e *RunExistsError) Error() string {
	return fmt.Sprintf("sync %q has an open run %s and allows one at a time; wait for it to end", e.Sync, e.Run)
}

func (e *RunExistsError) Unwrap() error { return ErrConflict }
