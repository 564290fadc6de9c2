package sim_test

import (
	"context"
	"slices"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/sim"
)

var ops = towline.Actor{Name: "ops", Reason: "as the scenario has it"}

// scene is what an operator of a scenario sees. Its first error is that of the look.
type scene struct {
	projections.View
	now events.Micros
	err error
}

// act makes an act of a function that looks at a scene.
func act(name string, look func(*scene) sim.Move) sim.Act {
	return sim.Act{Name: name, Look: func(v projections.View, now events.Micros) (sim.Move, error) {
		s := &scene{View: v, now: now}
		move := look(s)
		return move, s.err
	}}
}

var (
	wait = sim.Move{}
	over = sim.Move{Over: true}
)

func do(what func(context.Context, *towline.Engine) error) sim.Move { return sim.Move{Do: what} }

// later does something some time behind a moment.
func (s *scene) later(since events.Micros, what func(context.Context, *towline.Engine) error) sim.Move {
	if at := since.Add(events.SpanOf(operatorsPause)); s.now < at {
		return sim.Move{At: at}
	}
	return do(what)
}

func (s *scene) note(err error) {
	if s.err == nil {
		s.err = err
	}
}

// run is the first run of a sync.
func (s *scene) run(sync string) (run projections.SyncRun, found bool) {
	const many = 100
	runs, err := s.Runs(events.RunID{}, many)
	s.note(err)
	for _, r := range slices.Backward(runs) {
		if r.Sync == sync {
			return r, true
		}
	}
	return run, false
}

func (s *scene) units(run events.RunID) []projections.SyncRunUnit {
	const many = 100
	units, err := s.Units(run, 0, many)
	s.note(err)
	return units
}

// unit is that of a run with a window that begins on a day.
func (s *scene) unit(run events.RunID, from time.Time) (unit projections.SyncRunUnit) {
	for _, u := range s.units(run) {
		if u.Window.Name() == from.Format(time.DateOnly) {
			return u
		}
	}
	return unit
}

func (s *scene) register(owner events.RunID, k events.Kind) (register projections.Register) {
	registers, err := s.RegistersOf(owner)
	s.note(err)
	for _, r := range registers {
		if r.Kind == k {
			return r
		}
	}
	return register
}

// since is when a type of event came into a stream first; 0: it did not.
func (s *scene) since(id events.StreamID, t events.Type) events.Micros {
	envs, err := s.Stream(id)
	s.note(err)
	for _, env := range envs {
		if env.Event.EventType() == t {
			return env.At
		}
	}
	return 0
}

func afterOneSuccess(_ *scene, run projections.SyncRun) bool { return run.Succeeded > 0 }

// atWorkAgain: a unit of the source runs, and the engine was resumed. With one slot there are others that wait.
func atWorkAgain(source string) func(*scene, projections.SyncRun) bool {
	return func(s *scene, run projections.SyncRun) bool {
		return s.since(events.EngineControlStream(), events.TypeEngineResumed) != 0 &&
			slices.ContainsFunc(s.units(run.Run), func(u projections.SyncRunUnit) bool {
				return u.Source == source && u.Status == events.UnitIsRunning
			})
	}
}

// pausing pauses a source, or the engine if it has no name, at a moment of a run, and resumes it later.
func pausing(sync, source string, when func(*scene, projections.SyncRun) bool) (pause, resume sim.Act) {
	stream, paused, resumed := events.EngineControlStream(), events.TypeEnginePaused, events.TypeEngineResumed
	if source != "" {
		stream, paused, resumed = events.SourceControlStream(source), events.TypeSourcePaused, events.TypeSourceResumed
	}
	pause = act("pause "+source, func(s *scene) sim.Move {
		run, found := s.run(sync)
		switch {
		case found && run.Status.Terminal(), s.since(stream, paused) != 0:
			return over
		case !found || !when(s, run):
			return wait
		case source == "":
			return do(func(ctx context.Context, e *towline.Engine) error { return e.PauseEngine(ctx, ops) })
		}
		return do(func(ctx context.Context, e *towline.Engine) error { return e.PauseSource(ctx, source, ops) })
	})
	resume = act("resume "+source, func(s *scene) sim.Move {
		run, _ := s.run(sync)
		since := s.since(stream, paused)
		switch {
		case since == 0 && run.Status.Terminal(), s.since(stream, resumed) != 0:
			return over
		case since == 0:
			return wait
		case source == "":
			return s.later(since, func(ctx context.Context, e *towline.Engine) error { return e.ResumeEngine(ctx, ops) })
		}
		return s.later(since, func(ctx context.Context, e *towline.Engine) error { return e.ResumeSource(ctx, source, ops) })
	})
	return pause, resume
}

