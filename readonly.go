package towline

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// ReaderConfig is what an engine needs that only reads.
type ReaderConfig struct {
	// Scratch makes an empty store, which the engine closes. It is asked for one only if the tables of the store are not those
	// of this release, as those of an older one are not: they are left as they are, and the log is folded there instead.
	Scratch func(context.Context) (store.Store, error)
	Clock   *Clock       // nil: a new one of the wall clock
	Version string       // of the program
	Logger  *slog.Logger // nil: slog.Default()
}

// readOnly is the store of an engine that only reads. What is asked of the tables goes to those of the store, or to those of a
// past at its head.
type readOnly struct {
	store.Store                   // the log
	past        *projections.Past // nil: the tables of the store will do

	asking sync.Mutex // one question at a time, for they share the memory of the engine
}

// OpenReader makes an engine that answers questions about a store and changes nothing: no incarnation starts, nothing
// recovers, nothing is owed to it. It speaks for the incarnation that has started last, with the knobs and the catalogue that
// are on record for it: Why answers what that one would. If the tables of the store are not those of this release, it stands at
// the head of the log as it was then; else it sees what is committed. Every method that writes gets ErrReadOnly, and Wait never ends: there
// is nobody who would wake it. It is safe beside engines that run on the store.
//
// Errors: those of the store and of ReaderConfig.Scratch; an *events.DecodeError for a log that this release cannot read.
func OpenReader(ctx context.Context, s store.Store, c ReaderConfig) (*Engine, error) {
	e := &Engine{clock: c.Clock, logger: c.Logger, version: c.Version, signals: newSignals(), syncs: catalogue{syncs: map[string]Sync{}}}
	if e.clock == nil {
		e.clock = NewClock(time.Now)
	}
	if e.logger == nil {
		e.logger = slog.Default()
	}
	knobs := Knobs{}.withDefaults()
	e.inForce.Store(&knobs)
	e.reads = &readOnly{Store: s}
	e.store = e.reads
	if err := e.reads.look(ctx, c); err != nil {
		return nil, fmt.Errorf("read the store: %w", err)
	}
	if err := e.speakForNewest(ctx); err != nil {
		return nil, fmt.Errorf("read which engine ran last: %w", err)
	}
	return e, nil
}

// look finds out whether the tables will do.
func (r *readOnly) look(ctx context.Context, c ReaderConfig) error {
	var head events.Position
	current := false
	err := r.Store.Read(ctx, func(tx store.Reader) (err error) {
		if head, _, err = tx.Head(); err != nil {
			return err
		}
		current, err = projections.Current(tx)
		return err
	})
	if err != nil || current {
		return err
	}
	scratch, err := c.Scratch(ctx)
	if err != nil {
		return err
	}
	r.past, err = projections.NewPast(ctx, r.Store, scratch, head)
	if err != nil {
		_ = scratch.Close() // it is empty
	}
	return err
}

// Read is that of the store, or of the past that stands for it.
func (r *readOnly) Read(ctx context.Context, fn func(store.Reader) error) error {
	if r.past != nil {
		return r.past.Read(ctx, fn)
	}
	return r.Store.Read(ctx, fn)
}

// Close closes what was folded. The store is its owner's.
func (r *readOnly) Close() error {
	if r.past != nil {
		return r.past.Close()
	}
	return nil
}

// speakForNewest takes over what is on record of the newest incarnation. A record that this release cannot use leaves the
// defaults, which only answers about caps and times depend on.
func (e *Engine) speakForNewest(ctx context.Context) error {
	var node decider.Node
	err := e.View(ctx, func(v projections.View) error {
		id, known, err := v.NewestNode()
		if err != nil || !known {
			return err
		}
		history, err := v.Stream(events.NodeStream(id))
		if err == nil {
			node = decider.Fold(events.NodeStream(id), history).(decider.Node)
			e.node = id
			e.origin, _, err = v.FirstNode()
		}
		return err
	})
	if err != nil {
		return err
	}
	if knobs, err := RecordedKnobs(node.Config); err == nil {
		knobs = knobs.withDefaults()
		e.inForce.Store(&knobs)
	} else {
		e.logger.Warn("the recorded configuration is not understood; answers about times and caps go by the defaults", "error", err)
	}
	for _, c := range node.Started.Syncs {
		s := Sync{Name: c.Sync, Provider: c.Provider, Sources: c.Sources}
		for _, d := range c.Datasets {
			s.Datasets = append(s.Datasets, Dataset{Name: d})
		}
		e.syncs.syncs[c.Sync] = s
	}
	return nil
}

// ask runs fn on one snapshot, with a memory that is read from its tables.
func (r *readOnly) ask(ctx context.Context, e *Engine, fn func(*Tx) error) error {
	r.asking.Lock()
	defer r.asking.Unlock()
	return r.Read(ctx, func(snapshot store.Reader) error {
		e.mem = newMemory(e.hotKnobs, 0, nil)
		hot, err := projections.LoadHot(snapshot, e.hotKnobs())
		if err != nil {
			return fmt.Errorf("read what is open: %w", err)
		}
		_, newest, err := snapshot.Head()
		if err != nil {
			return err
		}
		e.clock.reach(newest)
		tx := readTx{ReadTx: snapshot, now: e.clock.Now()}
		return fn(&Tx{e: e, tx: tx, hot: hot, now: tx.now})
	})
}

// ReadOnly reports an engine that OpenReader has made.
func (e *Engine) ReadOnly() bool { return e.reads != nil }

// CloseReader frees what an engine of OpenReader has folded. The store stays open. Of any other engine it does nothing.
func (e *Engine) CloseReader() error {
	if e.reads == nil {
		return nil
	}
	return e.reads.Close()
}

// readTx is a snapshot in the place of a transaction.
type readTx struct {
	store.ReadTx
	now events.Micros
}

func (t readTx) Now() events.Micros { return t.now }

func (t readTx) Version(id events.StreamID) (events.Version, error) {
	history, err := t.Stream(id)
	if err != nil || len(history) == 0 {
		return 0, err
	}
	return history[len(history)-1].Version, nil
}

func (readTx) Append(events.StreamID, events.Version, events.Meta, ...events.Event) ([]events.Envelope, error) {
	return nil, ErrReadOnly
}

func (readTx) Exec(string, ...any) error { return ErrReadOnly }
