package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/sim"
)

// incident is something that comes between the moves of a world.
type incident struct {
	after int // moves behind the one before
	what  string
	node  int
	port  sim.Port
	how   sim.FaultKind
	times int
	d     time.Duration
}

func (i incident) String() string {
	return fmt.Sprintf("after %d moves: %s node=%d %s %s times=%d %s", i.after, i.what, i.node, i.port, i.how, i.times, i.d)
}

var swarmPorts = []sim.Port{sim.PortPublish, sim.PortCommit, sim.PortProvider, sim.PortSink, sim.PortEffect, sim.PortApplication}

func incidents(nodes int) *rapid.Generator[incident] {
	return rapid.Custom(func(t *rapid.T) incident {
		i := incident{
			after: rapid.IntRange(0, 60).Draw(t, "after"),
			what: rapid.SampledFrom([]string{
				"fault", "fault", "fault", "kill", "kill", "advance", "advance", "hold task", "hold node", "stop", "clock", "purge",
				"cancel run", "cancel unit", "release unit", "pause", "resume", "pause source", "resume source", "park", "redrive", "resolve", "retry",
			}).Draw(t, "what"),
			node: rapid.IntRange(1, nodes).Draw(t, "node"),
		}
		span := rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second, 45 * time.Second, 70 * time.Second, 6 * time.Minute, 20 * time.Minute, 2 * time.Hour})
		switch i.what {
		case "fault":
			i.port = rapid.SampledFrom(swarmPorts).Draw(t, "port")
			i.how = rapid.SampledFrom(sim.FaultKinds(i.port)).Draw(t, "how")
			i.times = rapid.SampledFrom([]int{1, 1, 1, 2, 5, 25}).Draw(t, "times")
			i.d = span.Draw(t, "for")
		case "advance", "hold task", "hold node":
			i.d = span.Draw(t, "for")
		case "clock":
			i.d = span.Draw(t, "by") * time.Duration(rapid.SampledFrom([]int{1, -1, 24, -24}).Draw(t, "times"))
		}
		return i
	})
}

// swarm drives a world through incidents.
type swarm struct {
	w     *sim.World
	ctx   context.Context
	next  []sim.Fault // by port, of the calls to come
	ports []sim.Port
}

func (s *swarm) fault(c sim.Call) sim.Fault {
	for i, p := range s.ports {
		if p == c.Port {
			f := s.next[i]
			s.next, s.ports = slices.Delete(s.next, i, i+1), slices.Delete(s.ports, i, i+1)
			return f
		}
	}
	return sim.Fault{}
}

// moves lets so many things happen, and time pass where nothing can.
func (s *swarm) moves(n int) error {
	for range n {
		if err := s.alive(); err != nil {
			return err
		}
		if !s.w.Step(s.ctx) {
			if err := s.pass(s.w.Advance(s.ctx, time.Second)); err != nil {
				return err
			}
		}
	}
	return s.alive()
}

// alive buries what has died, and starts it again.
func (s *swarm) alive() error {
	if err := s.w.Bury(); err != nil {
		return err
	}
	return s.w.Begin(s.ctx)
}

func (s *swarm) pass(err error) error {
	if errors.Is(err, sim.ErrDead) {
		return nil
	}
	return err
}

func (s *swarm) happens(i incident) error {
	if err := s.moves(i.after); err != nil {
		return err
	}
	switch i.what {
	case "fault":
		for range i.times {
			s.next, s.ports = append(s.next, sim.Fault{How: i.how, For: i.d}), append(s.ports, i.port)
		}
	case "kill":
		s.w.Kill(i.node)
	case "advance":
		return s.pass(s.w.Advance(s.ctx, i.d))
	case "hold task":
		for _, t := range s.w.Tasks() {
			if t.Last {
				s.w.HoldTask(t.Task, i.d)
			}
		}
	case "hold node":
		s.w.HoldNode(i.node, i.d)
	case "stop":
		s.w.StopNode(i.node)
	case "clock":
		s.w.StepClock(i.d)
	case "purge":
		s.w.Outside().Broker.Purge()
	default:
		return s.operator(i.what)
	}
	return nil
}

