package decider

import "github.com/towline-dev/towline/events"

// Job is the fold of a job stream: the activity that a person sees for one trigger. It is never a lock (D-18).
//
//	∅ ──JobOpened──► open ──JobLinked──► open ──JobClosed──► succeeded, partial_failed, failed, cancelled
type Job struct {
	ID       events.JobID
	Opened   events.JobOpened
	OpenedAt events.Micros
	Run      events.RunID
	Status   events.RunStatus // empty while open
	Counts   events.Counts
	ClosedAt events.Micros
}

func (j Job) evolve(env events.Envelope) Job {
	switch e := env.Event.(type) {
	case events.JobOpened:
		j.ID, _ = env.Stream.Job()
		j.Opened, j.OpenedAt = e, env.At
	case events.JobLinked:
		j.Run = e.Run
	case events.JobClosed:
		j.Status, j.Counts, j.ClosedAt = e.Status, e.Counts, env.At
	}
	return j
}
