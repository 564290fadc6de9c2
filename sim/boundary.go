package sim

import (
	"fmt"
	"strings"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/transport"
)

// Port is a kind of call that leaves the process.
type Port string

// The ports of a node. A post_sync effect is a call of the destination of its own. An application commits by itself.
const (
	PortCommit   Port = "commit"
	PortPublish  Port = "publish"
	PortProvider Port = "provider"
	PortSink     Port = "sink"
	PortEffect   Port = "effect"

	PortApplication Port = "application"

	PortPut   Port = "put"   // by a provider, if Config.Puts says so
	PortPoint Port = "point" // no call: a place that a provider names by Point

	PortNone Port = "" // of a node that is killed between two boundaries
)

// Boundary is a moment before or behind the call of a port.
type Boundary struct {
	N      int // from 1, within its incarnation
	Behind bool
	Port   Port
	What   string // for people; it is the same in every world in which the same happens
}

// Label says which window a crash at the boundary hits. It has no number, so that it survives changes elsewhere.
func (b Boundary) Label() string {
	side := "before"
	if b.Behind {
		side = "after"
	}
	return side + " " + b.call()
}

func (b Boundary) call() string { return string(b.Port) + " " + b.What }

func (b Boundary) String() string { return fmt.Sprintf("%03d %s", b.N, b.Label()) }

// before passes the boundary before a call, and behind the one behind it. A fault may kill the node there.
func (n *node) before(b Boundary, f Fault) error {
	b.Behind = false
	return n.pass(b, f, KillBefore)
}

func (n *node) behind(b Boundary, f Fault) error {
	b.Behind = true
	return n.pass(b, f, KillBehind)
}

// enter is before, and others may move; leave is behind, and others may.
func (n *node) enter(b Boundary, f Fault) error {
	if err := n.pause("before " + b.call()); err != nil {
		return err
	}
	return n.before(b, f)
}

func (n *node) leave(b Boundary, f Fault) error {
	if err := n.behind(b, f); err != nil {
		return err
	}
	return n.pause("behind " + b.call())
}

// pass counts a boundary, and kills the node if its time has come.
func (n *node) pass(b Boundary, f Fault, kills FaultKind) error {
	if n.dead {
		return ErrDead
	}
	b.N = len(n.life.Boundaries) + 1
	n.life.Boundaries = append(n.life.Boundaries, b)
	if b.Port != PortCommit { // a commit is told by its events
		n.tell(Entry{Call: &b, Fault: f})
	}
	if b.N != n.kill && f.How != kills && (n.w.trap == nil || !n.w.trap(n.number, b)) {
		return nil
	}
	n.dieOf(b, f)
	return ErrDead
}

// die kills the node. The world unwinds its tasks when the one that runs gives its turn back.
func (n *node) die(at Boundary) { n.dieOf(at, Fault{}) }

// dieOf says of which fault it died, if it was one.
func (n *node) dieOf(at Boundary, f Fault) {
	n.ends()
	n.w.crashes = append(n.w.crashes, Crash{At: at, Node: n.number, Time: n.w.Now(), Head: n.w.head, Lost: n.lost()})
	n.tell(Entry{Crash: &at, Fault: f})
}

// Entry is something that has happened in a world: an event, a call of a port, or the death of a node.
type Entry struct {
	Node  int
	Event *events.Envelope // on disk
	Call  *Boundary        // a boundary of a port that is no commit; or a commit that fails
	Fault Fault            // of the call
	Crash *Boundary        // where the node died
	// Refused is what a transaction was refused with by a rule. Nothing of it is on disk.
	Refused error
}

func (n *node) tell(e Entry) {
	if n.w.c.Trace != nil {
		e.Node = n.number
		n.w.c.Trace(e)
	}
}

// names are how people call runs and units. Identifiers depend on the seed, and on what a crash has undone.
type names struct {
	runs    map[events.RunID]string
	units   map[events.UnitID]string
	planned map[string]int // runs of a sync that are on disk
}

