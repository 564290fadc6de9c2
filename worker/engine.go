package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/handlers"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/wire"
)

// engine is the engine as attempts see it: over the network. Whatever is no clear answer is towline.ErrUnavailable: nobody knows
// whether it was taken, and the same call again will tell.
type engine struct {
	client   *client.Client
	progress func() []handlers.UnitProgress
	heard    func(unit string, err error) // nil: the engine has answered, whatever it said
}

var _ handlers.Leases = (*engine)(nil)

// leaseOf is a lease as attempts know it. The token of the API is one text, which goes back as it is.
func leaseOf(l wire.Lease) towline.Lease {
	return towline.Lease{
		Unit: projections.SyncRunUnit{
			Unit: l.Unit, Alias: l.Alias, Run: l.Run, Attempt: l.Attempt, Source: l.Source, Provider: l.Provider, Dataset: l.Dataset,
			Members: l.Members, Mode: l.Mode, Window: events.NewWindow(l.Window.From, l.Window.To), Surfaces: l.Surfaces,
			Fingerprint: l.Fingerprint,
		},
		Sync: l.Sync, Fence: l.Fence, Store: l.Store, Token: events.Token(l.Token),
		ExpiresIn: millis(l.ExpiresInMS), RenewEvery: millis(l.RenewEveryMS), Lifetime: millis(l.LifetimeMS),
		State: orNone(l.State), Config: orNone(l.Config),
	}
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// orNone: null says that there is none.
func orNone(j wire.AnyJSON) []byte {
	if string(j) == "null" {
		return nil
	}
	return j
}

// Revoked is nil: what an operator takes is learned at the next renewal.
func (*engine) Revoked() <-chan struct{} { return nil }

// Live: a lease that has ended here may well be on in the log, for its times were counted from before it was asked for.
func (*engine) Live(context.Context, *towline.Lease) bool { return true }

// RenewAll renews side by side: an answer that never comes must hold up no other.
func (e *engine) RenewAll(ctx context.Context, leases []towline.Lease) ([]error, error) {
	lost := make([]error, len(leases))
	running := e.progress()
	var asking sync.WaitGroup
	for i := range leases {
		asking.Go(func() { lost[i] = e.renew(ctx, &leases[i], running) })
	}
	asking.Wait()
	return lost, nil
}

func (e *engine) renew(ctx context.Context, l *towline.Lease, running []handlers.UnitProgress) error {
	// Half of the time to the next one: what is lost on the way leaves time for another.
	ctx, cancel := context.WithTimeoutCause(ctx, l.RenewEvery/2, errNoAnswer)
	defer cancel()
	var body wire.Renew
	at := slices.IndexFunc(running, func(u handlers.UnitProgress) bool { return u.Unit == l.Unit.Unit })
	if at >= 0 && running[at].Done > 0 {
		body.Progress = &wire.Progress{Done: running[at].Done, Total: max(running[at].Total, 0)}
	}
	r, err := e.client.Renew(ctx, string(l.Token), body)
	if err != nil {
		return e.fault(l, err)
	}
	e.heard(l.Unit.Alias, nil)
	l.ExpiresIn, l.Lifetime = millis(r.ExpiresInMS), millis(r.LifetimeMS)
	return nil
}

var errNoAnswer = errors.New("the engine has not answered in time")

// Settle says how an attempt has ended.
func (e *engine) Settle(ctx context.Context, l towline.Lease, s towline.Settle) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), answers, errNoAnswer)
	defer cancel()
	token := string(l.Token)
	switch s := s.(type) {
	case towline.Completed:
		return e.fault(&l, e.client.Complete(ctx, token, wire.Complete{Result: resultOf(s.Result), State: s.Result.State}))
	case towline.Failed:
		return e.fault(&l, e.client.Fail(ctx, token, failOf(s)))
	case towline.HandedBack:
		return e.fault(&l, e.client.Release(ctx, token, wire.Release{Reason: s.Reason}))
	}
	panic(fmt.Sprintf("worker: a settle of type %T", s))
}

func resultOf(r events.Result) wire.Result {
	return wire.Result{Rows: r.Rows, Fingerprint: r.Fingerprint, Detail: r.Detail}
}

// failOf is a failure in the words of the API. Its text leaves this machine masked (E-3), and no longer than a request may be.
func failOf(s towline.Failed) wire.Fail {
	const mostText = 16 << 10
	const mostAccount = 200
	if !slices.Contains(events.Reported, s.Category) { // a word of the provider's own
		s.Text = string(s.Category) + ": " + s.Text
		s.Category = events.ProviderError
	}
	after := (max(s.After, 0) + time.Millisecond - 1).Milliseconds() // not a moment too early
	r := resultOf(s.Result)
	r.State = s.Result.State
	return wire.Fail{
		Category: s.Category, Detail: towline.CleanText(s.Text, mostText), RetryAfterMS: after,
		Account: towline.CleanText(s.Account, mostAccount), Result: r,
	}
}

// fault is what the engine's answer means to an attempt; it is heard of.
func (e *engine) fault(l *towline.Lease, err error) error {
	means := meaning(err)
	if errors.Is(means, towline.ErrUnavailable) {
		e.heard(l.Unit.Alias, err)
	} else {
		e.heard(l.Unit.Alias, nil)
	}
	return means
}

func meaning(err error) error {
	var refused *client.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &refused), refused.Code == "":
		return fmt.Errorf("%w: %w", towline.ErrUnavailable, err)
	case refused.Code == client.CodeLeaseLost && refused.Reason == lostCancelled:
		return fmt.Errorf("%w: %w: %w", towline.ErrLeaseLost, towline.ErrCancelled, err)
	case refused.Code == client.CodeLeaseLost:
		return fmt.Errorf("%w: %w", towline.ErrLeaseLost, err)
	}
	switch refused.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: %w", towline.ErrInvalid, err)
	}
	return fmt.Errorf("%w: %w", towline.ErrUnavailable, err)
}

// lostCancelled is the reason of a lease that an operator has taken.
const lostCancelled = "cancelled"
