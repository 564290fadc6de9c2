package towline

import (
	"slices"
	"sync/atomic"

	"github.com/towline-dev/towline/events"
)

// tally counts what deserves a number but no event: what was refused or came twice, and changed nothing.
type tally struct {
	refusedMarks    atomic.Int64
	lateOutcomes    atomic.Int64
	absorbed        [len(events.Kinds)]atomic.Int64
	badMessages     atomic.Int64
	unexpectedPosts atomic.Int64
	unknownMessages atomic.Int64
}

// Tally is a snapshot of the counters since the start of this incarnation.
type Tally struct {
	RefusedMarks    int64 // marks and releases whose claim was lost: published, and published again by another (O-9)
	LateOutcomes    int64 // a second word on the publish of a mark_first wakeup (O-12)
	Absorbed        int64 // messages that found their work done or taken, of all kinds (Engine.AbsorbedOf)
	BadMessages     int64 // messages that could not be read
	UnexpectedPosts int64 // post_sync messages of a run that has not ended, or was never marked (HP-1)
	UnknownMessages int64 // application messages that nobody has submitted, or no relay has taken (M-9)
}

// Tally reads the counters.
func (e *Engine) Tally() Tally {
	t := Tally{
		RefusedMarks: e.tally.refusedMarks.Load(), LateOutcomes: e.tally.lateOutcomes.Load(),
		BadMessages: e.tally.badMessages.Load(), UnexpectedPosts: e.tally.unexpectedPosts.Load(),
		UnknownMessages: e.tally.unknownMessages.Load(),
	}
	for _, k := range events.Kinds {
		t.Absorbed += e.AbsorbedOf(k)
	}
	return t
}

// Absorb counts a message of a kind that found its work done or taken: it came twice, or late, and changed nothing.
func (e *Engine) Absorb(k events.Kind) { e.tally.absorbed[slices.Index(events.Kinds[:], k)].Add(1) }

// AbsorbedOf is how many messages of a kind were absorbed since the start of this incarnation.
func (e *Engine) AbsorbedOf(k events.Kind) int64 {
	return e.tally.absorbed[slices.Index(events.Kinds[:], k)].Load()
}

// Count adds what a shell of the engine has seen. What it has absorbed is said to Absorb, with its kind.
func (e *Engine) Count(x Tally) {
	e.tally.refusedMarks.Add(x.RefusedMarks)
	e.tally.lateOutcomes.Add(x.LateOutcomes)
	e.tally.badMessages.Add(x.BadMessages)
	e.tally.unexpectedPosts.Add(x.UnexpectedPosts)
	e.tally.unknownMessages.Add(x.UnknownMessages)
}
