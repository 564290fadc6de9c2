package httpapi

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// pasts keeps a few states of the past, so that the pages of a list, or the steps of a slider, do not fold the log anew.
// Each lies in a scratch store beside the store until nobody has asked for a while.
type pasts struct {
	open func(context.Context, events.Position) (*towline.Past, error)

	mu     sync.Mutex
	kept   []*past // the one that was used last is the last
	closed bool
}

type past struct {
	at    events.Position
	users int
	gone  bool // it is not in the list any more: the last user closes it
	timer *time.Timer

	once sync.Once
	past *towline.Past
	err  error
}

const (
	maxPasts = 4
	pastIdle = time.Minute
)

// view runs fn on the state behind an event.
func (p *pasts) view(ctx context.Context, at events.Position, fn func(projections.View) error) error {
	e, err := p.take(at)
	if err != nil {
		return err
	}
	defer p.give(e)
	e.once.Do(func() { e.past, e.err = p.open(context.WithoutCancel(ctx), at) })
	if e.err != nil {
		p.drop(e)
		return e.err
	}
	return e.past.View(ctx, fn)
}

func (p *pasts) take(at events.Position) (*past, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, store.ErrClosed
	}
	i := slices.IndexFunc(p.kept, func(e *past) bool { return e.at == at })
	if i < 0 {
		if len(p.kept) == maxPasts {
			p.forget(p.kept[0])
		}
		p.kept = append(p.kept, &past{at: at})
		i = len(p.kept) - 1
	}
	e := p.kept[i]
	p.kept = append(slices.Delete(p.kept, i, i+1), e)
	e.users++
	if e.timer != nil {
		e.timer.Stop()
	}
	return e, nil
}

func (p *pasts) give(e *past) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.users--
	if e.users > 0 {
		return
	}
	if e.gone {
		_ = e.close()
		return
	}
	e.timer = time.AfterFunc(pastIdle, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if e.users == 0 && !e.gone {
			p.forget(e)
		}
	})
}

// drop forgets one that could not be made.
func (p *pasts) drop(e *past) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !e.gone {
		p.forget(e)
	}
}

// forget takes one off the list. It is closed by whoever uses it last.
func (p *pasts) forget(e *past) {
	p.kept = slices.DeleteFunc(p.kept, func(x *past) bool { return x == e })
	e.gone = true
	if e.users == 0 {
		_ = e.close()
	}
}

func (e *past) close() error {
	if e.timer != nil {
		e.timer.Stop()
	}
	if e.past == nil {
		return nil
	}
	return e.past.Close()
}

// close frees them all. Later questions get store.ErrClosed.
func (p *pasts) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, e := range slices.Clone(p.kept) {
		p.kept, e.gone = nil, true
		if e.users == 0 {
			errs = append(errs, e.close())
		}
	}
	return errors.Join(errs...)
}
