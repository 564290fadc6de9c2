package towline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// Archived says what ArchiveRuns has done.
type Archived struct {
	Runs     int   `json:"runs"`
	Segments int   `json:"segments"`
	Events   int   `json:"events"`
	Plain    int64 `json:"plain"` // bytes of the events
	Bytes    int64 `json:"bytes"` // bytes that they take in the segments
	More     bool  `json:"more"`  // other runs are old enough, too
}

// Add counts what another call has done.
func (a *Archived) Add(b Archived) {
	a.Runs, a.Segments, a.Events = a.Runs+b.Runs, a.Segments+b.Segments, a.Events+b.Events
	a.Plain, a.Bytes, a.More = a.Plain+b.Plain, a.Bytes+b.Bytes, b.More
}

const (
	// eventsPerSegment bounds what one transaction seals, so that no other waits for long, and what is read for one stream.
	eventsPerSegment = 1000
	// What a run is taken to hold before its streams are read. A segment that becomes larger by it is still one.
	eventsOfRun, eventsOfUnit = 20, 6
	// archivePage bounds how many runs one look finds.
	archivePage = 100
)

// ErrNoArchive: the store keeps no segments.
var ErrNoArchive = errors.New("this store has no archive")

// ArchiveRuns seals runs that ended at least age ago and of which all is over, whatever their end was, the oldest first (L-1):
// as many as go into one segment, or one large run in several. Call it again while there are More.
//
// The streams of a run, its units and its registers move; its job stays. Nobody who reads sees a difference but the room
// that is free. Each segment is one short transaction, so a process that dies leaves the rest to the next call. A run of
// which something happens meanwhile is left out. Errors: ErrNoArchive; store.ErrFormat before the store has the level for it
// (DUR-7); ErrUnavailable, ErrStopped.
func (e *Engine) ArchiveRuns(ctx context.Context, age time.Duration) (a Archived, err error) {
	archiver, ok := store.AsArchiver(e.store)
	if !ok {
		return a, ErrNoArchive
	}
	if err := archiver.CanArchive(); err != nil {
		return a, fmt.Errorf("archive runs: %w", err)
	}
	var found []projections.Finished
	ended := e.Now().Add(-events.SpanOf(age))
	err = e.View(ctx, func(v projections.View) (err error) {
		found, err = v.Archivable(ended, projections.Finished{}, archivePage+1)
		return err
	})
	if err != nil || len(found) == 0 {
		return a, err
	}
	batch := batchOf(found)
	a.More = len(found) > len(batch)
	if first := batch[0]; first.Units > unitsPerSegment {
		err = e.archiveLarge(ctx, first, &a)
	} else {
		name := func(f projections.Finished) string { return events.RunStream(f.Run).String() }
		err = Apart(ctx, batch, name, func(runs []projections.Finished) error { return e.archiveBatch(ctx, runs, &a) })
	}
	if err != nil {
		return a, fmt.Errorf("archive runs: %w", err)
	}
	return a, nil
}

// unitsPerSegment is how many units go into one segment.
const unitsPerSegment = (eventsPerSegment - eventsOfRun) / eventsOfUnit

// batchOf are the first runs that go into one segment, and one at least.
func batchOf(found []projections.Finished) []projections.Finished {
	n := 0
	for i, f := range found {
		if n += eventsOfRun + f.Units*eventsOfUnit; i > 0 && n > eventsPerSegment {
			return found[:i]
		}
	}
	return found[:min(len(found), archivePage)]
}

// archiveBatch seals whole runs.
func (e *Engine) archiveBatch(ctx context.Context, runs []projections.Finished, a *Archived) error {
	return e.sealed(ctx, a, func(tx *Tx) (streams []events.StreamID, names []string, err error) {
		for _, f := range runs {
			may, err := tx.View().MayBeArchived(f.Run)
			if err != nil {
				return nil, nil, err
			}
			if !may {
				continue
			}
			of, err := tx.streamsToSeal(f.Run)
			if err != nil {
				return nil, nil, err
			}
			streams, names = append(streams, of...), append(names, events.RunStream(f.Run).String())
		}
		return streams, names, nil
	})
}

// archiveLarge seals a run in parts, its own stream with its registers last. A part that was sealed before has no row, and is
// no segment.
func (e *Engine) archiveLarge(ctx context.Context, f projections.Finished, a *Archived) error {
	var units []events.StreamID
	err := e.ask(ctx, func(tx *Tx) (err error) {
		units, err = tx.streamsToSeal(f.Run)
		return err
	})
	if err != nil {
		return err
	}
	isUnit := func(id events.StreamID) bool { return id.Family() == events.FamilyUnit }
	rest := slices.DeleteFunc(slices.Clone(units), isUnit)
	units = slices.DeleteFunc(units, func(id events.StreamID) bool { return !isUnit(id) })
	parts := append(slices.Collect(slices.Chunk(units, unitsPerSegment)), rest)
	for i, part := range parts {
		err := e.sealed(ctx, a, func(tx *Tx) (streams []events.StreamID, names []string, err error) {
			may, err := tx.View().MayBeArchived(f.Run)
			if err != nil || !may {
				return nil, nil, err
			}
			if i == len(parts)-1 {
				return part, []string{events.RunStream(f.Run).String()}, nil
			}
			return part, []string{events.RunStream(f.Run).String() + "/units"}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sealed seals what fn finds, in one transaction. The name of a run stands for all of it that is not sealed yet, and with
// "/units" behind it for some of its units: the event stays short, and the segment has the streams themselves.
func (e *Engine) sealed(ctx context.Context, a *Archived, fn func(*Tx) ([]events.StreamID, []string, error)) error {
	var s store.Sealed
	runs := 0
	err := e.Transact(ctx, "", func(tx *Tx) error {
		s, runs = store.Sealed{}, 0
		streams, names, err := fn(tx)
		if err != nil || len(streams) == 0 {
			return err
		}
		archive, ok := store.AsArchiveTx(tx.tx)
		if !ok {
			return ErrNoArchive
		}
		if s, err = archive.Archive(streams); err != nil || s.Name == "" {
			return err
		}
		results, err := tx.Execute(decider.ArchiveRuns{Node: e.node, Archived: events.RunsArchived{Segment: s.Name, Hash: s.Hash, Streams: names}})
		if err != nil {
			return err
		}
		if said := results[0].Events; len(said) != 1 || said[0].Position.String() != s.Name {
			return fmt.Errorf("segment %s is not said to be sealed where it was", s.Name)
		}
		for _, id := range streams {
			if _, ok := id.Run(); ok {
				runs++
			}
		}
		return nil
	})
	var conflict *store.ConflictError
	if errors.As(err, &conflict) {
		return nil // something happens to one of them right now: the next call looks again
	}
	if err == nil && s.Name != "" {
		a.Add(Archived{Runs: runs, Segments: 1, Events: s.Events, Plain: int64(s.Plain), Bytes: int64(s.Bytes), More: a.More})
	}
	return err
}

// streamsToSeal are the streams of a run but for its job, which is an entry of the activity for as long as keys live.
func (t *Tx) streamsToSeal(run events.RunID) ([]events.StreamID, error) {
	streams, err := t.View().StreamsOf(run)
	return slices.DeleteFunc(streams, func(id events.StreamID) bool { return id.Family() == events.FamilyJob }), err
}
