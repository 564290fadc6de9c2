package sim

import (
	"context"
	"errors"

	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/handlers"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/store"
)

// storePort is the store as the engine sees it. Others have their turn before a transaction and behind it, never in it. A
// commit that appends is a boundary: a crash before it lies between decide and commit, so everything was decided and nothing
// is kept; one behind it, and nobody has learned of the commit.
type storePort struct {
	n     *node
	inner store.Store
	hooks store.Hooks
}

var _ store.Store = (*storePort)(nil)

func (s *storePort) Write(ctx context.Context, fn func(store.Tx) error) error {
	n := s.n
	if t := n.w.current; t == nil || !t.prompt {
		if err := n.pause("before a transaction"); err != nil {
			return err
		}
	}
	fault := n.fault(PortCommit, "", "")
	if fault.How == Busy {
		n.tell(Entry{Call: &Boundary{Port: PortCommit}, Fault: fault})
		return errBusy
	}
	var appended []events.Envelope
	var b Boundary
	err := s.inner.Write(ctx, func(tx store.Tx) error {
		appended = nil
		err := fn(&recorder{Tx: tx, into: &appended, torn: fault.How == Torn})
		if len(appended) == 0 {
			return err
		}
		b = Boundary{Port: PortCommit, What: n.w.names.commit(appended)}
		if errors.Is(err, errTorn) {
			n.tell(Entry{Call: &b, Fault: fault})
		}
		if err != nil {
			return err
		}
		if fault.How == Full {
			n.tell(Entry{Call: &b, Fault: fault})
			return errFull
		}
		return n.before(b, fault)
	})
	if fault.How == Full && len(appended) > 0 && s.hooks.OnVoid != nil {
		s.hooks.OnVoid() // as behind a COMMIT that fails
	}
	if err != nil && !n.dead {
		n.tell(Entry{Refused: err})
	}
	if err != nil || len(appended) == 0 {
		return err
	}
	n.committed(appended)
	if err := n.behind(b, fault); err != nil {
		return err
	}
	return n.pause("behind " + b.call())
}

func (s *storePort) Read(ctx context.Context, fn func(store.Reader) error) error {
	if s.n.dead {
		return ErrDead
	}
	return s.inner.Read(ctx, fn)
}

// Unwrap is the store that can archive.
func (s *storePort) Unwrap() store.Store { return s.inner }

func (s *storePort) Attach(h store.Hooks) {
	s.hooks = h
	s.inner.Attach(h)
}

func (s *storePort) Exclusive() bool { return s.inner.Exclusive() }

// Close does nothing: the world closes the store, for a dead process cannot.
func (s *storePort) Close() error { return nil }

// recorder remembers what a transaction has appended.
type recorder struct {
	store.Tx
	into *[]events.Envelope
	torn bool // there is room for one event
}

// Unwrap is the transaction that can archive.
func (r *recorder) Unwrap() store.Tx { return r.Tx }

func (r *recorder) Append(id events.StreamID, expected events.Version, m events.Meta, evs ...events.Event) ([]events.Envelope, error) {
	if r.torn && len(*r.into) > 0 {
		return nil, errTorn
	}
	envs, err := r.Tx.Append(id, expected, m, evs...)
	*r.into = append(*r.into, envs...)
	return envs, err
}

// committed takes note of what is on disk.
func (n *node) committed(envs []events.Envelope) {
	for _, env := range envs {
		n.w.names.counts(env)
		n.tell(Entry{Event: &env})
	}
	n.reached(envs[len(envs)-1].Position)
	if t := n.w.current; t != nil && t.delivery != nil {
		t.delivery.committed = true
	}
}

// reached takes note of the newest event. Whoever has seen all before knows of this one, too.
func (n *node) reached(head events.Position) {
	if n.seen == n.w.head {
		n.seen = head
	}
	n.w.head = head
}

// ports are the provider and the sink of a sync as the handlers see them.
func (n *node) ports(s Sync) handlers.Ports {
	to := s.Sink
	if to == nil {
		to = n.w.out.Destination
	}
	return handlers.Ports{Provider: &providerPort{n, s}, Sink: &sinkPort{n, to}}
}

type providerPort struct {
	n *node
	s Sync
}

