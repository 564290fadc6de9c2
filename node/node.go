// Package node is one process of Towline: store, engine, relay, handlers and local workers, tied together. It holds no
// rule. A program embeds Towline with it in a few lines.
package node

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/sync/errgroup"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/feed"
	"github.com/towline-dev/towline/handlers"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/relay"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/store/sqlite"
	"github.com/towline-dev/towline/transport"
	"github.com/towline-dev/towline/transport/local"
)

// Node is one running process.
type Node struct {
	c        Config
	store    *sqlite.Store
	engine   *towline.Engine
	relay    *relay.Runner
	handlers *handlers.Handlers
	bus      *local.Bus
	apps     appRoute // of application messages
	logger   *slog.Logger
	backups  backups
	verified verified
	pruner   pruner

	mu      sync.Mutex
	begun   bool               // it was run, or closed
	stop    context.CancelFunc // of Run; nil: it never ran
	ended   chan struct{}      // closed when Run has ended
	closing sync.Once
	closed  error
}

// Open opens the store, made if missing, and starts an incarnation on it. What a crash left behind has been decided when
// it returns; what is due is published by Run. No goroutine of the node runs yet.
func Open(ctx context.Context, c Config) (*Node, error) {
	n := &Node{c: c, bus: c.Bus, logger: c.Logger}
	n.pruner.state.ArchiveAfter, n.pruner.changed = c.Retention.ArchiveAfter, make(chan struct{}, 1)
	if n.logger == nil {
		n.logger = slog.Default()
	}
	if n.bus == nil {
		n.bus = local.New(local.Options{MaxDeliveries: c.Knobs.MaxDeliveries, Logger: n.logger, Again: n.again})
	}
	if err := c.check(n.logger); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	n.apps = newAppRoute(c, n.logger)
	syncs, ports := catalogue(c.Syncs)
	clock := towline.NewClockPair(c.Now, c.Monotonic)
	durability := "full"
	if c.Unsynced {
		durability = "normal"
		n.logger.Warn("the store syncs less: after a power loss, accepted runs may be missing and a post_sync may be sent twice")
	}
	var err error
	n.store, err = sqlite.Open(ctx, c.Store, sqlite.Options{
		Shared: c.Shared, Now: clock.Now, Synchronous: durability, AllowNetworkFS: c.AllowNetworkFS,
	})
	if err != nil {
		return nil, err
	}
	n.sweep()
	if err := startProviders(ctx, c.Syncs); err != nil {
		return nil, errors.Join(err, n.store.Close())
	}
	if err := n.assemble(ctx, syncs, ports, clock); err != nil {
		return nil, errors.Join(err, n.store.Close())
	}
	return n, nil
}

func (n *Node) assemble(ctx context.Context, syncs []towline.Sync, ports map[string]handlers.Ports, clock *towline.Clock) (err error) {
	host, _ := os.Hostname() // only for people to read
	n.engine, err = towline.Open(ctx, n.store, towline.Config{
		Syncs: syncs, Schedules: n.c.Schedules, NoSchedules: n.c.NoSchedules, Knobs: n.c.Knobs, Lister: lister{n.c.Syncs}, Clock: clock, Entropy: n.c.Entropy, Version: n.c.Version,
		Host: host, PID: os.Getpid(), Logger: n.logger,
		NoMessages: n.route(events.KindMessage) == nil, MaxBytes: n.c.MaxBytes,
	})
	if err != nil {
		return err
	}
	n.handlers = handlers.New(n.engine, handlers.Config{
		Ports: ports, DB: n.store.DB(), Workers: n.workers(), Name: host, Messages: n.c.Messages, Inbox: n.store,
	})
	n.relay, err = relay.New(n.engine, n.route, relay.Transports(n.c.Transports))
	return err
}

// startProviders lets providers clear up behind a process that was killed. The store is held, and nothing of it is claimed.
func startProviders(ctx context.Context, syncs []Sync) error {
	for _, s := range syncs {
		if starter, ok := s.Provider.(provider.Starter); ok {
			if err := starter.Start(ctx); err != nil {
				return fmt.Errorf("sync %q: start of its provider: %w", s.Name, err)
			}
		}
	}
	return nil
}

