package projections

import (
	"fmt"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// follower is a projection and how far it has read.
type follower struct {
	p        Projection
	position events.Position
}

// followPage bounds how many events are held at once.
const followPage = 1000

// catchUp applies the log from the position of the furthest behind to the head. With gaps it leaves out what cannot be read or
// folded; nil: such an event ends it.
func catchUp(tx store.Tx, fs []*follower, g *gaps) error {
	head, _, err := tx.Head()
	if err != nil {
		return err
	}
	from := head
	for _, f := range fs {
		from = min(from, f.position)
	}
	folds := newFolder(tx.Stream)
	for from < head {
		page, upTo, err := readPage(tx, from, g)
		if err != nil {
			return fmt.Errorf("read the log behind %d: %w", from, err)
		}
		if upTo <= from {
			return fmt.Errorf("log ends at %d, its head is %d", from, head)
		}
		for _, e := range page {
			if err := apply(tx, fs, folds, g, e); err != nil {
				return err
			}
		}
		from = upTo
	}
	return Checkpoint(tx, head)
}

func readPage(tx store.Tx, from events.Position, g *gaps) (page []events.Envelope, upTo events.Position, err error) {
	if g != nil {
		return g.page(tx, from)
	}
	page, err = tx.After(from, followPage)
	if len(page) > 0 {
		upTo = page[len(page)-1].Position
	}
	return page, upTo, err
}

func apply(tx store.Tx, fs []*follower, folds *folder, g *gaps, e events.Envelope) error {
	before, after, err := foldOne(folds, g, e)
	if err != nil {
		if g != nil {
			return g.refused(e, err)
		}
		return err
	}
	for _, f := range fs {
		if e.Position <= f.position {
			continue
		}
		if err := f.p.Apply(tx, e, before, after); err != nil {
			refused := &FoldError{e.Position, f.p.Name(), err}
			if g == nil {
				return refused
			}
			if err := g.refused(e, refused); err != nil {
				return err
			}
		}
	}
	return nil
}

func foldOne(folds *folder, g *gaps, e events.Envelope) (before, after decider.State, err error) {
	if g != nil {
		if before, after, ok, err := g.step(e); ok {
			return before, after, err
		}
	}
	return folds.step(e)
}

// FoldError is an event that a view does not take: its constraints state the invariants again.
type FoldError struct {
	Position   events.Position
	Projection string
	Err        error
}

func (e *FoldError) Error() string {
	return fmt.Sprintf("apply position %d to %s: %v", e.Position, e.Projection, e.Err)
}

// Unwrap is what the store said.
func (e *FoldError) Unwrap() error { return e.Err }

// folder folds many streams at once. What has ended is forgotten, and what was not used for long is too; both are read
// again if they are asked for, so memory does not grow with the log.
type folder struct {
	stream func(events.StreamID) ([]events.Envelope, error)
	states *simplelru.LRU[events.StreamID, decider.State]
}

const foldedStreams = 65_536

func newFolder(stream func(events.StreamID) ([]events.Envelope, error)) *folder {
	states, err := simplelru.NewLRU[events.StreamID, decider.State](foldedStreams, nil)
	if err != nil {
		panic(fmt.Sprintf("projections: fold cache: %v", err)) // only a size below 1 is refused
	}
	return &folder{stream: stream, states: states}
}

func (f *folder) step(e events.Envelope) (before, after decider.State, err error) {
	before, known := f.states.Get(e.Stream)
	zero := decider.Zero(e.Stream)
	switch {
	case known:
	case e.Version == 1, decider.IsPartial(zero):
		before = zero
	default:
		if before, err = f.load(e.Stream, e.Version-1); err != nil {
			return nil, nil, err
		}
	}
	after = decider.Evolve(before, e)
	if Ended(after) {
		f.states.Remove(e.Stream)
	} else {
		f.states.Add(e.Stream, after)
	}
	return before, after, nil
}

func (f *folder) load(id events.StreamID, upTo events.Version) (decider.State, error) {
	history, err := f.stream(id)
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", id, err)
	}
	if len(history) < int(upTo) {
		return nil, fmt.Errorf("stream %s has %d events, want %d", id, len(history), upTo)
	}
	return decider.Fold(id, history[:upTo]), nil
}

// Ended reports a state that is not expected to change again.
func Ended(s decider.State) bool {
	switch s := s.(type) {
	case decider.Run:
		return s.Exists() && !s.Open()
	case decider.Unit:
		return s.Exists() && !s.Open()
	case decider.Register: // that of a run is armed again and again while its run is open
		return s.Kind == events.KindMessage && s.Status == decider.RegisterIdle
	case decider.Control:
		return false
	case decider.Job:
		return s.ClosedAt != 0
	case decider.Node:
		return s.StoppedAt != 0
	case decider.Schedule:
		return false
	}
	return true
}