func (p *providerPort) Sync(ctx context.Context, u provider.Unit, to sink.Sink) (provider.Result, error) {
	n, b := p.n, Boundary{Port: PortProvider, What: p.n.w.names.attempt(u.ID, u.Attempt)}
	fault := n.fault(b.Port, "", b.What)
	if err := n.enter(b, fault); err != nil {
		return provider.Result{}, err
	}
	n.w.out.Called = append(n.w.out.Called, check.Called{Unit: u.ID, Attempt: u.Attempt})
	at := Place{u.Source, u.Dataset, u.Window.Name()}
	n.w.out.tries[at]++
	r, err := p.work(context.WithValue(ctx, tryKey{}, n.w.out.tries[at]), u, to, fault)
	if dead := n.leave(b, fault); dead != nil {
		return provider.Result{}, dead
	}
	return r, err
}

// work is the time that the provider needs, and then what it does. The end of its context interrupts it.
func (p *providerPort) work(ctx context.Context, u provider.Unit, to sink.Sink, fault Fault) (provider.Result, error) {
	takes := p.s.takes(u)
	hears := ctx
	switch fault.How {
	case Hang:
		takes = maxWaited
	case Deaf:
		takes, hears = deafFor, context.WithoutCancel(ctx)
	}
	if err := p.n.sleep(hears, takes, true); err != nil {
		return provider.Result{}, err
	}
	if hears.Err() != nil {
		return provider.Result{}, context.Cause(ctx)
	}
	switch fault.How {
	case Fail:
		return provider.Result{}, provider.Fail(provider.Network, errLine)
	case Limit:
		return provider.Result{}, provider.RateLimited(p.n.engine.Knobs().Lease/2, errLine)
	case Panic:
		panic(errLine)
	}
	own := &providerSink{n: p.n, what: p.n.w.names.attempt(u.ID, u.Attempt), inner: to}
	defer own.close()
	return p.s.Provider.Sync(context.WithValue(ctx, pointKey{}, own), u, own)
}

// sinkPort is a destination as one node sees it.
type sinkPort struct {
	n     *node
	inner sink.Opener
}

func (p *sinkPort) Open(ctx context.Context, s sink.Scope) (sink.Writer, error) {
	if p.n.dead {
		return nil, ErrDead
	}
	w, err := p.inner.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	return &writerPort{Writer: w, n: p.n, scope: s}, nil
}

func (p *sinkPort) Fenced() bool {
	f, ok := p.inner.(sink.Fenced)
	return ok && f.Fenced()
}

func (p *sinkPort) Script(ctx context.Context, script string, args ...any) error {
	scripter, ok := p.inner.(sink.Scripter)
	if !ok {
		return errNoScripts
	}
	return p.effect(script, args, func() error { return scripter.Script(ctx, script, args...) })
}

// ScriptOnce is the effect of a post_sync in exactly_once mode: a script and its row of the ledger commit together.
func (p *sinkPort) ScriptOnce(ctx context.Context, key, script string, args ...any) (first bool, err error) {
	scripter, ok := p.inner.(sink.OnceScripter)
	if !ok {
		return false, errNoScripts
	}
	err = p.effect(script, args, func() error {
		first, err = scripter.ScriptOnce(ctx, key, script, args...)
		return err
	})
	return first, err
}

func (p *sinkPort) effect(script string, args []any, do func() error) error {
	run, err := runOf(args)
	if err != nil {
		return err
	}
	b := Boundary{Port: PortEffect, What: p.n.w.names.runs[run] + " " + script}
	fault := p.n.fault(b.Port, "", b.What)
	if err := p.n.enter(b, fault); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return p.n.leave(b, fault)
}

// writerPort is one attempt at a destination.
type writerPort struct {
	sink.Writer
	n     *node
	scope sink.Scope
}

func (p *writerPort) Put(ctx context.Context, surface, key string, row any) error {
	if p.n.dead {
		return ErrDead
	}
	return p.Writer.Put(ctx, surface, key, row)
}

func (p *writerPort) Commit(ctx context.Context) error {
	b := Boundary{Port: PortSink, What: p.n.w.names.attempt(p.scope.Unit, p.scope.Attempt)}
	fault := p.n.fault(b.Port, "", b.What)
	if err := p.n.enter(b, fault); err != nil {
		return err
	}
	if err := p.Writer.Commit(ctx); err != nil {
		return err
	}
	p.n.w.out.Written = append(p.n.w.out.Written, check.Written{Unit: p.scope.Unit, Attempt: p.scope.Attempt})
	return p.n.leave(b, fault)
}

// Abort of a dead process does not happen; what it has not committed is gone all the same.
func (p *writerPort) Abort() error {
	if p.n.dead {
		return ErrDead
	}
	return p.Writer.Abort()
}
