package script

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
)

// The commands that let something happen. Unless a file chooses, what has moved last goes on.
type (
	// Run boots who does not live, drives everything to its end, and then checks.
	Run struct{}

	// Advance lets time pass, and everything happen that comes due.
	Advance struct {
		For time.Duration `line:"arg"`
	}

	// Steps lets so many things happen, as the seed chooses.
	Steps struct {
		N int `line:"arg"`
	}

	// Step lets one thing happen, when it can: "1/relay", "1/weather dispatch_sync_run.1".
	Step struct {
		Name string `line:"rest"`
	}

	// Until lets things happen until a task stands at a place: "before publish weather post_sync.1", "1/relay behind commit
	// OutboxClaimed(weather dispatch". A place is named by as much of it as it needs.
	Until struct {
		Place string `line:"rest"`
	}

	// Crash lets things happen until a node is at a boundary, and kills it there.
	Crash struct {
		Node  int    `line:"key=node"` // 0: any
		Place string `line:"rest"`
	}

	// Kill kills a node where it stands.
	Kill struct {
		Node int `line:"arg"`
	}

	// Boot starts the nodes that do not live, each as a new incarnation.
	Boot struct{}

	// Backup copies the store as it is now.
	Backup struct{}

	// Restore puts the newest copy in the place of the store, which no node may have open.
	Restore struct{}

	// Stop stops a node cleanly.
	Stop struct {
		Node int `line:"arg"`
	}

	// Hold holds a task, or a whole node, for so long: a zombie.
	Hold struct {
		Node int           `line:"key=node"`
		For  time.Duration `line:"key=for"`
		Task string        `line:"rest"`
	}

	// Wake ends all holds.
	Wake struct{}

	// Clock steps the wall clocks: +1h, -30s.
	Clock struct {
		By string `line:"arg"`
	}

	// Fault lets calls of a port go wrong: publish, commit, provider, sink, effect or application, in a way of
	// sim.FaultKinds. Of is a part of what is called.
	Fault struct {
		Port  sim.Port      `line:"arg"`
		How   sim.FaultKind `line:"arg"`
		Node  int           `line:"key=node"`  // 0: of each
		Skip  int           `line:"key=skip"`  // calls that go well before
		Times int           `line:"key=times"` // 0: once, if there is no For, and else always
		For   time.Duration `line:"key=for"`   // from now on
		By    time.Duration `line:"key=by"`    // of delay
		Of    string        `line:"rest=of"`
	}

	// FaultOff ends all faults.
	FaultOff struct{}

	// Purge takes away what waits in the broker.
	Purge struct{}

	// Pass lets the first node that lives make a pass of its reconciler now.
	Pass struct{}

	// Rebuild makes all views anew, from the log.
	Rebuild struct{}

	// Archive archives finished runs that are so old (L-1).
	Archive struct {
		For time.Duration `line:"arg"`
	}

	// Quietly plays a command, and says nothing of it.
	Quietly struct {
		Line string `line:"rest"`
	}
)

func (c Run) String() string      { return line(c) }
func (c Advance) String() string  { return line(c) }
func (c Steps) String() string    { return line(c) }
func (c Step) String() string     { return line(c) }
func (c Until) String() string    { return line(c) }
func (c Crash) String() string    { return line(c) }
func (c Kill) String() string     { return line(c) }
func (c Boot) String() string     { return line(c) }
func (c Backup) String() string   { return line(c) }
func (c Restore) String() string  { return line(c) }
func (c Stop) String() string     { return line(c) }
func (c Hold) String() string     { return line(c) }
func (c Wake) String() string     { return line(c) }
func (c Clock) String() string    { return line(c) }
func (c Fault) String() string    { return line(c) }
func (c FaultOff) String() string { return line(c) }
func (c Purge) String() string    { return line(c) }
func (c Pass) String() string     { return line(c) }
func (c Rebuild) String() string  { return line(c) }
func (c Archive) String() string  { return line(c) }
func (c Quietly) String() string  { return line(c) }

func (Run) play(ctx context.Context, p *Player) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	if err := p.bury(); err != nil {
		return err
	}
	if err := p.world.Run(ctx); err != nil {
		return err
	}
	return p.invariants(ctx, true, nil)
}

