package client

import (
	"context"
	"net/url"

	"github.com/towline-dev/towline/wire"
)

// Entries lists outbox entries, those of the newest owners first.
func (c *Client) Entries(q Query) *List[wire.Entry] {
	return &List[wire.Entry]{c: c, path: under("outbox"), query: q.values()}
}

// Entry is one outbox entry.
func (c *Client) Entry(ctx context.Context, id string, at At) (Answer[wire.Entry], error) {
	return ask[wire.Entry](ctx, c, get(under("outbox", id), at.into(url.Values{})))
}

// WhyEntry says why an outbox entry is no further.
func (c *Client) WhyEntry(ctx context.Context, id string) (Answer[wire.Explanation], error) {
	return ask[wire.Explanation](ctx, c, get(under("outbox", id, "why"), nil))
}

// Resolve says what became of a publish of which nobody knows. Nothing is sent.
func (c *Client) Resolve(ctx context.Context, id string, r wire.Resolve) (Answer[wire.Entry], error) {
	return ask[wire.Entry](ctx, c, post(under("outbox", id, "resolve"), r))
}

// Requeue publishes after all what is parked.
func (c *Client) Requeue(ctx context.Context, id, reason string) (Answer[wire.Entry], error) {
	return ask[wire.Entry](ctx, c, post(under("outbox", id, "requeue"), wire.Why{Reason: reason}))
}
