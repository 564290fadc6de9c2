// Package sim runs the engine, the relay and the handlers of production in one goroutine, on a real SQLite file, between
// ports that it owns. Time is virtual, ids and tokens come from a seed, and so does the choice of who moves next: the
// same configuration gives the same log, byte for byte.
//
// Every call of a port passes a boundary before it and one behind it. A node can be killed at any of them: from then on
// its ports do nothing and answer ErrDead, also to deferred calls, and its in-process messages are lost. What lives
// outside of the process (the store, the destination, what broker and provider remember) stays.
//
// While a provider works, and while a publish is under way, others may move; they return before it does. So several
// units run at once, and a wish can arise while its register is claimed, without a second goroutine.
package sim

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/check"
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

// Config of a world.
type Config struct {
	Store   string // path of the store; made if missing
	Seed    uint64
	Start   time.Time // virtual time at the beginning; zero: DefaultStart
	Syncs   []Sync
	Knobs   towline.Knobs // zero: the defaults
	Workers int           // units that run at once; zero: 3
	// Messages are the topics of application messages that this process consumes. A message of another is refused.
	Messages map[string]Handler
	// Kills[i] is the boundary at which incarnation i+1 dies, counted from its start; 0, or none: it lives.
	Kills []int
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

// World is a store, what lives outside of it, and at most one living node.
type World struct {
	c           Config
	now         time.Time
	out         *Outside
	pending     []towline.RunSpec // requests that were not accepted yet
	acts        []Act             // that are not over
	submissions []Submission      // that have not committed
	node        *node             // nil: none lives
	lives       []*Life
	crashes     []Crash
	names       names
	broken      []error                                    // what should not have happened in a living node
	watch       func(ctx context.Context, idle bool) error // nil: nobody looks
}

// Life is what became of one incarnation.
type Life struct {
	Incarnation  int // from 1
	Boundaries   []Boundary
	Materialized map[events.Kind]int // by all its passes
	// Waited is the virtual time that passed because nobody could do anything, until the last run had ended and every
	// post_sync had been tried. The time that providers work is no part of it.
	Waited time.Duration
}

// Crash is what was true when a node died.
type Crash struct {
	At   Boundary
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
	return &World{c: c, now: c.Start, out: newOutside(), names: newNames()}
}

// Request asks for a run. It is repeated until it is accepted, also behind a crash, so it needs a key.
func (w *World) Request(specs ...towline.RunSpec) { w.pending = append(w.pending, specs...) }

// Watch calls a function before the clock moves: because a provider works, or because nobody can do anything, which is
// idle. Its error ends the run.
func (w *World) Watch(fn func(ctx context.Context, idle bool) error) { w.watch = fn }

func (w *World) look(ctx context.Context, idle bool) {
	if w.watch == nil || w.node.dead {
		return
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

// Now is virtual time.
func (w *World) Now() events.Micros { return events.MicrosOf(w.now) }

// Engine is that of the living node; nil: none lives.
func (w *World) Engine() *towline.Engine {
	if w.node == nil {
		return nil
	}
	return w.node.engine
}

// Boot starts an incarnation with an empty bus. When it returns, boot recovery has ended. It returns ErrDead if the node
// was killed on the way; Bury must follow then.
func (w *World) Boot(ctx context.Context) error {
	if w.node != nil {
		panic("sim: Boot of a world whose node lives")
	}
	n, err := newNode(ctx, w)
	if err != nil {
		return err
	}
	w.node = n
	return n.open(ctx)
}

// Bury closes the store of a dead node, or of a living one as if it were killed between two boundaries. Without a node it
// does nothing.
func (w *World) Bury() error {
	n := w.node
	if n == nil {
		return nil
	}
	w.node = nil
	n.dead = true
	if err := n.store.Close(); err != nil {
		return fmt.Errorf("close the store of incarnation %d: %w", n.life.Incarnation, err)
	}
	return nil
}

// Run boots a node if none lives, and drives it until every run has ended, every post_sync was tried, and no wakeup is
// pending: the safety nets of runs that have ended come due and are dropped. A node that dies is buried, and the next one
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

// Live is Run for one life: to the end of all work, or to the death of the node, which is ErrDead and leaves it to Bury.
func (w *World) Live(ctx context.Context) error {
	if w.node == nil {
		if err := w.Boot(ctx); err != nil {
			return err
		}
	}
	life := w.lives[len(w.lives)-1]
	if err := w.until(ctx, w.finished); err != nil {
		return err
	}
	waited := life.Waited
	defer func() { life.Waited = waited }()
	return w.until(ctx, w.quiet)
}

// The bounds of a world that makes no progress.
const (
	maxTurns  = 100_000
	maxWaited = 48 * time.Hour
)

// until moves the world until done says so, which it asks whenever nobody can do anything.
func (w *World) until(ctx context.Context, done func(context.Context) (bool, error)) error {
	n := w.node
	life := w.lives[len(w.lives)-1]
	waited := life.Waited
	for range maxTurns {
		moved := n.turn(ctx, anybody)
		switch {
		case n.dead:
			return ErrDead
		case len(w.broken) > 0:
			return errors.Join(w.broken...)
		case moved:
			continue
		}
		w.look(ctx, true)
		ended, err := done(ctx)
		if err != nil || ended {
			return err
		}
		if life.Waited-waited > maxWaited {
			return fmt.Errorf("sim: nothing has ended in %s of waiting", maxWaited)
		}
		life.Waited += n.wait()
	}
	return fmt.Errorf("sim: nothing has ended in %d turns", maxTurns)
}

// finished: no request is open and no operator or application has still to act, every run has ended, and no post_sync
// waits.
func (w *World) finished(ctx context.Context) (bool, error) {
	if len(w.pending) > 0 || len(w.submissions) > 0 || w.awaited() {
		return false, nil
	}
	open := false
	err := w.node.engine.View(ctx, func(v projections.View) error {
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
		return nil
	})
	return !open, err
}

const manyRegisters = 1000

// quiet: no wakeup is pending.
func (w *World) quiet(ctx context.Context) (bool, error) {
	open := 0
	err := w.node.engine.View(ctx, func(v projections.View) error {
		registers, err := v.OpenRegisters(1)
		open = len(registers)
		return err
	})
	return open == 0, err
}

// Pass runs one pass of the reconciler, as if its interval had come.
func (w *World) Pass(ctx context.Context) relay.Report { return w.node.relay.Pass(ctx) }

// Log is the whole log of the living node's store.
func (w *World) Log(ctx context.Context) (log []events.Envelope, err error) {
	err = w.Read(ctx, func(r store.Reader) error {
		for env, err := range r.Log(ctx, 0) {
			if err != nil {
				return err
			}
			log = append(log, env)
		}
		return nil
	})
	return log, err
}

// Read looks into the store of the living node, past its ports.
func (w *World) Read(ctx context.Context, fn func(store.Reader) error) error {
	return w.node.store.Read(ctx, fn)
}

// Stats are what the store of the living node has done since its start.
func (w *World) Stats() sqlite.Stats { return w.node.store.Stats() }

// Settings are the values by which the checker judges the log of this world.
func (w *World) Settings() check.Settings {
	k := w.node.engine.Knobs()
	return check.Settings{
		CapBucket: k.CapBucket, CapBuckets: k.CapBuckets, CapEngine: k.CapEngine, Stale: events.SpanOf(k.Stale),
		NeverStartedAfter: events.SpanOf(k.NeverStartedAfter), MaxAttempts: k.MaxAttempts,
		BackoffBase: events.SpanOf(k.BackoffBase), BackoffCap: events.SpanOf(k.BackoffCap),
		MaxDeferrals: k.RateLimitMaxDeferrals, MaxWait: events.SpanOf(k.RateLimitMaxWait),
		IdempotencyTTL: events.SpanOf(k.IdempotencyTTL), MaxUnits: k.MaxUnits,
	}
}

// Fork copies a world whose node is buried: its store goes to another file, and what lives outside is copied too. Both
// go on alike, each with its next incarnation.
func (w *World) Fork(path string) (*World, error) {
	if w.node != nil {
		panic("sim: Fork of a world whose node lives")
	}
	if err := copyFile(path, w.c.Store); err != nil {
		return nil, fmt.Errorf("copy the store: %w", err)
	}
	f := *w
	f.c.Store, f.out, f.names = path, w.out.clone(), w.names.clone()
	f.pending = append([]towline.RunSpec(nil), w.pending...)
	f.acts = append([]Act(nil), w.acts...)
	f.submissions = append([]Submission(nil), w.submissions...)
	f.lives = append([]*Life(nil), w.lives...)
	f.crashes = append([]Crash(nil), w.crashes...)
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

func (w *World) breaks(format string, args ...any) {
	w.broken = append(w.broken, fmt.Errorf(format, args...))
}

// openStore opens the real store of a node: each Write in the caller's goroutine. The power never fails in a world, so
// nothing is synced.
func (w *World) openStore(ctx context.Context, clock *towline.Clock) (*sqlite.Store, error) {
	s, err := sqlite.Open(ctx, w.c.Store, sqlite.Options{Now: clock.Now, Synchronous: "normal", Inline: true})
	if err != nil || w.c.Messages == nil {
		return s, err
	}
	if _, err := s.DB().ExecContext(ctx, application); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
