// Package sim runs the engine, the relay and the handlers of production on a real SQLite file, between ports that it owns.
// One goroutine runs at a time, time is virtual, ids and tokens come from a seed, and so does the choice of who moves next:
// the same configuration gives the same log, byte for byte.
//
// Whatever a node does is a task: a coroutine that gives others their turn before and behind every call of a port. Every
// such call passes a boundary before it and one behind it. A node can be killed at any of them: from then on its ports do
// nothing and answer ErrDead, also to deferred calls, and its in-process messages are lost. What lives outside of the
// process (the store, the destination, what broker and provider remember) stays. A task, or a whole node, can be held at any
// place and go on much later: a zombie. Calls can fail in every way that their port knows (Fault).
package sim

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/relay"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
)

// ErrDead is what every port of a killed node returns.
var ErrDead = errors.New("sim: the node is dead")

// ErrStranded: a world does not come to its end. The error that wraps it says of what is open why it is no further.
var ErrStranded = errors.New("sim: stranded")

// Config of a world.
type Config struct {
	Store string // path of the store; made if missing
	Seed  uint64
	Start time.Time // virtual time at the beginning; zero: DefaultStart
	Syncs []Sync
	// Schedules are those of every node; nil: they leave those that are stored alone.
	Schedules []towline.Schedule
	Knobs     towline.Knobs // zero: the defaults
	Workers   int           // units that run at once in a node; zero: 3
	MaxBytes  int64         // size budget of the store (DUR-6); zero: none
	// Nodes are how many processes there are; zero: 1, which has the store to itself. More share it.
	Nodes int
	// Broker carries the messages of the engine through a broker outside of the nodes, which no crash takes away. False:
	// each node has a bus in its memory.
	Broker bool
	// Messages are the topics of application messages that this process consumes. A message of another is refused.
	Messages map[string]Handler
	// Kills[i] is the boundary at which incarnation i+1 dies, counted from its start; 0, or none: it lives.
	Kills []int
	// Puts makes boundaries also of what a provider puts: the first, the second, the fourth, the eighth … of an attempt.
	Puts bool
	// Holds make zombies.
	Holds []Hold
	// Faults says what goes wrong with a call that is about to be made. nil: nothing does. A kind that the port of the call does
	// not know (FaultKinds) ends the run with an error.
	Faults func(Call) Fault
	// Choose says which of several moves is made, by its index; the first is to go on with what has moved last. nil: the
	// seed chooses.
	Choose func(moves []string) int
	// Trace is told what happens, as it happens. nil: nobody listens.
	Trace func(Entry)
}

// DefaultStart is 2026-03-02T08:00:00Z, a Monday.
var DefaultStart = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

const defaultWorkers = 3

// Sync is a sync with its ports.
type Sync struct {
	towline.Sync
	Provider provider.Provider
	Sink     sink.Opener                       // nil: the destination of Outside
	Takes    func(provider.Unit) time.Duration // how long the provider works on an attempt; nil: a second
}

// World is a store, what lives outside of it, and the nodes on it.
type World struct {
	c           Config
	now         time.Time
	stepped     time.Duration // by which the wall clocks are ahead
	head        events.Position
	out         *Outside
	pending     []towline.RunSpec // requests that were not accepted yet
	acts        []Act             // that are not over
	submissions []Submission      // that have not committed
	stops       []int             // nodes that are to stop cleanly
	nodes       []*node
	lives       []*Life
	crashes     []Crash
	held        int  // holds that were met
	disturbed   bool // calls were made to fail, or something was held
	names       names
	backup      *backup                                    // the newest; nil: there is none
	broken      []error                                    // what should not have happened in a living node
	watch       func(ctx context.Context, idle bool) error // nil: nobody looks

	chance  *rand.Rand
	current *task                            // whose turn it is
	last    *task                            // that moved last
	yielded chan struct{}                    // a task has given its turn back
	acting  bool                             // an operator is at it
	trap    func(node int, at Boundary) bool // kills where it says so; nil: nowhere
}

// Life is what became of one incarnation.
type Life struct {
	Incarnation  int // from 1
	Node         int // its number, from 1
	Boundaries   []Boundary
	Stops        []Stop
	Materialized map[events.Kind]int // by all its passes
	// Waited is the virtual time that passed because nobody could do anything, until the last run had ended and every
	// post_sync had been tried. The time that providers work is no part of it.
	Waited time.Duration
}

