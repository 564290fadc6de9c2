package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/handlers"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/relay"
	"github.com/towline-dev/towline/store/sqlite"
	"github.com/towline-dev/towline/transport"
)

// node is one incarnation: the parts of production between the ports of the world. It is what package node ties
// together, with tasks that the world starts instead of loops.
type node struct {
	w        *World
	number   int // from 1; the next incarnation of a node has the same
	life     *Life
	store    *sqlite.Store
	clock    *towline.Clock
	engine   *towline.Engine
	relay    *relay.Relay
	handlers *handlers.Handlers
	bus      bus

	tasks     []*task
	timers    []*timer
	timersSet int

	kill     int // boundary at which it dies; 0: none
	up       bool
	dead     bool
	gone     atomic.Bool // as dead, for what a provider has left running
	stopping bool        // a clean stop is under way
	stopped  bool
	frozen   time.Time // nothing of it goes on before

	seen     events.Position // newest event of the log that it knows of
	due      events.Micros   // of a round of the relay
	nextPass events.Micros
	passing  bool                // a round of the relay is under way, of which a world has one at a time
	beating  bool                // so is one of the heartbeat
	inWork   map[events.Kind]int // messages

	operators operators

	watches  []*watch        // of its schedules
	followed events.Position // of the log, for them
}

func newNode(ctx context.Context, w *World, number int) (*node, error) {
	incarnation := len(w.lives) + 1
	life := &Life{Incarnation: incarnation, Node: number, Materialized: map[events.Kind]int{}}
	n := &node{w: w, number: number, life: life, inWork: map[events.Kind]int{}}
	n.clock = towline.NewClockPair(n.wall, func() time.Duration { return w.now.Sub(w.c.Start) })
	if incarnation <= len(w.c.Kills) {
		n.kill = w.c.Kills[incarnation-1]
	}
	var err error
	if n.store, err = w.openStore(ctx, n.clock); err != nil {
		return nil, fmt.Errorf("open the store of incarnation %d: %w", incarnation, err)
	}
	w.lives = append(w.lives, life)
	if incarnation == 1 {
		if err := w.learn(ctx, n); err != nil {
			return nil, errors.Join(err, n.store.Close())
		}
	}
	return n, nil
}

// wall is the wall clock of the node's host.
func (n *node) wall() time.Time { return n.w.now.Add(n.w.stepped) }

func (n *node) named(task string) string { return fmt.Sprintf("%d/%s", n.number, task) }

// serves: it is up, and takes what comes.
func (n *node) serves() bool { return n.up && !n.dead && !n.stopping }

func (n *node) frozenNow() bool { return n.w.now.Before(n.frozen) }

// boot opens the node, in a task: to boot is to write.
func (n *node) boot(ctx context.Context) {
	n.start("boot", func() {
		err := n.open(ctx)
		if err == nil {
			n.up = true
			return
		}
		switch {
		case n.dead:
			return
		case !n.excused(err):
			n.w.breaks("boot: %w", err)
		case n.sleep(ctx, restarted, false) != nil:
			return
		}
		n.ends()
	})
}

// ends makes every port of the node answer ErrDead.
func (n *node) ends() {
	n.dead = true
	n.gone.Store(true)
}

// restarted is when somebody starts a node again that did not come up, because the store was away.
const restarted = time.Second

// open is what node.Open does.
func (n *node) open(ctx context.Context) (err error) {
	var syncs []towline.Sync
	ports := map[string]handlers.Ports{}
	for _, s := range n.w.c.Syncs {
		syncs = append(syncs, s.Sync)
		ports[s.Name] = n.ports(s)
	}
	n.engine, err = towline.Open(ctx, &storePort{n: n, inner: n.store}, towline.Config{
		MaxBytes: n.w.c.MaxBytes,
		Syncs:    syncs, Schedules: n.w.c.Schedules, NoSchedules: n.w.c.Schedules == nil, Knobs: n.w.c.Knobs, Clock: n.clock, Logger: slog.New(slog.DiscardHandler),
		Entropy: n.w.entropy(n.life.Incarnation),
	})
	if err != nil {
		return fmt.Errorf("open the engine of incarnation %d: %w", n.life.Incarnation, err)
	}
	n.handlers = handlers.New(n.engine, handlers.Config{
		Ports: ports, Workers: n.w.c.Workers, Name: "sim", Messages: n.consumers(), Inbox: &inboxPort{n}, Runtime: n,
	})
	n.relay, err = relay.Synchronous(n.engine, n.route, n.transports())
	n.nextPass = n.engine.Now() // the first pass is now
	n.watchSchedules()
	return err
}

func (n *node) route(k events.Kind) transport.Publisher {
	return &publisher{n: n, application: k == events.KindMessage}
}

// beginnings are the moves by which the node would begin something.
func (n *node) beginnings(ctx context.Context) (out []move) {
	begin := func(name string, f func()) {
		out = append(out, move{n.named(name), func() { n.w.run(n.start(name, f)) }})
	}
	if !n.up || n.dead {
		return nil
	}
	if !n.beating && (n.handlers.RenewIn() <= 0 || len(n.engine.Revoked()) > 0) {
		begin("heartbeat", func() { n.renew(ctx) })
	}
	for _, k := range events.Kinds {
		if n.inWork[k] < n.lanes(k) && n.takes(k) {
			if d := n.next(k); d != nil {
				begin(n.w.names.message(d.notice), func() { n.deliver(ctx, d) })
			}
		}
	}
	if !n.serves() {
		return out
	}
	if n.w.stopsNode(n) {
		begin("stop", func() { n.stop(ctx) })
	}
	if len(n.w.pending) > 0 {
		begin("plan "+n.w.pending[0].Sync, func() { n.request(ctx) })
	}
	if len(n.w.submissions) > 0 {
		begin("submit "+n.w.submissions[0].name(), func() { n.submit(ctx) })
	}
	for _, s := range n.dueSchedules() {
		begin("schedule "+s.name, func() { n.tick(ctx, s) })
	}
	if n.relayReady() {
		begin("relay", func() { n.reconcile(ctx) })
	}
	return out
}

