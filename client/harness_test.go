package client_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/httpapi"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a node that runs, and is served on a socket and on a port.
type world struct {
	t      *testing.T
	store  string
	node   *node.Node
	socket string // address
	port   string // host:port
	end    func()
}

const token = "a token of the test"

func start(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "towline") //nolint:usetesting // a socket's path is short, and the folder of a test is not
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	w := &world{t: t, store: filepath.Join(dir, "towline.db"), socket: "unix:" + filepath.Join(dir, "api.sock")}
	w.up()
	t.Cleanup(func() { w.end() })
	return w
}

// up starts the node, also once more after its end.
func (w *world) up() {
	t := w.t
	t.Helper()
	var err error
	quiet := slog.New(slog.DiscardHandler)
	w.node, err = node.Open(context.Background(), node.Config{
		Store: w.store, Unsynced: true, Logger: quiet, Knobs: towline.Knobs{BackfillChunk: 24 * time.Hour, ShutdownGrace: time.Millisecond},
		Syncs: []node.Sync{
			{
				Name: "days", Sources: []string{"north", "south"}, Datasets: []towline.Dataset{{Name: "a"}},
				Provider: provider.Func(func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
					return provider.Result{Rows: 7}, nil
				}),
			},
			{
				Name: "stuck", OneActiveRun: true, Sources: []string{"west"}, Datasets: []towline.Dataset{{Name: "b"}},
				Provider: provider.Func(func(ctx context.Context, _ provider.Unit, _ sink.Sink) (provider.Result, error) {
					<-ctx.Done()
					return provider.Result{}, ctx.Err()
				}),
			},
		},
	})
	require.NoError(t, err)
	server, err := httpapi.New(httpapi.Config{Node: w.node, Tokens: httpapi.Tokens{Full: token}, Logger: quiet})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	unix, err := httpapi.Listen(ctx, w.socket)
	require.NoError(t, err)
	loopback, err := httpapi.Listen(ctx, "127.0.0.1:0")
	require.NoError(t, err)
	w.port = loopback.Addr().String()
	ended := make(chan error, 2)
	go func() { ended <- w.node.Run(ctx) }()
	go func() { ended <- server.Serve(ctx, unix, loopback) }()
	w.end = func() {
		w.end = func() {}
		stop()
		require.NoError(t, <-ended)
		require.NoError(t, <-ended)
	}
}

func (w *world) client(c client.Config) *client.Client {
	w.t.Helper()
	if c.Address == "" {
		c.Address = w.socket
	}
	out, err := client.New(c)
	require.NoError(w.t, err)
	w.t.Cleanup(out.Close)
	return out
}

var before = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
