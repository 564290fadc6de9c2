package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/handlers"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/relay"
	"github.com/towline-dev/towline/store/sqlite"
	"github.com/towline-dev/towline/transport"
)

// node is one incarnation: the parts of production between the ports of the world. It is what package node ties
// together, with turns instead of loops.
type node struct {
	w        *World
	life     *Life
	store    *sqlite.Store
	clock    *towline.Clock
	engine   *towline.Engine
	relay    *relay.Relay
	handlers *handlers.Handlers
	bus      bus
	chance   *rand.Rand // who moves next

	kill int // boundary at which it dies; 0: none
	dead bool
	head events.Position

	due      events.Micros // as in the loop of relay.Runner
	nextPass events.Micros
	passing  bool        // the relay is on the stack: passes never overlap (REC-2)
	stack    []*delivery // messages in work, the innermost last
	working  int         // of them, units
	leases   []*held

	operators operators
}

func newNode(ctx context.Context, w *World) (*node, error) {
	incarnation := len(w.lives) + 1
	life := &Life{Incarnation: incarnation, Materialized: map[events.Kind]int{}}
	n := &node{
		w: w, life: life, clock: towline.NewClock(func() time.Time { return w.now }),
		chance: rand.New(rand.NewChaCha8(w.seed("chance", incarnation))),
	}
	if incarnation <= len(w.c.Kills) {
		n.kill = w.c.Kills[incarnation-1]
	}
	var err error
	if n.store, err = w.openStore(ctx, n.clock); err != nil {
		return nil, fmt.Errorf("open the store of incarnation %d: %w", incarnation, err)
	}
	w.lives = append(w.lives, life)
	return n, nil
}

// open is what node.Open does.
func (n *node) open(ctx context.Context) (err error) {
	var syncs []towline.Sync
	ports := map[string]handlers.Ports{}
	for _, s := range n.w.c.Syncs {
		syncs = append(syncs, s.Sync)
		ports[s.Name] = n.ports(s)
	}
	logger := slog.New(slog.DiscardHandler)
	n.engine, err = towline.Open(ctx, &storePort{n: n, inner: n.store}, towline.Config{
		Syncs: syncs, Knobs: n.w.c.Knobs, Clock: n.clock, Logger: logger,
		Entropy: rand.NewChaCha8(n.w.seed("entropy", n.life.Incarnation)),
	})
	if err != nil {
		return fmt.Errorf("open the engine of incarnation %d: %w", n.life.Incarnation, err)
	}
	n.handlers = handlers.New(n.engine, handlers.Config{
		Ports: ports, Workers: n.w.c.Workers, Name: "sim", Messages: n.consumers(), Inbox: &inboxPort{n},
	})
	n.relay, err = relay.Synchronous(n.engine, n.route)
	n.nextPass = n.engine.Now() // the first pass is now
	return err
}

func (n *node) route(k events.Kind) transport.Publisher {
	if k == events.KindMessage {
		return &appPort{n}
	}
	return &busPort{n}
}

// who may move.
type who struct{ relay, units bool }

var (
	anybody = who{relay: true, units: true}
	// While a publish is under way nobody publishes, and no unit begins: its work takes time, for which a publish does
	// not wait.
	consumers = who{}
)

// turn lets one of those who can do something do it; false: nobody can before the clock moves.
func (n *node) turn(ctx context.Context, may who) bool {
	if n.operatorReady(ctx) {
		n.act(ctx)
		return !n.dead
	}
	var able []func(context.Context)
	if len(n.w.pending) > 0 {
		able = append(able, n.request)
	}
	if len(n.w.submissions) > 0 {
		able = append(able, n.submit)
	}
	if may.relay && n.relayReady() {
		able = append(able, n.reconcile)
	}
	for _, k := range events.Kinds {
		if k == events.KindUnit && (!may.units || n.working >= n.w.c.Workers) {
			continue
		}
		if n.bus.waiting(k) {
			able = append(able, func(ctx context.Context) { n.deliver(ctx, k) })
		}
	}
	if n.dead || len(able) == 0 {
		return false
	}
	able[n.chance.IntN(len(able))](ctx)
	return true
}

