package script

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
)

// The commands by which clients, operators, applications and API workers act, at once: an act is over when its command is. A
// run is named weather, the next of its sync weather#2; a unit by its run and its ordinal.
type (
	// Plan is a client that asks for a run.
	Plan struct {
		Sync     string      `line:"arg"`
		Key      string      `line:"key=key"`
		Mode     events.Mode `line:"key=mode"`
		Since    string      `line:"key=since"`  // a time, a date, or days before the day on which the world begins: -3d
		Before   string      `line:"key=before"` // the same
		Sources  []string    `line:"key=sources"`
		Datasets []string    `line:"key=datasets"`
		By       string      `line:"key=by"` // empty: the node itself
	}

	// Request is a client that asks when its turn comes, and repeats its request, with its key, until it has an answer.
	Request struct {
		Sync     string      `line:"arg"`
		Key      string      `line:"key=key"`
		Mode     events.Mode `line:"key=mode"`
		Since    string      `line:"key=since"`
		Before   string      `line:"key=before"`
		Sources  []string    `line:"key=sources"`
		Datasets []string    `line:"key=datasets"`
		By       string      `line:"key=by"`
	}

	// CancelRun cancels a run.
	CancelRun struct {
		Run string `line:"arg"`
	}

	// CancelUnit cancels a unit.
	CancelUnit struct {
		Run  string `line:"arg"`
		Unit int    `line:"arg"`
	}

	// Release takes a unit from its worker.
	Release struct {
		Run  string `line:"arg"`
		Unit int    `line:"arg"`
	}

	// Retry makes a new run of what has failed.
	Retry struct {
		Run       string `line:"arg"`
		Unit      int    `line:"key=unit"`      // 0: all
		Cancelled bool   `line:"key=cancelled"` // what was cancelled, too
		Key       string `line:"key=key"`
	}

	// Pause pauses a source, or the engine.
	Pause struct {
		Source string `line:"arg,optional"`
	}

	// Resume ends a pause.
	Resume struct {
		Source string `line:"arg,optional"`
	}

	// Park parks a wakeup: of a run by its kind, of a message by topic and key.
	Park struct {
		Owner string `line:"arg"`
		Kind  string `line:"arg"`
	}

	// Redrive arms what is parked.
	Redrive struct {
		Owner string `line:"arg"`
		Kind  string `line:"arg"`
	}

	// Resolve is an operator's word on a post_sync target of which nobody knows.
	Resolve struct {
		Run    string            `line:"arg"`
		Target string            `line:"arg"`
		As     events.Resolution `line:"arg"` // delivered, lost
	}

	// ConfirmClock says that the wall clock is right.
	ConfirmClock struct{}

	// ReleaseHold ends a restored hold.
	ReleaseHold struct{}

	// Submit is an application that adds a message in a transaction of its own.
	Submit struct {
		Topic   string        `line:"arg"`
		Key     string        `line:"key=key"`
		Payload string        `line:"key=payload"`
		After   time.Duration `line:"key=after"` // not published before so long behind the start of the world
	}

	// Post adds a message over the API.
	Post struct {
		Topic   string `line:"arg"`
		Key     string `line:"key=key"`
		Payload string `line:"key=payload"`
	}

	// Worker is a worker of the API: claims a unit, renews its lease, and ends its attempt: succeeds, fails or releases.
	Worker struct {
		Name string `line:"arg"`
		Does string `line:"arg"`
		Run  string `line:"arg,optional"` // that claims, or takes a unit for its own
		Unit int    `line:"arg,optional"`
	}
)

func (c Plan) String() string         { return line(c) }
func (c Request) String() string      { return line(c) }
func (c CancelRun) String() string    { return line(c) }
func (c CancelUnit) String() string   { return line(c) }
func (c Release) String() string      { return line(c) }
func (c Retry) String() string        { return line(c) }
func (c Pause) String() string        { return line(c) }
func (c Resume) String() string       { return line(c) }
func (c Park) String() string         { return line(c) }
func (c Redrive) String() string      { return line(c) }
func (c Resolve) String() string      { return line(c) }
func (c ConfirmClock) String() string { return line(c) }
func (c ReleaseHold) String() string  { return line(c) }
func (c Submit) String() string       { return line(c) }
func (c Post) String() string         { return line(c) }
func (c Worker) String() string       { return line(c) }

// ops is who acts, and why.
var ops = towline.Actor{Name: "ops", Reason: "as the scenario has it"}

