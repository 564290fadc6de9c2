package check

import (
	"strconv"
	"strings"

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

	plannedTx, endedTx, startedTx, postTx events.Position // transactions
	endedAt                               events.Position
	shrunk                                bool
}

// tier is what the units of one source wait for (P-9).
type tier struct {
	provider, source                  string
	references, succeeded             int
	failed, cancelled                 int
	plannedReferences, plannedWorking int
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

func (r *run) hasTarget(target string) bool {
	for _, t := range r.Policy.Targets {
		if t == target {
			return true
		}
	}
	return false
}

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
		r.Status, r.StartedAt, r.startedTx = events.RunIsDispatching, e.At, c.tx.position
		c.tx.started = append(c.tx.started, r)
	case events.RunFinalized:
		c.checkEnd(e, r, ev.Counts, ev.PostSyncOwed)
		status, reason := aggregate(r)
		if ev.Status != status || ev.Reason != reason {
			c.wrong("I-2", e, "it says %s %q, and its units make it %s %q (R-6)", ev.Status, ev.Reason, status, reason)
		}
		c.end(e, r, ev.Status, ev.Reason)
	case events.RunCancelled:
		c.checkEnd(e, r, ev.Counts, ev.PostSyncOwed)
		c.end(e, r, events.RunIsCancelled, ev.Reason)
	default:
		c.wrong("I-2", e, "%s, but the run is %s: post_sync follows the end of the run (HP-1)", e.Event.EventType(), r.Status)
	}
}

func (c *Checker) runPlanned(e events.Envelope, id events.RunID, ev events.RunPlanned) {
	r := &run{
		Run: Run{
			ID: id, Job: ev.Job, Sync: ev.Sync, TriggeredBy: ev.TriggeredBy, RetryOf: ev.RetryOf, Mode: ev.Mode,
			Policy: ev.Policy, Status: events.RunIsPlanned, Total: ev.TotalUnits, PlannedAt: e.At,
			Version: c.opened(e.Stream),
		},
		tiers: map[string]*tier{}, plannedTx: c.tx.position,
	}
	c.runs[id] = r
	c.runOrder = append(c.runOrder, r)
	c.tx.plans = append(c.tx.plans, r)
	c.version(e, &r.Version)

	if limit := c.settings(e.Node).MaxUnits; ev.TotalUnits < 0 || limit > 0 && ev.TotalUnits > limit {
		c.wrong("I-2", e, "a plan of %d units, and plan.max_units is %d (R-1)", ev.TotalUnits, limit)
	}
	switch j := c.jobs[ev.Job]; {
	case j == nil || j.openedTx != c.tx.position:
		c.wrong("I-2", e, "job %s was not opened before it in this transaction (R-10)", ev.Job)
	case j.planned != nil:
		c.wrong("I-2", e, "job %s has run %s already (R-10)", ev.Job, j.planned.ID)
	default:
		j.planned, r.job = r, j
	}
	if old := c.runs[ev.RetryOf]; !ev.RetryOf.IsZero() && old != nil && !old.Status.Terminal() {
		c.wrong("I-2", e, "it retries run %s, which is %s (X-6)", ev.RetryOf, old.Status)
	}
	if ev.Occurrence != "" {
		c.tx.occasioned = append(c.tx.occasioned, r)
	}
}

// checkEnd is what both ends of a run must have (I-7, I-8, R-3, R-4).
func (c *Checker) checkEnd(e events.Envelope, r *run, n events.Counts, owed bool) {
	if open := r.Units.Open(); open > 0 {
		c.wrong("I-7", e, "the run ends with %d open units: %d planned, %d dispatching, %d running, %d retrying",
			open, r.Units.Planned, r.Units.Dispatching, r.Units.Running, r.Units.Retrying)
	}
	if len(r.units) != r.Total {
		c.wrong("I-7", e, "the run ends with %d of its %d units", len(r.units), r.Total)
	}
	_, cancel := e.Event.(events.RunCancelled)
	counts := events.Counts{Total: r.Total, Succeeded: r.Units.Succeeded, Failed: r.Units.Failed, Cancelled: r.Units.Cancelled}
	if cancel && n.Total == 0 {
		n.Total = counts.Total // the catalogue gives RunCancelled no total
	}
	if n != counts {
		c.wrong("I-2", e, "it counts %+v, and its units make %+v (R-3)", n, counts)
	}
	if owed != r.owesPost() {
		c.wrong("I-8", e, "post_sync_owed is %t, with %d succeeded units and %d targets (R-9)", owed, r.Units.Succeeded, len(r.Policy.Targets))
	}
}

