package check

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

// Crash is a moment at which a process died that had its store to itself: the log as it was then, and what was true
// outside of it. It says which rows of the crash table (spec 12) apply, and so what must become of it. Rows follow from the
// state, not from the place of the crash; and, as all of this package, from no rule of the engine.
type Crash struct {
	// Log is the fold of what was on disk, with its last transaction ended. It was made with Options.Keep.
	Log  *Checker
	Time events.Micros
	// Published, Called and Written are what broker, providers and sinks had seen by then.
	Published []Published
	Called    []Called
	Written   []Written
	Lost      []Lost // messages that died with the process and had no effect yet
	// Planning: a request had no answer yet. Submitting: an application's transaction. Cancelling: a cancellation was on
	// disk, and nobody had been told. Expiring: a lease had ended, and this was about to be decided.
	Planning, Submitting, Cancelling, Expiring bool
	// Delay is how long the next attempt at a unit will have to wait, whatever happens, because its provider is going to fail
	// or to ask for it. nil: it is not.
	Delay func(Unit) events.Span
}

// Lost is a message that died with a process.
type Lost struct {
	Kind   events.Kind
	Run    events.RunID // the owner; of kind message, the message
	N      int          // wakeup number
	Unit   events.UnitID
	Target string // of post_sync
	InWork bool   // a handler had it
	// Outside: it was at a broker, of whose loss nobody is told. So the work is done again behind a time, and not at the
	// restart.
	Outside bool
}

// CrashRow is a row of the crash table that applies.
type CrashRow struct {
	ID   string       // C-n
	Run  events.RunID // that was hurt; zero: none
	Wait events.Span  // time that may pass without work before it is over
	// Kind is what materialization may have to arm for the run; empty: nothing, so that this net hides no hole.
	Kind events.Kind
}

// Rows are the rows of the crash table that apply.
func (x *Crash) Rows() []CrashRow {
	var rows []CrashRow
	if x.Planning {
		rows = append(rows, CrashRow{ID: "C-1"})
	}
	if x.Submitting {
		rows = append(rows, CrashRow{ID: "C-33"})
	}
	if x.Cancelling {
		rows = append(rows, CrashRow{ID: "C-32"})
	}
	for _, r := range x.Log.registers {
		rows = append(rows, x.ofRegister(r))
	}
	for _, run := range x.Log.runOrder {
		for _, u := range run.units {
			rows = append(rows, x.ofUnit(run, u))
		}
		rows = append(rows, x.ofPosts(run)...)
	}
	for _, m := range x.Lost {
		lost := x.ofMessage(m)
		rows = append(rows, lost)
		if m.Kind == events.KindUnit && lost.Kind != "" {
			rows = append(rows, x.heirs(lost)...)
		}
	}
	if x.Expiring {
		rows = append(rows, CrashRow{ID: "C-27"})
	}
	return slices.DeleteFunc(rows, func(r CrashRow) bool { return r.ID == "" })
}

// ofRegister is the row of a register that is not idle.
func (x *Crash) ofRegister(r *register) CrashRow {
	row := CrashRow{ID: x.registerRow(r)}
	if r.Kind != events.KindMessage {
		row.Run = r.Owner
	}
	if r.State == Pending && (r.Floor || r.Kind == events.KindMessage) { // a backoff, or a time of the application's own
		row.Wait = max(0, r.AvailableAt.Sub(x.Time))
	}
	return row
}

func (x *Crash) registerRow(r *register) string {
	published := x.published(r)
	switch {
	case r.State == Pending && r.Kind == events.KindDispatch && r.Newest == 1:
		return "C-2"
	case r.State == Pending && r.Kind == events.KindDispatch:
		return "C-10" // or C-28, by its time
	case r.State == Pending && r.Kind == events.KindUnit:
		return "C-7"
	case r.State == Pending && r.Kind == events.KindFinalize:
		return "C-16"
	case r.State == Pending && r.Kind == events.KindMessage:
		return "C-34"
	case r.State == Claimed && r.Kind == events.KindMessage:
		return "C-35"
	case r.State == Parked:
		return "C-40"
	case r.State == Pending:
		return "C-20"
	case r.State == Claimed && r.Kind == events.KindPostSync:
		return "C-21"
	case r.State == Claimed && published == 0:
		return "C-3"
	case r.State == Claimed && published < x.announced(r):
		return "C-8"
	case r.State == Claimed:
		return "C-4"
	case r.State == Marked && published < len(r.run.Policy.Targets):
		return "C-22"
	case r.State == Marked:
		return "C-23"
	}
	return ""
}

