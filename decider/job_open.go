package decider

import "github.com/towline-dev/towline/events"

// OpenJob opens the activity row of a trigger, before its run is planned. The idempotency key is checked by
// the caller in the same transaction, because it spans jobs (P-11).
type OpenJob struct {
	Job    events.JobID
	Opened events.JobOpened
}

func (OpenJob) Name() string              { return "open_job" }
func (c OpenJob) Stream() events.StreamID { return events.JobStream(c.Job) }
func (OpenJob) Fresh() bool               { return true }

func (c OpenJob) decide(s State) ([]events.Event, *Rejection) {
	if s.(Job).OpenedAt != 0 {
		return nil, nil
	}
	return []events.Event{c.Opened}, nil
}

// LinkJob names the run of a job, in the transaction that plans it.
type LinkJob struct {
	Job events.JobID
	Run events.RunID
}

func (LinkJob) Name() string              { return "link_job" }
func (c LinkJob) Stream() events.StreamID { return events.JobStream(c.Job) }
func (LinkJob) Fresh() bool               { return false }

func (c LinkJob) decide(s State) ([]events.Event, *Rejection) {
	j := s.(Job)
	if j.OpenedAt == 0 || !j.Run.IsZero() {
		return nil, nil
	}
	return []events.Event{events.JobLinked{Run: c.Run}}, nil
}

// CloseJob ends a job with its run (J-1). Nothing observes runs to repair jobs: the two cannot differ.
type CloseJob struct {
	Job    events.JobID
	Status events.RunStatus
	Counts events.Counts
}

func (CloseJob) Name() string              { return "close_job" }
func (c CloseJob) Stream() events.StreamID { return events.JobStream(c.Job) }
func (CloseJob) Fresh() bool               { return false }

func (c CloseJob) decide(s State) ([]events.Event, *Rejection) {
	j := s.(Job)
	if j.OpenedAt == 0 || j.ClosedAt != 0 {
		return nil, nil
	}
	return []events.Event{events.JobClosed{Status: c.Status, Counts: c.Counts}}, nil
}
