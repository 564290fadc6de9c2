package towline

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// Config is what an engine needs beside its store.
type Config struct {
	Syncs []Sync // what Plan decomposes by
	// Schedules are all that there are: a stored one that is not among them is removed at the start (S-7).
	Schedules []Schedule
	// NoSchedules says that this process has nothing to do with schedules: those that are stored stay as they are, and it
	// ticks none.
	NoSchedules bool
	Knobs       Knobs        // zero: the defaults
	Lister      Lister       // nil: no provider lists periods
	Clock       *Clock       // of the engine and of its store; nil: a new one of the wall clock
	Entropy     io.Reader    // feeds ids and tokens; nil: crypto/rand
	Version     string       // recorded with NodeStarted
	Host        string       // the same; empty: not recorded
	PID         int          // the same
	Logger      *slog.Logger // nil: slog.Default()
	// NoMessages says that this process neither publishes application messages nor consumes them, so that Why names what
	// they wait for (WHY-6).
	NoMessages bool
	// MaxBytes is the size budget of the store (DUR-6): no run is accepted that would bring it beyond seven eighths of that, with
	// what open runs still take until they end. Those go on. Zero: none.
	MaxBytes int64
	// FoldCache is how many folded streams the writer keeps; zero: 16384.
	FoldCache int
	// ReactionLimit is the most reactions that one Execute may have; zero: 10,000, and three for each open unit. Passing it
	// is a defect, rules that answer each other for ever, and panics.
	ReactionLimit int
}

// Lister lists the calendar periods of a source before a plan (P-12). Package node makes one of its providers.
type Lister interface {
	// Periods returns false if the provider of the sync lists nothing. An error leaves the source out of the plan; a
	// *ListError says why.
	Periods(ctx context.Context, sync, source, dataset string, c events.Calendar) ([]decider.Period, bool, error)
}

// ListError says why a source could not be listed. NotFound is recorded as unavailable.
type ListError struct {
	Category events.Category
	Err      error
}

func (e *ListError) Error() string { return fmt.Sprintf("list: %s: %v", e.Category, e.Err) }
func (e *ListError) Unwrap() error { return e.Err }

// Engine turns commands into events: load, decide, append, project, react, in one transaction. It has no goroutine of
// its own; the relay and the handlers drive it.
type Engine struct {
	store   store.Store
	clock   *Clock
	inForce atomic.Pointer[Knobs] // replaced by Reload
	syncs   catalogue
	timers  timetable

	scheduleWaits scheduleWaits
	lister        Lister
	logger        *slog.Logger
	node          events.NodeID
	up            bool          // its NodeStarted is on disk
	origin        events.NodeID // the first in the log: the identity of the store, which copies share
	version       string
	limit         int

	maxBytes int64 // of the store; 0: no budget

	noMessages bool // it has nowhere to send application messages to

	reads *readOnly // of an engine that OpenReader has made; nil: it writes

	doubt clockDoubt // of the wall clock, since the start (CLK-7)

	mem     memory // the writer's; only a transaction may touch it
	signals signals
	tally   tally
}

// Check says what Open would refuse of the configuration itself, without a store; nil: nothing.
func (c Config) Check() error {
	_, _, err := c.checked(c.Knobs.withDefaults())
	return err
}

func (c Config) checked(k Knobs) (catalogue, timetable, error) {
	if err := k.check(); err != nil {
		return catalogue{}, timetable{}, err
	}
	syncs, err := newCatalogue(c.Syncs)
	if err != nil {
		return syncs, timetable{}, err
	}
	timers, err := newTimetable(c, syncs)
	return syncs, timers, err
}