// published counts the messages of the current wakeup that the broker has.
func (x *Crash) published(r *register) int {
	ids := map[string]bool{}
	for _, p := range x.Published {
		if p.Run == r.Owner && p.Kind == r.Kind && p.N == r.Current && p.After <= x.Log.position {
			ids[p.ID] = true
		}
	}
	return len(ids)
}

// announced counts the messages that a fan-out stands for, or 1.
func (x *Crash) announced(r *register) int {
	if r.Kind != events.KindUnit {
		return 1
	}
	n := 0
	for _, u := range r.run.units {
		if u.Wakeup > r.Closed && u.Wakeup <= r.Current {
			n++
		}
	}
	return n
}

func (x *Crash) ofUnit(run *run, u *unit) CrashRow {
	switch {
	case u.Status == events.UnitIsRetrying:
		return CrashRow{ID: "C-28", Run: run.ID, Wait: max(0, u.AvailableAt.Sub(x.Time))}
	case u.Status == events.UnitIsRunning:
		row := CrashRow{ID: "C-14", Run: run.ID}
		if policy, retried := lostPolicy(u); retried {
			row.ID, row.Wait = "C-13", policy.Backoff
		}
		if u.LeaseNode.IsZero() { // a worker of the API, whose lease ends by its time
			row.Wait += max(0, u.LeaseExpiresAt.Sub(x.Time))
		}
		switch {
		case !slices.Contains(x.Called, Called{Unit: u.ID, Attempt: u.Attempt}):
			row.ID = "C-12"
		case slices.Contains(x.Written, Written{Unit: u.ID, Attempt: u.Attempt}):
			row.ID = "C-15"
		}
		return row
	case u.Status == events.UnitIsPlanned && u.Plan.Tier == events.TierWorkItem && referencesDone(u):
		return CrashRow{ID: "C-38", Run: run.ID, Kind: events.KindDispatch} // "else REC-7"
	}
	return CrashRow{}
}

// ofPosts are the effects that had begun, and nobody knows how they went.
func (x *Crash) ofPosts(run *run) (rows []CrashRow) {
	for _, p := range run.Posts {
		if p.Started > p.Completed+p.Failed && !x.told(run, p.Target) {
			rows = append(rows, CrashRow{ID: "C-24", Run: run.ID})
		}
	}
	return rows
}

// told: it is on record already that nobody knows.
func (x *Crash) told(run *run, target string) bool {
	for _, r := range x.Log.registers {
		if r.Owner == run.ID && r.Kind == events.KindPostSync {
			for _, o := range r.Outcomes {
				if o.Target == target && o.Outcome == events.Unknown {
					return true
				}
			}
		}
	}
	return false
}

func referencesDone(u *unit) bool {
	for _, other := range u.run.units {
		if other.Plan.Source == u.Plan.Source && other.Plan.Tier == events.TierReference && other.Status != events.UnitHasSucceeded {
			return false
		}
	}
	return true
}

// ofMessage is the row of a message that died with the process. Only one whose wakeup is closed is missed by anybody: an
// open one is published again.
func (x *Crash) ofMessage(m Lost) CrashRow {
	row := CrashRow{Run: m.Run}
	r, run := x.register(m.Run, m.Kind), x.Log.runs[m.Run]
	closed := r != nil && r.Closed >= m.N
	either := func(waits, inWork string) string {
		if m.InWork {
			return inWork
		}
		return waits
	}
	switch m.Kind {
	case events.KindDispatch:
		row.ID, row.Kind = either("C-5", "C-6"), events.KindDispatch
	case events.KindUnit:
		row.ID, row.Kind = either("C-9", "C-11"), events.KindDispatch // REC-7: it is stale at once (N-3)
		u := x.Log.units[m.Unit]
		closed = closed && u != nil && u.Status == events.UnitIsDispatching
	case events.KindFinalize:
		row.ID, row.Kind = either("C-5", "C-19"), events.KindFinalize
	case events.KindMessage:
		row.ID, row.Kind = "C-36", events.KindMessage
	case events.KindPostSync:
		if run != nil && run.Policy.PostSync == events.ExactlyOnce {
			row.ID, row.Kind = "C-25", events.KindPostSync
			break
		}
		// Nobody resends it; its effect is judged by itself.
		begun := run != nil && slices.ContainsFunc(run.Posts, func(p Post) bool { return p.Target == m.Target && p.Started > 0 })
		if !closed || begun {
			return CrashRow{}
		}
		row.ID, closed = "C-46", false
	}
	if !closed {
		row.Kind = ""
		return row
	}
	if m.Outside {
		row.Wait = x.unseen(m.Kind)
	}
	return row
}