// spec is the request of a client.
func (p *Player) spec(c Plan) (towline.RunSpec, error) {
	s := towline.RunSpec{Sync: c.Sync, Mode: c.Mode, Sources: c.Sources, Datasets: c.Datasets, Key: c.Key, By: towline.Actor{Name: c.By}}
	var err error
	if s.Since, err = p.dayOf(c.Since); err != nil {
		return s, fmt.Errorf("since: %w", err)
	}
	if s.Before, err = p.dayOf(c.Before); err != nil {
		return s, fmt.Errorf("before: %w", err)
	}
	return s, nil
}

// dayOf is a time, a date, or so long before or behind the day on which the world begins.
func (p *Player) dayOf(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := parseDuration(text); err == nil {
		return p.start.Truncate(day).Add(d), nil
	}
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fmt.Errorf("%q is no time: write days, as -3d, a date or 2026-03-02T08:00:00Z", text)
	}
	return t, nil
}

func (c Plan) play(ctx context.Context, p *Player) error {
	spec, err := p.spec(c)
	if err != nil {
		return err
	}
	return p.ask(ctx, func(e *towline.Engine) error { return p.planned(e.Plan(ctx, spec)) })
}

// planned says of an accepted request what its events do not.
func (p *Player) planned(got towline.Planned, err error) error {
	if err == nil && got.Replayed {
		p.trace.say("the key is known: %s", p.trace.runs[got.Run])
	}
	return err
}

func (c Request) play(ctx context.Context, p *Player) error {
	spec, err := p.spec(Plan(c))
	if err != nil {
		return err
	}
	if _, err := p.mustSync(c.Sync); err != nil {
		return err
	}
	if err := p.begin(ctx); err != nil {
		return err
	}
	p.world.Request(spec)
	return nil
}

func (c CancelRun) play(ctx context.Context, p *Player) error {
	id, err := p.run(c.Run)
	if err != nil {
		return err
	}
	return p.ask(ctx, func(e *towline.Engine) error { return e.CancelRun(ctx, id, ops) })
}

func (c CancelUnit) play(ctx context.Context, p *Player) error {
	id, err := p.unit(c.Run, c.Unit)
	if err != nil {
		return err
	}
	return p.ask(ctx, func(e *towline.Engine) error { return e.CancelUnit(ctx, id, ops) })
}

func (c Release) play(ctx context.Context, p *Player) error {
	id, err := p.unit(c.Run, c.Unit)
	if err != nil {
		return err
	}
	return p.ask(ctx, func(e *towline.Engine) error { return e.ReleaseUnit(ctx, id, ops) })
}

func (c Retry) play(ctx context.Context, p *Player) error {
	spec := towline.RetrySpec{Cancelled: c.Cancelled, Key: c.Key, By: ops}
	var err error
	if c.Unit != 0 {
		spec.Unit, err = p.unit(c.Run, c.Unit)
	} else {
		spec.Run, err = p.run(c.Run)
	}
	if err != nil {
		return err
	}
	return p.ask(ctx, func(e *towline.Engine) error { return p.planned(e.RetryFailed(ctx, spec)) })
}

// hasSource refuses a source that no sync has. Empty is the engine.
func (p *Player) hasSource(name string) error {
	var known []string
	for _, s := range p.syncs {
		known = append(known, s.Sources...)
	}
	if name == "" || slices.Contains(known, name) {
		return nil
	}
	return noSuch("source", name, known)
}

func (c Pause) play(ctx context.Context, p *Player) error {
	if err := p.hasSource(c.Source); err != nil {
		return err
	}
	return p.ask(ctx, func(e *towline.Engine) error {
		if c.Source == "" {
			return e.PauseEngine(ctx, ops)
		}
		return e.PauseSource(ctx, c.Source, ops)
	})
}

func (c Resume) play(ctx context.Context, p *Player) error {
	if err := p.hasSource(c.Source); err != nil {
		return err
	}
	return p.ask(ctx, func(e *towline.Engine) error {
		if c.Source == "" {
			return e.ResumeEngine(ctx, ops)
		}
		return e.ResumeSource(ctx, c.Source, ops)
	})
}

// register is that of a run and a kind, or of a topic and the key of a message.
func (p *Player) register(owner, kind string) (towline.RegisterKey, error) {
	for _, k := range events.Kinds {
		if string(k) != kind {
			continue
		}
		run, err := p.run(owner)
		return towline.RegisterKey{Owner: run, Kind: k}, err
	}
	if near := nearest(kind, words(events.Kinds[:]...)); near != "" {
		if _, err := p.run(owner); err == nil {
			return towline.RegisterKey{}, noSuch("kind", kind, []string{near})
		}
	}
	id, err := p.message(owner, kind)
	return towline.MessageRegister(id), err
}

