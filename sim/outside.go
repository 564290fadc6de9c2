package sim

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sink"
)

// Outside is what no crash of a node takes away: the destination, and what broker, provider and destination have seen,
// for the invariants that the log alone cannot show.
type Outside struct {
	Destination *Destination
	Broker      *Broker // its queue; empty where each node has a bus in its memory
	Published   []check.Published
	Called      []check.Called
	Written     []check.Written
	tries       map[Place]int // calls of a provider for what a fence protects, by any run
}

func newOutside() *Outside {
	return &Outside{Destination: NewDestination(), Broker: &Broker{}, tries: map[Place]int{}}
}

func (o *Outside) clone() *Outside {
	return &Outside{
		Destination: o.Destination.clone(), Broker: o.Broker.clone(), Published: slices.Clone(o.Published), Called: slices.Clone(o.Called),
		Written: slices.Clone(o.Written), tries: maps.Clone(o.tries),
	}
}

// Destination is a fenced sink in memory. A commit replaces what was there of the same source, dataset and window.
type Destination struct {
	places  map[Place]content
	effects []Effect
	once    map[string]bool // keys of effects that are to happen once
}

// Place is what a fence protects.
type Place struct{ Source, Dataset, Window string }

type content struct {
	fence events.Fence
	rows  []Row
	state json.RawMessage
}

// Row is one row of a surface.
type Row struct{ Surface, Key, JSON string }

// Effect is one run of a post_sync script.
type Effect struct {
	Run    events.RunID
	Script string
}

// NewDestination is an empty one.
func NewDestination() *Destination {
	return &Destination{places: map[Place]content{}, once: map[string]bool{}}
}

func (d *Destination) clone() *Destination {
	return &Destination{places: maps.Clone(d.places), effects: slices.Clone(d.effects), once: maps.Clone(d.once)}
}

// Rows are those of a place, by surface and key.
func (d *Destination) Rows(p Place) []Row { return d.places[p].rows }

// Places lists what was written, in order.
func (d *Destination) Places() []Place {
	return slices.SortedFunc(maps.Keys(d.places), func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.Window, b.Window))
	})
}

// Effects are the scripts that ran, in their order.
func (d *Destination) Effects() []Effect { return slices.Clone(d.effects) }

// Fenced says that an older attempt is refused in the transaction of its write.
func (*Destination) Fenced() bool { return true }

var errNoScripts = errors.New("sim: the sink runs no scripts")

// Script takes note of an effect. The script is any text.
func (d *Destination) Script(_ context.Context, script string, args ...any) error {
	run, err := runOf(args)
	if err != nil {
		return err
	}
	d.effects = append(d.effects, Effect{run, script})
	return nil
}

// ScriptOnce takes note of an effect whose key is new.
func (d *Destination) ScriptOnce(ctx context.Context, key, script string, args ...any) (first bool, err error) {
	if d.once[key] {
		return false, nil
	}
	if err := d.Script(ctx, script, args...); err != nil {
		return false, err
	}
	d.once[key] = true
	return true, nil
}

// runOf finds the run among the arguments of a post_sync script.
func runOf(args []any) (events.RunID, error) {
	for _, a := range args {
		if named, ok := a.(sql.NamedArg); ok && named.Name == "run" {
			return events.ParseRunID(fmt.Sprint(named.Value))
		}
	}
	return events.RunID{}, errors.New("sim: the script has no argument run")
}

// Open begins an attempt.
func (d *Destination) Open(_ context.Context, s sink.Scope) (sink.Writer, error) {
	w := &writer{d: d, scope: s, place: Place{s.Source, s.Dataset, s.Window.Name()}, rows: map[[2]string]Row{}}
	return w, w.fenced()
}

type writer struct {
	d         *Destination
	scope     sink.Scope
	place     Place
	rows      map[[2]string]Row
	puts      int
	state     json.RawMessage
	committed bool
}

func (w *writer) fenced() error {
	if w.scope.Fence < w.d.places[w.place].fence {
		return sink.ErrFenced
	}
	return nil
}

func (w *writer) Put(_ context.Context, surface, key string, row any) error {
	if err := w.scope.Declares(surface); err != nil {
		return err
	}
	b, err := json.Marshal(row)
	if err != nil {
		return fmt.Errorf("row %q of surface %q: %w", key, surface, err)
	}
	w.puts++
	w.rows[[2]string{surface, key}] = Row{surface, key, string(bytes.TrimSpace(b))}
	return nil
}

func (w *writer) Commit(context.Context) error {
	if err := w.fenced(); err != nil {
		return err
	}
	rows := slices.SortedFunc(maps.Values(w.rows), func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Surface, b.Surface), cmp.Compare(a.Key, b.Key))
	})
	w.d.places[w.place] = content{w.scope.Fence, rows, w.state}
	w.committed = true
	return nil
}

func (w *writer) Progress(int64, int64)   {}
func (w *writer) State(s json.RawMessage) { w.state = s }
func (w *writer) Abort() error            { return nil }
func (w *writer) Rows() int               { return w.puts }
func (w *writer) Left() json.RawMessage   { return w.state }
func (w *writer) Committed() bool         { return w.committed }

type tryKey struct{}

// Try is how often a provider was called for a source, dataset and window so far, by whatever run, this time included.
// ctx is that of the call.
func Try(ctx context.Context) int {
	n, _ := ctx.Value(tryKey{}).(int)
	return n
}