// Open starts an incarnation on a store. When it returns, boot recovery has finished: what a crash left behind is
// decided, and what is owed is due (N-1 to N-4). It starts no goroutine.
func Open(ctx context.Context, s store.Store, c Config) (*Engine, error) {
	knobs := c.Knobs.withDefaults()
	syncs, timers, err := c.checked(knobs)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	e := &Engine{
		timers: timers,
		store:  s, clock: c.Clock, syncs: syncs, lister: c.Lister, logger: c.Logger, version: c.Version,
		limit: c.ReactionLimit, noMessages: c.NoMessages, maxBytes: c.MaxBytes, signals: newSignals(),
	}
	if e.clock == nil {
		e.clock = NewClock(time.Now)
	}
	if e.logger == nil {
		e.logger = slog.Default()
	}
	entropy := c.Entropy
	if entropy == nil {
		entropy = rand.Reader
	}
	e.inForce.Store(&knobs)
	e.mem = newMemory(e.hotKnobs, c.FoldCache, entropy)
	s.Attach(store.Hooks{Now: e.now, BeforeCommit: e.mem.checkpoint, OnVoid: e.void})
	if err := e.boot(ctx, c); err != nil {
		return nil, err
	}
	return e, nil
}

// reactionLimit: one event of a run may touch each of its units, and a unit's event two things more.
func (e *Engine) reactionLimit(openUnits int) int {
	const least, perUnit = 10_000, 3
	if e.limit > 0 {
		return e.limit
	}
	return least + perUnit*max(openUnits, e.inForce.Load().MaxUnits)
}

// hotKnobs are those of the hot view, as they are in force when it is read.
func (e *Engine) hotKnobs() projections.HotKnobs {
	hot := e.inForce.Load().hot()
	hot.Missing = e.syncs.missing
	return hot
}

// Node is this incarnation.
func (e *Engine) Node() events.NodeID { return e.node }

// Knobs are the values in force.
func (e *Engine) Knobs() Knobs { return *e.inForce.Load() }

// Now is engine time, for what happens outside a transaction.
func (e *Engine) Now() events.Micros { return e.clock.Now() }

// now is the one time of the transaction that begins. The writer asks, once for each.
func (e *Engine) now() events.Micros {
	e.mem.pace.newest = e.clock.look()
	return e.mem.pace.newest.at
}

// Stopwatch measures real time from now on, for what must not depend on the steps of the wall clock.
func (e *Engine) Stopwatch() (elapsed func() events.Span) { return e.clock.Stopwatch() }

// Logger is where the engine and its shells log.
func (e *Engine) Logger() *slog.Logger { return e.logger }

// Sync is the configured sync of that name.
func (e *Engine) Sync(name string) (Sync, bool) {
	s, ok := e.syncs.syncs[name]
	return s, ok
}

// Syncs lists the configured syncs, by name.
func (e *Engine) Syncs() []Sync {
	out := make([]Sync, 0, len(e.syncs.syncs))
	for _, name := range slices.Sorted(maps.Keys(e.syncs.syncs)) {
		out = append(out, e.syncs.syncs[name])
	}
	return out
}

// View runs fn on one snapshot of the log and its tables.
func (e *Engine) View(ctx context.Context, fn func(projections.View) error) error {
	return e.store.Read(ctx, func(r store.Reader) error { return fn(projections.NewView(r)) })
}

// Shared reports that other processes may write to the store too (N-2).
func (e *Engine) Shared() bool { return !e.store.Exclusive() }

// Head is the position of the newest event, whichever process has written it; zero in an empty log.
func (e *Engine) Head(ctx context.Context) (head events.Position, err error) {
	err = e.store.Read(ctx, func(r store.Reader) (err error) {
		head, _, err = r.Head()
		return err
	})
	return head, err
}

// Log reads the whole log behind a position, page by page.
func (e *Engine) Log(ctx context.Context, after events.Position, each func(events.Envelope) error) error {
	return e.store.Read(ctx, func(r store.Reader) error {
		for env, err := range r.Log(ctx, after) {
			if err != nil {
				return err
			}
			if err := each(env); err != nil {
				return err
			}
		}
		return nil
	})
}

// Stop appends NodeStopped: a clean stop (N-6). It is the last word of this incarnation: every later transaction gets
// ErrStopped, also that of a handler which has outlived its shutdown, and Wait returns. The store stays open. A second
// Stop does nothing.
func (e *Engine) Stop(ctx context.Context, reason string) error {
	defer e.signals.stopped()
	err := e.Transact(ctx, "", func(tx *Tx) error {
		_, err := tx.Execute(decider.StopNode{Node: e.node, Reason: reason})
		e.mem.stopped = err == nil
		return err
	})
	if errors.Is(err, ErrStopped) {
		return nil
	}
	return err
}
