package towline

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// Tx is one transaction: load, decide, append, project, react. It is for the shells of the engine: a handler reads
// facts from it, executes commands, and calls no port while it is open (L-10).
type Tx struct {
	e     *Engine
	tx    store.Tx
	hot   *projections.Hot
	actor string
	now   events.Micros

	executed int                  // commands so far
	touched  []events.StreamID    // whose folds are void if the transaction is
	views    events.Position      // how far the tables held the log before it
	pace     pace                 // of the clocks before it
	step     *events.ClockStepped // that it has recorded
	knobs    *Knobs               // before it, if it has put others in force
	freed    []events.RunID       // one entry per slot that was given back (B-6)
	failing  []string             // schedules of which a run has failed (S-9)
	effects  effects
}

// InTransaction marks the context of a transaction that is open on db, which is Node.DB: under it every method of the engine
// that needs the writer fails at once with ErrInTransaction, where it would wait for that very transaction until the store
// gives up. The contexts that Target.Func and a message consumer get are marked already. It is for transactions of your own.
func InTransaction(ctx context.Context, db *sql.DB) context.Context { return store.Inside(ctx, db) }

// Result is what became of one command. A rejection may come with events (L-5).
type Result struct {
	Events    []events.Envelope
	Rejection *decider.Rejection
}

// Transact runs fn as one transaction, with one now (CLK-1). It may share a commit with others. An error from fn undoes
// all of it; a rejection that a caller wants to keep is therefore returned behind the commit, not from fn.
//
// fn may run twice, so it must set what it returns afresh each time. ctx bounds the wait in the queue, not the work.
func (e *Engine) Transact(ctx context.Context, actor string, fn func(*Tx) error) error {
	for ready := false; !ready; {
		var done *Tx
		err := e.store.Write(ctx, func(stx store.Tx) error {
			tx, err := e.begin(stx, actor)
			if err != nil {
				return err
			}
			done = tx
			ready, err = tx.run(fn)
			return err
		})
		if err != nil {
			return err
		}
		e.signals.after(done.effects)
		e.logStep(done.step)
	}
	return nil
}

// ask runs fn as a transaction that only reads. What a transaction does before fn it leaves to the next one that has
// something to write: a step of the clock (CLK-3), and the arms of what was submitted (M-1).
func (e *Engine) ask(ctx context.Context, fn func(*Tx) error) error {
	if e.reads != nil {
		return e.reads.ask(ctx, e, fn)
	}
	return e.store.Write(ctx, func(stx store.Tx) error {
		tx, err := e.begin(stx, "")
		if err != nil {
			return err
		}
		return tx.only(fn)
	})
}

func (e *Engine) begin(stx store.Tx, actor string) (*Tx, error) {
	if e.mem.stopped {
		return nil, ErrStopped
	}
	if e.mem.reloads.whole {
		e.mem.reloads = reloads{}
	}
	views := e.mem.views
	if err := e.mem.refresh(stx); err != nil {
		return nil, fmt.Errorf("refresh from the log: %w", err)
	}
	now := stx.Now()
	e.clock.reach(now)
	return &Tx{e: e, tx: stx, hot: e.mem.hot, actor: actor, now: now, views: views, pace: e.mem.pace}, nil
}

// run is fn and what follows from it, undone in memory if it fails or panics; the store undoes the rest. What applications
// have submitted comes first (M-1); if that is more than a transaction should hold, it is all, and fn is not ready to run.
func (t *Tx) run(fn func(*Tx) error) (ready bool, err error) {
	err = t.only(func(*Tx) (err error) {
		if err := t.noteStep(); err != nil {
			return err
		}
		if ready, err = t.armSubmitted(); err != nil || !ready {
			return err
		}
		if err := fn(t); err != nil {
			return err
		}
		if err := t.pauseFailing(); err != nil {
			return err
		}
		return t.refill()
	})
	return ready && err == nil, err
}

