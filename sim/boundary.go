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
	return side + " " + string(b.Port) + " " + b.What
}

func (b Boundary) String() string { return fmt.Sprintf("%03d %s", b.N, b.Label()) }

func (n *node) before(b Boundary) error {
	b.Behind = false
	return n.pass(b)
}

func (n *node) after(b Boundary) error {
	b.Behind = true
	return n.pass(b)
}

// pass counts a boundary, and kills the node if its time has come.
func (n *node) pass(b Boundary) error {
	if n.dead {
		return ErrDead
	}
	b.N = len(n.life.Boundaries) + 1
	n.life.Boundaries = append(n.life.Boundaries, b)
	if b.N != n.kill {
		return nil
	}
	n.dead = true
	n.w.crashes = append(n.w.crashes, Crash{At: b, Time: n.w.Now(), Head: n.head, Lost: n.lost()})
	return ErrDead
}

// names are how people call runs and units. Identifiers depend on the seed, and on what a crash has undone.
type names struct {
	runs  map[events.RunID]string
	units map[events.UnitID]string
	runOf map[events.UnitID]events.RunID
}

func newNames() names {
	return names{map[events.RunID]string{}, map[events.UnitID]string{}, map[events.UnitID]events.RunID{}}
}

func (s names) clone() names {
	c := newNames()
	for k, v := range s.runs {
		c.runs[k] = v
	}
	for k, v := range s.units {
		c.units[k] = v
	}
	for k, v := range s.runOf {
		c.runOf[k] = v
	}
	return c
}

// learn takes the names out of what is planned.
func (s names) learn(env events.Envelope) {
	switch e := env.Event.(type) {
	case events.RunPlanned:
		if id, ok := env.Stream.Run(); ok {
			s.runs[id] = e.Sync
		}
	case events.UnitPlanned:
		if id, ok := env.Stream.Unit(); ok {
			s.units[id] = fmt.Sprintf("%s %d %s/%s", s.runs[e.Run], e.Ordinal, e.Source, e.Dataset)
			s.runOf[id] = e.Run
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
