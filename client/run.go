package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/wire"
)

// StartOptions of a run.
type StartOptions struct {
	// Key makes the request repeatable: the same key with the same request gives the first run, for 7 days. Empty: each
	// request is a new run.
	Key string
	// Wait waits so long for the end of the run, a minute at most; zero: not at all.
	Wait time.Duration
}

// Started is a run that was accepted.
type Started struct {
	Run      wire.Run
	Seq      events.Position
	Replayed bool // Key was known: this is its run, and nothing was started
}

func (o StartOptions) header() http.Header {
	h := http.Header{}
	if o.Key != "" {
		h.Set("Idempotency-Key", o.Key)
	}
	if o.Wait > 0 {
		h.Set("Prefer", fmt.Sprintf("wait=%d", int((o.Wait+time.Second-1)/time.Second)))
	}
	return h
}

func (c *Client) started(ctx context.Context, of call) (Started, error) {
	a, header, err := askWhole[wire.Run](ctx, c, of)
	if err != nil {
		return Started{}, err
	}
	return Started{Run: a.Value, Seq: a.Seq, Replayed: header.Get("Idempotency-Replayed") == "true"}, nil
}

// StartRun starts a run. It is committed when this returns. After ErrUnreachable it may be, too: with a key, ask again.
func (c *Client) StartRun(ctx context.Context, r wire.StartRun, o StartOptions) (Started, error) {
	of := post(under("runs"), r)
	of.header = o.header()
	return c.started(ctx, of)
}

// DryRun says what StartRun would plan. Nothing is written. Errors as of StartRun.
func (c *Client) DryRun(ctx context.Context, r wire.StartRun, key string) (wire.DryRun, error) {
	of := post(under("runs", "dry-run"), r)
	of.header = StartOptions{Key: key}.header()
	a, err := ask[wire.DryRun](ctx, c, of)
	return a.Value, err
}

// RetryRun starts a new run of what failed of an ended one.
func (c *Client) RetryRun(ctx context.Context, id string, r wire.RetryRun, o StartOptions) (Started, error) {
	of := post(under("runs", id, "retry"), r)
	of.header = o.header()
	return c.started(ctx, of)
}

// Runs lists runs, newest first.
func (c *Client) Runs(q Query) *List[wire.Run] {
	return &List[wire.Run]{c: c, path: under("runs"), query: q.values()}
}

// Run is one run.
func (c *Client) Run(ctx context.Context, id string, at At) (Answer[wire.Run], error) {
	return ask[wire.Run](ctx, c, get(under("runs", id), at.into(url.Values{})))
}

// CancelRun cancels a run. One that is cancelled already is a success; one that has ended otherwise is already_ended.
func (c *Client) CancelRun(ctx context.Context, id, reason string) (Answer[wire.Run], error) {
	return ask[wire.Run](ctx, c, post(under("runs", id, "cancel"), wire.Why{Reason: reason}))
}

// Why says why a thing is no further: a run, unit, job, message or outbox entry.
func (c *Client) Why(ctx context.Context, id string) (Answer[wire.Explanation], error) {
	return ask[wire.Explanation](ctx, c, get(under("why", id), nil))
}

// WhyRun says why a run is no further.
func (c *Client) WhyRun(ctx context.Context, id string) (Answer[wire.Explanation], error) {
	return ask[wire.Explanation](ctx, c, get(under("runs", id, "why"), nil))
}

// Jobs lists jobs, newest first.
func (c *Client) Jobs(q Query) *List[wire.Job] {
	return &List[wire.Job]{c: c, path: under("jobs"), query: q.values()}
}

// Job is one job.
func (c *Client) Job(ctx context.Context, id string, at At) (Answer[wire.Job], error) {
	return ask[wire.Job](ctx, c, get(under("jobs", id), at.into(url.Values{})))
}