func newNames() names {
	return names{map[events.RunID]string{}, map[events.UnitID]string{}, map[string]int{}}
}

func (s names) clone() names {
	c := newNames()
	for k, v := range s.runs {
		c.runs[k] = v
	}
	for k, v := range s.units {
		c.units[k] = v
	}
	for k, v := range s.planned {
		c.planned[k] = v
	}
	return c
}

// RunName is how the nth run of a sync is called, from 1: weather, weather#2.
func RunName(sync string, n int) string {
	if n == 1 {
		return sync
	}
	return fmt.Sprintf("%s#%d", sync, n)
}

// counts takes note of what is on disk, so that the next run of a sync has another name.
func (s names) counts(env events.Envelope) {
	if e, ok := env.Event.(events.RunPlanned); ok {
		s.planned[e.Sync]++
	}
}

// learn takes the names out of what is planned.
func (s names) learn(env events.Envelope) {
	switch e := env.Event.(type) {
	case events.RunPlanned:
		if id, ok := env.Stream.Run(); ok {
			s.runs[id] = RunName(e.Sync, s.planned[e.Sync]+1)
		}
	case events.UnitPlanned:
		if id, ok := env.Stream.Unit(); ok {
			s.units[id] = fmt.Sprintf("%s %d %s/%s", s.runs[e.Run], e.Ordinal, e.Source, e.Dataset)
		}
	case events.MessageSubmitted:
		if topic, ok := env.Stream.Topic(); ok {
			s.runs[events.RunID(e.Message)] = Submission{Topic: topic, Key: e.Key}.name()
		}
	}
}

func (s names) wakeup(run events.RunID, k events.Kind, n int) string {
	return fmt.Sprintf("%s %s.%d", s.runs[run], k, n)
}

func (s names) message(n transport.Notice) string {
	what := s.wakeup(n.Run, n.Kind, n.Wakeup)
	switch {
	case !n.Unit.IsZero():
		what += fmt.Sprintf(" (%s, attempt %d)", s.units[n.Unit], n.Attempt)
	case n.Target != "":
		what += " (" + n.Target + ")"
	}
	return what
}

// commit lists what a commit has appended.
func (s names) commit(envs []events.Envelope) string {
	var parts []string
	units := 0
	for _, env := range envs {
		s.learn(env)
		if _, ok := env.Event.(events.UnitPlanned); ok {
			units++
			continue
		}
		parts = append(parts, s.event(env))
	}
	if units > 0 {
		parts = append(parts, fmt.Sprintf("UnitPlanned×%d", units))
	}
	return strings.Join(parts, ", ")
}

func (s names) event(env events.Envelope) string {
	what := env.Event.EventType().String()
	if owner, k, ok := env.Stream.Register(); ok {
		number := 0
		target := ""
		switch e := env.Event.(type) {
		case events.OutboxArmed:
			number = e.N
		case events.OutboxClaimed:
			number = e.N
		case events.OutboxDispatched:
			number = e.N
		case events.OutboxReleased:
			number = e.N
		case events.OutboxDropped:
			number = e.N
		case events.OutboxParked:
			number = e.N
		case events.OutboxOutcome:
			number, target = e.N, " "+e.Target
		}
		return what + "(" + s.wakeup(owner, k, number) + target + ")"
	}
	if unit, ok := env.Stream.Unit(); ok {
		return what + "(" + s.units[unit] + ")"
	}
	if run, ok := env.Stream.Run(); ok {
		switch e := env.Event.(type) {
		case events.PostSyncStarted:
			return what + "(" + s.runs[run] + " " + e.Target + ")"
		case events.PostSyncCompleted:
			return what + "(" + s.runs[run] + " " + e.Target + ")"
		}
		return what + "(" + s.runs[run] + ")"
	}
	return what
}

func (s names) attempt(unit events.UnitID, attempt int) string {
	return fmt.Sprintf("%s, attempt %d", s.units[unit], attempt)
}
