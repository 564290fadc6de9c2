package docs_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/transport"
)

// O-10, K-4, K-5: a post_sync goes to a broker, and a consumer learns what the run has brought; a publisher that
// cannot confirm refuses the start.
func TestAPostSyncByABroker(t *testing.T) {
	broker := gochannel.NewGoChannel(gochannel.Config{OutputChannelBuffer: 10}, watermill.NopLogger{})
	messages, err := broker.Subscribe(t.Context(), string(events.KindPostSync))
	require.NoError(t, err)
	type call struct {
		generation, target string
		post               transport.PostNotice
	}
	calls := make(chan call, 10)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		refusals := 1
		follow(messages, func(generation, target string, n transport.Notice) error {
			calls <- call{generation, target, *n.Post}
			refusals--
			if refusals >= 0 {
				return errMood
			}
			return nil
		})
	}()
	store := filepath.Join(t.TempDir(), "towline.db")
	s := readings(nil, func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
		return provider.Result{}, nil
	})
	s.PostSync.Targets = []towline.Target{{Name: "index"}}
	n := open(t, node.Config{Store: store, Syncs: []node.Sync{s}, Routes: routes(broker)})
	require.NoError(t, broker.Publish(string(events.KindPostSync), message.NewMessage("x", []byte("what nobody can read"))))
	while(t, n, func() {
		run := ended(t, n, towline.RunSpec{Sync: "readings"})
		for range 2 { // it was refused once
			got := <-calls
			require.Equal(t, run.Run.String()+".1", got.generation)
			require.Equal(t, "index", got.target)
			require.Equal(t, []string{"harbour"}, got.post.Sources)
		}
		until(t, store, `SELECT 1 FROM outbox_view WHERE kind = 'post_sync' AND status = 'idle' AND outcomes ->> '$[0].outcome' = 'accepted'`)
	})
	require.Empty(t, query(t, store, `SELECT 1 FROM runs_view WHERE posts IS NOT NULL`))
	require.NoError(t, broker.Close())
	<-followed

	blind := transport.FromWatermill("blind", broker, transport.Traits{})
	_, err = node.Open(t.Context(), node.Config{
		Store: filepath.Join(t.TempDir(), "towline.db"), Syncs: []node.Sync{s},
		Routes: map[events.Kind]transport.Publisher{events.KindPostSync: blind},
	})
	require.ErrorContains(t, err, "cannot confirm")
}

// O-13, O-15: how long a broker may be away before a wakeup is parked.
func TestABrokerMayBeAwayForAnHour(t *testing.T) {
	k := defaults(t)
	var away time.Duration
	for attempt := 1; attempt < k.MaxAttempts; attempt++ {
		away += min(k.BackoffBase<<min(attempt-1, 20), k.BackoffCap)
	}
	require.Equal(t, 70*time.Minute, away.Truncate(time.Minute))
}