func catalogue(configured []Sync) ([]towline.Sync, map[string]handlers.Ports) {
	var syncs []towline.Sync
	ports := map[string]handlers.Ports{}
	for _, s := range configured {
		syncs = append(syncs, s.catalogued())
		ports[s.Name] = handlers.Ports{Provider: s.Provider, Sink: s.Sink}
		if s.Sink == nil {
			ports[s.Name] = handlers.Ports{Provider: s.Provider, Sink: sink.Discard}
		}
	}
	return syncs, ports
}

func (n *Node) workers() int { return cmp.Or(n.c.Workers, defaultWorkers) }

const defaultWorkers = 4

// route is nil for a kind that nobody would take from this process: its wakeups are left to one that works.
func (n *Node) route(k events.Kind) transport.Publisher {
	if p := n.c.Routes[k]; p != nil {
		return p
	}
	if k == events.KindMessage {
		return n.apps.publisher
	}
	if n.workers() < 0 && n.c.Bus == nil {
		return nil
	}
	return n.bus
}

// Engine is what plans, waits and answers questions.
func (n *Node) Engine() *towline.Engine { return n.engine }

// DB opens the same file for the application's own tables, with our DSN: WAL, full sync, immediate. A transaction
// longer than 5 s stalls the engine. A table may not have the name of one of Towline's; give yours a prefix, for a later
// release may have more of them.
func (n *Node) DB() *sql.DB { return n.store.DB() }

// Nudge says that a commit through DB has made something due; without it the next pass finds it.
func (n *Node) Nudge() { n.engine.Nudge() }

// Events is the log as a topic of Watermill, read by one group: every event in the order of the log, at least once, from
// the place that the group has reached, also before Run and in other processes of the store (WMILL-2). Subscribe to
// feed.Topic. A group has one consumer at a time; give each kind of consumer a name of its own. The subscriptions end with
// the node.
//
// A handler may use DB and the engine: no transaction is open while it works. A new group begins with the first event of
// the log, unless the options say otherwise. Errors: a name or options that cannot be.
func (n *Node) Events(group string, o feed.Options) (message.Subscriber, error) {
	if o.Logger == nil {
		o.Logger = n.logger
	}
	return n.store.Feed(group, o)
}

// EventGroups lists the groups of Events, with how far they have come.
func (n *Node) EventGroups(ctx context.Context) ([]feed.Group, error) { return n.store.FeedGroups(ctx) }

// RemoveEventGroup forgets a group. One that does not exist is removed already. Errors: one that wraps
// feed.ErrGroupInUse while it has a consumer.
func (n *Node) RemoveEventGroup(ctx context.Context, group string) error {
	return n.store.RemoveFeedGroup(ctx, group)
}

// Committed is a channel that closes with the next commit of this process that appends an event: who takes it first and
// then reads the log misses nothing that this process writes.
func (n *Node) Committed() <-chan struct{} { return n.store.Committed() }

// Loops says how the loops of this node fare; none before Run. The one that archives is LoopPrune.
func (n *Node) Loops() []relay.Loop {
	loops := n.relay.Loops()
	if len(loops) == 0 {
		return nil
	}
	return append(loops, n.prunes()...)
}

// Transport names the publisher of a kind; empty: this process publishes none of that kind.
func (n *Node) Transport(k events.Kind) string {
	if p := n.route(k); p != nil {
		return p.Name()
	}
	return ""
}

// Progress lists the units that run in this process.
func (n *Node) Progress() []handlers.UnitProgress { return n.handlers.Progress() }

