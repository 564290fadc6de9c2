package sim_test

import (
	"slices"
	"strings"
	"time"

	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
)

// row is a row of the crash table (spec 12) that applies to a crash.
type row struct {
	id   string
	wait time.Duration // the bound of the column "edge": virtual time that may pass without work
	run  events.RunID  // of which
	kind events.Kind   // materialization may arm this kind; empty: none
}

// oracle says what must become of a crash. It knows the log up to the crash, by the checker's fold, and what the world
// saw; it knows no rule of the engine.
type oracle struct {
	scenario scenario
	crash    sim.Crash
	fold     *check.Checker
	out      *sim.Outside
}

func newOracle(s scenario, c sim.Crash, log []events.Envelope, settings check.Settings, out *sim.Outside) *oracle {
	fold := check.New(check.Options{Keep: true, Settings: settings})
	for _, env := range log {
		if env.Position <= c.Head {
			fold.Apply(env)
		}
	}
	fold.EndTx()
	return &oracle{s, c, fold, out}
}

// rows are the rows of the crash table that apply: they follow from the state, not from the place of the crash.
func (o *oracle) rows() []row {
	var rows []row
	if len(o.fold.Runs()) < len(o.scenario.requests) {
		rows = append(rows, row{id: "C-1"})
	}
	if len(o.fold.Messages()) < len(o.scenario.submissions) {
		rows = append(rows, row{id: "C-33"})
	}
	if strings.Contains(o.crash.At.What, "Cancelled(") && o.crash.At.Behind {
		rows = append(rows, row{id: "C-32"})
	}
	for _, r := range o.fold.Registers() {
		if id := o.registerRow(r); id != "" {
			rows = append(rows, row{id: id, run: r.Owner})
		}
	}
	for _, run := range o.fold.Runs() {
		for _, u := range o.fold.Units(run.ID) {
			rows = append(rows, o.unitRows(run, u)...)
		}
		for _, p := range run.Posts {
			if p.Started > p.Completed+p.Failed {
				rows = append(rows, row{id: "C-24", run: run.ID})
			}
		}
	}
	for _, m := range o.crash.Lost {
		lost := o.lostRow(m)
		rows = append(rows, lost)
		if m.Notice.Kind == events.KindUnit && lost.kind != "" {
			rows = append(rows, o.heirs(lost)...)
		}
	}
	if strings.Contains(o.crash.At.What, "UnitLeaseExpired") && !o.crash.At.Behind {
		rows = append(rows, row{id: "C-27"})
	}
	return slices.DeleteFunc(rows, func(r row) bool { return r.id == "" })
}

func (o *oracle) registerRow(r check.Register) string {
	published := o.published(r)
	switch {
	case r.State == check.Pending && r.Kind == events.KindDispatch && r.Newest == 1:
		return "C-2"
	case r.State == check.Pending && r.Kind == events.KindDispatch:
		return "C-10" // or C-28, by its time
	case r.State == check.Pending && r.Kind == events.KindUnit:
		return "C-7"
	case r.State == check.Pending && r.Kind == events.KindFinalize:
		return "C-16"
	case r.State == check.Pending && r.Kind == events.KindMessage:
		return "C-34"
	case r.State == check.Claimed && r.Kind == events.KindMessage:
		return "C-35"
	case r.State == check.Parked:
		return "C-40"
	case r.State == check.Pending:
		return "C-20"
	case r.State == check.Claimed && r.Kind == events.KindPostSync:
		return "C-21"
	case r.State == check.Claimed && published == 0:
		return "C-3"
	case r.State == check.Claimed && published < o.announced(r):
		return "C-8"
	case r.State == check.Claimed:
		return "C-4"
	case r.State == check.Marked && published < len(o.run(r.Owner).Policy.Targets):
		return "C-22"
	case r.State == check.Marked:
		return "C-23"
	}
	return ""
}

// published counts the messages of the current wakeup that the broker has.
func (o *oracle) published(r check.Register) int {
	ids := map[string]bool{}
	for _, p := range o.out.Published {
		if p.Run == r.Owner && p.Kind == r.Kind && p.N == r.Current && p.After <= o.crash.Head {
			ids[p.ID] = true
		}
	}
	return len(ids)
}

// announced counts the messages that a fan-out stands for, or 1.
func (o *oracle) announced(r check.Register) int {
	n := 0
	if r.Kind != events.KindUnit {
		return 1
	}
	for _, u := range o.fold.Units(r.Owner) {
		if u.Wakeup > r.Closed && u.Wakeup <= r.Current {
			n++
		}
	}
	return n
}

func (o *oracle) unitRows(run check.Run, u check.Unit) []row {
	switch {
	case u.Status == events.UnitIsRetrying:
		return []row{{id: "C-28", run: run.ID, wait: u.AvailableAt.Sub(o.crash.Time).Std()}}
	case u.Status == events.UnitIsRunning:
		retried, _ := o.verdictOf(run, u)
		r := row{id: "C-14", run: run.ID}
		if retried {
			r.id, r.wait = "C-13", retryBackoff
		}
		switch {
		case !slices.Contains(o.out.Called, check.Called{Unit: u.ID, Attempt: u.Attempt}):
			r.id = "C-12"
		case slices.Contains(o.out.Written, check.Written{Unit: u.ID, Attempt: u.Attempt}):
			r.id = "C-15"
		}
		return []row{r}
	case u.Status == events.UnitIsPlanned && u.Plan.Tier == events.TierWorkItem && o.referencesDone(u):
		return []row{{id: "C-38", run: run.ID, kind: events.KindDispatch}} // "else REC-7"
	}
	return nil
}

