package projections

import (
	"fmt"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// extent is what a query needs of the log: all of it, or the streams that make the rows which it reads. A live view has
// every row, so it does not ask; a past one folds the extent first (AS-2).
//
// The zero value is the whole log. So a query that says nothing is right and slow, and one that says something with of
// must read rows of one thing only: those of its tables that these streams make, and no other. TestAPastAnswersLikeACutLog
// holds every query to it.
type extent struct {
	of extentOf
	id [16]byte
}

type extentOf int

const (
	wholeLog    extentOf = iota
	rowOfRun             // runs: the run, and its post_sync register, whose first arm is noted there
	rowOfUnit            // units: the unit
	rowOfJob             // jobs: the job
	unitsOfRun           // units: every unit of the run
	outboxOfRun          // outbox: the run's registers
)

func runRow(id events.RunID) extent       { return extent{rowOfRun, id} }
func unitRow(id events.UnitID) extent     { return extent{rowOfUnit, id} }
func jobRow(id events.JobID) extent       { return extent{rowOfJob, id} }
func unitRows(run events.RunID) extent    { return extent{unitsOfRun, run} }
func registerRows(id events.RunID) extent { return extent{outboxOfRun, id} }

// narrower is a transaction whose tables are folded when they are asked for.
type narrower interface {
	narrow(extent) store.ReadTx
}

// of is the view for one query that needs no more than an extent.
func (v View) of(x extent) View {
	if n, ok := v.tx.(narrower); ok {
		return View{n.narrow(x)}
	}
	return v
}

// groups are the streams of an extent. Those of a group change the same row, so they are folded together, in the order
// of the log; groups do not touch each other's rows.
func (x extent) groups(tx store.ReadTx) ([][]events.StreamID, error) {
	run := events.RunID(x.id)
	group := []events.StreamID{events.RunStream(run), events.RegisterStream(run, events.KindPostSync)}
	switch x.of {
	case rowOfRun:
		return [][]events.StreamID{group}, nil
	case rowOfUnit:
		return [][]events.StreamID{{events.UnitStream(events.UnitID(x.id))}}, nil
	case rowOfJob:
		return [][]events.StreamID{{events.JobStream(events.JobID(x.id))}}, nil
	case outboxOfRun:
		out := [][]events.StreamID{group}
		for _, k := range runKinds {
			if k != events.KindPostSync {
				out = append(out, []events.StreamID{events.RegisterStream(run, k)})
			}
		}
		return out, nil
	case unitsOfRun:
		units, err := unitStreams(tx, run)
		out := make([][]events.StreamID, len(units))
		for i, u := range units {
			out[i] = []events.StreamID{u}
		}
		return out, err
	case wholeLog:
	}
	panic(fmt.Sprintf("projections: extent %d has no list of streams", x.of))
}

// runKinds are the registers of a run.
var runKinds = []events.Kind{events.KindDispatch, events.KindUnit, events.KindFinalize, events.KindPostSync}

// StreamsOf lists the streams of a run: its job, itself, its registers and its units by ordinal, whether something has
// happened to them or not. Nothing else is written about a run. It is read from the log alone; empty: there is no such
// run.
func (v View) StreamsOf(run events.RunID) ([]events.StreamID, error) {
	history, err := v.tx.Stream(events.RunStream(run))
	if err != nil || len(history) == 0 {
		return nil, err
	}
	r := decider.Fold(events.RunStream(run), history).(decider.Run)
	out := []events.StreamID{events.JobStream(r.Plan.Job), events.RunStream(run)}
	for _, k := range runKinds {
		out = append(out, events.RegisterStream(run, k))
	}
	units, err := plannedWith(v.tx, run, history[0])
	return append(out, units...), err
}

func unitStreams(tx store.ReadTx, run events.RunID) ([]events.StreamID, error) {
	history, err := tx.Stream(events.RunStream(run))
	if err != nil || len(history) == 0 {
		return nil, err
	}
	return plannedWith(tx, run, history[0])
}

// plannedWith lists the units of a run, by ordinal. They were planned behind it, in its transaction, so the log is
// read for as long as that goes on.
func plannedWith(tx store.ReadTx, run events.RunID, first events.Envelope) ([]events.StreamID, error) {
	e, ok := first.Event.(events.RunPlanned)
	if !ok {
		return nil, fmt.Errorf("stream %s begins with %s", first.Stream, first.Event.EventType())
	}
	const wakeup = 1 // behind the units, so that one page shows their end
	var out []events.StreamID
	for at, limit := first.Position, min(e.TotalUnits+wakeup, followPage); ; {
		page, err := tx.After(at, limit)
		if err != nil {
			return nil, fmt.Errorf("read what run %s was planned with: %w", run, err)
		}
		for _, env := range page {
			if env.Tx != first.Tx {
				return out, nil
			}
			if u, ok := env.Event.(events.UnitPlanned); ok && u.Run == run {
				out = append(out, env.Stream)
			}
			at = env.Position
		}
		if len(page) < limit || len(out) >= e.TotalUnits {
			return out, nil
		}
	}
}