func (c Advance) check() error { return some(c.For) }

// some refuses a command that is to do nothing.
func some[N int | time.Duration](n N) error {
	if n <= 0 {
		return errors.New("it says to do nothing: more than 0 is missing")
	}
	return nil
}

func (c Advance) play(ctx context.Context, p *Player) error {
	return p.drive(ctx, c.For, func() (bool, error) { return false, nil })
}

// patience is how long a command waits for what it names.
const patience = 48 * time.Hour

// drive lets things happen and time pass until done says so, at most for a time. Nodes that die or stop meanwhile are
// buried, and not started.
func (p *Player) drive(ctx context.Context, most time.Duration, done func() (bool, error)) error {
	const maxTurns = 300_000
	if err := p.begin(ctx); err != nil {
		return err
	}
	var passed time.Duration
	for range maxTurns {
		if err := p.bury(); err != nil {
			return err
		}
		over, err := done()
		switch {
		case err != nil || over:
			return err
		case len(p.world.Broken()) > 0:
			return nil // Play tells it
		case p.world.Step(ctx):
			p.moved++
			continue
		case passed >= most:
			return nil
		}
		passed += p.world.Tick(ctx, most-passed)
	}
	return fmt.Errorf("nothing has come of it in %d turns", maxTurns)
}

func (c Steps) check() error { return some(c.N) }

func (c Steps) play(ctx context.Context, p *Player) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	p.world.Choose(nil)
	defer p.chooses()
	end := p.moved + c.N
	return p.drive(ctx, patience, func() (bool, error) { return p.moved >= end, nil })
}

// chooses lets the order of the file choose again.
func (p *Player) chooses() {
	if p.setup.Order == "seed" {
		p.world.Choose(nil)
		return
	}
	p.world.Choose(func([]string) int { return 0 })
}

func (c Step) play(ctx context.Context, p *Player) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	for {
		moves := p.world.Moves(ctx)
		if i := slices.Index(moves, c.Name); i >= 0 {
			p.world.Choose(func([]string) int { return i })
			p.world.Step(ctx)
			p.chooses()
			return p.bury()
		}
		switch {
		case len(moves) > 0:
			return fmt.Errorf("it cannot happen now, but these can: %s", strings.Join(moves, "; "))
		case p.elapsed() > 365*day:
			return errors.New("it does not happen")
		}
		p.world.Tick(ctx, patience)
	}
}

func (c Until) check() error {
	_, _, err := cutPlace(c.Place)
	return err
}

func (c Until) play(ctx context.Context, p *Player) error {
	task, at, err := cutPlace(c.Place)
	if err != nil {
		return err
	}
	found := false
	err = p.drive(ctx, patience, func() (bool, error) {
		for _, s := range p.world.Tasks() {
			found = found || strings.Contains(s.Task, task) && isAt(s.At, at)
		}
		return found, nil
	})
	if err == nil && !found && len(p.world.Broken()) == 0 {
		return errors.New("no task comes there")
	}
	return err
}

func (c Crash) check() error {
	task, _, err := cutPlace(c.Place)
	if err == nil && task != "" {
		return fmt.Errorf("a node dies there, whichever task of it comes: what is %s?", task)
	}
	return err
}

func (c Crash) play(ctx context.Context, p *Player) error {
	_, text, err := cutPlace(c.Place)
	if err != nil {
		return err
	}
	if err := p.begin(ctx); err != nil {
		return err
	}
	if c.Node != 0 {
		if err := p.hasNode(c.Node); err != nil {
			return err
		}
	}
	met := false
	p.world.Trap(func(node int, b sim.Boundary) bool {
		if met || c.Node != 0 && c.Node != node || !isAt(place(b), text) {
			return false
		}
		met = true
		return true
	})
	defer p.world.Trap(nil)
	err = p.drive(ctx, patience, func() (bool, error) { return met, nil })
	if err == nil && !met && len(p.world.Broken()) == 0 {
		return errors.New("no node comes there")
	}
	return err
}

func (c Kill) play(ctx context.Context, p *Player) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	if err := p.hasNode(c.Node); err != nil {
		return err
	}
	p.world.Kill(c.Node)
	return p.bury()
}