// meanwhile lets others move, a few times at most.
func (n *node) meanwhile(ctx context.Context, may who) {
	const most = 3
	for range n.chance.IntN(most) {
		if !n.turn(ctx, may) {
			return
		}
	}
}

// request is the client: it repeats what was not accepted, with the same key.
func (n *node) request(ctx context.Context) {
	spec := n.w.pending[0]
	n.w.pending = n.w.pending[1:]
	_, err := n.engine.Plan(ctx, spec)
	switch {
	case n.dead:
		n.w.pending = append([]towline.RunSpec{spec}, n.w.pending...)
	case err != nil:
		n.w.breaks("plan a run of %s: %w", spec.Sync, err)
	}
}

// relayReady reads the signals of the engine, as the loop of relay.Runner does.
func (n *node) relayReady() bool {
	if n.passing {
		return false
	}
	now := n.engine.Now()
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

// reconcile is one round of that loop.
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
	report := round(ctx)
	n.note(report)
	if err := report.Err(); err != nil && !n.dead {
		n.w.breaks("reconcile: %w", err)
	}
	if report.Changed() == 0 && report.NextDue != 0 && report.NextDue <= n.engine.Now() {
		const later = time.Second // due, and not to be moved: relay.Runner waits as long
		return n.engine.Now().Add(events.SpanOf(later))
	}
	return report.NextDue
}

func (n *node) note(report relay.Report) {
	for k, count := range report.Materialized {
		n.life.Materialized[k] += count
	}
}

// wait moves the clock to the next time at which the relay or an operator has something to do.
func (n *node) wait() time.Duration {
	next := events.Earliest(events.Earliest(n.due, n.nextPass), n.operators.next)
	d := max(next.Sub(n.w.Now()).Std(), time.Microsecond)
	n.w.now = n.w.now.Add(d)
	return d
}

// held is the lease of a unit that runs in this process.
type held struct {
	lease   towline.Lease
	renewed events.Micros
	every   events.Span
}

// holds follows the leases by what commits, as the heartbeat of package handlers does by what is claimed.
func (n *node) holds(env events.Envelope) {
	unit, ok := env.Stream.Unit()
	if !ok {
		return
	}
	switch e := env.Event.(type) {
	case events.UnitClaimed:
		h := &held{renewed: env.At, every: e.LeaseExpiresAt.Sub(env.At) / 3}
		h.lease.Unit.Unit, h.lease.Unit.Run, h.lease.Unit.Attempt, h.lease.Token = unit, n.w.names.runOf[unit], e.Attempt, e.Token
		n.leases = append(n.leases, h)
	case events.UnitSucceeded, events.UnitFailed, events.UnitRetryScheduled, events.UnitCancelled:
		n.leases = slices.DeleteFunc(n.leases, func(h *held) bool { return h.lease.Unit.Unit == unit })
	}
}

// work is the time that a provider needs. Others move meanwhile, and leases are renewed every third of them.
func (n *node) work(ctx context.Context, d time.Duration) error {
	for n.operatorReady(ctx) { // who waits for a unit to run does not miss it
		n.act(ctx)
	}
	n.meanwhile(ctx, anybody)
	n.w.look(ctx, false)
	for d > 0 && !n.dead {
		step := d
		for _, h := range n.leases {
			step = min(step, max(h.renewed.Add(h.every).Sub(n.w.Now()).Std(), time.Second))
		}
		n.w.now = n.w.now.Add(step)
		d -= step
		n.beat(ctx)
	}
	if n.dead {
		return ErrDead
	}
	return nil
}

// beat renews the leases that are due, in one transaction (HU-3).
func (n *node) beat(ctx context.Context) {
	now := n.w.Now()
	var due []towline.Lease
	for _, h := range n.leases {
		if now >= h.renewed.Add(h.every) {
			h.renewed = now
			due = append(due, h.lease)
		}
	}
	if len(due) == 0 || n.dead {
		return
	}
	lost, err := n.engine.RenewAll(ctx, due)
	if err = errors.Join(append(lost, err)...); err != nil && !n.dead {
		n.w.breaks("renew: %w", err)
	}
}

func takes(s Sync, u provider.Unit) time.Duration {
	if s.Takes == nil {
		return time.Second
	}
	return s.Takes(u)
}