// operator does what it can to the first thing that it finds; a refusal is an answer.
func (s *swarm) operator(what string) error {
	e := s.w.Engine()
	if e == nil {
		return nil
	}
	var do func() error
	err := e.View(s.ctx, func(v projections.View) error {
		runs, err := v.OpenRuns(events.RunID{}, 10)
		if err != nil {
			return err
		}
		registers, err := v.OpenRegisters(100)
		if err != nil {
			return err
		}
		held, err := v.HeldRegisters(100)
		if err != nil {
			return err
		}
		switch what {
		case "pause":
			do = func() error { return e.PauseEngine(s.ctx, ops) }
		case "resume":
			do = func() error { return e.ResumeEngine(s.ctx, ops) }
		case "pause source":
			do = func() error { return e.PauseSource(s.ctx, "ridge", ops) }
		case "resume source":
			do = func() error { return e.ResumeSource(s.ctx, "ridge", ops) }
		case "park":
			for _, r := range registers {
				if r.Status == decider.RegisterPending {
					do = func() error { return e.Park(s.ctx, r.Key(), ops) }
				}
			}
		case "redrive":
			for _, r := range held {
				if r.Status == decider.RegisterParked {
					do = func() error { return e.Redrive(s.ctx, r.Key(), ops) }
				}
			}
		case "resolve":
			for _, r := range held {
				if r.Status == decider.RegisterUnresolved && len(r.Outcomes) > 0 {
					do = func() error { return e.Resolve(s.ctx, r.Key(), r.Outcomes[0].Target, events.ResolvedLost, ops) }
				}
			}
		}
		if len(runs) == 0 {
			return nil
		}
		run := runs[len(runs)-1].Run
		units, err := v.Units(run, 0, 100)
		if err != nil {
			return err
		}
		switch what {
		case "cancel run":
			do = func() error { return e.CancelRun(s.ctx, run, ops) }
		case "cancel unit":
			do = func() error { return e.CancelUnit(s.ctx, units[len(units)-1].Unit, ops) }
		case "release unit":
			for _, u := range units {
				if u.Status == events.UnitIsRunning {
					do = func() error { return e.ReleaseUnit(s.ctx, u.Unit, ops) }
				}
			}
		case "retry":
			do = func() error { _, err := e.RetryFailed(s.ctx, towline.RetrySpec{Run: run, By: ops}); return err }
		}
		return nil
	})
	if err != nil || do == nil {
		return nil // the store is away, or there is nothing to do it to
	}
	err = do()
	if _, refused := errors.AsType[*towline.RequestError](err); refused || errors.Is(err, towline.ErrUnavailable) || errors.Is(err, sim.ErrDead) {
		return nil
	}
	return err
}

// calm ends every fault: what was held goes on, what is paused is resumed, what is parked is redriven.
func (s *swarm) calm() error {
	s.next, s.ports = nil, nil
	s.w.Wake()
	if err := s.pass(s.w.Advance(s.ctx, time.Second)); err != nil {
		return err
	}
	if err := s.alive(); err != nil {
		return err
	}
	s.w.Act(people()...)
	return nil
}

// people resume and redrive whatever waits for a person.
func people() []sim.Act {
	resume := act("resume all", func(s *scene) sim.Move {
		paused, err := s.Paused()
		s.note(err)
		for _, p := range paused {
			if p.Source == "" {
				return do(func(ctx context.Context, e *towline.Engine) error { return e.ResumeEngine(ctx, ops) })
			}
			return do(func(ctx context.Context, e *towline.Engine) error { return e.ResumeSource(ctx, p.Source, ops) })
		}
		return wait
	})
	redrive := act("redrive all", func(s *scene) sim.Move {
		held, err := s.HeldRegisters(100)
		s.note(err)
		for _, r := range held {
			if r.Status == decider.RegisterParked && r.Kind != events.KindMessage {
				return do(func(ctx context.Context, e *towline.Engine) error { return e.Redrive(ctx, r.Key(), ops) })
			}
		}
		return wait
	})
	resume.Standing, redrive.Standing = true, true
	return []sim.Act{resume, redrive}
}

// G-1 to G-5, SC-353, I-1 to I-30: whatever happens to a world (faults of every port, deaths, zombies, clean stops, steps of
// the clock, a broker that loses everything, and operators who act at any moment), no invariant breaks; and when the faults
// stop, every run ends.
func TestSwarm(t *testing.T) {
	template := emptyStore(t)
	scenarios := append(acts(), whole(), small())
	for i := range scenarios {
		scenarios[i].acts = nil
	}
	ran := 0
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.SampledFrom(scenarios).Draw(rt, "scenario")
		s.seed = rapid.Uint64Range(0, 1<<20).Draw(rt, "seed")
		nodes := rapid.IntRange(1, 3).Draw(rt, "nodes")
		broker := rapid.Bool().Draw(rt, "broker")
		list := rapid.SliceOfN(incidents(nodes), 0, 12).Draw(rt, "incidents")
		ran++
		v := judge(t.TempDir(), func(v *verdict) {
			b := baseline{scenario: s, template: template, nodes: nodes}
			c := b.config(v)
			c.Broker = broker
			w := b.worldOf(v, c)
			sw := &swarm{w: w, ctx: context.Background()}
			w.Faults(sw.fault)
			require.NoError(v, w.Begin(sw.ctx))
			for _, i := range list {
				require.NoError(v, sw.happens(i))
			}
			require.NoError(v, sw.calm())
			b.finish(v, w)
		})
		if len(v.problems) > 0 {
			lines := make([]string, len(list))
			for n, i := range list {
				lines[n] = i.String()
			}
			rt.Fatalf("%s nodes=%d broker=%t seed=%d\n%s\n%s", s.name, nodes, broker, s.seed, strings.Join(lines, "\n"), v)
		}
	})
	t.Logf("swarm: %d worlds", ran)
}