func (Boot) play(ctx context.Context, p *Player) error {
	if p.world == nil {
		if err := p.make(); err != nil {
			return err
		}
	}
	if err := p.bury(); err != nil {
		return err
	}
	err := p.world.Boot(ctx)
	if errors.Is(err, sim.ErrDead) {
		return p.bury()
	}
	return err
}

func (Backup) play(ctx context.Context, p *Player) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	return p.world.Backup(ctx)
}

func (Restore) play(ctx context.Context, p *Player) error {
	if p.world == nil {
		return errNoNode
	}
	if err := p.bury(); err != nil {
		return err
	}
	if len(p.world.Living()) > 0 {
		return errors.New("a node has the store open: kill or stop it first")
	}
	return p.world.Restore(ctx)
}

func (c Stop) play(ctx context.Context, p *Player) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	if err := p.hasNode(c.Node); err != nil {
		return err
	}
	lives := len(p.world.Living())
	p.world.StopNode(c.Node)
	return p.drive(ctx, patience, func() (bool, error) { return len(p.world.Living()) < lives, nil })
}

func (c Hold) check() error {
	switch {
	case c.For <= 0:
		return errors.New("it does not say for how long: for is missing")
	case c.Node == 0 && c.Task == "":
		return errors.New("it does not say what is held: a task, as 1/relay, or node is missing")
	case c.Node != 0 && c.Task != "":
		return fmt.Errorf("a whole node is held, or a task: what is %s?", c.Task)
	}
	return nil
}

func (c Hold) play(_ context.Context, p *Player) error {
	if p.world == nil {
		return errNoNode
	}
	if c.Node != 0 {
		if err := p.hasNode(c.Node); err != nil {
			return err
		}
		if !p.world.HoldNode(c.Node, c.For) {
			return errNoNode
		}
		return nil
	}
	var labels []string
	for _, s := range p.world.Tasks() {
		labels = append(labels, s.Task)
		if strings.HasPrefix(s.Task, c.Task) {
			p.world.HoldTask(s.Task, c.For)
			return nil
		}
	}
	return fmt.Errorf("there is no such task: %s", strings.Join(labels, "; "))
}

func (Wake) play(_ context.Context, p *Player) error {
	if p.world == nil {
		return errNoNode
	}
	p.world.Wake()
	return nil
}

func (c Clock) play(ctx context.Context, p *Player) error {
	d, err := parseDuration(c.By)
	if err != nil {
		return err
	}
	if err := p.begin(ctx); err != nil {
		return err
	}
	p.world.StepClock(d)
	return nil
}

func (FaultOff) play(_ context.Context, p *Player) error {
	p.faults = nil
	return nil
}

func (Purge) play(ctx context.Context, p *Player) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	if !p.setup.Broker {
		return errNoBroker
	}
	p.world.Outside().Broker.Purge()
	return nil
}

func (Pass) play(ctx context.Context, p *Player) error {
	if _, err := p.engine(ctx); err != nil {
		return err
	}
	report := p.world.Pass(ctx)
	p.trace.say("pass: %d changes", report.Changed())
	return report.Err()
}

func (Rebuild) play(ctx context.Context, p *Player) error {
	return p.ask(ctx, func(e *towline.Engine) error { return e.Rebuild(ctx) })
}

func (c Archive) play(ctx context.Context, p *Player) error {
	return p.ask(ctx, func(e *towline.Engine) error {
		for {
			a, err := e.ArchiveRuns(ctx, c.For)
			if err != nil || a.Segments == 0 {
				return err
			}
			p.trace.say("archived: %d", a.Runs)
		}
	})
}

func (c Quietly) check() error {
	_, err := Parse(c.Line)
	return err
}

func (c Quietly) play(ctx context.Context, p *Player) error {
	inner, err := Parse(c.Line)
	if err != nil {
		return err
	}
	said, refused := p.trace.lines, p.refused
	err = inner.play(ctx, p)
	if err == nil && p.refused > refused {
		return fmt.Errorf("it was refused, and nobody would read that: %s", p.trace.lines[len(p.trace.lines)-1])
	}
	if err == nil {
		p.trace.lines = said
	}
	p.trace.tx, p.trace.call, p.trace.folded = events.Position(0), nil, fold{}
	return err
}