func (c *Checker) end(e events.Envelope, r *run, s events.RunStatus, reason string) {
	if !s.Terminal() {
		c.wrong("I-2", e, "a run cannot end as %s (R-6)", s)
		s = events.RunFailed
	}
	r.Status, r.Reason, r.CompletedAt, r.PostSyncOwed = s, reason, e.At, r.owesPost()
	r.endedTx, r.endedAt = c.tx.position, e.Position
	c.tx.ends = append(c.tx.ends, r)
}

// aggregate is R-6.
func aggregate(r *run) (events.RunStatus, string) {
	n := r.Units
	switch {
	case r.Total == 0:
		return events.RunFailed, events.ReasonNoUnits
	case n.Succeeded == r.Total:
		return events.RunSucceeded, ""
	case n.Succeeded > 0:
		return events.RunPartialFailed, ""
	case n.Cancelled == r.Total:
		return events.RunFailed, events.ReasonAllUnitsCancelled
	}
	return events.RunFailed, ""
}

// afterEnd takes what follows the end of a run: post_sync only (I-3).
func (c *Checker) afterEnd(e events.Envelope, r *run) {
	switch ev := e.Event.(type) {
	case events.RunFinalized, events.RunCancelled:
		c.wrong("I-7", e, "the run has ended as %s already", r.Status)
	case events.PostSyncStarted:
		c.checkPost(e, r, ev.Generation, ev.Target, ev.MessageID)
		p := r.post(ev.Target)
		if p.Started > 0 && r.mode() == events.AtMostOnce {
			c.wrong("I-2", e, "the effect of target %q starts a second time (HP-2)", ev.Target)
		}
		p.Started++
	case events.PostSyncCompleted:
		c.checkPost(e, r, ev.Generation, ev.Target, ev.MessageID)
		p := r.post(ev.Target)
		if p.Completed > 0 {
			c.wrong("I-2", e, "the effect of target %q completes a second time (HP-2, HP-3)", ev.Target)
		}
		c.checkEffect(e, r, p)
		p.Completed++
	case events.PostSyncFailed:
		c.checkPost(e, r, ev.Generation, ev.Target, ev.MessageID)
		p := r.post(ev.Target)
		c.checkEffect(e, r, p)
		p.Failed++
	default:
		c.wrong("I-3", e, "%s follows the end of the run, which is %s", e.Event.EventType(), r.Status)
	}
}

// checkPost is HP-1 and the names of K-4 and K-8.
func (c *Checker) checkPost(e events.Envelope, r *run, generation, target, message string) {
	reg := r.regs[postSync]
	switch {
	case reg == nil || r.mode() == events.AtMostOnce && reg.marks == 0:
		c.wrong("I-2", e, "the post_sync wakeup of the run was not marked before it (HP-1)")
	case reg.claims == 0:
		c.wrong("I-2", e, "the post_sync wakeup of the run was never claimed (HP-1)")
	}
	if want := r.ID.String() + ".1"; generation != want {
		c.wrong("I-2", e, "its generation is %q, that of the run is %q (K-4)", generation, want)
	}
	if !r.hasTarget(target) {
		c.wrong("I-2", e, "the run declares no post_sync target %q (K-8)", target)
	}
	if n, ok := c.postNumber(r, target, message); !ok || reg != nil && n > reg.topClaimed {
		c.wrong("I-2", e, "message %q is that of no claimed post_sync wakeup of the run for target %q (K-8)", message, target)
	}
}

// postNumber reads the wakeup number out of <run>.post_sync.<n>.<target> (K-3, K-8).
func (c *Checker) postNumber(r *run, target, message string) (int, bool) {
	rest, ok := strings.CutPrefix(message, r.ID.String()+"."+string(events.KindPostSync)+".")
	number, name, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	if base, epoch, restored := strings.Cut(name, target+".e"); restored && base == "" && epoch != "" {
		name = target
	}
	return n, ok && err == nil && n > 0 && name == target
}

