package projections

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// Scratch folds a log into a store of its own, for comparison with the live tables. It is the same Apply on other
// tables: what it finds is a view that has drifted from the log.
type Scratch struct {
	store store.Store
	folds *folder
}

// NewScratch makes the tables in an empty store. stream reads a stream of the log that is folded.
func NewScratch(ctx context.Context, s store.Store, stream func(events.StreamID) ([]events.Envelope, error)) (*Scratch, error) {
	err := s.Write(ctx, func(tx store.Tx) error { return Rebuild(tx) })
	if err != nil {
		return nil, fmt.Errorf("make scratch tables: %w", err)
	}
	return &Scratch{store: s, folds: newFolder(stream)}, nil
}

// Apply folds one page of the log, in order.
func (s *Scratch) Apply(ctx context.Context, page []events.Envelope) error {
	steps := make([]step, 0, len(page)) // folded before the write, which may run twice
	for _, env := range page {
		before, after, err := s.folds.step(env)
		if err != nil {
			return err
		}
		steps = append(steps, step{env, before, after})
	}
	return s.store.Write(ctx, func(tx store.Tx) error {
		for _, st := range steps {
			for _, p := range All() {
				if err := p.Apply(tx, st.env, st.before, st.after); err != nil {
					return fmt.Errorf("apply position %d to %s: %w", st.env.Position, p.Name(), err)
				}
			}
		}
		return nil
	})
}

// step is one folded event.
type step struct {
	env           events.Envelope
	before, after decider.State
}

// Rows is the content of all tables as one hash per row, in the order of their keys: small enough to hold two of them.
type Rows map[string][]uint64

// HashRows reads every table.
func HashRows(tx store.ReadTx) (Rows, error) {
	out := Rows{}
	for _, p := range All() {
		for _, t := range p.Tables() {
			row, err := rowText(tx, t)
			if err != nil {
				return nil, err
			}
			var hashes []uint64
			err = tx.Query(func(r store.Row) error {
				var s string
				if err := r.Scan(&s); err != nil {
					return err
				}
				h := fnv.New64a()
				h.Write([]byte(s))
				hashes = append(hashes, h.Sum64())
				return nil
			}, `SELECT `+row+` FROM "`+t.Name+`" ORDER BY `+t.Key)
			if err != nil {
				return nil, fmt.Errorf("read table %s: %w", t.Name, err)
			}
			out[t.Name] = hashes
		}
	}
	return out, nil
}

// Compare names the first row of each table in which two contents differ.
func (r Rows) Compare(other Rows) []Difference {
	var out []Difference
	for _, p := range All() {
		for _, t := range p.Tables() {
			a, b := r[t.Name], other[t.Name]
			i := 0
			for i < len(a) && i < len(b) && a[i] == b[i] {
				i++
			}
			if i < len(a) || i < len(b) {
				out = append(out, Difference{Table: t, Row: i, Rows: len(a), Want: len(b)})
			}
		}
	}
	return out
}

// Difference is the first row in which a table differs from the fold of the log.
type Difference struct {
	Table      Table
	Row        int // place in the order of the key, from 0
	Rows, Want int // how many rows there are, and how many the log says
}

// RowAt is a row as text, for a message about it; empty: there is none.
func (d Difference) RowAt(tx store.ReadTx) (string, error) {
	row, err := rowText(tx, d.Table)
	if err != nil {
		return "", err
	}
	s := ""
	err = tx.Query(func(r store.Row) error { return r.Scan(&s) },
		`SELECT `+row+` FROM "`+d.Table.Name+`" ORDER BY `+d.Table.Key+` LIMIT 1 OFFSET $1`, d.Row)
	return s, err
}

// rowText is SQL for a whole row as one text.
func rowText(tx store.ReadTx, t Table) (string, error) {
	var columns []string
	err := tx.Query(func(r store.Row) error {
		var name string
		if err := r.Scan(&name); err != nil {
			return err
		}
		columns = append(columns, `'`+name+`=' || quote("`+name+`")`)
		return nil
	}, `SELECT name FROM pragma_table_info($1) ORDER BY cid`, t.Name)
	switch {
	case err != nil:
		return "", fmt.Errorf("columns of table %s: %w", t.Name, err)
	case len(columns) == 0:
		return "", fmt.Errorf("there is no table %s", t.Name)
	}
	return strings.Join(columns, ` || ' ' || `), nil
}
