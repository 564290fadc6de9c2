package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/wire"
)

// EventQuery chooses events.
type EventQuery struct {
	Where string          // such as run:7Q4ZKD type:UnitFailed; empty: all
	After events.Position // behind this one; zero: from the first
	At    At              // up to this one; Now: to the newest when it is read
}

// Events reads the log in its order, up to its end. It ends with the first error.
func (c *Client) Events(ctx context.Context, q EventQuery) iter.Seq2[wire.Event, error] {
	return func(yield func(wire.Event, error) bool) {
		const page = 1000
		v := q.At.into(url.Values{"limit": {strconv.Itoa(page)}})
		if q.Where != "" {
			v.Set("where", q.Where)
		}
		for after := q.After; ; {
			v.Set("after_seq", strconv.FormatInt(int64(after), 10))
			got, err := ask[wire.Events](ctx, c, get(under("events"), v))
			if err != nil {
				yield(wire.Event{}, err)
				return
			}
			for _, e := range got.Value.Items {
				if !yield(e, nil) {
					return
				}
			}
			if !got.Value.More {
				return
			}
			after = got.Value.NextAfterSeq
		}
	}
}