// Crash is what was true when a node died.
type Crash struct {
	At   Boundary
	Node int
	Time events.Micros
	Head events.Position // of the log
	Lost []Message       // in the process, and without effect yet
}

// New makes a world without a node.
func New(c Config) *World {
	if c.Start.IsZero() {
		c.Start = DefaultStart
	}
	if c.Workers <= 0 {
		c.Workers = defaultWorkers
	}
	c.Nodes = max(c.Nodes, 1)
	return &World{c: c, now: c.Start, out: newOutside(), names: newNames(), yielded: make(chan struct{}), disturbed: c.Faults != nil || len(c.Holds) > 0}
}

// Request asks for a run. It is repeated until it is accepted, also behind a crash, so it needs a key.
func (w *World) Request(specs ...towline.RunSpec) { w.pending = append(w.pending, specs...) }

// Watch calls a function before the clock moves: because a provider works, or because nobody can do anything, which is
// idle. Its error ends the run.
func (w *World) Watch(fn func(ctx context.Context, idle bool) error) { w.watch = fn }

func (w *World) look(ctx context.Context) {
	if w.watch == nil || w.living() == nil {
		return
	}
	idle := true
	for _, n := range w.nodes {
		for _, t := range n.tasks {
			idle = idle && !t.works
		}
	}
	if err := w.watch(ctx, idle); err != nil {
		w.broken = append(w.broken, err)
	}
}

// Outside is what no crash takes away.
func (w *World) Outside() *Outside { return w.out }

// Lives are the incarnations so far, and Crashes their deaths.
func (w *World) Lives() []*Life   { return w.lives }
func (w *World) Crashes() []Crash { return w.crashes }

// Held counts the holds that were met.
func (w *World) Held() int { return w.held }

// Now is engine time, or the wall clock while no node lives.
func (w *World) Now() events.Micros {
	if n := w.living(); n != nil && n.engine != nil {
		return n.engine.Now()
	}
	return events.MicrosOf(w.now.Add(w.stepped))
}

// StepClock moves the wall clocks of all nodes, and no time passes. A claim can end by it before its mark (CLK-8).
func (w *World) StepClock(d time.Duration) {
	w.stepped += d
	w.disturbed = true
}

// living is the first node that is up; nil: there is none.
func (w *World) living() *node {
	for _, n := range w.nodes {
		if n.up && !n.dead {
			return n
		}
	}
	return nil
}

// some is a node whose store is open: one that lives, if there is one.
func (w *World) some() *node {
	if n := w.living(); n != nil {
		return n
	}
	if len(w.nodes) > 0 {
		return w.nodes[0]
	}
	return nil
}

// Engine is that of the first living node, or of one that has died and is not buried; nil: there is none.
func (w *World) Engine() *towline.Engine {
	if n := w.some(); n != nil {
		return n.engine
	}
	return nil
}

// Boot starts the nodes that do not live, each as a new incarnation with an empty bus. When it returns, boot recovery has
// ended. It returns ErrDead if one was killed on the way; Bury must follow then.
func (w *World) Boot(ctx context.Context) error {
	if err := w.begin(ctx); err != nil {
		return err
	}
	for range maxTurns {
		booting := false
		for _, n := range w.nodes {
			booting = booting || !n.up && !n.dead && !n.stopped
		}
		switch {
		case len(w.broken) > 0:
			return w.errors()
		case w.anyGone():
			return ErrDead
		case !booting:
			return nil
		}
		if !w.Step(ctx) {
			w.advance(maxWaited)
		}
	}
	return errors.New("sim: a node does not come up")
}

// begin lets the nodes that do not live begin to boot.
func (w *World) begin(ctx context.Context) error {
	living := map[int]bool{}
	for _, n := range w.nodes {
		living[n.number] = true
	}
	if len(w.nodes) == 0 { // so that what follows does not depend on what a dead node has done: worlds that are forked go alike
		w.chance = rand.New(rand.NewChaCha8(w.seed("chance", len(w.lives)+1)))
	}
	for number := 1; number <= w.c.Nodes; number++ {
		if living[number] {
			continue
		}
		n, err := newNode(ctx, w, number)
		if err != nil {
			return err
		}
		w.nodes = append(w.nodes, n)
		n.boot(ctx)
	}
	return nil
}