// Run works until ctx ends, then stops cleanly: intake first, running units finish within the grace or are handed back,
// claims are settled, NodeStopped is the last word, and the store is closed (N-6). nil after a clean stop. A node runs
// once: behind Close, or beside another Run, it returns towline.ErrStopped.
func (n *Node) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if !n.begin(stop) {
		return fmt.Errorf("run: the node was run or closed before: %w", towline.ErrStopped)
	}
	defer close(n.ended)
	consumers, err := n.newConsumers()
	if err != nil {
		return errors.Join(err, n.shut())
	}
	// The parts outlive ctx: a stop has an order.
	parts, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	group, failed := errgroup.WithContext(parts)
	beat, endBeat := context.WithCancel(parts)
	group.Go(func() error { return n.handlers.Run(beat) })
	relaying, endRelay := context.WithCancel(parts)
	relayed := make(chan struct{})
	group.Go(func() error {
		defer close(relayed)
		return n.relay.Run(relaying)
	})
	group.Go(func() error { return n.verifyDaily(relaying) })
	group.Go(func() error { return n.schedules(relaying) })
	group.Go(func() error { return n.keepBackups(relaying) })
	group.Go(func() error { return n.prune(relaying) })
	if n.workers() < 0 {
		n.logger.Info("no local workers: what has no route is left to other processes of the store")
	}
	consumers.run(parts, group, failed.Done())
	select {
	case <-ctx.Done():
	case <-failed.Done():
	}
	n.handlers.Drain() // nothing more is claimed
	endRelay()         // and nothing more published: behind this, what is queued here is all there is
	<-relayed
	err = n.stopWork(consumers)
	endBeat()
	end()
	return errors.Join(err, group.Wait(), n.shut())
}

// begin is true for the first Run of a node that is not closed.
func (n *Node) begin(stop context.CancelFunc) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.begun {
		return false
	}
	n.begun, n.stop, n.ended = true, stop, make(chan struct{})
	return true
}

// RunWhile runs the node while work goes on, then stops it cleanly, and returns the errors of both. The context of work
// ends with ctx, and with a node that fails.
func (n *Node) RunWhile(ctx context.Context, work func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ran := make(chan error, 1)
	go func() {
		defer stop()
		ran <- n.Run(ctx)
	}()
	err := work(ctx)
	stop()
	return errors.Join(err, <-ran)
}

// consumers are the routers on which the handlers stand, over the bus. post_sync has its own: at a stop it goes on until
// its queue is empty, when the others have closed already. Both are nil without local workers. apps has the consumers of
// application messages; what a stop leaves in its queue is armed again by the next start (REC-11).
type consumers struct{ work, post, apps *message.Router }

func (n *Node) newConsumers() (c consumers, err error) {
	config := message.RouterConfig{CloseTimeout: n.grace() + handlers.ObeyTimeout + settleTime}
	if n.apps.bus != nil {
		if c.apps, err = message.NewRouter(config, transport.QuietLogger(n.logger)); err != nil {
			return c, fmt.Errorf("router: %w", err)
		}
		n.handlers.RegisterMessages(c.apps, n.apps.bus.Subscriber(appLanes))
	}
	if n.workers() < 0 {
		return c, nil
	}
	if c.work, err = message.NewRouter(config, transport.QuietLogger(n.logger)); err != nil {
		return c, fmt.Errorf("router: %w", err)
	}
	if c.post, err = message.NewRouter(config, transport.QuietLogger(n.logger)); err != nil {
		return c, fmt.Errorf("router: %w", err)
	}
	n.handlers.Register(c.post, func(k events.Kind) message.Subscriber {
		if k != events.KindPostSync {
			return nil
		}
		return n.bus.Subscriber(engineLanes)
	})
	n.handlers.Register(c.work, func(k events.Kind) message.Subscriber {
		switch k {
		case events.KindPostSync:
			return nil
		case events.KindUnit:
			return n.bus.Subscriber(2*n.workers() + spareLanes)
		}
		return n.bus.Subscriber(engineLanes)
	})
	return c, nil
}

// run starts the routers. One that is closed before it runs waits for its handlers until its timeout.
func (c consumers) run(ctx context.Context, group *errgroup.Group, failed <-chan struct{}) {
	for _, r := range []*message.Router{c.work, c.post, c.apps} {
		if r == nil {
			continue
		}
		group.Go(func() error { return r.Run(ctx) })
		select {
		case <-r.Running():
		case <-failed:
		}
	}
}

