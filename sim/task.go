package sim

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// task is one flow of a node's code: a round of the relay, a message in its handler, an attempt of a provider, a request.
// It is a coroutine: it runs only while the world has given it its turn, and gives the turn back before and behind every
// call of a port, and when it has to wait. So one of all tasks runs at a time, and who goes on is the world's choice.
//
// The turn is handed over channels and not by iter.Pull, for the code of production calls foreign code in goroutines of
// their own, which pass on the turn of the task that waits for them.
type task struct {
	n      *node
	name   string
	at     string // where it has given others their turn last
	turn   chan struct{}
	done   bool
	panics any

	delivery *delivery // the message that it handles; nil: none
	prompt   bool      // nothing comes between what it has seen and its transaction

	wake  time.Time       // it sleeps until then; zero: it does not
	ctx   context.Context // whose end wakes it earlier; nil: nothing does
	works bool            // it sleeps because a provider works, so this is no waiting
	ready func() bool     // it waits for this; nil: it does not
	held  time.Time       // nobody lets it go on before, whatever it waits for
}

// start makes a task. It runs when its turn comes.
func (n *node) start(name string, f func()) *task {
	t := &task{n: n, name: name, turn: make(chan struct{})}
	n.tasks = append(n.tasks, t)
	go func() {
		<-t.turn
		defer func() {
			if v := recover(); v != nil {
				t.panics = fmt.Sprintf("%v\n%s", v, debug.Stack())
			}
			t.done = true
			n.w.yielded <- struct{}{}
		}()
		f()
	}()
	return t
}

// run gives a task its turn, and takes it back.
func (w *World) run(t *task) {
	was := w.current
	w.current, w.last = t, t
	t.turn <- struct{}{}
	<-w.yielded
	w.current = was
	if t.panics != nil {
		panic(fmt.Sprintf("sim: %s: %v", t.label(), t.panics))
	}
}

func (t *task) label() string { return fmt.Sprintf("%d/%s", t.n.number, t.name) }

// yield gives the turn back, and returns when it comes again.
func (t *task) yield() {
	t.n.w.yielded <- struct{}{}
	<-t.turn
}

// able reports that the task would not wait if its turn came.
func (t *task) able(now time.Time) bool {
	switch {
	case now.Before(t.held):
		return false
	case t.ready != nil:
		return t.ready()
	case t.ctx != nil && t.ctx.Err() != nil:
		return true
	}
	return !now.Before(t.wake)
}

// sleep lets time pass for the task that runs. The end of ctx, or of its node, wakes it.
func (n *node) sleep(ctx context.Context, d time.Duration, works bool) error {
	t := n.w.current
	t.wake, t.ctx, t.works = n.w.now.Add(d), ctx, works
	t.yield()
	t.wake, t.ctx, t.works = time.Time{}, nil, false
	if n.dead {
		return ErrDead
	}
	return nil
}

// pause gives others their turn, where that is possible: not in the middle of a transaction, and not in a dead node.
func (n *node) pause(at string) error {
	switch {
	case n.dead:
		return ErrDead
	case n.w.current == nil: // somebody asks from outside of the world, and nobody moves meanwhile
		return nil
	}
	n.life.Stops = append(n.life.Stops, Stop{N: len(n.life.Stops) + 1, Task: n.w.current.name, At: at})
	n.w.current.at = at
	n.hold(len(n.life.Stops))
	n.w.current.yield()
	if n.dead {
		return ErrDead
	}
	return nil
}

// Stop is a place at which a task gives others their turn: before a call of a port or behind it.
type Stop struct {
	N    int // from 1, within its incarnation
	Task string
	At   string
}

func (s Stop) String() string { return fmt.Sprintf("%03d %s, %s", s.N, s.Task, s.At) }

// Hold stops something at a place, for so long.
type Hold struct {
	Incarnation int // from 1
	Stop        int // its place
	For         time.Duration
	// Whole holds the process: none of its tasks goes on, and no timer of it fires. Else one task is held, and the process
	// goes on without it.
	Whole bool
}

// hold holds the task that runs, or its node, if its place has come.
func (n *node) hold(stop int) {
	for _, h := range n.w.c.Holds {
		if h.Incarnation != n.life.Incarnation || h.Stop != stop {
			continue
		}
		until := n.w.now.Add(h.For)
		if h.Whole {
			n.frozen = until
		} else {
			n.w.current.held = until
		}
		n.w.held++
	}
}
