package sqlbus_test

import (
	"flag"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/towline-dev/towline/transport/sqlbus"
)

var stress = flag.Bool("stress", false, "run Watermill's suite many times at once")

// quick lets a test see what takes longer in production.
func quick() sqlbus.Options {
	return sqlbus.Options{
		RetryDelay: 10 * time.Millisecond, MaxRetryDelay: 100 * time.Millisecond, CloseTimeout: 100 * time.Millisecond,
		Lease: 2 * time.Second, Poll: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	}
}

func open(t testing.TB, path string, o sqlbus.Options) *sqlbus.Bus {
	t.Helper()
	b, err := sqlbus.Open(t.Context(), path, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// suite makes the constructors that Watermill's suite wants. With apart each pair has the file open for itself, as a process
// of its own has.
func suite(t *testing.T, apart bool, window int) (tests.PubSubConstructor, tests.ConsumerGroupPubSubConstructor) {
	path := filepath.Join(t.TempDir(), "bus.db")
	shared := open(t, path, quick())
	grouped := func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
		b := shared
		if apart {
			b = open(t, path, quick())
		}
		return b.Publisher(), b.Subscriber(group, window)
	}
	return func(t *testing.T) (message.Publisher, message.Subscriber) { return grouped(t, "suite") }, grouped
}

// WMILL-4: the transport passes Watermill's universal suite: in order with one consumer that takes one message at a time,
// and with windows, and with the file opened by each of many for himself.
func TestTheBusPassesWatermillsSuite(t *testing.T) {
	for _, c := range []struct {
		name     string
		features tests.Features
		apart    bool
		window   int
	}{
		{"one at a time", tests.Features{ConsumerGroups: true, Persistent: true, GuaranteedOrder: true, GuaranteedOrderWithSingleSubscriber: true}, false, 1},
		{"with a window", tests.Features{ConsumerGroups: true, Persistent: true}, false, 16},
		{"apart", tests.Features{ConsumerGroups: true, Persistent: true}, true, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.features.ForceShort = testing.Short() || c.apart // with the race detector SQLite is ten times slower
			pubSub, grouped := suite(t, c.apart, c.window)
			tests.TestPubSub(t, c.features, pubSub, grouped)
		})
	}
}

// WMILL-4: the same suite, ten times at once (STRESS_TEST_COUNT says how often).
func TestTheBusPassesWatermillsStressSuite(t *testing.T) {
	if !*stress {
		t.Skip("run it with -stress")
	}
	pubSub, grouped := suite(t, false, 8)
	tests.TestPubSubStressTest(t, tests.Features{ConsumerGroups: true, Persistent: true}, pubSub, grouped)
}

func TestMain(m *testing.M) {
	flag.Parse()
	if child() {
		return
	}
	goleak.VerifyTestMain(m)
}
