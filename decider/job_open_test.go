package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// J-1, R-10: a job is opened, linked and closed, each once.
func TestAJobIsOpenedLinkedAndClosedOnce(t *testing.T) {
	opened := events.JobOpened{Trigger: events.TriggerManual, Sync: "work", Actor: "ada"}
	open, link := OpenJob{Job: theJob, Opened: opened}, LinkJob{Job: theJob, Run: theRun}
	end := CloseJob{Job: theJob, Status: events.RunSucceeded, Counts: counts(1, 1, 0, 0)}
	var hs []happening
	for _, c := range []Command{open, link, end} {
		got := decide(t, givenJob(hs...), c)
		require.Len(t, got, 1, c.Name())
		hs = and(hs, then(second, got)...)
		requireNothing(t, givenJob(hs...), c)
	}
	require.Equal(t, Job{
		ID: theJob, Opened: opened, OpenedAt: t0.Add(second), Run: theRun, Status: events.RunSucceeded, Counts: counts(1, 1, 0, 0),
		ClosedAt: t0.Add(second),
	}, givenJob(hs...))
	require.True(t, open.Fresh())
}

// J-1, R-1a: a job that was never opened is neither linked nor closed; one whose run had no units closes like any other.
func TestAJobThatIsNotOpenCannotBeClosed(t *testing.T) {
	requireNothing(t, givenJob(), LinkJob{Job: theJob, Run: theRun})
	requireNothing(t, givenJob(), CloseJob{Job: theJob, Status: events.RunFailed})
	hs := []happening{at(0, events.JobOpened{Trigger: events.TriggerManual, Sync: "work"})}
	require.Len(t, decide(t, givenJob(hs...), CloseJob{Job: theJob, Status: events.RunFailed}), 1)
}

// the first run is the run of the job.
func TestAJobIsLinkedToItsFirstRun(t *testing.T) {
	hs := []happening{at(0, events.JobOpened{Sync: "work"}), at(0, events.JobLinked{Run: theRun})}
	requireNothing(t, givenJob(hs...), LinkJob{Job: theJob, Run: events.RunID{9}})
}
