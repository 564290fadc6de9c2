package node_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// TestMain also is the main function of the processes that tests kill and suspend.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(child())
	}
	if os.Getenv(killVariable) != "" {
		os.Exit(effectsChild())
	}
	goleak.VerifyTestMain(m)
}

// works is a sync whose provider is a function.
func works(does provider.Func) node.Sync {
	return node.Sync{
		Name: "days", Sources: []string{"north"}, Datasets: []towline.Dataset{{Name: "a"}}, Provider: does, Sink: &memory{},
		PostSync: towline.PostSync{Targets: []towline.Target{{Name: "index", SQL: "SELECT 1"}}},
	}
}

func nothingToDo(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
	return provider.Result{}, nil
}

// memory is a fenced destination that keeps nothing but a count.
type memory struct {
	mu      sync.Mutex
	commits int
	scripts int
}

func (*memory) Fenced() bool { return true }

func (m *memory) Script(context.Context, string, ...any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scripts++
	return nil
}

func (m *memory) ran() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.scripts
}

func (m *memory) Open(ctx context.Context, s sink.Scope) (sink.Writer, error) {
	w, err := sink.Discard.Open(ctx, s)
	return &writer{w, m}, err
}

type writer struct {
	sink.Writer
	m *memory
}

func (w *writer) Commit(ctx context.Context) error {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	w.m.commits++
	return w.Writer.Commit(ctx)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// open opens a node on a store of its own, or on the one that c names.
func open(t *testing.T, c node.Config) *node.Node {
	t.Helper()
	if c.Store == "" {
		c.Store = filepath.Join(t.TempDir(), "towline.db")
	}
	if c.Logger == nil {
		c.Logger = quiet()
	}
	c.Unsynced = true // tests lose no power
	c.Knobs.BackfillChunk = day
	n, err := node.Open(context.Background(), c)
	require.NoError(t, err)
	return n
}

// running is a node with its loop.
type running struct {
	*node.Node
	t    *testing.T
	stop context.CancelFunc
	done chan error
}

func start(t *testing.T, n *node.Node) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Node: n, t: t, stop: cancel, done: make(chan error, 1)}
	go func() { r.done <- n.Run(ctx) }()
	t.Cleanup(cancel)
	return r
}

// end stops it and waits.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	require.NoError(r.t, <-r.done)
}

// spec is a backfill of so many units.
func spec(units int) towline.RunSpec {
	return towline.RunSpec{Sync: "days", Mode: towline.Backfill, Since: before.AddDate(0, 0, -units), Before: before}
}

func plan(t *testing.T, n *node.Node, units int) towline.Planned {
	t.Helper()
	p, err := n.Engine().Plan(context.Background(), spec(units))
	require.NoError(t, err)
	return p
}

func requireGood(t *testing.T, n *node.Node) {
	t.Helper()
	v, err := n.Verify(context.Background())
	require.NoError(t, err)
	require.Empty(t, v.Violations)
	require.Empty(t, v.Differences)
}

func logOf(t *testing.T, n *node.Node) []events.Envelope {
	t.Helper()
	return enginetest.Since(t, n.Engine(), 0)
}

func units(t *testing.T, n *node.Node, run events.RunID) (us []projections.SyncRunUnit) {
	t.Helper()
	require.NoError(t, n.Engine().View(context.Background(), func(v projections.View) (err error) {
		us, err = v.Units(run, 0, 1000)
		return err
	}))
	return us
}
