package script

import (
	"context"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/sim"
)

// Calm ends whatever holds things up: faults, holds and bad providers; and from now on people resume what is paused and redrive
// what is parked. So everything can end.
type Calm struct{}

func (c Calm) String() string { return line(c) }

func (Calm) play(ctx context.Context, p *Player) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	p.faults = nil
	for _, s := range p.syncs {
		s.provider = nil
	}
	p.effects, p.consumers = nil, nil
	p.world.Wake()
	p.world.Act(resumer(), redriver())
	return nil
}

var somebody = towline.Actor{Name: "ops", Reason: "calm"}

// resumer resumes whatever is paused.
func resumer() sim.Act {
	return sim.Act{Name: "resume", Standing: true, Look: func(v projections.View, _ events.Micros) (sim.Move, error) {
		paused, err := v.Paused()
		if err != nil || len(paused) == 0 {
			return sim.Move{}, err
		}
		return sim.Move{Do: func(ctx context.Context, e *towline.Engine) error {
			if source := paused[0].Source; source != "" {
				return e.ResumeSource(ctx, source, somebody)
			}
			return e.ResumeEngine(ctx, somebody)
		}}, nil
	}}
}

// redriver redrives whatever is parked and not a message: who has parked a message may know why.
func redriver() sim.Act {
	return sim.Act{Name: "redrive", Standing: true, Look: func(v projections.View, _ events.Micros) (sim.Move, error) {
		const many = 100
		held, err := v.HeldRegisters(many)
		for _, r := range held {
			if r.Status == decider.RegisterParked && r.Kind != events.KindMessage {
				return sim.Move{Do: func(ctx context.Context, e *towline.Engine) error { return e.Redrive(ctx, r.Key(), somebody) }}, nil
			}
		}
		return sim.Move{}, err
	}}
}
