package sim

import (
	"slices"
	"time"

	"github.com/towline-dev/towline/handlers"
)

// The Runtime of the handlers of a node.
var _ handlers.Runtime = (*node)(nil)

// Now is the monotonic clock: no step of the wall clock moves it.
func (n *node) Now() time.Time { return n.w.now }

// Go runs f as a task of its own, beside the one that runs. That of a dead node is unwound with the others.
func (n *node) Go(f func()) { n.start(n.w.current.name+", its provider", f) }

// Wait gives the turn back until ready is true.
func (n *node) Wait(ready func() bool) {
	t := n.w.current
	for !ready() {
		t.ready = ready
		t.yield()
		t.ready = nil
	}
}

// timer is a timer of the local clock of a node. It dies with it.
type timer struct {
	n    *node
	at   time.Time
	f    func()
	set  bool
	turn int // of timers of one time, the one that was set first fires first
}

// AfterFunc makes a timer.
func (n *node) AfterFunc(d time.Duration, f func()) handlers.Timer {
	t := &timer{n: n, f: f}
	t.Reset(d)
	return t
}

func (t *timer) Stop() bool {
	was := t.set
	t.set = false
	t.n.timers = slices.DeleteFunc(t.n.timers, func(x *timer) bool { return x == t })
	return was
}

func (t *timer) Reset(d time.Duration) bool {
	was := t.Stop()
	t.n.timersSet++
	t.at, t.set, t.turn = t.n.w.now.Add(d), true, t.n.timersSet
	t.n.timers = append(t.n.timers, t)
	return was
}

// fire lets the timers of a node fire whose time has come.
func (n *node) fire() {
	for {
		var next *timer
		for _, t := range n.timers {
			if !t.at.After(n.w.now) && (next == nil || t.at.Before(next.at) || t.at.Equal(next.at) && t.turn < next.turn) {
				next = t
			}
		}
		if next == nil {
			return
		}
		next.Stop()
		next.f()
	}
}