// Bury closes the stores of the nodes that are dead or have stopped. If none is, it kills all of them first, as if between
// two boundaries.
func (w *World) Bury() error {
	gone := func(n *node) bool { return n.dead || n.stopped }
	all := true
	for _, n := range w.nodes {
		all = all && !gone(n)
	}
	var errs []error
	var rest []*node
	for _, n := range w.nodes {
		if !all && !gone(n) {
			rest = append(rest, n)
			continue
		}
		n.ends()
		n.unwind()
		if err := n.store.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close the store of incarnation %d: %w", n.life.Incarnation, err))
		}
	}
	w.nodes = rest
	return errors.Join(errs...)
}

// Kill kills a node between two boundaries; Run buries it and starts the next incarnation. A node that does not live is left
// alone.
func (w *World) Kill(number int) {
	for _, n := range w.nodes {
		if n.number == number && !n.dead {
			n.die(Boundary{N: len(n.life.Boundaries), Behind: true, Port: PortNone, What: "nothing"})
			n.unwind()
		}
	}
}

// StopNode asks a node for a clean stop (N-6). Run starts its next incarnation.
func (w *World) StopNode(number int) { w.stops = append(w.stops, number) }

// stopsNode reports that a node was asked to stop, once.
func (w *World) stopsNode(n *node) bool {
	return slices.Contains(w.stops, n.number)
}

// Run boots the nodes that do not live, and drives them until every run has ended, every post_sync was tried, and no wakeup
// is pending: the safety nets of runs that have ended come due and are dropped. A node that dies is buried, and the next one
// goes on. The errors are those that a living node should never meet.
func (w *World) Run(ctx context.Context) error {
	for {
		err := w.Live(ctx)
		if !errors.Is(err, ErrDead) {
			return err
		}
		if err := w.Bury(); err != nil {
			return err
		}
	}
}

// Live is Run to the end of all work, or to the death of a node, which is ErrDead and leaves it to Bury.
func (w *World) Live(ctx context.Context) error {
	if err := w.begin(ctx); err != nil {
		return err
	}
	if err := w.until(ctx, w.finished); err != nil {
		return err
	}
	for _, n := range w.nodes {
		waited := n.life.Waited
		defer func() { n.life.Waited = waited }()
	}
	return w.until(ctx, w.quiet)
}

// finished: no request is open and no operator or application has still to act, every run has ended, and no post_sync
// and no due time waits.
func (w *World) finished(ctx context.Context) (bool, error) {
	if len(w.pending) > 0 || len(w.submissions) > 0 || w.awaited() || w.living() == nil {
		return false, nil
	}
	open := false
	err := w.living().engine.View(ctx, func(v projections.View) error {
		runs, err := v.OpenRuns(events.RunID{}, 1)
		if err != nil {
			return err
		}
		registers, err := v.OpenRegisters(manyRegisters)
		if err != nil {
			return err
		}
		open = len(runs) > 0
		for _, r := range registers {
			open = open || r.Kind == events.KindPostSync
		}
		waits, err := w.waiting(v)
		open = open || waits
		return err
	})
	return !open, err
}

const manyRegisters = 1000

// quiet: no wakeup is pending or claimed, by a dead node either, no message is on its way, and no effect is owed that is to
// happen exactly once.
func (w *World) quiet(ctx context.Context) (bool, error) {
	if w.out.Broker.waits() || slices.ContainsFunc(w.nodes, func(n *node) bool { return len(n.bus.queue) > 0 }) {
		return false, nil
	}
	open := false
	err := w.living().engine.View(ctx, func(v projections.View) error {
		registers, err := v.OpenRegisters(1)
		if err != nil {
			return err
		}
		expiry, err := v.NextExpiry()
		if err != nil {
			return err
		}
		runs, err := v.Runs(events.RunID{}, manyRuns)
		open = len(registers) > 0 || expiry != 0 || slices.ContainsFunc(runs, func(r projections.SyncRun) bool {
			return r.PostSync.Effects == decider.EffectsOpen
		})
		return err
	})
	return !open, err
}

const manyRuns = 1000

// Pass runs one pass of the reconciler of the first living node, as if its interval had come, and nobody else moves
// meanwhile. It does nothing where none can begin: no node lives, it is held, or a round of its relay is under way (REC-2).
func (w *World) Pass(ctx context.Context) (report relay.Report) {
	n := w.living()
	if n == nil || n.frozenNow() || n.passing {
		return report
	}
	w.make(move{n.named("pass"), func() {
		n.passing = true
		t := n.start("pass", func() {
			defer func() { n.passing = false }()
			report = n.relay.Pass(ctx)
		})
		for w.run(t); !t.done && !n.dead; w.run(t) {
			for !t.able(w.now) {
				w.advance(maxWaited)
			}
		}
	}})
	return report
}

