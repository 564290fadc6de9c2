package crash

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/sim"
)

// ending is what a recovery has come to.
type ending struct {
	world   *sim.World
	log     []events.Envelope
	fold    *check.Checker
	err     error // of the world
	idle    error // of the pass that should have nothing to do
	idled   int   // what that pass has done all the same
	waited  events.Span
	settled check.Settings
	views   []string // in what the views are not the fold of the log
	unread  error    // why they could not be compared
}

// apart keeps the ids of the worlds apart from those of the log, which may be of a world that had the same seed.
const apart = 0x9e3779b97f4a7c15

// play lets a process start on a store that ends at a moment, and go on to the end. An error is of the machine that it is
// played on; what a recovery comes to is in the ending.
func play(ctx context.Context, path string, m moment) (e ending, err error) {
	knobs, err := towline.RecordedKnobs(m.knobs)
	if err != nil {
		return e, err
	}
	c := sim.Config{Store: path, Seed: m.seed ^ apart, Start: m.at.Time(), Knobs: knobs, Kills: m.kills}
	to := &failing{failures: m.failures}
	for _, s := range m.syncs {
		sync := s.sync(m.says)
		sync.Sink = to
		c.Syncs = append(c.Syncs, sync)
	}
	for _, topic := range m.topics {
		if c.Messages == nil {
			c.Messages = map[string]sim.Handler{}
		}
		c.Messages[topic] = m.replies.consume
	}
	var newest events.Micros
	c.Trace = func(e sim.Entry) {
		if e.Event != nil {
			newest = e.Event.At
		}
	}
	w := sim.New(c)
	to.Destination = w.Outside().Destination
	w.Watch(func(context.Context, bool) error {
		if still := w.Now().Sub(max(newest, m.at)); still > m.bound+patience {
			return fmt.Errorf("nothing has happened for %s", still)
		}
		return nil
	})
	if err := m.outside.enter(ctx, w.Outside()); err != nil {
		return e, err
	}
	w.Act(letGo(m.replies))
	e.world = w
	defer func() {
		if buried := guarded(w.Bury); e.err == nil { // behind a panic a world is not whole
			err = errors.Join(err, buried)
		}
	}()
	e.err = guarded(func() error { return w.Run(ctx) })
	if ctx.Err() != nil {
		return e, context.Cause(ctx)
	}
	for _, life := range w.Lives() {
		e.waited += events.SpanOf(life.Waited)
	}
	if e.err == nil {
		e.err = guarded(func() error {
			report := w.Pass(ctx)
			e.idle, e.idled = report.Err(), report.Changed()
			return nil
		})
	}
	if w.Engine() == nil {
		return e, nil // it did not come up
	}
	e.settled = w.Settings()
	log, err := w.Log(ctx)
	if err != nil && e.err != nil {
		return e, nil
	}
	e.log = log
	if err == nil && e.err == nil && m.compares && m.broken == 0 { // what contradicts itself has no one fold
		e.views, e.unread = differences(ctx, w, path+"-fold")
	}
	if ctx.Err() != nil { // nothing of that is the recovery's
		return e, context.Cause(ctx)
	}
	return e, err
}

// patience is how long the log may stand still beyond what the crash table allows, before a world is given up. The longest
// that production waits for by itself are the 15 minutes of dispatch.stale, and a provider's work shows by its renewals.
const patience = 2 * events.Span(time.Hour/time.Microsecond)

// guarded is an error also for what panics: a rule that meets what it believes impossible, for one.
func guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			text, _, _ := strings.Cut(fmt.Sprint(v), "\n")
			err = fmt.Errorf("panic: %s", text)
		}
	}()
	return f()
}

