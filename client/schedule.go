package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/towline-dev/towline/wire"
)

// Schedules lists all schedules by name, each with so many due times to come, 100 at most.
func (c *Client) Schedules(ctx context.Context, next int, at At) (Answer[wire.List[wire.Schedule]], error) {
	return ask[wire.List[wire.Schedule]](ctx, c, get(under("schedules"), at.into(url.Values{"next": {strconv.Itoa(next)}})))
}

// Schedule is one schedule, with what became of its due times.
func (c *Client) Schedule(ctx context.Context, name string, next int, at At) (Answer[wire.Schedule], error) {
	return ask[wire.Schedule](ctx, c, get(under("schedules", name), at.into(url.Values{"next": {strconv.Itoa(next)}})))
}

// PauseSchedule pauses a schedule. What waits in it is skipped; runs that were accepted go on.
func (c *Client) PauseSchedule(ctx context.Context, name, reason string) (Answer[wire.Schedule], error) {
	return ask[wire.Schedule](ctx, c, post(under("schedules", name, "pause"), wire.Why{Reason: reason}))
}

// ResumeSchedule ends a pause of a schedule. What was due during it is not caught up.
func (c *Client) ResumeSchedule(ctx context.Context, name, reason string) (Answer[wire.Schedule], error) {
	return ask[wire.Schedule](ctx, c, post(under("schedules", name, "resume"), wire.Why{Reason: reason}))
}

// RunSchedule starts a run with what a schedule asks for. It moves no due time.
func (c *Client) RunSchedule(ctx context.Context, name string, r wire.RunNow, o StartOptions) (Started, error) {
	of := post(under("schedules", name, "run-now"), r)
	of.header = o.header()
	return c.started(ctx, of)
}
