package client

import (
	"context"
	"net/http"

	"github.com/towline-dev/towline/wire"
)

// The worker protocol, from the side of the worker. Each call may be repeated: what was taken once is not taken twice (HU-9).

// ClaimNext claims units that wait for a worker; none: there was none until the end of the wait.
func (c *Client) ClaimNext(ctx context.Context, w wire.ClaimAny) (wire.Leases, error) {
	a, err := ask[wire.Leases](ctx, c, post(under("leases", "claim"), w))
	return a.Value, err
}

// Renew renews a lease. An error of code CodeLeaseLost says why it is lost.
func (c *Client) Renew(ctx context.Context, token string, r wire.Renew) (wire.Renewed, error) {
	a, err := ask[wire.Renewed](ctx, c, withLease(post(under("leases", "renew"), r), token))
	return a.Value, err
}

// Complete ends a unit well. CodeLeaseLost: it came too late, and changes nothing.
func (c *Client) Complete(ctx context.Context, token string, r wire.Complete) error {
	_, err := ask[wire.Settled](ctx, c, withLease(post(under("leases", "complete"), r), token))
	return err
}

// Fail ends a unit badly, or schedules its next attempt. Errors as of Complete.
func (c *Client) Fail(ctx context.Context, token string, r wire.Fail) error {
	_, err := ask[wire.Settled](ctx, c, withLease(post(under("leases", "fail"), r), token))
	return err
}

// Release hands a unit back. Errors as of Complete.
func (c *Client) Release(ctx context.Context, token string, r wire.Release) error {
	_, err := ask[wire.Settled](ctx, c, withLease(post(under("leases", "release"), r), token))
	return err
}

// withLease sends the token in its header, for addresses end in logs (E-4).
func withLease(of call, token string) call {
	of.header = http.Header{"Lease-Token": {token}}
	return of
}