func (c Park) play(ctx context.Context, p *Player) error {
	key, err := p.register(c.Owner, c.Kind)
	if err != nil {
		return err
	}
	return p.ask(ctx, func(e *towline.Engine) error { return e.Park(ctx, key, ops) })
}

func (c Redrive) play(ctx context.Context, p *Player) error {
	key, err := p.register(c.Owner, c.Kind)
	if err != nil {
		return err
	}
	return p.ask(ctx, func(e *towline.Engine) error { return e.Redrive(ctx, key, ops) })
}

func (c Resolve) play(ctx context.Context, p *Player) error {
	key, err := p.register(c.Run, string(events.KindPostSync))
	if err != nil {
		return err
	}
	return p.ask(ctx, func(e *towline.Engine) error { return e.Resolve(ctx, key, c.Target, c.As, ops) })
}

func (ConfirmClock) play(ctx context.Context, p *Player) error {
	return p.ask(ctx, func(e *towline.Engine) error {
		_, err := e.ConfirmClock(ctx, ops)
		return err
	})
}

func (ReleaseHold) play(ctx context.Context, p *Player) error {
	return p.ask(ctx, func(e *towline.Engine) error {
		released, err := e.ReleaseHold(ctx, ops)
		if err == nil && !released {
			p.trace.say("there is no hold")
		}
		return err
	})
}

func (c Submit) play(ctx context.Context, p *Player) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	s := sim.Submission{Topic: c.Topic, Key: c.Key, Payload: c.Payload}
	if c.After != 0 {
		s.AvailableAt = p.start.Add(c.After)
	}
	p.world.Submit(s)
	return nil
}

func (c Post) play(ctx context.Context, p *Player) error {
	return p.ask(ctx, func(e *towline.Engine) error {
		got, err := e.Submit(ctx, towline.Message{Topic: c.Topic, Key: c.Key, Payload: []byte(c.Payload)})
		if err == nil && got.Replayed {
			p.trace.say("the key is known: %s", p.trace.runs[events.RunID(got.Message)])
		}
		return err
	})
}

// lease is what an API worker holds.
type lease = towline.Lease

var workerDoes = []string{"claims", "renews", "succeeds", "fails", "releases"}

func (c Worker) check() error {
	switch {
	case !slices.Contains(workerDoes, c.Does):
		return fmt.Errorf("a worker does not do %q%s", c.Does, instead(c.Does, workerDoes))
	case (c.Does == "claims" || c.Run != "") && c.Unit == 0:
		return errors.New("it does not say of which unit: a run and a number are missing")
	}
	return nil
}

func (c Worker) play(ctx context.Context, p *Player) error {
	if c.Does == "claims" {
		id, err := p.unit(c.Run, c.Unit)
		if err != nil {
			return err
		}
		return p.ask(ctx, func(e *towline.Engine) error {
			l, err := e.Claim(ctx, id, towline.Worker{Name: c.Name, Remote: true})
			if err == nil {
				p.leases[c.Name] = l
			}
			return err
		})
	}
	l, held := p.leases[c.Name]
	if !held {
		return fmt.Errorf("worker %s has claimed nothing", c.Name)
	}
	if c.Run != "" {
		id, err := p.unit(c.Run, c.Unit)
		if err != nil {
			return err
		}
		if l, err = p.mistaken(l, id); err != nil {
			return err
		}
	}
	return p.ask(ctx, func(e *towline.Engine) error {
		switch c.Does {
		case "renews":
			renewed, err := e.Renew(ctx, l)
			if err == nil {
				p.leases[c.Name] = renewed
			}
			return err
		case "succeeds":
			return e.Complete(ctx, l, events.Result{})
		case "fails":
			return e.Fail(ctx, l, events.Network, ops.Reason)
		default: // releases
			return e.Release(ctx, l, ops.Reason)
		}
	})
}

// mistaken is what a worker holds that takes a unit of another worker for its own: that unit's attempt, and its own token.
func (p *Player) mistaken(own lease, id events.UnitID) (lease, error) {
	for _, l := range p.leases {
		if l.Unit.Unit == id {
			l.Token = own.Token
			return l, nil
		}
	}
	return own, errors.New("no worker has claimed that unit")
}
