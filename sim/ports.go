package sim

import (
	"context"

	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/handlers"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/store"
)

// storePort is the store as the engine sees it. A commit that appends is a boundary: a crash before it lies between
// decide and commit, so everything was decided and nothing is kept; one behind it, and nobody has learned of the commit.
type storePort struct {
	n     *node
	inner store.Store
}

var _ store.Store = (*storePort)(nil)

func (s *storePort) Write(ctx context.Context, fn func(store.Tx) error) error {
	if s.n.dead {
		return ErrDead
	}
	var appended []events.Envelope
	var b Boundary
	err := s.inner.Write(ctx, func(tx store.Tx) error {
		appended = nil
		if err := fn(&recorder{Tx: tx, into: &appended}); err != nil || len(appended) == 0 {
			return err
		}
		b = Boundary{Port: PortCommit, What: s.n.w.names.commit(appended)}
		return s.n.before(b)
	})
	if err != nil || len(appended) == 0 {
		return err
	}
	s.n.committed(appended)
	return s.n.after(b)
}

func (s *storePort) Read(ctx context.Context, fn func(store.Reader) error) error {
	if s.n.dead {
		return ErrDead
	}
	return s.inner.Read(ctx, fn)
}

func (s *storePort) Attach(h store.Hooks) { s.inner.Attach(h) }
func (s *storePort) Exclusive() bool      { return s.inner.Exclusive() }

// Close does nothing: the world closes the store, for a dead process cannot.
func (s *storePort) Close() error { return nil }

// recorder remembers what a transaction has appended.
type recorder struct {
	store.Tx
	into *[]events.Envelope
}

func (r *recorder) Append(id events.StreamID, expected events.Version, m events.Meta, evs ...events.Event) ([]events.Envelope, error) {
	envs, err := r.Tx.Append(id, expected, m, evs...)
	*r.into = append(*r.into, envs...)
	return envs, err
}

// committed takes note of what is on disk.
func (n *node) committed(envs []events.Envelope) {
	for _, env := range envs {
		n.head = env.Position
		n.holds(env)
	}
	if len(n.stack) > 0 {
		n.stack[len(n.stack)-1].committed = true
	}
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
	b := Boundary{Port: PortProvider, What: p.n.w.names.attempt(u.ID, u.Attempt)}
	if err := p.n.before(b); err != nil {
		return provider.Result{}, err
	}
	p.n.w.out.Called = append(p.n.w.out.Called, check.Called{Unit: u.ID, Attempt: u.Attempt})
	if err := p.n.work(ctx, takes(p.s, u)); err != nil {
		return provider.Result{}, err
	}
	at := Place{u.Source, u.Dataset, u.Window.Name()}
	p.n.w.out.tries[at]++
	r, err := p.s.Provider.Sync(context.WithValue(ctx, tryKey{}, p.n.w.out.tries[at]), u, to)
	if dead := p.n.after(b); dead != nil {
		return provider.Result{}, dead
	}
	return r, err
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
	run, err := runOf(args)
	if err != nil {
		return err
	}
	b := Boundary{Port: PortEffect, What: p.n.w.names.runs[run] + " " + script}
	if err := p.n.before(b); err != nil {
		return err
	}
	scripter, ok := p.inner.(sink.Scripter)
	if !ok {
		return errNoScripts
	}
	if err := scripter.Script(ctx, script, args...); err != nil {
		return err
	}
	return p.n.after(b)
}

// ScriptOnce is the effect of a post_sync in exactly_once mode: a script and its row of the ledger commit together.
func (p *sinkPort) ScriptOnce(ctx context.Context, key, script string, args ...any) (bool, error) {
	run, err := runOf(args)
	if err != nil {
		return false, err
	}
	b := Boundary{Port: PortEffect, What: p.n.w.names.runs[run] + " " + script}
	if err := p.n.before(b); err != nil {
		return false, err
	}
	scripter, ok := p.inner.(sink.OnceScripter)
	if !ok {
		return false, errNoScripts
	}
	first, err := scripter.ScriptOnce(ctx, key, script, args...)
	if err != nil {
		return false, err
	}
	return first, p.n.after(b)
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
	if err := p.n.before(b); err != nil {
		return err
	}
	if err := p.Writer.Commit(ctx); err != nil {
		return err
	}
	p.n.w.out.Written = append(p.n.w.out.Written, check.Written{Unit: p.scope.Unit, Attempt: p.scope.Attempt})
	return p.n.after(b)
}

// Abort of a dead process does not happen; what it has not committed is gone all the same.
func (p *writerPort) Abort() error {
	if p.n.dead {
		return ErrDead
	}
	return p.Writer.Abort()
}
