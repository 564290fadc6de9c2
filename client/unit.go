package client

import (
	"context"
	"net/url"

	"github.com/towline-dev/towline/wire"
)

// Units lists units of all runs, newest first.
func (c *Client) Units(q Query) *List[wire.Unit] {
	return &List[wire.Unit]{c: c, path: under("units"), query: q.values()}
}

// UnitsOf lists the units of a run, by ordinal.
func (c *Client) UnitsOf(run string, q Query) *List[wire.Unit] {
	return &List[wire.Unit]{c: c, path: under("runs", run, "units"), query: q.values()}
}

// Unit is one unit.
func (c *Client) Unit(ctx context.Context, id string, at At) (Answer[wire.Unit], error) {
	return ask[wire.Unit](ctx, c, get(under("units", id), at.into(url.Values{})))
}

// WhyUnit says why a unit is no further.
func (c *Client) WhyUnit(ctx context.Context, id string) (Answer[wire.Explanation], error) {
	return ask[wire.Explanation](ctx, c, get(under("units", id, "why"), nil))
}

// CancelUnit cancels a unit, as CancelRun does a run.
func (c *Client) CancelUnit(ctx context.Context, id, reason string) (Answer[wire.Unit], error) {
	return ask[wire.Unit](ctx, c, post(under("units", id, "cancel"), wire.Why{Reason: reason}))
}

// ReleaseUnit states that the worker of a running unit is gone: its lease counts as expired.
func (c *Client) ReleaseUnit(ctx context.Context, id, reason string) (Answer[wire.Unit], error) {
	return ask[wire.Unit](ctx, c, post(under("units", id, "release"), wire.Why{Reason: reason}))
}

// RetryUnit starts a new run of one unit of an ended run.
func (c *Client) RetryUnit(ctx context.Context, id string, r wire.RetryRun, o StartOptions) (Started, error) {
	of := post(under("units", id, "retry"), r)
	of.header = o.header()
	return c.started(ctx, of)
}