// enter is what the world holds when the process starts.
func (o outside) enter(ctx context.Context, to *sim.Outside) error {
	to.Published = append(to.Published, o.published...)
	to.Called = append(to.Called, o.calls...)
	for _, c := range o.commits {
		w, err := to.Destination.Open(ctx, c.scope())
		if err != nil {
			continue // the store of the log has written behind it: it has begun anew there, or was restored
		}
		if err := putRows(ctx, w, c.plan.Surfaces, c.plan.Dataset, c.rows); err != nil {
			return err
		}
		if err := w.Commit(ctx); err != nil {
			return err
		}
		to.Written = append(to.Written, check.Written{Unit: c.unit, Attempt: c.attempt})
	}
	for _, f := range o.effects {
		args := []any{sql.Named("run", f.run.String())}
		var err error
		if f.once {
			_, err = to.Destination.ScriptOnce(ctx, decider.Generation(f.run)+"."+f.target, script(f.target), args...)
		} else {
			err = to.Destination.Script(ctx, script(f.target), args...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// letGo is an operator who ends every pause and redrives what is parked, so that what only a person can end does not look
// as if nobody could. A message that its consumer has given up for good stays: it would be parked again and again.
func letGo(said replies) sim.Act {
	by := towline.Actor{Name: "crash", Reason: "the matrix lets go of what is held"}
	return sim.Act{
		Name: "let go", Standing: true,
		Look: func(v projections.View, _ events.Micros) (sim.Move, error) {
			paused, err := v.Paused()
			if err != nil {
				return sim.Move{}, err
			}
			for _, p := range paused {
				return sim.Move{Do: func(ctx context.Context, e *towline.Engine) error {
					if p.Source == "" {
						return e.ResumeEngine(ctx, by)
					}
					return e.ResumeSource(ctx, p.Source, by)
				}}, nil
			}
			held, err := v.HeldRegisters(manyHeld)
			for _, r := range held {
				switch {
				case r.Status != decider.RegisterParked,
					r.Kind == events.KindPostSync && len(r.Outcomes) > 0,
					r.Kind == events.KindMessage && said.fails(events.MessageID(r.Owner)):
					continue
				}
				key := towline.RegisterKey{Owner: r.Owner, Kind: r.Kind}
				return sim.Move{Do: func(ctx context.Context, e *towline.Engine) error {
					err := e.Redrive(ctx, key, by)
					var refused *towline.RequestError
					if errors.As(err, &refused) {
						return nil // a post_sync that is sent once in its life
					}
					return err
				}}, nil
			}
			return sim.Move{}, err
		},
	}
}

const manyHeld = 1000

// judge says what became of a crash.
func (m moment) judge(e ending) Row {
	row := Row{
		Position: m.position, Rows: m.rows, Bound: m.bound.Std(), Waited: e.waited.Std(), Verdict: Recovered,
	}
	j := &judge{m: m, e: &e, row: &row, killed: len(e.world.Crashes()) > 0}
	j.stranded()
	if e.log != nil {
		row.Events = len(e.log) - int(m.position)
		row.Took = e.log[len(e.log)-1].At.Sub(m.at).Std()
		j.fold()
		j.runs()
		j.messages()
		j.effects()
		j.units()
		j.materialized()
		j.repeated()
		j.invariants()
		j.views()
	}
	return row
}

type judge struct {
	m   moment
	e   *ending
	row *Row
	net bool // the world has come to its end
	// killed: there were crashes during the recovery. What each of them may cost is not known here.
	killed bool
}

// worse raises the verdict, and keeps the sentence.
func (j *judge) worse(v Verdict, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	switch v {
	case Stranded, Violated:
		j.row.Problems = append(j.row.Problems, text)
	default:
		if text != "" {
			j.row.Notes = append(j.row.Notes, text)
		}
	}
	if v.rank() > j.row.Verdict.rank() {
		j.row.Verdict = v
	}
}

func (j *judge) stranded() {
	e := j.e
	if e.err != nil {
		j.worse(Stranded, "%v", e.err)
		return
	}
	j.net = true
	if e.idle != nil {
		j.worse(Stranded, "a pass behind it all fails: %v", e.idle)
	}
	if e.idled > 0 {
		j.worse(Violated, "I-28: a pass with nothing due has changed %d things", e.idled)
	}
	if allowed := j.m.bound; !j.killed && e.waited > allowed {
		j.worse(Violated, "%s passed without work behind the restart, and %s allow %s", e.waited, strings.Join(j.m.rows, ", "), allowed)
	}
}

func (j *judge) fold() {
	j.e.fold = check.New(check.Options{Keep: true, Broker: true, Settings: j.e.settled})
	for _, env := range j.e.log {
		j.e.fold.Apply(env)
	}
	j.e.fold.EndTx()
}

func (j *judge) run(id events.RunID) check.Run {
	for _, r := range j.e.fold.Runs() {
		if r.ID == id {
			return r
		}
	}
	return check.Run{}
}

// runs: every run that was open has ended (G-1).
func (j *judge) runs() {
	for _, id := range j.m.open {
		if run := j.run(id); !run.Status.Terminal() {
			j.worse(Stranded, "run %s of %s is %s", id, run.Sync, run.Status)
		}
	}
}

// messages: every one of an application was handled or rejected, or is parked, which a person sees (G-17, M-4). One that a
// broker has taken is over for the store: whoever handles it says nothing here.
func (j *judge) messages() {
	outside := map[events.StreamID]bool{}
	for _, env := range j.e.log {
		if e, ok := env.Event.(events.OutboxDispatched); ok {
			outside[env.Stream] = !events.InProcess(e.Transport)
		}
	}
	registers := map[events.MessageID]check.Register{}
	for _, r := range j.e.fold.Registers() {
		if r.Kind == events.KindMessage {
			registers[events.MessageID(r.Owner)] = r
		}
	}
	for _, m := range j.e.fold.Messages() {
		if m.Status != check.MessageOpen {
			continue
		}
		r, armed := registers[m.ID]
		switch {
		case !armed:
			j.worse(Stranded, "M-4: message %s of %s is %s, and was never armed", m.ID, m.Topic, m.Status)
		case r.State == check.Parked, r.State == check.Idle && outside[events.MessageStream(m.ID)]:
		default:
			j.worse(Stranded, "M-4: message %s of %s is %s, its wakeup %d is %s", m.ID, m.Topic, m.Status, r.Current, r.State)
		}
	}
}

// effects: none of them twice, and none lost in silence (G-4).
func (j *judge) effects() {
	happened := map[effect]int{}
	for _, f := range j.e.world.Outside().Destination.Effects() {
		target, _ := strings.CutPrefix(f.Script, script(""))
		happened[effect{run: f.Run, target: target}]++
	}
	for _, run := range j.e.fold.Runs() {
		if !run.PostSyncOwed {
			continue
		}
		for _, target := range run.Policy.Targets {
			key := effect{run: run.ID, target: target}
			j.effect(run, target, happened[key], j.m.known[key])
		}
	}
}

func (j *judge) effect(run check.Run, target string, happened int, known bool) {
	name := run.Sync + " " + target
	if happened > 1 {
		j.worse(Violated, "G-4: the effect %s has happened %d times", name, happened)
	}
	done := false
	for _, p := range run.Posts {
		done = done || p.Target == target && p.Completed+p.Failed > 0
	}
	for _, sent := range run.Policy.Sent {
		done = done || sent == target && j.outcome(run, target) == events.Accepted
	}
	switch {
	case done || known:
		return
	case run.Policy.PostSync == events.ExactlyOnce:
		j.worse(Stranded, "the effect %s is not done, and it is to happen exactly once", name)
		return
	}
	shown := j.shown(run, target)
	switch {
	case shown == "":
		j.worse(Stranded, "the effect %s is lost without a trace", name)
	case happened == 1:
		j.worse(Lost, "%s has happened, and nobody knows: %s", name, shown)
	default:
		j.worse(Lost, "%s: %s", name, shown)
	}
}

// shown is what the log says of an at-most-once effect that is not on record as done; empty: nothing.
func (j *judge) shown(run check.Run, target string) string {
	for _, p := range run.Posts {
		if p.Target == target && p.Started > p.Completed+p.Failed {
			return "started, not completed"
		}
	}
	switch o := j.outcome(run, target); o {
	case events.Accepted:
		return "accepted, never started"
	default:
		return string(o)
	}
}

func (j *judge) outcome(run check.Run, target string) (out events.Outcome) {
	for _, r := range j.e.fold.Registers() {
		if events.RunID(r.Owner) != run.ID || r.Kind != events.KindPostSync {
			continue
		}
		for _, o := range r.Outcomes {
			if o.Target == target {
				out = o.Outcome
			}
		}
	}
	return out
}

// units: the crash has ended those that no policy lets be tried again, and no other.
func (j *judge) units() {
	ended := map[events.Category]int{}
	for _, was := range j.m.units {
		var u check.Unit
		for _, now := range j.e.fold.Units(was.Run) {
			if now.ID == was.ID {
				u = now
			}
		}
		doomed, lost := j.m.doomed[u.ID]
		switch {
		case j.killed, !j.net && !u.Status.Terminal():
		case lost && (u.Status != events.UnitHasFailed || u.Category != doomed):
			j.worse(Violated, "RW-4: unit %s is %s %s, and must have failed as %s", u.ID, u.Status, u.Category, doomed)
		case lost:
			ended[doomed]++
		case u.Status == events.UnitHasFailed && !j.m.says.fails(u.ID) && !j.follows(u):
			j.worse(Violated, "unit %s has failed as %s, and its provider has not", u.ID, u.Category)
		}
	}
	for _, c := range []events.Category{events.WorkerLost, events.WorkerLostExhausted, events.ReferenceFailed} {
		if n := ended[c]; n > 0 {
			j.row.Notes = append(j.row.Notes, fmt.Sprintf("%d ended as %s", n, c))
		}
	}
}

// follows: it waited for a reference unit that has failed (P-9).
func (j *judge) follows(u check.Unit) bool { return u.Category == events.ReferenceFailed }

// materialized: the net arms what a row names and nothing else, each at most once (spec 12).
func (j *judge) materialized() {
	armable := map[events.StreamID]bool{}
	for s := range j.m.armable {
		armable[s] = true
	}
	for _, env := range j.e.log[j.m.position:] {
		a, ok := env.Event.(events.OutboxArmed)
		if !ok || a.Cause != events.ArmMaterialized {
			continue
		}
		if !j.killed && !armable[env.Stream] {
			j.worse(Violated, "%s was materialized, which no row of the crash table names: %s", env.Stream, cmp.Or(strings.Join(j.m.rows, ", "), "none"))
		}
		delete(armable, env.Stream)
	}
}

// repeated: what had been done before was done again, to no effect.
func (j *judge) repeated() {
	out := j.e.world.Outside()
	published := map[string]int{}
	for _, p := range out.Published {
		published[p.ID]++
	}
	again := 0
	for _, p := range j.m.outside.published {
		if published[p.ID] > 1 {
			again++
		}
	}
	if again > 0 {
		j.worse(Absorbed, "%s published again under the same id", several(again, "message", "messages"))
	}
	written := map[events.UnitID]int{}
	for _, w := range out.Written {
		written[w.Unit]++
	}
	for _, c := range j.m.calls {
		switch {
		case c.Port == sim.PortSink && written[c.Unit] > 1:
			j.worse(Absorbed, "a unit has written again, behind a newer fence")
		case c.Port == sim.PortEffect && j.run(c.Run).Policy.PostSync == events.ExactlyOnce:
			j.worse(Absorbed, "the ledger has skipped the effect of %s", c.Target)
		}
	}
}

// invariants are those of the log, of the broker and of the providers, as far as the recovery is to blame.
func (j *judge) invariants() {
	out := j.e.world.Outside()
	j.e.fold.Finish()
	j.e.fold.Broker(out.Published)
	j.e.fold.Providers(out.Called, out.Written)
	if j.net {
		j.e.fold.Standstills(j.e.world.Now())
	}
	for _, v := range j.e.fold.Violations() {
		if v.Position <= j.m.position {
			continue // of the log that was given
		}
		j.row.Violations = append(j.row.Violations, v)
		if v.Rule == "I-27" {
			j.worse(Stranded, "%s", v)
			continue
		}
		j.worse(Violated, "%s", v)
	}
}

// views: the recovery has left tables, and memory, that are the fold of its log (I-26).
func (j *judge) views() {
	j.row.compared, j.row.differs = j.m.compares, j.e.unread != nil || len(j.e.views) > 0
	if j.e.unread != nil {
		j.worse(Violated, "I-26: the views cannot be compared with the log: %v", j.e.unread)
	}
	for _, d := range j.e.views {
		j.worse(Violated, "I-26: the views are not the fold of the log: %s", d)
	}
}
