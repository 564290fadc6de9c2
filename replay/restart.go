package replay

import (
	"context"
	"slices"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// Restart is a change of the process between two steps, as the log tells it.
type Restart struct {
	From, To Process
	How      Change
	// Last is the newest event of a process before the next one started: the last sign of life of From, or its NodeStopped.
	// Zero where processes share the store, unless From has stopped.
	Last Mark
	// Reason is that of a clean stop.
	Reason string
}

// Process is one incarnation.
type Process struct {
	Node    events.NodeID
	Host    string
	PID     int
	Version string
	Started Mark
}

// Mark is a place in the log and its time.
type Mark struct {
	Position events.Position
	At       events.Micros
}

// Gap is how long nobody was there; 0 where processes share the store.
func (r Restart) Gap() events.Span {
	if r.Last.Position == 0 {
		return 0
	}
	return r.To.Started.At.Sub(r.Last.At)
}

// Change says how one process came after another.
type Change string

const (
	Died    Change = "died"    // the next has the store to itself, and there is no word of farewell (N-3)
	Stopped Change = "stopped" // NodeStopped (N-6)
	Joined  Change = "joined"  // they share the store, and nothing proves that the first is gone
)

// maxRestarts bounds how many processes are told that came and went without a step of the run. Of more, the newest are.
const maxRestarts = 16

// restarts are the changes of process since the step before. Each process that has the store to itself follows the one
// that wrote the event before its start, so the chain is read from its end.
func (w *walk) restarts(env events.Envelope) (out []Restart, err error) {
	if env.Node.IsZero() {
		return nil, nil
	}
	from := w.node
	w.node = env.Node
	if from.IsZero() || from == env.Node || w.seen[env.Node] {
		w.seen[env.Node] = true // processes that share a store take turns
		return nil, nil
	}
	w.seen[env.Node] = true
	err = w.h.past.View(w.ctx, func(v projections.View) error {
		out, err = chain(v, from, env.Node)
		return err
	})
	return out, err
}

// RestartsAfter are the ends of processes behind a step, up to the position of the Past, which no step has told. Behind
// the last step of a run that is open, they say that the process which should have gone on has died.
func (h *History) RestartsAfter(ctx context.Context, s Step) (out []Restart, err error) {
	if s.Event.Node.IsZero() {
		return nil, nil
	}
	err = h.past.View(ctx, func(v projections.View) error {
		last, ok, err := lastBefore(v, h.Position+1)
		if err != nil || !ok || last.Node == s.Event.Node {
			return err
		}
		out, err = chain(v, s.Event.Node, last.Node)
		return err
	})
	return slices.DeleteFunc(out, func(r Restart) bool { return r.How == Joined }), err // of what is not this run's
}

// chain lists the changes of process from one to another, oldest first.
func chain(v projections.View, from, to events.NodeID) (out []Restart, err error) {
	next, err := processOf(v, to)
	if err != nil {
		return nil, err
	}
	for range maxRestarts {
		r := Restart{To: next.Process, How: Joined}
		before := from // where processes share the store, the log does not say who came before whom
		if !next.shared {
			r.How = Died
			last, ok, err := lastBefore(v, next.Started.Position)
			if err != nil {
				return nil, err
			}
			if ok {
				before, r.Last = last.Node, Mark{last.Position, last.At}
			}
		}
		former, err := processOf(v, before)
		if err != nil {
			return nil, err
		}
		r.From = former.Process
		if p := former.stopped.Position; p > 0 && p < next.Started.Position {
			r.How, r.Last, r.Reason = Stopped, former.stopped, former.reason
		}
		out = append(out, r)
		if before == from {
			break
		}
		next = former
	}
	slices.Reverse(out)
	return out, nil
}

// lastBefore is the newest event of a process before a position, and false if a page of the log holds none: events that an
// application has appended by itself are of no process.
func lastBefore(v projections.View, p events.Position) (last events.Envelope, ok bool, err error) {
	const page = 64
	envs, err := v.After(p-1-page, page)
	for _, env := range envs {
		if env.Position < p && !env.Node.IsZero() {
			last, ok = env, true
		}
	}
	return last, ok, err
}

// process is what the log says of an incarnation.
type process struct {
	Process
	shared  bool
	stopped Mark
	reason  string
}

func processOf(v projections.View, id events.NodeID) (process, error) {
	p := process{Process: Process{Node: id}}
	history, err := v.Stream(events.NodeStream(id))
	for _, env := range history {
		switch e := env.Event.(type) {
		case events.NodeStarted:
			p.Host, p.PID, p.Version, p.Started = e.Host, e.PID, e.Version, Mark{env.Position, env.At}
			p.shared = e.StoreMode == events.StoreShared
		case events.NodeStopped:
			p.stopped, p.reason = Mark{env.Position, env.At}, e.Reason
		}
	}
	return p, err
}
