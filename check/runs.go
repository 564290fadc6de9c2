package check

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

// Run is the checker's own fold of a run: the run stream, and the ends of its units.
//
//	∅ ──RunPlanned──► planned ──RunDispatchStarted──► dispatching ──RunFinalized──► succeeded, partial_failed, failed
//	                     └───────────────────────────────┴──────────RunCancelled──► cancelled
type Run struct {
	ID           events.RunID
	Job          events.JobID
	Sync         string
	TriggeredBy  events.Trigger
	RetryOf      events.RunID
	Mode         events.Mode
	Policy       events.Policy
	Status       events.RunStatus // "running" is derived in the views and never here
	Reason       string
	Total        int // as planned
	Units        UnitCounts
	PlannedAt    events.Micros
	StartedAt    events.Micros
	CompletedAt  events.Micros
	PostSyncOwed bool // exactly if a unit succeeded and the sync declares a target
	Posts        []Post
	Version      events.Version
}

// UnitCounts says in which states the units of a run are.
type UnitCounts struct {
	Planned, Dispatching, Running, Retrying int
	Succeeded, Failed, Cancelled            int
}

// Open counts the units that have not ended.
func (n UnitCounts) Open() int { return n.Planned + n.Dispatching + n.Running + n.Retrying }

// Post is what became of the post_sync effect of one target.
type Post struct {
	Target                     string
	Started, Completed, Failed int

	failedAt string        // message of the newest failure
	begunBy  events.NodeID // incarnation that wrote PostSyncStarted, while no end follows it
}

type run struct {
	Run
	units   []*unit // by ordinal; nil once shrunk
	busy    []*unit // dispatching, running or retrying
	tiers   map[string]*tier
	sources []*tier // in the order of the plan
	regs    [len(events.Kinds)]*register
	slots   int
	job     *job

	plannedTx, endedTx, postTx    events.Position // transactions; postTx: of the first arm of post_sync
	plannedAt, startedAt, endedAt events.Position // of their events
	occurrence                    string          // for which it was planned; empty: none
	named                         bool            // the request names its sources, or is a retry of units that were planned once
	shrunk                        bool
}

// tier is what the units of one source wait for (P-9).
type tier struct {
	provider, source                  string
	references, succeeded             int
	failed, cancelled                 int
	plannedReferences, plannedWorking int
	datasets                          []string // of its units
}

func (t *tier) planned(reference bool, by int) {
	if reference {
		t.plannedReferences += by
	} else {
		t.plannedWorking += by
	}
}

// open reports that the work items of the source may be dispatched.
func (t *tier) open() bool { return t.succeeded == t.references }

func (r *run) mode() events.DeliveryMode {
	if r.Policy.PostSync == "" {
		return events.AtMostOnce
	}
	return r.Policy.PostSync
}

func (r *run) tierOf(provider, source string) *tier {
	t := r.tiers[source]
	if t == nil {
		t = &tier{provider: provider, source: source}
		r.tiers[source] = t
		r.sources = append(r.sources, t)
	}
	return t
}

func (r *run) owesPost() bool { return r.Units.Succeeded > 0 && len(r.Policy.Targets) > 0 }

func (r *run) post(target string) *Post {
	for i := range r.Posts {
		if r.Posts[i].Target == target {
			return &r.Posts[i]
		}
	}
	r.Posts = append(r.Posts, Post{Target: target})
	return &r.Posts[len(r.Posts)-1]
}

func (r *run) hasTarget(target string) bool { return slices.Contains(r.Policy.Targets, target) }

func (c *Checker) runEvent(e events.Envelope, id events.RunID) {
	r := c.runs[id]
	if r == nil {
		if ev, ok := e.Event.(events.RunPlanned); ok {
			c.runPlanned(e, id, ev)
			return
		}
		c.stray(e, "%s of a run that was never planned", e.Event.EventType())
		return
	}
	c.version(e, &r.Version)
	if r.Status.Terminal() {
		c.afterEnd(e, r)
		return
	}
	switch ev := e.Event.(type) {
	case events.RunPlanned:
		c.wrong("I-2", e, "the run is planned a second time (R-1)")
	case events.RunDispatchStarted:
		if r.Status != events.RunIsPlanned {
			c.wrong("I-2", e, "the dispatch of the run starts, but the run is %s: only the first dispatch of a planned run says so (R-2)", r.Status)
		}
		r.Status, r.StartedAt, r.startedAt = events.RunIsDispatching, e.At, e.Position
		c.tx.started = append(c.tx.started, r)
	case events.RunFinalized:
		c.checkEnd(e, r, ev.Counts, ev.PostSyncOwed)
		status, reason := aggregate(r)
		if ev.Status != status || ev.Reason != reason {
			c.wrong("I-2", e, "it says %s %q, and its units make it %s %q (R-6)", ev.Status, ev.Reason, status, reason)
		}
		c.end(e, r, ev.Status, ev.Reason)
	case events.RunCancelled:
		c.checkOperator(e, ev.Actor, true, ev.Reason)
		c.checkEnd(e, r, ev.Counts, ev.PostSyncOwed)
		c.end(e, r, events.RunIsCancelled, ev.Reason)
	default:
		c.wrong("I-2", e, "%s, but the run is %s: post_sync follows the end of the run (HP-1)", e.Event.EventType(), r.Status)
	}
}
