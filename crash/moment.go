package crash

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/sink"
)

// history follows a log, and knows at each boundary of it what a crash there finds.
type history struct {
	fold    *check.Checker
	config  json.RawMessage // of the newest start
	calls   []check.Called
	commits []commit
	effects []effect // that are on record as done
	topics  []string // of messages
	plans   map[events.UnitID]events.UnitPlanned
	once    map[events.RunID]bool // its effects are to happen exactly once
	claims  map[events.UnitID]events.Position
	claimed map[events.StreamID]events.Position // newest claim of a wakeup
	sent    map[events.StreamID]sending
	heard   map[events.RunID]events.Position // of the newest decision that a message of dispatch has led to
	last    []events.Envelope                // the newest transaction
	events  int
}

// commit is one of a sink.
type commit struct {
	unit    events.UnitID
	plan    events.UnitPlanned
	fence   events.Fence
	rows    int
	attempt int
}

type effect struct {
	run    events.RunID
	target string
	once   bool
}

// sending is the newest mark of a register.
type sending struct {
	n         int
	claimed   events.Position // before it: a handler may be faster than the mark
	transport string
	node      events.NodeID
}

func newHistory() *history {
	return &history{
		fold: check.New(check.Options{Keep: true}), plans: map[events.UnitID]events.UnitPlanned{}, once: map[events.RunID]bool{},
		claims: map[events.UnitID]events.Position{}, claimed: map[events.StreamID]events.Position{}, sent: map[events.StreamID]sending{}, heard: map[events.RunID]events.Position{},
	}
}

// add takes the next transaction.
func (h *history) add(tx []events.Envelope) {
	for i, env := range tx {
		h.note(env, i == 0)
		h.fold.Apply(env)
	}
	h.fold.EndTx()
	h.last = tx
	h.events += len(tx)
}

func (h *history) note(env events.Envelope, first bool) {
	unit, _ := env.Stream.Unit()
	run, _ := env.Stream.Run()
	switch e := env.Event.(type) {
	case events.NodeStarted:
		h.config = e.Config
	case events.RunPlanned:
		h.once[run] = e.Policy.PostSync == events.ExactlyOnce
	case events.UnitPlanned:
		h.plans[unit] = e
	case events.UnitDispatched:
		if first { // else it follows from a settle
			h.heard[h.plans[unit].Run] = env.Position
		}
	case events.UnitClaimed:
		h.claims[unit] = env.Position
		h.calls = append(h.calls, check.Called{Unit: unit, Attempt: e.Attempt})
	case events.UnitSucceeded:
		h.commits = append(h.commits, h.commit(unit, e.Attempt, e.Result.Rows))
	case events.OutboxClaimed:
		h.claimed[env.Stream] = env.Position
	case events.OutboxDispatched:
		h.sent[env.Stream] = sending{n: e.N, claimed: h.claimed[env.Stream], transport: e.Transport, node: env.Node}
	case events.PostSyncCompleted:
		h.effects = append(h.effects, effect{run, e.Target, h.once[run]})
	case events.MessageSubmitted:
		if topic, ok := env.Stream.Topic(); ok && !slices.Contains(h.topics, topic) {
			h.topics = append(h.topics, topic)
		}
	}
}

func (h *history) commit(unit events.UnitID, attempt, rows int) commit {
	return commit{unit, h.plans[unit], events.NewFence(h.fold.Epoch(), h.claims[unit]), rows, attempt}
}

func (h *history) run(id events.RunID) check.Run {
	for _, r := range h.fold.Runs() {
		if r.ID == id {
			return r
		}
	}
	return check.Run{}
}

func (h *history) unit(id events.UnitID) check.Unit {
	for _, u := range h.fold.Units(h.plans[id].Run) {
		if u.ID == id {
			return u
		}
	}
	return check.Unit{}
}

// moment is a crash that is going to be played, and what must become of it.
type moment struct {
	scene
	position events.Position
	at       events.Micros
	topics   []string
	outside  outside
	open     []events.RunID // runs that had not ended
	units    []check.Unit   // that had not, of all runs
	known    map[effect]bool
	broken   int  // violations of the log itself
	compares bool // the views with the log

	rows    []string // of the crash table
	bound   events.Span
	armable map[events.StreamID]bool
	doomed  map[events.UnitID]events.Category
}

// outside is what the world knows beside the log.
type outside struct {
	published []check.Published
	calls     []check.Called
	commits   []commit
	effects   []effect
}

