// Package sink is the write side of a provider. What a provider puts is committed together with a fence, so that a late
// attempt cannot overwrite a newer one, and state moves only with the data (HU-5).
package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/towline-dev/towline/events"
)

// Sink is what a provider sees. Nothing of it is visible at the destination until the provider has returned nil and
// the attempt was committed.
type Sink interface {
	// Put adds a row under a key that is unique within the unit's source and surface, over all windows: a key is one row
	// for good. A reading of each day under the key "08:00" is one reading in the end, that of the day which committed
	// last; "2026-03-01 08:00" is a key of its own, as u.Window.Name()+" 08:00" makes it where a window is a day. Twice in
	// one unit, the later row counts. row is a struct or map that encodes as a JSON object. Errors: ErrUndeclared;
	// ErrFenced; ErrForeign; a fault of the destination.
	Put(ctx context.Context, surface, key string, row any) error
	// Progress says how far the unit is, for people. total 0: not known. It is cheap and may be called often.
	Progress(done, total int64)
	// State is left for the next unit of the same source and dataset; it moves only with the data.
	State(json.RawMessage)
}

// Scope is what a fence protects, and who writes. The key of the fence row is (Source, Dataset, Window.Name()).
type Scope struct {
	Source, Dataset string
	Window          events.Window
	Run             events.RunID
	Unit            events.UnitID
	Attempt         int
	Fence           events.Fence
	// Store is the identity of the Towline store that the fence belongs to: the fences of two stores cannot be
	// compared. Empty: not known.
	Store    string
	Surfaces []string // Put refuses any other (RW-6)
}

// Declares returns an error that wraps ErrUndeclared if the unit may not write to a surface (RW-6).
func (s Scope) Declares(surface string) error {
	if slices.Contains(s.Surfaces, surface) {
		return nil
	}
	return fmt.Errorf("surface %q: %w; declared are %q", surface, ErrUndeclared, s.Surfaces)
}

// Opener is a destination.
type Opener interface {
	// Open begins one attempt at one scope. Errors: ErrFenced if a newer attempt has written already; ErrForeign if
	// another store has.
	Open(ctx context.Context, s Scope) (Writer, error)
}

// Writer is one attempt at one scope. The handler holds it, never the provider.
type Writer interface {
	Sink
	// Commit makes rows, state and fence visible in one transaction of the destination. Errors: ErrFenced; ErrForeign.
	Commit(ctx context.Context) error
	// Abort leaves nothing of this attempt. It may follow a Commit, and then does nothing.
	Abort() error
	// Rows is how many rows were put so far.
	Rows() int
	// Left is what State was given last; nil: nothing.
	Left() json.RawMessage
	// Committed reports that the destination has taken the attempt.
	Committed() bool
}

// Fenced is implemented by an Opener that refuses older attempts in the transaction of the write. Only units behind
// such a sink are handed back at a shutdown (U-16).
type Fenced interface {
	Fenced() bool
}

var (
	// ErrFenced: an attempt with a higher fence has written this scope. Stop; nothing of this attempt is kept.
	ErrFenced = errors.New("fenced: a newer attempt has written")
	// ErrForeign: an attempt of another Towline store has written this scope, so that nobody can say which of the two is
	// newer. Stop; nothing of this attempt is kept, and trying again does not help: either go on with the store that the
	// data came from, or open the destination so that this store takes over.
	ErrForeign = errors.New("foreign: another Towline store has written")
	// ErrUndeclared: the unit does not declare the surface (RW-6).
	ErrUndeclared = errors.New("undeclared surface")
)

// Discard is a destination for units that write nowhere, or whose provider writes by itself. It keeps nothing and
// refuses nothing.
var Discard Opener = discard{}

// Guarded is the destination of a sync whose provider writes by itself, in transactions that begin with Guard. It keeps
// nothing, as Discard, and says that older attempts are refused, since Guard does that: a unit that a stop ends is handed
// back, and not left to fail as worker_lost. Nobody sees here whether the provider's transaction has committed, so a unit
// that a stop ends behind its commit is called again, also without a Retry. Use it only where a transaction replaces what
// an earlier attempt has written, else Discard.
var Guarded Opener = guarded{}