// unseen is how long it takes until a loss that nobody is told of shows.
func (x *Crash) unseen(k events.Kind) events.Span {
	s := x.Log.opt.Settings
	if n := len(x.Log.alive); n > 0 {
		s = x.Log.alive[n-1].settings
	}
	if k == events.KindPostSync {
		return s.PostRedriveAfter
	}
	return s.Stale
}

// heirs are the runs whose units wait for a slot: a lost unit message gives back the slot of its unit, and without a
// transition that could pass it on, so REC-7 wakes whoever has room now.
func (x *Crash) heirs(lost CrashRow) (rows []CrashRow) {
	for _, run := range x.Log.runOrder {
		for _, u := range run.units {
			if u.Status == events.UnitIsPlanned && (u.Plan.Tier == events.TierReference || referencesDone(u)) {
				rows = append(rows, CrashRow{ID: lost.ID, Run: run.ID, Kind: events.KindDispatch, Wait: lost.Wait})
				break
			}
		}
	}
	return rows
}

// Bound is the longest wait that any row allows.
func (x *Crash) Bound() (wait events.Span) {
	for _, run := range x.Log.runOrder {
		for _, u := range run.units {
			if x.Delay != nil && (u.Status == events.UnitIsPlanned || u.Status == events.UnitIsDispatching) {
				wait = max(wait, x.Delay(u.Unit))
			}
			if !u.Status.Terminal() { // its account is to be left alone, whoever has been told so
				wait = max(wait, x.Log.cooldown.until(u.Plan.Provider, u.Plan.Source).Sub(x.Time))
			}
		}
	}
	for _, r := range x.Rows() {
		wait = max(wait, r.Wait)
	}
	return wait
}

// Armable are the registers that materialization may have to arm, once each.
func (x *Crash) Armable() map[events.StreamID]bool {
	out := map[events.StreamID]bool{}
	for _, r := range x.Rows() {
		if r.Kind != "" {
			out[events.RegisterStream(r.Run, r.Kind)] = true
		}
	}
	return out
}

// lostPolicy is the policy by which a running unit is tried again when its worker is lost; false: by none, or no more.
func lostPolicy(u *unit) (events.RetryPolicy, bool) {
	policy, eligible := policyFor(u, events.ExpiredLease)
	return policy, eligible && u.ExpiredLeaseRetries < policy.MaxRetries
}

// Doomed are the units that the crash ends, and with which category: those that ran and may not be tried again (RW-1 to
// RW-4), and what waits for a reference unit among them (U-13).
func (x *Crash) Doomed() map[events.UnitID]events.Category {
	out := map[events.UnitID]events.Category{}
	for _, run := range x.Log.runOrder {
		for _, u := range run.units {
			if u.Status != events.UnitIsRunning {
				continue
			}
			if _, retried := lostPolicy(u); retried {
				continue
			}
			out[u.ID] = events.WorkerLost
			if _, eligible := policyFor(u, events.ExpiredLease); eligible {
				out[u.ID] = events.WorkerLostExhausted
			}
			for _, w := range run.units {
				if u.Plan.Tier == events.TierReference && w.Plan.Tier == events.TierWorkItem && w.Plan.Source == u.Plan.Source && !w.Status.Terminal() {
					out[w.ID] = events.ReferenceFailed
				}
			}
		}
	}
	return out
}

func (x *Crash) register(owner events.RunID, k events.Kind) *register {
	for _, r := range x.Log.registers {
		if r.Owner == owner && r.Kind == k {
			return r
		}
	}
	return nil
}
