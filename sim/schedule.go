package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/towline-dev/towline/events"
)

// move is something that could happen now.
type move struct {
	name string
	do   func()
}

// moves are all that could happen now, in an order that is the same in every world in which the same has happened: first
// the task that moved last, then the others, then what could begin. Who looks at the log and is ready to act goes alone.
func (w *World) moves(ctx context.Context) []move {
	for _, n := range w.nodes {
		if n.serves() && !n.frozenNow() && !w.acting && n.operatorReady(ctx) {
			return []move{{n.named("act"), func() { n.act(ctx) }}}
		}
	}
	var out []move
	for _, n := range w.nodes {
		if n.frozenNow() {
			continue
		}
		for _, t := range n.tasks {
			if !t.able(w.now) {
				continue
			}
			m := move{t.label(), func() { w.run(t) }}
			if t == w.last {
				out = slices.Insert(out, 0, m)
			} else {
				out = append(out, m)
			}
		}
	}
	for _, n := range w.nodes {
		if !n.frozenNow() {
			out = append(out, n.beginnings(ctx)...)
		}
	}
	return out
}

// Step lets one thing happen, of those that could; false: nothing can before the clock moves.
func (w *World) Step(ctx context.Context) bool {
	moves := w.moves(ctx)
	if len(moves) == 0 {
		return false
	}
	w.make(moves[w.choose(moves)])
	return true
}

// make makes a move, and clears up behind it.
func (w *World) make(m move) {
	m.do()
	for _, n := range w.nodes {
		n.tasks = slices.DeleteFunc(n.tasks, func(t *task) bool { return t.done })
		if n.dead {
			n.unwind()
		}
	}
}

func (w *World) choose(moves []move) int {
	if w.c.Choose == nil {
		return w.chance.IntN(len(moves))
	}
	names := make([]string, len(moves))
	for i, m := range moves {
		names[i] = m.name
	}
	return w.c.Choose(names) % len(moves)
}

// unwind brings the tasks of a dead node to their ends. Every port answers ErrDead, so nothing of it has an effect; a killed
// process would not even have run so far.
func (n *node) unwind() {
	if n.handlers != nil {
		n.handlers.Stop() // nobody waits for what will not come
	}
	for len(n.tasks) > 0 {
		var next *task
		for _, t := range n.tasks {
			if t.ready == nil || t.ready() {
				next = t
				break
			}
		}
		switch {
		case next != nil:
			n.w.run(next)
		case len(n.timers) > 0:
			n.timers[0].at = n.w.now
			n.fire()
		default:
			panic(fmt.Sprintf("sim: %s does not end, although its node is dead", n.tasks[0].label()))
		}
		n.tasks = slices.DeleteFunc(n.tasks, func(t *task) bool { return t.done })
	}
	n.timers = nil
	n.w.out.Broker.giveBack(n)
}

// advance moves the clock, at most by d, to the next time at which somebody has something to do, and says how far.
func (w *World) advance(d time.Duration) time.Duration {
	next := w.now.Add(d)
	earlier := func(t time.Time) {
		if t.Before(next) && t.After(w.now) {
			next = t
		}
	}
	working := false
	for _, n := range w.nodes {
		if n.frozenNow() {
			earlier(n.frozen)
			continue
		}
		for _, t := range n.tasks {
			if w.now.Before(t.held) {
				earlier(t.held)
			} else if t.ready == nil {
				earlier(t.wake)
				working = working || t.works
			}
		}
		for _, t := range n.timers {
			earlier(t.at)
		}
		for _, at := range n.alarms() {
			earlier(at)
		}
	}
	for _, at := range w.out.Broker.times() {
		earlier(at)
	}
	d = max(next.Sub(w.now), time.Microsecond)
	w.now = w.now.Add(d)
	for _, n := range w.nodes {
		if !n.frozenNow() {
			n.fire()
		}
		if !working {
			n.life.Waited += d
		}
	}
	return d
}

// The bounds of a world that makes no progress.
const (
	maxTurns  = 300_000
	maxStill  = 20_000 // turns in which nothing is appended; the worlds of the tests have none of a thousand
	maxWaited = 48 * time.Hour
)

// until moves the world until done says so, which it asks whenever nobody can do anything. A dead node ends it, too.
func (w *World) until(ctx context.Context, done func(context.Context) (bool, error)) error {
	var waited time.Duration
	head, still := w.head, 0
	for range maxTurns {
		moved := w.Step(ctx)
		if still++; w.head != head {
			head, still = w.head, 0
		}
		switch {
		case len(w.broken) > 0:
			return w.errors()
		case w.anyGone():
			return ErrDead
		case still > maxStill:
			return w.stranded(ctx, "nothing has ended, and nothing was appended in %d turns", maxStill)
		case moved:
			continue
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		w.look(ctx)
		if w.idle() {
			ended, err := done(ctx)
			if err != nil || ended {
				return err
			}
		}
		if waited > maxWaited {
			return w.stranded(ctx, "nothing has ended in %s of waiting", maxWaited)
		}
		waited += w.advance(maxWaited)
	}
	return w.stranded(ctx, "nothing has ended in %d turns", maxTurns)
}

// idle: no task is under way, so nothing happens before somebody begins something.
func (w *World) idle() bool {
	for _, n := range w.nodes {
		if len(n.tasks) > 0 || n.frozenNow() {
			return false
		}
	}
	return true
}

// anyGone: a node has died or stopped.
func (w *World) anyGone() bool {
	return slices.ContainsFunc(w.nodes, func(n *node) bool { return n.dead || n.stopped })
}

// timeOf is a moment of engine time on the clock of the world.
func (n *node) timeOf(at events.Micros) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return n.w.now.Add(at.Sub(n.engine.Now()).Std())
}
