package projections

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// LeftOut is an event of the log without which the views were made, because an operator wanted it so (L-7).
type LeftOut struct {
	Position events.Position `json:"seq"`
	Reason   string          `json:"reason"`
}

// What was left out stays on record beside the views until all of them are made anew from the whole log. The table is made when
// there is something to note, and has a name of its own, since applications have tables here too (D-20).
const (
	leftOutSchema = `
CREATE TABLE IF NOT EXISTS _towline_left_out (
  position INTEGER PRIMARY KEY,
  reason   TEXT NOT NULL
) STRICT`
	dropLeftOut   = `DROP TABLE IF EXISTS _towline_left_out`
	insertLeftOut = `INSERT INTO _towline_left_out (position, reason) VALUES ($1, $2) ON CONFLICT (position) DO NOTHING`
	selectLeftOut = `SELECT position, reason FROM _towline_left_out ORDER BY position`
)

// RebuildWithout is Rebuild which leaves out what it cannot read or fold, and lists it. What follows in the stream of such an event
// is folded as if that had never been there. Without such an event it is Rebuild.
func RebuildWithout(tx store.Tx, names ...string) ([]LeftOut, error) {
	g, err := findGaps(tx)
	if err != nil {
		return nil, err
	}
	if err := remake(tx, g, names); err != nil {
		return nil, err
	}
	if err := forget(tx, names); err != nil || len(g.found) == 0 {
		return nil, err
	}
	slices.SortFunc(g.found, func(a, b LeftOut) int { return cmp.Compare(a.Position, b.Position) })
	if err := tx.Exec(leftOutSchema); err != nil {
		return nil, fmt.Errorf("note what was left out: %w", err)
	}
	for _, l := range g.found {
		if err := tx.Exec(insertLeftOut, int64(l.Position), l.Reason); err != nil {
			return nil, fmt.Errorf("note what was left out: %w", err)
		}
	}
	return g.found, nil
}

// forget drops the record of what was left out, when every view has been made of the whole log.
func forget(tx store.Tx, names []string) error {
	kept := func(name string) bool { return !slices.Contains(names, name) }
	if len(names) > 0 && slices.ContainsFunc(Names(), kept) {
		return nil
	}
	return tx.Exec(dropLeftOut)
}

// LeftOut lists the events of the log without which the views were made; none: the views are of the whole log.
func (v View) LeftOut() (out []LeftOut, err error) {
	there, err := exists(v.tx, "table", "_towline_left_out")
	if err != nil || !there {
		return nil, err
	}
	err = v.tx.Query(func(r store.Row) error {
		var position int64
		var l LeftOut
		err := r.Scan(&position, &l.Reason)
		l.Position = events.Position(position)
		out = append(out, l)
		return err
	}, selectLeftOut)
	if err != nil {
		return nil, fmt.Errorf("read what was left out of the views: %w", err)
	}
	return out, nil
}

// gaps are the events that cannot be read, and the streams in which they lie. These are folded from their beginning and kept, for
// they cannot be read again as a whole.
type gaps struct {
	at      map[events.Position]bool
	streams map[events.StreamID]decider.State
	found   []LeftOut // what cannot be read, then what did not fold
}

// findGaps reads the whole log.
func findGaps(tx store.Tx) (*gaps, error) {
	g := &gaps{at: map[events.Position]bool{}, streams: map[events.StreamID]decider.State{}}
	head, _, err := tx.Head()
	for from := events.Position(0); err == nil && from < head; {
		var page []events.Envelope
		page, err = tx.After(from, followPage)
		var bad *events.DecodeError
		switch {
		case errors.As(err, &bad):
			err = nil
			g.note(bad)
			from = bad.Position
		case len(page) == 0 && err == nil:
			err = fmt.Errorf("log ends at %d, its head is %d", from, head)
		case err == nil:
			from = page[len(page)-1].Position
		}
	}
	if err != nil {
		return nil, fmt.Errorf("look through the log: %w", err)
	}
	return g, nil
}

func (g *gaps) note(bad *events.DecodeError) {
	g.at[bad.Position] = true
	g.found = append(g.found, LeftOut{bad.Position, fmt.Sprintf("%s (type %d, schema %d): %v", bad.Type, bad.Type, bad.Schema, bad.Err)})
	if id, err := events.ParseStreamKey(bad.Stream); err == nil { // else it is in the way of no other event
		g.streams[id] = decider.Zero(id)
	}
}

// page is what can be read behind a position, and up to where that was all.
func (g *gaps) page(tx store.Tx, from events.Position) (page []events.Envelope, upTo events.Position, err error) {
	most := 0
	for most < followPage && !g.at[from+events.Position(most)+1] {
		most++
	}
	if most == 0 {
		return nil, from + 1, nil
	}
	page, err = tx.After(from, most)
	if len(page) > 0 {
		upTo = page[len(page)-1].Position
	}
	return page, upTo, err
}

// step folds an event of a stream with a gap; ok is false for any other stream.
func (g *gaps) step(e events.Envelope) (before, after decider.State, ok bool, err error) {
	before, ok = g.streams[e.Stream]
	if !ok {
		return nil, nil, false, nil
	}
	defer func() {
		if v := recover(); v != nil { // a rule never meets such a history
			err = fmt.Errorf("it does not fold: %v", v)
		}
	}()
	after = decider.Evolve(before, e)
	g.streams[e.Stream] = after
	return before, after, true, nil
}

// refused notes an event that a view does not take. A store that cannot write is no reason to leave something out.
func (g *gaps) refused(e events.Envelope, err error) error {
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrRolledBack) {
		return err
	}
	if n := len(g.found); n == 0 || g.found[n-1].Position != e.Position {
		if f, ok := errors.AsType[*FoldError](err); ok {
			err = fmt.Errorf("%s does not take it: %w", f.Projection, f.Err)
		}
		g.found = append(g.found, LeftOut{e.Position, fmt.Sprintf("%s: %v", e.Event.EventType(), err)})
	}
	return nil
}
