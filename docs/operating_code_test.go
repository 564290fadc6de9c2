package docs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/feed"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/transport"
)

// The functions of this file are printed in OPERATING.md, and called by the tests beside it.

// requests are ways to run a sync once more.
func requests(key string, since, before time.Time) []towline.RunSpec {
	return []towline.RunSpec{
		{Sync: "readings", Key: key + " new"}, // incremental: what has not succeeded yet, and what is new
		{Sync: "readings", Key: key + " all", Mode: towline.FullResync},
		{Sync: "readings", Key: key + " range", Mode: towline.Backfill, Since: since, Before: before},
		{Sync: "readings", Key: key + " one", Mode: towline.FullResync, Sources: []string{"ridge"}, Datasets: []string{"readings"}},
	}
}

// routes sends every post_sync to a broker. The other kinds stay in the process.
func routes(broker message.Publisher) map[events.Kind]transport.Publisher {
	return map[events.Kind]transport.Publisher{
		events.KindPostSync: transport.FromWatermill("broker", broker, transport.Traits{
			NilMeansStored: true, // Publish returns nil only when the broker has the message
		}),
	}
}

// follow takes what the broker delivers on the topic "post_sync", and does what follows a run.
func follow(messages <-chan *message.Message, do func(generation, target string, n transport.Notice) error) {
	for m := range messages {
		n, err := transport.ParseNotice(m)
		if err == nil && n.Post != nil && do(n.Post.Generation, n.Target, n) != nil {
			m.Nack() // the broker delivers it again
			continue
		}
		m.Ack() // done, or nothing that can ever be read
	}
}

// followLog does something once for each run that has ended, in the order in which they ended.
func followLog(ctx context.Context, n *node.Node, do func(stream string, r events.RunFinalized) error) error {
	ended, err := n.Events("run reports", feed.Options{Types: []events.Type{events.TypeRunFinalized}})
	if err != nil {
		return err
	}
	defer ended.Close()
	messages, err := ended.Subscribe(ctx, feed.Topic) // until ctx ends, or the node
	if err != nil {
		return err
	}
	for m := range messages {
		e, err := feed.Event(m)
		if err != nil {
			return err
		}
		if err := do(m.Metadata.Get(feed.Subject), e.(events.RunFinalized)); err != nil {
			m.Nack() // it comes again
			continue
		}
		m.Ack()
	}
	return nil
}

// startBehind plans a run of next behind each run of first that brought something, until ctx ends or a request is wrong. The
// key makes it one run for each, however often an event is delivered.
func startBehind(ctx context.Context, n *node.Node, first, next string) error {
	ended, err := n.Events(next+" behind "+first, feed.Options{Types: []events.Type{events.TypeRunFinalized}})
	if err != nil {
		return err
	}
	defer ended.Close()
	messages, err := ended.Subscribe(ctx, feed.Topic)
	if err != nil {
		return err
	}
	for m := range messages {
		err := planBehind(ctx, n.Engine(), m.Metadata.Get(feed.Subject), first, next)
		if wrong := (*towline.RequestError)(nil); errors.As(err, &wrong) {
			return err // no repetition helps
		}
		if err != nil {
			m.Nack() // the store is away: it comes again
			continue
		}
		m.Ack()
	}
	return nil
}

// planBehind looks at the run of an event, and plans the next one if it is due.
func planBehind(ctx context.Context, e *towline.Engine, stream, first, next string) error {
	id, err := events.ParseRunID(strings.TrimPrefix(stream, "run/"))
	if err != nil {
		return err
	}
	var run projections.SyncRun
	if err := e.View(ctx, func(v projections.View) (err error) {
		run, _, err = v.Run(id)
		return err
	}); err != nil {
		return err
	}
	if run.Sync != first || run.Succeeded == 0 {
		return nil
	}
	_, err = e.Plan(ctx, towline.RunSpec{Sync: next, Key: "behind " + id.String()})
	return err
}

// pauses leaves the wiki alone while it moves, and then everything.
func pauses(ctx context.Context, e *towline.Engine) error {
	by := towline.Actor{Name: "ada", Reason: "the wiki moves to another house"}
	if err := e.PauseSource(ctx, "wiki", by); err != nil { // in every run; ResumeSource goes on
		return err
	}
	return e.PauseEngine(ctx, by) // every source; ResumeEngine goes on
}

// prove returns an error if the log breaks an invariant, or a view differs from the log.
func prove(ctx context.Context, n *node.Node) error {
	v, err := n.Verify(ctx)
	if err == nil && !v.OK() {
		err = fmt.Errorf("verify, at position %d: %v %v", v.Position, v.Violations, v.Differences)
	}
	return err
}