// only is fn without what belongs to a transaction.
func (t *Tx) only(fn func(*Tx) error) error {
	mark := t.hot.Mark()
	ok := false
	defer func() {
		if !ok {
			t.undo(mark)
		}
	}()
	if err := fn(t); err != nil {
		return err
	}
	ok = true
	t.hot.Forget()
	t.e.mem.views = t.hot.Position()
	return nil
}

func (t *Tx) undo(mark int) {
	for _, id := range t.touched {
		t.e.mem.folds.Remove(id)
	}
	t.e.mem.views = t.views
	t.e.mem.pace = t.pace
	if t.knobs != nil {
		t.e.inForce.Store(t.knobs)
	}
	if !t.hot.Rollback(mark) {
		t.e.mem.hot = nil // loaded anew by the next transaction
	}
	t.e.mem.stopped = false // only the one that failed may have set it
}

// Now is the one time of the transaction.
func (t *Tx) Now() events.Micros { return t.now }

// NewToken makes the secret of a lease or a claim.
func (t *Tx) NewToken() events.Token { return t.e.mem.newToken() }

// View reads the tables as the transaction sees them.
func (t *Tx) View() projections.View { return projections.NewView(t.tx) }

// Execute decides commands in order, and then what follows from them, breadth first, in event order. There is
// one result per command. It stops only on a fault, which undoes the transaction.
func (t *Tx) Execute(cmds ...decider.Command) ([]Result, error) {
	results := make([]Result, len(cmds))
	queue := t.e.mem.takeQueue()
	defer func() { t.e.mem.giveQueue(queue) }()
	limit := t.executed + len(cmds) + t.e.reactionLimit(t.hot.Units())
	for i, c := range cmds {
		r, err := t.execute(c, 0, &queue)
		if err != nil {
			return nil, err
		}
		results[i] = r
	}
	for i := 0; i < len(queue); i++ {
		for _, c := range decider.React(queue[i].event, queue[i].after, t) {
			if t.executed >= limit {
				panic(fmt.Sprintf("towline: reactions without end, the last is %s of %s", c.Name(), c.Stream()))
			}
			if _, err := t.execute(c, queue[i].event.Position, &queue); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

// reaction is an event whose consequences are still to be decided.
type reaction struct {
	event events.Envelope
	after decider.State
}

func (t *Tx) execute(c decider.Command, cause events.Position, queue *[]reaction) (Result, error) {
	t.executed++
	id := c.Stream()
	f, err := t.foldFor(c)
	if err != nil {
		return Result{}, err
	}
	evs, rejection := decider.Decide(f.state, c)
	if len(evs) == 0 {
		return Result{Rejection: rejection}, nil
	}
	meta := events.Meta{Actor: t.actor, Command: c.Name(), Cause: cause, Node: t.e.node}
	envs, err := t.tx.Append(id, f.version, meta, evs...)
	if err != nil {
		return Result{}, fmt.Errorf("append to %s: %w", id, err)
	}
	t.touched = append(t.touched, id)
	for _, env := range envs {
		if f, err = t.apply(env, f); err != nil {
			return Result{}, err
		}
		*queue = append(*queue, reaction{env, f.state})
	}
	t.keep(id, f)
	return Result{Events: envs, Rejection: rejection}, nil
}

// apply folds one appended event into the state, the tables and the hot view.
func (t *Tx) apply(env events.Envelope, f fold) (fold, error) {
	before, after := f.state, decider.Evolve(f.state, env)
	for _, p := range all {
		if err := p.Apply(t.tx, env, before, after); err != nil {
			return f, fmt.Errorf("apply %s at position %d to %s: %w", env.Event.EventType(), env.Position, p.Name(), err)
		}
	}
	t.hot.Apply(env, before, after)
	if run, ok := decider.Freed(before, after); ok {
		t.freed = append(t.freed, run)
	}
	if name, ok := failedRun(before, after); ok {
		t.failing = append(t.failing, name)
	}
	t.effects.note(after, t.now)
	t.effects.revoke(before, env.Event)
	return fold{state: after, version: env.Version}, nil
}

var all = projections.All()

// foldFor is the state that a command is decided from.
func (t *Tx) foldFor(c decider.Command) (fold, error) {
	if about, ok := c.(decider.AboutMessage); ok {
		return t.foldTopic(c.Stream(), about.About())
	}
	return t.fold(c.Stream(), c.Fresh())
}

// fold is the state of a stream: kept, or read and folded. A fresh one is the zero state without a read; the log's
// unique (stream, version) is its guard.
func (t *Tx) fold(id events.StreamID, fresh bool) (fold, error) {
	if f, ok := t.e.mem.folds.Get(id); ok {
		return f, nil
	}
	if fresh {
		return fold{state: decider.Zero(id)}, nil
	}
	history, err := t.tx.Stream(id)
	if err != nil {
		return fold{}, fmt.Errorf("read stream %s: %w", id, err)
	}
	f := fold{state: decider.Fold(id, history)}
	if n := len(history); n > 0 {
		f.version = history[n-1].Version
	}
	t.keep(id, f)
	return f, nil
}

func (t *Tx) keep(id events.StreamID, f fold) { t.e.mem.keep(id, f) }

// The facts below are read in the transaction, after all that it has appended so far. They answer decider.Facts too.

// Run is the state of a run; its zero value does not exist.
func (t *Tx) Run(id events.RunID) (decider.Run, error) {
	f, err := t.fold(events.RunStream(id), false)
	if err != nil {
		return decider.Run{}, err
	}
	return f.state.(decider.Run), nil
}

// Unit is the state of a unit; its zero value does not exist.
func (t *Tx) Unit(id events.UnitID) (decider.Unit, error) {
	f, err := t.fold(events.UnitStream(id), false)
	if err != nil {
		return decider.Unit{}, err
	}
	return f.state.(decider.Unit), nil
}

// Register is the state of a run's register.
func (t *Tx) Register(run events.RunID, k events.Kind) (decider.Register, error) {
	f, err := t.fold(events.RegisterStream(run, k), false)
	if err != nil {
		return decider.Register{}, err
	}
	return f.state.(decider.Register), nil
}

// Announced lists the units that wakeup n of run_sync_unit expands to (K-1).
func (t *Tx) Announced(run events.RunID, n int) []projections.Announced {
	return t.hot.Announced(run, n)
}

// Owing is what a run owes; n is the number of the run_sync_unit wakeup in question.
func (t *Tx) Owing(run decider.Run, n int) decider.Owing { return t.hot.Owing(run, n, t.now) }

// Later is the time ahead for which units of a run wait that nothing else holds (HD-6).
func (t *Tx) Later(run events.RunID) decider.Later { return t.hot.Later(run, t.now) }

// Wait is why a unit is no further (spec 11.1); the zero Wait is that of one which has ended.
func (t *Tx) Wait(unit events.UnitID) decider.Wait { return t.hot.Wait(unit, t.now) }

// HasRoom reports that a free slot lets a unit of the run in.
func (t *Tx) HasRoom(run events.RunID) bool { return t.hot.Fits(run, t.now) }

// Gone reports an incarnation that is known to be dead (N-3).
func (t *Tx) Gone(n events.NodeID) bool { return t.hot.Gone(n) }

// OpenUnits, WaitingFor and Mode answer the questions of reactions.
func (t *Tx) OpenUnits(run events.RunID) int { return t.hot.OpenUnits(run) }

func (t *Tx) WaitingFor(run events.RunID, source string) []events.UnitID {
	return t.hot.WaitingFor(run, source)
}

func (t *Tx) Mode(run events.RunID) events.DeliveryMode { return t.hot.Mode(run) }
