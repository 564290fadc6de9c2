package check

import "github.com/towline-dev/towline/events"

// Job is the checker's own fold of a job stream.
//
//	∅ ──JobOpened──► open ──JobLinked──► open ──JobClosed──► closed
type Job struct {
	ID             events.JobID
	Run            events.RunID
	Sync           string
	Trigger        events.Trigger
	IdempotencyKey string
	Status         events.RunStatus // empty while open
	Counts         events.Counts
	OpenedAt       events.Micros
	ClosedAt       events.Micros
	Version        events.Version
}

type job struct {
	Job
	opened             events.Position
	openedTx, closedTx events.Position
	planned            *run
}

func (c *Checker) jobEvent(e events.Envelope, id events.JobID) {
	j := c.jobs[id]
	if j == nil {
		ev, ok := e.Event.(events.JobOpened)
		if !ok {
			c.stray(e, "%s of a job that was never opened", e.Event.EventType())
			return
		}
		j = &job{
			Job: Job{
				ID: id, Sync: ev.Sync, Trigger: ev.Trigger, IdempotencyKey: ev.IdempotencyKey, OpenedAt: e.At,
				Version: c.opened(e.Stream),
			},
			opened: e.Position, openedTx: c.tx.position,
		}
		c.jobs[id] = j
		c.jobOrder = append(c.jobOrder, j)
		c.tx.jobs = append(c.tx.jobs, j)
		c.version(e, &j.Version)
		c.checkKey(e, j)
		if ev.Trigger == events.TriggerRetry {
			c.checkOperator(e, ev.Actor, false, "")
		}
		return
	}
	c.version(e, &j.Version)
	switch ev := e.Event.(type) {
	case events.JobOpened:
		c.wrong("I-2", e, "the job is opened a second time (J-1)")
	case events.JobLinked:
		c.jobLinked(e, j, ev)
	case events.JobClosed:
		c.jobClosed(e, j, ev)
	}
}

func (c *Checker) jobLinked(e events.Envelope, j *job, ev events.JobLinked) {
	r := j.planned
	switch {
	case !j.Run.IsZero():
		c.wrong("I-2", e, "the job has run %s already (J-1)", j.Run)
	case r == nil || r.ID != ev.Run || r.plannedTx != c.tx.position:
		c.wrong("I-2", e, "the transaction plans no run %s for the job (R-1)", ev.Run)
	case r.Total > 0 && (len(r.units) < r.Total || r.regs[dispatch] == nil):
		c.wrong("I-2", e, "the job is linked before the units and the wakeup of its run (R-1)")
	case r.Total == 0 && !r.Status.Terminal():
		c.wrong("I-2", e, "the job is linked before the end of its run, which has no units (R-1a)")
	}
	j.Run = ev.Run
}

// jobClosed: nothing observes runs to close jobs; a job closes with its run or not at all (J-1, I-8).
func (c *Checker) jobClosed(e events.Envelope, j *job, ev events.JobClosed) {
	r := j.planned
	switch {
	case j.ClosedAt != 0:
		c.wrong("I-2", e, "the job was closed already (J-1)")
	case r == nil || r.endedTx != c.tx.position || !r.Status.Terminal():
		c.wrong("I-8", e, "the job is closed, and the transaction has not ended its run before")
	case j.Run.IsZero():
		c.wrong("I-2", e, "the job is closed before it is linked (R-1a)")
	default:
		n := events.Counts{Total: r.Total, Succeeded: r.Units.Succeeded, Failed: r.Units.Failed, Cancelled: r.Units.Cancelled}
		if r.Status == events.RunIsCancelled && ev.Total == 0 {
			n.Total = 0
		}
		if ev.Status != r.Status || ev.Counts != n {
			c.wrong("I-8", e, "the job is closed as %s %+v, and its run ended as %s %+v", ev.Status, ev.Counts, r.Status, n)
		}
	}
	j.Status, j.Counts, j.ClosedAt, j.closedTx = ev.Status, ev.Counts, e.At, c.tx.position
}

// keys remembers idempotency keys for their time to live (P-11).
type keys struct {
	opened map[keyOf]*job
	queue  []*job // the oldest first
}

type keyOf struct{ sync, key string }

func newKeys() keys { return keys{opened: map[keyOf]*job{}} }

// checkKey is I-23. While the time to live is not known, nothing is remembered.
func (c *Checker) checkKey(e events.Envelope, j *job) {
	ttl := c.settings(e.Node).IdempotencyTTL
	if ttl <= 0 || j.IdempotencyKey == "" {
		return
	}
	for len(c.keys.queue) > 0 && c.keys.queue[0].OpenedAt.Add(ttl) <= e.At {
		old := c.keys.queue[0]
		if k := (keyOf{old.Sync, old.IdempotencyKey}); c.keys.opened[k] == old {
			delete(c.keys.opened, k)
		}
		c.keys.queue = c.keys.queue[1:]
	}
	k := keyOf{j.Sync, j.IdempotencyKey}
	if first := c.keys.opened[k]; first != nil {
		c.wrong("I-23", e, "key %q of sync %q opened job %s at %s, and its time to live is %s", k.key, k.sync, first.ID, first.OpenedAt, ttl)
		return
	}
	c.keys.opened[k] = j
	c.keys.queue = append(c.keys.queue, j)
}