// moment is a crash behind the newest transaction, with these calls made and not on record. next is the transaction that
// was to come; nil: it is not known.
func (h *history) moment(s scene, next []events.Envelope) moment {
	head, at := h.fold.Head()
	m := moment{scene: s, position: head, at: at, topics: slices.Clone(h.topics), known: map[effect]bool{}, broken: h.fold.Total()}
	x := check.Crash{Log: h.fold, Time: at, Lost: h.lost(), Delay: func(u check.Unit) events.Span { return s.says.waits(u.ID, u.Attempt+1) }}
	m.outside = outside{calls: slices.Clone(h.calls), commits: slices.Clone(h.commits), effects: slices.Clone(h.effects)}
	begun := map[events.UnitID]bool{} // by this very transaction, so nobody was called yet
	for _, env := range h.last {
		switch env.Event.(type) {
		case events.UnitClaimed:
			id, _ := env.Stream.Unit()
			begun[id] = true
		case events.RunCancelled, events.UnitCancelled:
			x.Cancelling = true
		}
	}
	for _, env := range next {
		if _, ok := env.Event.(events.UnitLeaseExpired); ok {
			x.Expiring = true
		}
	}
	h.make(s.calls, &m, begun)
	m.outside.calls = slices.DeleteFunc(m.outside.calls, func(c check.Called) bool {
		return begun[c.Unit] && c.Attempt == h.unit(c.Unit).Attempt
	})
	x.Called, x.Published = m.outside.calls, m.outside.published
	for _, c := range m.outside.commits {
		x.Written = append(x.Written, check.Written{Unit: c.unit, Attempt: c.attempt})
	}
	for _, r := range x.Rows() {
		if !slices.Contains(m.rows, r.ID) {
			m.rows = append(m.rows, r.ID)
		}
	}
	slices.SortFunc(m.rows, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	m.bound, m.armable, m.doomed = x.Bound(), x.Armable(), x.Doomed()
	for _, run := range h.fold.Runs() {
		if !run.Status.Terminal() {
			m.open = append(m.open, run.ID)
			for _, u := range h.fold.Units(run.ID) {
				if !u.Status.Terminal() {
					m.units = append(m.units, u)
					m.bound += s.says.waits(u.ID, u.Attempt+1)
				}
			}
		}
		h.knownEffects(run, m.known)
	}
	for _, message := range h.fold.Messages() {
		m.bound += s.replies.waits(message.ID, h.deliveries())
	}
	return m
}

// deliveries are those of a message that fails, each a second behind the other.
func (h *history) deliveries() int {
	knobs, err := towline.RecordedKnobs(h.config)
	if err != nil {
		return 0 // play says so
	}
	const usual = 10
	return cmp.Or(knobs.MaxDeliveries, usual)
}

// ahead are those failures that have not happened yet.
func (h *history) ahead(all []failure) (out []failure) {
	known := map[effect]bool{}
	for _, run := range h.fold.Runs() {
		h.knownEffects(run, known)
		for _, f := range all {
			if f.Run == run.ID && !known[effect{run: f.Run, target: f.Target}] {
				out = append(out, f)
			}
		}
	}
	return out
}

// make lets calls have happened.
func (h *history) make(calls []call, m *moment, begun map[events.UnitID]bool) {
	for _, c := range calls {
		switch c.Port {
		case sim.PortSink:
			u := h.unit(c.Unit)
			if u.Status != events.UnitIsRunning {
				continue
			}
			delete(begun, c.Unit)
			m.outside.commits = append(m.outside.commits, h.commit(u.ID, u.Attempt, m.says.to(u.ID, u.Attempt).Rows))
		case sim.PortEffect:
			m.outside.effects = append(m.outside.effects, effect{c.Run, c.Target, h.once[c.Run]})
		case sim.PortPublish:
			for _, id := range h.messageIDs(c) {
				m.outside.published = append(m.outside.published, check.Published{ID: id, Kind: c.Kind, Run: c.Run, N: c.N, Target: c.Target, After: m.position})
			}
		}
	}
}

// messageIDs are those of a wakeup as it was claimed (K-3).
func (h *history) messageIDs(c call) (ids []string) {
	suffix := ""
	if epoch := h.fold.Epoch(); epoch > 1 {
		suffix = fmt.Sprintf(".e%d", epoch)
	}
	switch {
	case c.Kind == events.KindUnit:
		closed := 0
		for _, r := range h.fold.Registers() {
			if events.RunID(r.Owner) == c.Run && r.Kind == c.Kind {
				closed = r.Closed
			}
		}
		for _, u := range h.fold.Units(c.Run) {
			if u.Status == events.UnitIsDispatching && u.Wakeup > closed && u.Wakeup <= c.N {
				ids = append(ids, decider.UnitMessageID(c.Run, c.N, u.ID, u.Attempt+1)+suffix)
			}
		}
	case c.Kind == events.KindPostSync && c.Target != "":
		ids = append(ids, decider.TargetMessageID(c.Run, c.N, c.Target)+suffix)
	case c.Kind == events.KindPostSync:
		for _, target := range h.run(c.Run).Policy.Targets {
			ids = append(ids, decider.TargetMessageID(c.Run, c.N, target)+suffix)
		}
	default:
		ids = append(ids, decider.MessageID(c.Run, c.Kind, c.N)+suffix)
	}
	return ids
}

// lost are the messages that die with the process, as far as the log tells: their wakeups are closed, and nothing shows that
// somebody has acted on them.
func (h *history) lost() (out []check.Lost) {
	messages := map[events.RunID]bool{}
	for _, m := range h.fold.Messages() {
		messages[events.RunID(m.ID)] = m.Status == check.MessageOpen
	}
	for _, r := range h.fold.Registers() {
		owner := events.RunID(r.Owner)
		stream := events.RegisterStream(owner, r.Kind)
		s, run := h.sent[stream], h.run(owner)
		if r.Closed == 0 || s.n == 0 {
			continue
		}
		lost := check.Lost{Kind: r.Kind, Run: owner, N: r.Closed, Outside: !events.InProcess(s.transport)}
		switch {
		case r.Kind == events.KindMessage && messages[owner],
			r.Kind == events.KindDispatch && !run.Status.Terminal() && s.n == r.Closed && h.heard[owner] < s.claimed,
			r.Kind == events.KindFinalize && !run.Status.Terminal():
			out = append(out, lost)
		case r.Kind == events.KindUnit:
			for _, u := range h.fold.Units(owner) {
				if u.Status == events.UnitIsDispatching && u.Wakeup <= r.Closed {
					lost.Unit, lost.N = u.ID, u.Wakeup
					out = append(out, lost)
				}
			}
		case r.Kind == events.KindPostSync && run.Policy.PostSync != events.ExactlyOnce && h.fold.Gone(s.node):
			// It was lost before.
		case r.Kind == events.KindPostSync:
			for _, target := range run.Policy.Targets {
				accepted := slices.ContainsFunc(r.Outcomes, func(o check.TargetOutcome) bool {
					return o.Target == target && o.Outcome == events.Accepted
				})
				if (accepted || run.Policy.PostSync == events.ExactlyOnce) && !ended(run, target) && !slices.Contains(run.Policy.Sent, target) {
					lost.Target = target
					out = append(out, lost)
				}
			}
		}
	}
	return out
}

// ended: its effect is on record as done, or as failed.
func ended(run check.Run, target string) bool {
	return slices.ContainsFunc(run.Posts, func(p check.Post) bool { return p.Target == target && p.Completed+p.Failed > 0 })
}

// knownEffects are those of which the log says already what became of them: whoever dies now changes nothing of that.
func (h *history) knownEffects(run check.Run, known map[effect]bool) {
	for _, p := range run.Posts {
		if p.Completed+p.Failed > 0 {
			known[effect{run: run.ID, target: p.Target}] = true
		}
	}
	for _, r := range h.fold.Registers() {
		if events.RunID(r.Owner) != run.ID || r.Kind != events.KindPostSync {
			continue
		}
		gone := h.fold.Gone(h.sent[events.RegisterStream(run.ID, r.Kind)].node)
		for _, o := range r.Outcomes {
			// Accepted, and its process is gone: it died in its memory then (C-46). Of a message to a broker that is all.
			if o.Outcome != events.Accepted || gone || slices.Contains(run.Policy.Sent, o.Target) {
				known[effect{run: run.ID, target: o.Target}] = true
			}
		}
	}
}

// scope is that of a commit.
func (c commit) scope() sink.Scope {
	return sink.Scope{
		Source: c.plan.Source, Dataset: c.plan.Dataset, Window: c.plan.Window, Run: c.plan.Run, Unit: c.unit, Attempt: c.attempt,
		Fence: c.fence, Surfaces: c.plan.Surfaces,
	}
}
