package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/feed"
	"github.com/towline-dev/towline/store"
)

// WMILL-2: the feed passes Watermill's own suite for subscribers. The suite publishes, which nobody can do to a log, and it
// has a topic for each test. So here a topic is a store of its own, publishing appends MessageSubmitted, and what is
// delivered is unwrapped again. All between the two is the feed.
func TestTheFeedPassesWatermillsSuite(t *testing.T) {
	stores := &topics{t: t, dir: t.TempDir(), open: map[string]*Store{}}
	t.Cleanup(stores.close)
	inGroup := func(_ *testing.T, group string) (message.Publisher, message.Subscriber) {
		return &suitePublisher{stores}, &suiteSubscriber{topics: stores, group: group}
	}
	tests.TestPubSub(t, tests.Features{
		ConsumerGroups: true, GuaranteedOrder: true, Persistent: true,
		ForceShort: testing.Short(), // with the race detector SQLite is ten times slower
	}, func(t *testing.T) (message.Publisher, message.Subscriber) { return inGroup(t, "suite") }, inGroup)
}

// topics is one store for each topic.
type topics struct {
	t    *testing.T
	dir  string
	mu   sync.Mutex
	open map[string]*Store
}

func (ts *topics) store(topic string) (*Store, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if s := ts.open[topic]; s != nil {
		return s, nil
	}
	s, err := Open(context.Background(), filepath.Join(ts.dir, topic+".db"), Options{Synchronous: "normal"})
	if err == nil {
		ts.open[topic] = s
	}
	return s, err
}

func (ts *topics) close() {
	for _, s := range ts.open {
		require.NoError(ts.t, s.Close())
	}
}

type suitePublisher struct{ *topics }

func (p *suitePublisher) Close() error { return nil }

func (p *suitePublisher) Publish(topic string, messages ...*message.Message) error {
	s, err := p.store(topic)
	if err != nil {
		return err
	}
	var evs []events.Event
	for _, m := range messages {
		payload, err := json.Marshal(string(m.Payload))
		if err != nil {
			return err
		}
		evs = append(evs, events.MessageSubmitted{Key: m.UUID, Payload: payload, Metadata: m.Metadata})
	}
	return s.Write(context.Background(), func(tx store.Tx) error {
		n, _, err := tx.Head() // the only stream of the store
		if err != nil {
			return err
		}
		_, err = tx.Append(events.AppStream(topic), events.Version(n), events.Meta{}, evs...)
		return err
	})
}

type suiteSubscriber struct {
	*topics
	group string
	mu    sync.Mutex
	subs  []message.Subscriber
	ended sync.WaitGroup
}

func (s *suiteSubscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	st, err := s.store(topic)
	if err != nil {
		return nil, err
	}
	f, err := st.Feed(s.group, feed.Options{Resend: quick, Poll: quick})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs = append(s.subs, f)
	wrapped, err := f.Subscribe(ctx, feed.Topic)
	if err != nil {
		return nil, err
	}
	out := make(chan *message.Message)
	s.ended.Go(func() {
		defer close(out)
		for m := range wrapped {
			unwrap(m)
			select {
			case out <- m:
			case <-m.Context().Done():
			}
		}
	})
	return out, nil
}

// unwrap runs again when a message comes again, which is a copy of what it has left.
func unwrap(m *message.Message) {
	e, err := feed.Event(m)
	if err != nil {
		return
	}
	submitted := e.(events.MessageSubmitted)
	var payload string
	if err := json.Unmarshal(submitted.Payload, &payload); err != nil {
		panic(err)
	}
	m.UUID, m.Payload, m.Metadata = submitted.Key, message.Payload(payload), submitted.Metadata
}

func (s *suiteSubscriber) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, sub := range s.subs {
		errs = append(errs, sub.Close())
	}
	s.ended.Wait()
	return errors.Join(errs...)
}