// Log is the whole log.
func (w *World) Log(ctx context.Context) ([]events.Envelope, error) {
	return readLog(ctx, w.some().store)
}

// readLog reads a log that nobody adds to, in pages on the connection for snapshots. store.Reader.Log has connections of its
// own, so that readers do not wait for each other; here nobody else reads, and to open one takes longer than to read a log.
func readLog(ctx context.Context, s store.Store) (log []events.Envelope, err error) {
	const pageSize = 1000
	for more := true; more; {
		err := s.Read(ctx, func(r store.Reader) error {
			after := events.Position(0)
			if len(log) > 0 {
				after = log[len(log)-1].Position
			}
			page, err := r.After(after, pageSize)
			log, more = append(log, page...), len(page) == pageSize
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return log, nil
}

// Read looks into the store, past the ports. A node must have it open.
func (w *World) Read(ctx context.Context, fn func(store.Reader) error) error {
	return w.some().store.Read(ctx, fn)
}

// Stats are what the store of the first living node has done since its start.
func (w *World) Stats() sqlite.Stats { return w.some().store.Stats() }

// Settings are the values by which the checker judges the log of this world.
func (w *World) Settings() check.Settings {
	k := w.some().engine.Knobs()
	return check.Settings{
		CapBucket: k.CapBucket, CapBuckets: k.CapBuckets, CapEngine: k.CapEngine, Stale: events.SpanOf(k.Stale),
		NeverStartedAfter: events.SpanOf(k.NeverStartedAfter), MaxAttempts: k.MaxAttempts,
		BackoffBase: events.SpanOf(k.BackoffBase), BackoffCap: events.SpanOf(k.BackoffCap),
		MaxDeferrals: k.RateLimitMaxDeferrals, MaxWait: events.SpanOf(k.RateLimitMaxWait),
		IdempotencyTTL: events.SpanOf(k.IdempotencyTTL), MaxUnits: k.MaxUnits,
	}
}

// Fork copies a world whose nodes are buried: its store goes to another file, and what lives outside is copied too. Both
// go on alike, each with its next incarnations.
func (w *World) Fork(path string) (*World, error) {
	if len(w.nodes) > 0 {
		panic("sim: Fork of a world with a node")
	}
	if err := copyFile(path, w.c.Store); err != nil {
		return nil, fmt.Errorf("copy the store: %w", err)
	}
	f := *w
	f.c.Store, f.out, f.names = path, w.out.clone(), w.names.clone()
	f.pending = append([]towline.RunSpec(nil), w.pending...)
	f.acts = append([]Act(nil), w.acts...)
	f.submissions = append([]Submission(nil), w.submissions...)
	f.stops = append([]int(nil), w.stops...)
	f.lives = append([]*Life(nil), w.lives...)
	f.crashes = append([]Crash(nil), w.crashes...)
	f.yielded, f.current, f.last = make(chan struct{}), nil, nil
	return &f, nil
}

// copyFile copies a store that is closed: its WAL is empty then.
func copyFile(to, from string) (err error) {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.Copy(f, r)
	return err
}

// seed makes an independent stream of random bytes for one purpose of one incarnation.
func (w *World) seed(purpose string, incarnation int) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%d/%s/%d", w.c.Seed, purpose, incarnation))
}

// entropy is that of the ids and tokens of an incarnation.
func (w *World) entropy(incarnation int) io.Reader {
	return rand.NewChaCha8(w.seed("entropy", incarnation))
}

func (w *World) errors() error { return errors.Join(w.broken...) }

func (w *World) breaks(format string, args ...any) {
	w.broken = append(w.broken, fmt.Errorf(format, args...))
}

// openStore opens the real store of a node: each Write in the caller's goroutine. The power never fails in a world, so
// nothing is synced.
func (w *World) openStore(ctx context.Context, clock *towline.Clock) (*sqlite.Store, error) {
	s, err := sqlite.Open(ctx, w.c.Store, sqlite.Options{Now: clock.Now, Synchronous: "normal", Inline: true, Shared: w.c.Nodes > 1})
	if err != nil || w.c.Messages == nil {
		return s, err
	}
	if _, err := s.DB().ExecContext(ctx, application); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