// checkEffect: in at_most_once mode an effect ends once, after it was started (HP-2).
func (c *Checker) checkEffect(e events.Envelope, r *run, p *Post) {
	if r.mode() != events.AtMostOnce {
		return
	}
	switch {
	case p.Started == 0:
		c.wrong("I-2", e, "the effect of target %q ends without PostSyncStarted (HP-2)", p.Target)
	case p.Completed+p.Failed > 0:
		c.wrong("I-2", e, "the effect of target %q has ended already (HP-2)", p.Target)
	}
}

// endOfRuns is I-8, and R-4 for units that were cancelled for the sake of their run.
func (c *Checker) endOfRuns() {
	for _, r := range c.tx.ends {
		stream := events.RunStream(r.ID)
		if r.job == nil || r.job.closedTx != c.tx.position {
			c.report("I-8", r.endedAt, stream, "the run ended as %s, and its job %s was not closed in the transaction", r.Status, r.Job)
		}
		switch armed := r.postTx == c.tx.position; {
		case r.PostSyncOwed && !armed:
			c.report("I-8", r.endedAt, stream, "the run owes post_sync (%d units succeeded), and the transaction does not arm it", r.Units.Succeeded)
		case !r.PostSyncOwed && armed:
			c.report("I-8", r.endedAt, stream, "the run owes no post_sync (%d units succeeded, %d targets), and the transaction arms it", r.Units.Succeeded, len(r.Policy.Targets))
		}
	}
	for _, u := range c.tx.cancelled {
		if u.run.endedTx != c.tx.position || u.run.Status != events.RunIsCancelled {
			c.report("I-2", u.last, events.UnitStream(u.ID), "the unit was cancelled with its run, and the transaction does not cancel the run (R-4)")
		}
	}
}

// endOfDrained is I-9: whoever ends the last open unit of a run leaves a wakeup that cannot have been used up already.
func (c *Checker) endOfDrained() {
	for _, d := range c.tx.drained {
		r := d.run
		if r.Status.Terminal() || r.Units.Open() > 0 {
			continue
		}
		reg := r.regs[finalize]
		if reg == nil {
			c.report("I-9", d.position, d.stream, "the last open unit of the run ended, and finalize_sync_run was never armed")
			continue
		}
		at, n := reg.unknown()
		switch {
		case n == 0:
			c.report("I-9", d.position, d.stream,
				"the last open unit of the run ended, and finalize_sync_run is left %s: its wakeup may be used up already, and none waits", reg.describe())
		case at > c.tx.at && !(n == reg.Current && reg.Floor):
			c.report("I-2", d.position, d.stream,
				"the last open unit of the run ended, and wakeup %d of finalize_sync_run is due at %s only (U-21)", n, at)
		}
	}
}

// endOfPlans is the order and the completeness of R-1, R-1a and R-10.
func (c *Checker) endOfPlans() {
	for _, r := range c.tx.plans {
		id := events.RunStream(r.ID)
		if len(r.units) != r.Total {
			c.report("I-2", c.tx.position, id, "the run is planned with %d units, and the transaction holds %d (R-1)", r.Total, len(r.units))
		}
		switch {
		case r.Total > 0 && r.regs[dispatch] == nil:
			c.report("I-2", c.tx.position, id, "the run is planned, and its dispatch_sync_run is not armed in the transaction (R-1)")
		case r.Total == 0 && !r.Status.Terminal():
			c.report("I-2", c.tx.position, id, "the run has no units, and the transaction does not end it (R-1a)")
		}
		if r.job != nil && r.job.Run != r.ID {
			c.report("I-2", c.tx.position, id, "the run is planned, and its job %s is not linked to it in the transaction (R-1)", r.Job)
		}
	}
	for _, j := range c.tx.jobs {
		if j.planned == nil {
			c.report("I-2", j.opened, events.JobStream(j.ID), "the job is opened, and the transaction plans no run for it (R-10)")
		}
	}
}

// shrink lets go of the units of ended runs, but for what a late result is checked against.
func (c *Checker) shrink() {
	if c.opt.Keep {
		return
	}
	for _, r := range c.tx.ends {
		if r.Units.Open() > 0 || r.shrunk {
			continue // a fault that was reported; what its units do next must still be seen
		}
		for _, u := range r.units {
			c.ended[u.ID] = endedUnit{version: u.Version, attempt: u.Attempt, status: u.Status, late: u.Late}
			delete(c.units, u.ID)
		}
		r.units, r.busy, r.tiers, r.sources, r.shrunk = nil, nil, map[string]*tier{}, nil, true
		r.Policy.Retry = nil
	}
}
