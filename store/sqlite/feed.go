package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/feed"
	"github.com/towline-dev/towline/store"
)

// Feed is the log as a topic, read by one group (WMILL-2). Each subscription is a subscriber of watermill-sql over the
// events table; what is ours is its SQL (feed_adapters.go), where its statements run (feed_statements.go), and when it
// looks for more (feed_follower.go).
//
// A group has one consumer at a time, in all processes of the store: a second one, also of the same subscriber, waits
// until the first has ended, and goes on behind what that has acknowledged. So the order holds whoever consumes. The
// messages of a consumer come one by one: the next is delivered when the last was acknowledged.
//
// The subscriptions end with their context, with Close, and with the store. What was acknowledged until then is on disk,
// unless the process is killed: then up to a second of it, and never more than 100 events, comes again, and nothing else.
//
// Errors: a group without a name, or with options that cannot be. Subscribe returns those of the store, and refuses
// another topic than feed.Topic.
func (s *Store) Feed(group string, o feed.Options) (message.Subscriber, error) {
	o, err := checkFeed(group, o)
	if err != nil {
		return nil, fmt.Errorf("feed: %w", err)
	}
	f := &feedSubscriber{store: s, group: group, options: o}
	f.alive, f.end = context.WithCancel(context.Background())
	return f, nil
}

const (
	feedPoll   = time.Second
	feedResend = time.Second
	maxGroup   = 200 // bytes of a name
)

// checkFeed fills in the defaults.
func checkFeed(group string, o feed.Options) (feed.Options, error) {
	switch {
	case group == "":
		return o, errors.New("group is empty: give it the name of what consumes")
	case len(group) > maxGroup || strings.ContainsRune(group, 0):
		return o, fmt.Errorf("group %.50q: a name has at most %d bytes and no NUL", group, maxGroup)
	case o.AckDeadline < 0 || o.Resend < 0 || o.Poll < 0:
		return o, fmt.Errorf("group %q: AckDeadline, Resend and Poll are lengths of time, and not below zero", group)
	case o.Types != nil && len(o.Types) == 0:
		return o, fmt.Errorf("group %q: Types is empty: name one, or leave it nil for all", group)
	}
	for _, t := range o.Types {
		if events.SchemaOf(t) == 0 {
			return o, fmt.Errorf("group %q: Types: %d is no event of this release", group, t)
		}
	}
	if o.Resend == 0 {
		o.Resend = feedResend
	}
	if o.Poll == 0 {
		o.Poll = feedPoll
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Logger = o.Logger.With("group", group)
	return o, nil
}

// detailLogger is for the part that is not ours: what it calls information is detail.
func detailLogger(l *slog.Logger) watermill.LoggerAdapter {
	return watermill.NewSlogLoggerWithLevelMapping(l, map[slog.Level]slog.Level{
		slog.LevelInfo: slog.LevelDebug, slog.LevelDebug: watermill.LevelTrace,
	})
}

// feedSubscriber makes the subscriptions of one group.
type feedSubscriber struct {
	store   *Store
	group   string
	options feed.Options

	alive context.Context // ends with Close
	end   context.CancelFunc
	open  subscriptions
}

// subscriptions counts those that have not ended. None begins once it is closed.
type subscriptions struct {
	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
}

// begin is false when nothing may begin any more; else ended must be called.
func (s *subscriptions) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.group.Add(1)
	}
	return !s.closed
}

func (s *subscriptions) ended() { s.group.Done() }

// close waits for those that are open; somebody else ends them.
func (s *subscriptions) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.group.Wait()
}

// Subscribe begins to deliver. The group is made if it is new, and is this consumer's when Subscribe returns, unless
// another one has it.
func (f *feedSubscriber) Subscribe(ctx context.Context, topic string) (_ <-chan *message.Message, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("subscribe to the log as group %q: %w", f.group, err)
		}
	}()
	if topic != feed.Topic {
		return nil, fmt.Errorf("there is no topic %q: the log is the topic %q, from which feed.Options.Types chooses", topic, feed.Topic)
	}
	if !f.open.begin() {
		return nil, errFeedClosed
	}
	if !f.store.feeds.begin() {
		f.open.ended()
		return nil, store.ErrClosed
	}
	ctx, end := f.store.whileOpen(ctx)
	stop := context.AfterFunc(f.alive, end)
	ended := func() {
		stop()
		end()
		f.store.feeds.ended()
		f.open.ended()
	}
	follower, err := f.store.follow(ctx, f.group, f.options)
	if err != nil {
		ended()
		return nil, err
	}
	messages, err := f.subscribe(ctx, follower)
	if err != nil {
		follower.leave()
		ended()
		return nil, err
	}
	go func() {
		follower.await()
		ended()
	}()
	return messages, nil
}

var errFeedClosed = errors.New("the subscriber is closed")

func (f *feedSubscriber) subscribe(ctx context.Context, follower *follower) (<-chan *message.Message, error) {
	subscriber, err := wsql.NewSubscriber(feedStatements{follower}, wsql.SubscriberConfig{
		ConsumerGroup: f.group, AckDeadline: &f.options.AckDeadline, ResendInterval: f.options.Resend, BackoffManager: follower,
		SchemaAdapter: feedSchema{follower}, OffsetsAdapter: feedOffsets{follower},
	}, detailLogger(f.options.Logger))
	if err != nil {
		return nil, err
	}
	messages, err := subscriber.Subscribe(ctx, feed.Topic)
	if err != nil {
		return nil, err
	}
	out, passed := make(chan *message.Message), make(chan struct{})
	go func() {
		defer close(passed)
		defer close(out)
		follower.pass(messages, out)
	}()
	follower.await = func() { <-ctx.Done(); _ = subscriber.Close(); <-passed; follower.leave() }
	return out, nil
}

// Close ends the subscriptions, and returns when what they have acknowledged is on disk. It does not wait for handlers: a
// message that one still holds comes again.
func (f *feedSubscriber) Close() error {
	f.end()
	f.open.close()
	return nil
}