const (
	engineLanes = 8 // messages of one engine kind in work at once
	// spareLanes wait in line beside as many as work: whoever settles finds somebody to hand its slot to, in the same
	// transaction (U-5), also while the next message is on its way.
	spareLanes = 4
	settleTime = 5 * time.Second // for what is left to settle behind the grace and a provider that does not hear
)

func (n *Node) grace() time.Duration { return max(n.engine.Knobs().ShutdownGrace, 0) }

// stopWork gives running units their grace, and what is sent at most once its chance: a post_sync that is lost in the queue
// of a process that stops would be lost for good (C-46).
func (n *Node) stopWork(c consumers) error {
	grace := time.AfterFunc(n.grace(), n.handlers.Stop)
	defer grace.Stop()
	var err error
	if c.apps != nil {
		err = c.apps.Close()
	}
	if c.work == nil {
		return err
	}
	closed := make(chan error, 1)
	go func() { closed <- c.work.Close() }()
	if n.route(events.KindPostSync) == n.bus {
		ctx, cancel := context.WithTimeout(context.Background(), n.grace())
		if err := n.bus.Drain(ctx, string(events.KindPostSync)); err != nil {
			n.logger.Error("post_sync actions were not begun before the grace was over; they stay unconfirmed", "error", err)
		}
		cancel()
	}
	err = errors.Join(err, c.post.Close(), <-closed)
	n.handlers.Stop()
	if err != nil {
		return fmt.Errorf("stop handlers: %w", err)
	}
	return nil
}

// Close stops a node that runs, writes NodeStopped and closes the store. Run does it when its context ends; a program that
// never runs the node calls it itself. A second Close returns what the first did.
func (n *Node) Close() error {
	n.mu.Lock()
	n.begun = true
	stop, ended := n.stop, n.ended
	n.mu.Unlock()
	if stop != nil {
		stop()
		<-ended
	}
	return n.shut()
}

func (n *Node) shut() error {
	n.closing.Do(func() { n.closed = n.lastWord() })
	return n.closed
}

func (n *Node) lastWord() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	_ = n.bus.Close() // it cannot fail
	n.apps.close()
	return errors.Join(n.engine.Stop(ctx, "stopped"), n.store.Close())
}

const stopTimeout = 10 * time.Second

// firstVerify is when the first of them comes, so that a process that lives for less than a day has one, too.
const firstVerify = time.Hour

// verifyDaily proves the views and the log while the node runs (L-8). What it finds is logged and shown; nothing is repaired.
func (n *Node) verifyDaily(ctx context.Context) error {
	const daily = 24 * time.Hour
	every := cmp.Or(n.c.VerifyEvery, daily)
	if every < 0 {
		return nil
	}
	timer := time.NewTimer(min(every, firstVerify))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		v, err := n.Verify(ctx)
		if ctx.Err() != nil {
			return nil
		}
		timer.Reset(every)
		n.verified.note(n.wall(), v, err)
		switch {
		case err != nil:
			n.logger.Error("verify did not end", "error", err)
		case !v.OK():
			n.logger.Error("verify found what must not be", "position", v.Position, "violations", v.Violations, "differences", v.Differences)
		default:
			n.logger.Info("verified", "position", v.Position)
		}
	}
}

// lister asks the providers of the configured syncs for their periods (P-12).
type lister struct{ syncs []Sync }

func (l lister) Periods(ctx context.Context, sync, source, dataset string, c events.Calendar) ([]decider.Period, bool, error) {
	for _, s := range l.syncs {
		lists, ok := s.Provider.(provider.Lister)
		if s.Name != sync || !ok {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		periods, err := lists.Periods(ctx, source, dataset, c, s.Config)
		if err != nil {
			return nil, true, &towline.ListError{Category: provider.CategoryOf(err), Err: err}
		}
		out := make([]decider.Period, len(periods))
		for i, p := range periods {
			out[i] = decider.Period{Window: p.Window, Fingerprint: p.Fingerprint}
		}
		return out, true, nil
	}
	return nil, false, nil
}

// listTimeout bounds the listing of one dataset of a source.
const listTimeout = 2 * time.Minute