// scripted is the wait that the provider's own failure will cost, with or without a crash.
func (o *oracle) scripted(u check.Unit) time.Duration {
	if u.Attempt == 0 && failsOnce(u.Plan.Source, u.Plan.Dataset, u.Plan.Window.Name()) {
		return retryBackoff
	}
	return 0
}

func (o *oracle) referencesDone(u check.Unit) bool {
	for _, other := range o.fold.Units(u.Run) {
		if other.Plan.Source == u.Plan.Source && other.Plan.Tier == events.TierReference && other.Status != events.UnitHasSucceeded {
			return false
		}
	}
	return true
}

// lostRow is the row of a message that died with the process. Only one whose wakeup is closed is missed by anybody: an
// open one is published again.
func (o *oracle) lostRow(m sim.Message) row {
	r := row{run: m.Notice.Run}
	closed := o.register(m.Notice.Run, m.Notice.Kind).Closed >= m.Notice.Wakeup
	either := func(waits, inWork string) string {
		if m.InWork {
			return inWork
		}
		return waits
	}
	switch m.Notice.Kind {
	case events.KindDispatch:
		r.id = either("C-5", "C-6")
		r.kind = events.KindDispatch
	case events.KindUnit:
		r.id = either("C-9", "C-11")
		r.kind = events.KindDispatch // REC-7: it is stale at once (N-3)
		closed = closed && o.unit(m.Notice.Run, m.Notice.Unit).Status == events.UnitIsDispatching
	case events.KindFinalize:
		r.id = either("C-5", "C-19")
		r.kind = events.KindFinalize
	case events.KindMessage:
		r.id, r.kind = "C-36", events.KindMessage
	case events.KindPostSync:
		if o.run(m.Notice.Run).Policy.PostSync == events.ExactlyOnce {
			r.id, r.kind = "C-25", events.KindPostSync
			break
		}
		// Nobody resends it; its effect is judged by itself.
		started := slices.ContainsFunc(o.run(m.Notice.Run).Posts, func(p check.Post) bool {
			return p.Target == m.Notice.Target && p.Started > 0
		})
		if !closed || started {
			return row{}
		}
		r.id, closed = "C-46", false
	}
	if !closed {
		r.kind = ""
	}
	return r
}

// heirs are the runs whose units wait for a slot: a lost unit message gives back the slot of its unit, and without a
// transition that could pass it on, so REC-7 wakes whoever has room now.
func (o *oracle) heirs(lost row) (rows []row) {
	for _, run := range o.fold.Runs() {
		for _, u := range o.fold.Units(run.ID) {
			if u.Status == events.UnitIsPlanned && (u.Plan.Tier == events.TierReference || o.referencesDone(u)) {
				rows = append(rows, row{id: lost.id, run: run.ID, kind: events.KindDispatch})
				break
			}
		}
	}
	return rows
}

// bound is the longest wait that any row allows.
func (o *oracle) bound() (wait time.Duration) {
	for _, run := range o.fold.Runs() {
		for _, u := range o.fold.Units(run.ID) {
			if u.Status == events.UnitIsPlanned || u.Status == events.UnitIsDispatching {
				wait = max(wait, o.scripted(u))
			}
		}
	}
	if len(o.fold.Runs()) < len(o.scenario.requests) {
		wait = retryBackoff // the run that is still to be planned may bring such a failure
	}
	for _, r := range o.rows() {
		wait = max(wait, r.wait)
	}
	return wait
}

// armable are the obligations that the materialization may have to arm.
func (o *oracle) armable() map[events.StreamID]bool {
	out := map[events.StreamID]bool{}
	for _, r := range o.rows() {
		if r.kind != "" {
			out[events.RegisterStream(r.run, r.kind)] = true
		}
	}
	return out
}

// verdictOf says of a running unit whether its loss is retried, and else with which category it fails (RW-1 to RW-4).
func (o *oracle) verdictOf(run check.Run, u check.Unit) (retried bool, category events.Category) {
	for _, p := range run.Policy.Retry {
		if !slices.Contains(p.Family, u.Plan.Dataset) {
			continue
		}
		return u.ExpiredLeaseRetries < p.MaxRetries, events.WorkerLostExhausted
	}
	return false, events.WorkerLost
}

// doomed are the units that the crash ends: those that ran and may not be tried again, and what waits for a reference
// unit among them (U-13).
func (o *oracle) doomed() map[events.UnitID]events.Category {
	out := map[events.UnitID]events.Category{}
	for _, run := range o.fold.Runs() {
		units := o.fold.Units(run.ID)
		for _, u := range units {
			if u.Status != events.UnitIsRunning {
				continue
			}
			retried, category := o.verdictOf(run, u)
			if retried {
				continue
			}
			out[u.ID] = category
			for _, w := range units {
				if u.Plan.Tier == events.TierReference && w.Plan.Tier == events.TierWorkItem && w.Plan.Source == u.Plan.Source {
					out[w.ID] = events.ReferenceFailed
				}
			}
		}
	}
	return out
}

func (o *oracle) run(id events.RunID) check.Run {
	for _, r := range o.fold.Runs() {
		if r.ID == id {
			return r
		}
	}
	return check.Run{}
}

func (o *oracle) unit(run events.RunID, id events.UnitID) check.Unit {
	for _, u := range o.fold.Units(run) {
		if u.ID == id {
			return u
		}
	}
	return check.Unit{}
}

func (o *oracle) register(run events.RunID, k events.Kind) check.Register {
	for _, r := range o.fold.Registers() {
		if r.Owner == run && r.Kind == k {
			return r
		}
	}
	return check.Register{}
}
