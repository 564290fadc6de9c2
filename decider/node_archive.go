package decider

import "github.com/towline-dev/towline/events"

// ArchiveRuns notes that streams of finished runs were sealed into a segment (L-1). Which may be is asked of the views, in
// the same transaction. A segment is said to be sealed once.
type ArchiveRuns struct {
	Node     events.NodeID
	Archived events.RunsArchived
}

func (ArchiveRuns) Name() string              { return "archive_runs" }
func (c ArchiveRuns) Stream() events.StreamID { return events.NodeStream(c.Node) }
func (ArchiveRuns) Fresh() bool               { return false }

func (c ArchiveRuns) decide(s State) ([]events.Event, *Rejection) {
	if n := s.(Node); !n.up() || len(c.Archived.Streams) == 0 || n.Segment == c.Archived.Segment {
		return nil, nil
	}
	return []events.Event{c.Archived}, nil
}
