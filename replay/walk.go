package replay

import (
	"context"
	"fmt"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// walk is where a reader of a history stands.
type walk struct {
	h     *History
	ctx   context.Context
	names map[events.StreamID]Subject // of units
	node  events.NodeID               // of the step before
	seen  map[events.NodeID]bool      // nodes of all steps before

	tx     events.Position // the transaction that is being read
	known  map[events.Position]link
	opener Link
}

// link is an event of the transaction and what it reacted to.
type link struct {
	Link
	cause events.Position
}

func (w *walk) step(e projections.Traced) (s Step, err error) {
	env := e.Event
	s = Step{Event: env, Subject: w.subject(env), Since: env.At.Sub(w.h.PlannedAt), Changes: e.Changes}
	if env.Tx != w.tx {
		if err := w.enter(env); err != nil {
			return s, err
		}
	}
	s.Opener = w.opener
	w.known[env.Position] = link{Link{env.Position, s.Subject, env.Event.EventType()}, env.Cause}
	if s.Because, err = w.because(env.Cause); err != nil {
		return s, err
	}
	s.Restarts, err = w.restarts(env)
	return s, err
}

// subject names what an event happened to. A unit is named when it is planned, which is the first that happens to it.
func (w *walk) subject(env events.Envelope) Subject {
	id := env.Stream
	if e, ok := env.Event.(events.UnitPlanned); ok && e.Run == w.h.Run {
		w.names[id] = Subject{Stream: id, Ordinal: e.Ordinal, Name: fmt.Sprintf("unit %d %s/%s", e.Ordinal, e.Source, e.Dataset)}
	}
	if s, ok := w.names[id]; ok {
		return s
	}
	name := id.String()
	owner, kind, register := id.Register()
	switch {
	case id == events.RunStream(w.h.Run):
		name = "run"
	case id == events.JobStream(w.h.Job):
		name = "job"
	case register && events.RunID(owner) == w.h.Run:
		name = string(kind)
	}
	return Subject{Stream: id, Name: name}
}

// enter begins a transaction.
func (w *walk) enter(env events.Envelope) error {
	w.tx, w.known, w.opener = env.Tx, map[events.Position]link{}, Link{}
	if env.Position == env.Tx {
		return nil
	}
	first, err := w.look(env.Tx)
	if err == nil {
		w.opener = first.Link
	}
	return err
}

// because follows the causes of an event through its transaction, to one that a caller asked for.
func (w *walk) because(cause events.Position) (out []Link, err error) {
	for cause != 0 {
		l, ok := w.known[cause]
		if !ok {
			if l, err = w.look(cause); err != nil {
				return nil, err
			}
			w.known[cause] = l
		}
		out, cause = append(out, l.Link), l.cause
	}
	return out, nil
}

// look reads an event that is not of the run.
func (w *walk) look(p events.Position) (l link, err error) {
	err = w.h.past.View(w.ctx, func(v projections.View) error {
		page, err := v.After(p-1, 1)
		if err == nil && len(page) == 1 {
			l = link{Link{p, w.subject(page[0]), page[0].Event.EventType()}, page[0].Cause}
		}
		return err
	})
	return l, err
}