// alarms are the times at which a living node wants to begin something by itself.
func (n *node) alarms() []time.Time {
	if !n.up || n.dead {
		return nil
	}
	out := []time.Time{n.w.now.Add(n.handlers.RenewIn())}
	if n.serves() && !n.passing {
		out = append(out, n.timeOf(n.due), n.timeOf(n.nextPass))
	}
	if n.serves() {
		for _, s := range n.watches {
			if !s.busy {
				out = append(out, s.next)
			}
		}
	}
	return append(out, n.timeOf(n.operators.next), n.bus.next(n.w.now))
}

// renew is a turn of the heartbeat.
func (n *node) renew(ctx context.Context) {
	n.beating = true
	defer func() { n.beating = false }()
	n.handlers.Renew(ctx)
}

// request is the client: it repeats what was not accepted, with the same key.
func (n *node) request(ctx context.Context) {
	spec := n.w.pending[0]
	n.w.pending = n.w.pending[1:]
	_, err := n.engine.Plan(ctx, spec)
	switch {
	case n.dead, n.excused(err):
		n.w.pending = append([]towline.RunSpec{spec}, n.w.pending...)
	case err != nil:
		n.w.breaks("plan a run of %s: %w", spec.Sync, err)
	}
}

// excused: the world has made a call fail or somebody late, and this is how it shows: the store is away, or a claim has ended
// before its mark, which is refused loudly (O-9).
func (n *node) excused(err error) bool {
	return n.w.disturbed && (errors.Is(err, towline.ErrUnavailable) || errors.Is(err, decider.ErrClaimLost))
}

// relayReady reads the signals of the engine, as relay.Runner does.
func (n *node) relayReady() bool {
	if n.passing {
		return false
	}
	now := n.engine.Now()
	if n.seen < n.w.head { // another process has committed: that is seen within a second
		n.seen = n.w.head
		n.due = events.Earliest(n.due, now.Add(events.SpanOf(time.Second)))
	}
	for {
		select {
		case <-n.engine.Nudged():
			n.due = now
			continue
		case at := <-n.engine.Alarms():
			n.due = events.Earliest(n.due, at)
			continue
		default:
		}
		return now >= n.nextPass || n.due != 0 && now >= n.due
	}
}

// reconcile is one round: the pass of the reconciler if its interval has come, else a step of all lanes. relay.Runner has a
// loop for passes and one for each lane, which go on side by side (REC-2): that is tested with its own goroutines.
func (n *node) reconcile(ctx context.Context) {
	n.passing = true
	defer func() { n.passing = false }()
	if n.engine.Now() >= n.nextPass {
		n.due = n.round(ctx, n.relay.Pass)
		n.nextPass = n.engine.Now().Add(events.SpanOf(n.engine.Knobs().ReconcileInterval))
		return
	}
	n.due = n.round(ctx, n.stepOrPass)
}

func (n *node) stepOrPass(ctx context.Context) relay.Report {
	report := n.relay.Step(ctx)
	n.note(report)
	if report.NextDue != 0 && report.NextDue <= n.engine.Now() && len(report.Errors) == 0 {
		return n.relay.Pass(ctx)
	}
	return report
}

func (n *node) round(ctx context.Context, round func(context.Context) relay.Report) (due events.Micros) {
	const later = time.Second // due, and not to be moved, or the store is away: relay.Runner waits as long
	report := round(ctx)
	n.note(report)
	again := n.engine.Now().Add(events.SpanOf(later))
	for _, err := range report.Errors {
		n.tell(Entry{Refused: err})
		if !n.dead && !n.excused(err) {
			n.w.breaks("reconcile: %w", err)
		}
	}
	if len(report.Errors) > 0 {
		return again
	}
	if report.Changed() == 0 && report.NextDue != 0 && report.NextDue <= n.engine.Now() {
		return again
	}
	return report.NextDue
}

func (n *node) note(report relay.Report) {
	for k, count := range report.Materialized {
		n.life.Materialized[k] += count
	}
}

// stop is a clean stop, as node.Run does it (N-6): nothing more is taken, what runs has its grace, what is sent at most once
// its chance, and NodeStopped is the last word.
func (n *node) stop(ctx context.Context) {
	n.stopping = true
	n.handlers.Drain()
	me := n.w.current
	n.Wait(func() bool { return n.dead || !n.passing })
	grace := n.AfterFunc(n.engine.Knobs().ShutdownGrace, n.handlers.Stop)
	n.Wait(func() bool {
		return n.dead || len(n.tasks) == 1 && n.tasks[0] == me && !n.bus.waiting(events.KindPostSync)
	})
	grace.Stop()
	n.handlers.Stop()
	if err := n.engine.Stop(ctx, "stopped"); err != nil && !n.dead && !n.excused(err) {
		n.w.breaks("stop: %w", err)
	}
	n.stopped, n.up = true, false
	n.w.stops = slices.DeleteFunc(n.w.stops, func(number int) bool { return number == n.number })
}

// takes is how long the provider works on an attempt.
func (s Sync) takes(u provider.Unit) time.Duration {
	if s.Takes == nil {
		return time.Second
	}
	return s.Takes(u)
}