// cancellingRun cancels a run of which a unit has succeeded and another is at work.
func cancellingRun(sync string) sim.Act {
	return act("cancel run", func(s *scene) sim.Move {
		run, found := s.run(sync)
		if !found || run.Succeeded == 0 {
			return sim.Move{Over: found && run.Status.Terminal()}
		}
		atWork := slices.ContainsFunc(s.units(run.Run), func(u projections.SyncRunUnit) bool { return u.Status == events.UnitIsRunning })
		switch {
		case run.Status.Terminal():
			return over
		case !atWork:
			return wait
		}
		return do(func(ctx context.Context, e *towline.Engine) error { return e.CancelRun(ctx, run.Run, ops) })
	})
}

// cancellingUnit cancels a unit as soon as there is one.
func cancellingUnit(sync string, from time.Time) sim.Act {
	return act("cancel unit", func(s *scene) sim.Move {
		run, found := s.run(sync)
		if !found {
			return wait
		}
		u := s.unit(run.Run, from)
		if u.Status.Terminal() {
			return over
		}
		return do(func(ctx context.Context, e *towline.Engine) error { return e.CancelUnit(ctx, u.Unit, ops) })
	})
}

// releasing takes a unit from its first worker.
func releasing(sync string, from time.Time) sim.Act {
	return act("release unit", func(s *scene) sim.Move {
		run, found := s.run(sync)
		if !found {
			return wait
		}
		u := s.unit(run.Run, from)
		switch {
		case u.Status.Terminal(), u.Attempt > 1, u.Status == events.UnitIsRetrying:
			return over
		case u.Status != events.UnitIsRunning:
			return wait
		}
		return do(func(ctx context.Context, e *towline.Engine) error { return e.ReleaseUnit(ctx, u.Unit, ops) })
	})
}

// retrying retries what failed of a run that has ended.
func retrying(sync string) sim.Act {
	return act("retry", func(s *scene) sim.Move {
		run, found := s.run(sync)
		if !found || !run.Status.Terminal() {
			return wait
		}
		again, err := s.RetriesOf(run.Run, 1)
		s.note(err)
		if len(again) > 0 || run.Failed == 0 {
			return over
		}
		return do(func(ctx context.Context, e *towline.Engine) error {
			_, err := e.RetryFailed(ctx, towline.RetrySpec{Run: run.Run, By: ops})
			return err
		})
	})
}

// resolving says of every publish of which nobody knows that it is lost. There are some behind a crash only.
func resolving() sim.Act {
	a := act("resolve", func(s *scene) sim.Move {
		const many = 100
		held, err := s.HeldRegisters(many)
		s.note(err)
		for _, r := range held {
			if r.Status != decider.RegisterUnresolved {
				continue
			}
			for _, o := range r.Outcomes {
				told := slices.ContainsFunc(r.Resolved, func(x decider.Resolution) bool { return x.Target == o.Target })
				if o.Outcome == events.Unknown && !told {
					return do(func(ctx context.Context, e *towline.Engine) error {
						return e.Resolve(ctx, r.Key(), o.Target, events.ResolvedLost, ops)
					})
				}
			}
		}
		return wait
	})
	a.Standing = true
	return a
}

// parking parks the first wakeup of a run's register before it is published, and redrives it later.
func parking(sync string, k events.Kind) (park, redrive sim.Act) {
	return parkingOf(string(k)+" of "+sync, k, func(s *scene) (owner events.RunID, found, ended bool) {
		run, found := s.run(sync)
		return run.Run, found, run.Status.Terminal()
	})
}

// parkingMessage does so with a message.
func parkingMessage(topic, key string) (park, redrive sim.Act) {
	return parkingOf(topic+" "+key, events.KindMessage, func(s *scene) (owner events.RunID, found, ended bool) {
		row, found, err := s.KeyedMessage(topic, key)
		s.note(err)
		return events.RunID(row.Message), found, row.Status != decider.MessageOpen
	})
}

func parkingOf(what string, k events.Kind, of func(*scene) (owner events.RunID, found, ended bool)) (park, redrive sim.Act) {
	park = act("park "+what, func(s *scene) sim.Move {
		owner, found, ended := of(s)
		if !found {
			return wait
		}
		r := s.register(owner, k)
		switch {
		case ended, r.Closed > 0, s.since(events.RegisterStream(owner, k), events.TypeOutboxParked) != 0:
			return over
		case r.Status != decider.RegisterPending:
			return wait
		}
		return do(func(ctx context.Context, e *towline.Engine) error { return e.Park(ctx, r.Key(), ops) })
	})
	redrive = act("redrive "+what, func(s *scene) sim.Move {
		owner, found, ended := of(s)
		if !found {
			return wait
		}
		r := s.register(owner, k)
		since := s.since(events.RegisterStream(owner, k), events.TypeOutboxParked)
		switch {
		case ended, r.Closed > 0, since != 0 && r.Status != decider.RegisterParked:
			return over
		case since == 0:
			return wait
		}
		return s.later(since, func(ctx context.Context, e *towline.Engine) error { return e.Redrive(ctx, r.Key(), ops) })
	})
	return park, redrive
}
