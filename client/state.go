package client

import (
	"context"
	"net/url"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/wire"
)

// State is the whole engine in short.
func (c *Client) State(ctx context.Context, at At) (Answer[wire.State], error) {
	return ask[wire.State](ctx, c, get(under("state"), at.into(url.Values{})))
}

// PositionAt is the newest event at a time, for At. A time ahead gives the newest of all; before the first it is not_found.
func (c *Client) PositionAt(ctx context.Context, t time.Time) (At, error) {
	a, err := ask[wire.Position](ctx, c, get(under("position"), url.Values{"at_time": {t.UTC().Format(time.RFC3339Nano)}}))
	return At(a.Value.Seq), err
}

// Coverage says which periods of a source and dataset have succeeded.
func (c *Client) Coverage(ctx context.Context, source, dataset string, at At) (Answer[wire.Coverage], error) {
	return ask[wire.Coverage](ctx, c, get(under("coverage"), at.into(url.Values{"source": {source}, "dataset": {dataset}})))
}

// Pause pauses the engine, or a source. The answer is what is paused then.
func (c *Client) Pause(ctx context.Context, r wire.PauseRequest) (Answer[wire.Paused], error) {
	return ask[wire.Paused](ctx, c, post(under("pause"), r))
}

// Resume ends a pause, or confirms the clock. The answer is what is paused still.
func (c *Client) Resume(ctx context.Context, r wire.ResumeRequest) (Answer[wire.Paused], error) {
	return ask[wire.Paused](ctx, c, post(under("resume"), r))
}

// Head is the position of the newest event.
func (c *Client) Head(ctx context.Context) (events.Position, error) {
	a, err := ask[wire.Position](ctx, c, get(under("position"), url.Values{"at_time": {farAhead}}))
	return a.Seq, err
}

// farAhead is a time at which all has happened that has happened by now.
const farAhead = "9999-01-01T00:00:00Z"
