// Package replay steps through what happened to a run: each event, the rows of the views that it changed, what it
// followed from, and where a process died between two of them.
//
// It reads a towline.Past, so it ends where that stands, writes nothing and fires nothing. A copy of a store needs no
// engine: open it with store/sqlite, and make the Past with projections.NewPast.
package replay

import (
	"context"
	"fmt"
	"iter"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// History is what happened to one run until its Past: the events of its job, of itself, of its registers and of its
// units, and nothing else (AS-6).
type History struct {
	Run       events.RunID
	Job       events.JobID
	Sync      string
	Mode      events.Mode
	Units     int             // planned
	PlannedAt events.Micros   // from which all times are counted
	Planner   Process         // that planned it
	Position  events.Position // of the Past
	At        events.Micros   // of the event there

	past    *projections.Past
	streams []events.StreamID
}

// Open looks a run up. The Past stays the caller's, who closes it when the history is no longer needed.
//
// Errors: a *towline.RequestError that names run, if there was no such run at the position; those of the store.
func Open(ctx context.Context, past *projections.Past, run events.RunID) (*History, error) {
	h := &History{Run: run, Position: past.Position(), At: past.At(), past: past}
	err := past.View(ctx, func(v projections.View) error {
		history, err := v.Stream(events.RunStream(run))
		if err != nil {
			return err
		}
		r := decider.Fold(events.RunStream(run), history).(decider.Run)
		if !r.Exists() {
			return &towline.RequestError{
				Field: "run", Problem: fmt.Sprintf("there was no run %s at position %d", run, past.Position()),
				Fix: "name a run that was planned by then", Kind: towline.ErrNotFound,
			}
		}
		h.Job, h.Sync, h.Mode, h.Units, h.PlannedAt = r.Plan.Job, r.Plan.Sync, r.Plan.Mode, r.Plan.TotalUnits, r.PlannedAt
		planner, err := processOf(v, history[0].Node)
		if err != nil {
			return err
		}
		h.Planner = planner.Process
		h.streams, err = v.StreamsOf(run)
		return err
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Outcome is the run as it was at the position of the Past.
func (h *History) Outcome(ctx context.Context) (run projections.SyncRun, err error) {
	err = h.past.View(ctx, func(v projections.View) error {
		run, _, err = v.Run(h.Run)
		return err
	})
	return run, err
}

// Step is one event of a history.
type Step struct {
	Event   events.Envelope
	Subject Subject              // what it happened to
	Since   events.Span          // the plan of the run
	Changes []projections.Change // rows that it changed; in those of Shared tables other runs have a part, which is not known
	// Because are the events of its transaction that it follows from, the nearest first; the last one was decided for
	// whoever asked. None: it was decided so itself.
	Because []Link
	// Opener is the first event of its transaction, where that is of another run: the settle that gave a slot away, for one.
	Opener Link
	// Restarts are the starts of processes since the step before, if the events here and there are of different ones.
	Restarts []Restart
}

// Link is another event.
type Link struct {
	Position events.Position
	Subject  Subject
	Type     events.Type
}

// IsZero reports that there is no event.
func (l Link) IsZero() bool { return l.Position == 0 }

func (l Link) String() string { return fmt.Sprintf("%d %s of %s", l.Position, l.Type, l.Subject) }

// Subject is what an event happened to.
type Subject struct {
	Stream  events.StreamID
	Ordinal int    // of a unit of this run, from 1; else 0
	Name    string // "run", "job", the kind of a register, "unit 3 source/dataset"; of another run the name of the stream
}

func (s Subject) String() string { return s.Name }

// Steps are the events of the history, in the order of the log (AS-6). It reads page by page, so its memory does not grow
// with what a run has done, but for its number of events and units. The Past answers no other query of its tables
// meanwhile. Errors: ctx's; an *events.DecodeError; those of the stores. The first one is the last thing to come.
func (h *History) Steps(ctx context.Context) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		w := &walk{h: h, ctx: ctx, names: map[events.StreamID]Subject{}, seen: map[events.NodeID]bool{}}
		for e, err := range h.past.Trace(ctx, h.streams) {
			var s Step
			if err == nil {
				s, err = w.step(e)
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// Keep is a history without the steps that keep refuses. A restart behind a step that is left out is told by the next.
func Keep(steps iter.Seq2[Step, error], keep func(Step) bool) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		var restarts []Restart
		for s, err := range steps {
			if err == nil {
				restarts = append(restarts, s.Restarts...)
				if !keep(s) {
					continue
				}
				s.Restarts, restarts = restarts, nil
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

// OfUnits keeps the steps of some units, by ordinal, and those of the run and its job.
func OfUnits(ordinals ...int) func(Step) bool {
	wanted := map[int]bool{}
	for _, n := range ordinals {
		wanted[n] = true
	}
	return func(s Step) bool {
		switch s.Subject.Stream.Family() {
		case events.FamilyUnit:
			return wanted[s.Subject.Ordinal]
		case events.FamilyRun, events.FamilyJob:
			return true
		}
		return false
	}
}
