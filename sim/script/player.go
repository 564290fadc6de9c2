package script

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/sim"
)

// Player plays the commands of one file.
type Player struct {
	// Template is a new store, of which the stores of the file are copies: to make one takes most of a short file's time.
	// Empty: they are made.
	Template string

	Listen func(sim.Entry) // is told what happens; nil: nobody listens

	dir string

	setup     World
	start     time.Time // of the world
	schedules []Schedule
	scheduled bool // schedules were spoken of

	wereScheduled []string // the names of those that there are, or were
	knobs         towline.Knobs
	syncs         []*syncSetup
	effects       []*times[Effect]
	topics        []string
	consumers     []*times[Consume]
	faults        []*fault
	waits         []*said          // for calls that are still to come
	at            string           // of the command that is played; empty: it stands in no file
	leases        map[string]lease // of API workers, by their names

	world     *sim.World
	trace     *trace
	checked   []string // invariants that are broken, and are to be
	scratches int
	moved     int // what has happened, one by one
	refused   int // requests
}

// New makes a player. It keeps its store in the folder.
func New(dir string) *Player {
	return &Player{dir: dir, start: sim.DefaultStart, trace: newTrace(sim.DefaultStart), leases: map[string]lease{}}
}

// Play plays a command, and says what has happened. An error is a command that makes no sense where it stands, or what
// should never happen: it ends the file. A request that is refused is no error.
func (p *Player) Play(ctx context.Context, c Command) (string, error) {
	p.at = ""
	if l, stands := c.(Line); stands {
		p.at = l.At
		c = l.Command
	}
	err := sense(c)
	if err == nil {
		err = c.play(ctx, p)
	}
	if err == nil && p.world != nil {
		err = errors.Join(p.world.Broken()...)
	}
	text := p.trace.take()
	if err != nil {
		return text, fmt.Errorf("%s%s: %w", standing(p.at), c, err)
	}
	return text, nil
}

// Finish checks the world behind the last command. What was said of calls that were to come, and what no call has met, is an
// error: it was misspelled, or tests nothing.
func (p *Player) Finish(ctx context.Context) error {
	if p.world == nil {
		return nil
	}
	_, err := p.Play(ctx, Check{Expects: p.checked})
	return errors.Join(p.unmet(), err)
}

// Close closes the store.
func (p *Player) Close() error {
	if p.world == nil {
		return nil
	}
	return p.world.Bury()
}

// World is that of the file; nil: no command has needed it so far.
func (p *Player) World() *sim.World { return p.world }

func (p *Player) sync(name string) *syncSetup {
	for _, s := range p.syncs {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// mustSync is the sync of a name, or the error that there is none.
func (p *Player) mustSync(name string) (*syncSetup, error) {
	if s := p.sync(name); s != nil {
		return s, nil
	}
	var known []string
	for _, s := range p.syncs {
		known = append(known, s.Name)
	}
	return nil, noSuch("sync", name, known)
}

func (p *Player) simSyncs() (out []sim.Sync) {
	for _, s := range p.syncs {
		out = append(out, sim.Sync{
			Sync: s.config(), Provider: p.provide(s), Takes: p.takes(s),
			Sink: destination{p, s, p.world.Outside().Destination},
		})
	}
	return out
}

// configure tells a world that is there what was changed.
func (p *Player) configure() {
	if p.world == nil {
		return
	}
	p.world.Configure(p.simSyncs(), p.knobs)
	if p.scheduled {
		p.world.Schedule(p.scheduledAs())
	}
	hangs := slices.ContainsFunc(p.syncs, func(s *syncSetup) bool {
		return slices.ContainsFunc(s.provider, func(c *behaviour) bool { return c.Does == "hangs" || c.Does == "deaf" })
	})
	if hangs || len(p.faults) > 0 {
		p.world.Faults(p.fault)
	}
}

// begin makes the world, with its nodes up. That is said of later starts alone.
func (p *Player) begin(ctx context.Context) error {
	if p.world != nil {
		return nil
	}
	if err := p.make(); err != nil {
		return err
	}
	err := p.world.Boot(ctx)
	p.trace.take()
	return err
}

// newStore is the path of a store that is empty, or not there yet.
func (p *Player) newStore(name string) (string, error) {
	path := filepath.Join(p.dir, name)
	if p.Template == "" {
		return path, nil
	}
	data, err := os.ReadFile(p.Template)
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, data, 0o644)
}

func (p *Player) make() error {
	path, err := p.newStore("towline.db")
	if err != nil {
		return err
	}
	c := sim.Config{
		Store: path, Seed: max(p.setup.Seed, 1), Start: p.start, Nodes: p.setup.Nodes, Broker: p.setup.Broker,
		Workers: p.setup.Workers, Knobs: p.knobs, MaxBytes: int64(p.setup.MaxBytes),
		Trace: func(e sim.Entry) {
			p.trace.entry(e, p.world.Now())
			if p.Listen != nil {
				p.Listen(e)
			}
		},
	}
	for _, topic := range p.topics {
		if c.Messages == nil {
			c.Messages = map[string]sim.Handler{}
		}
		c.Messages[topic] = p.consume(topic)
	}
	if p.setup.Order != "seed" {
		c.Choose = func([]string) int { return 0 }
	}
	p.trace.nodes = p.setup.Nodes
	p.world = sim.New(c)
	p.configure()
	return nil
}

// elapsed is the time since the start of the world, on the clock of the engine.
func (p *Player) elapsed() time.Duration {
	return p.world.Now().Sub(events.MicrosOf(p.start)).Std()
}

var errNoBroker = errors.New("there is no broker: world broker=true")

var errNoNode = errors.New("no node lives: boot one")

// engine is that of the first node that lives.
func (p *Player) engine(ctx context.Context) (*towline.Engine, error) {
	if err := p.begin(ctx); err != nil {
		return nil, err
	}
	e := p.world.Engine()
	if e == nil || p.world.Gone() {
		return nil, errNoNode
	}
	return e, nil
}

// ask lets somebody ask the engine. A refusal is said, and no error.
func (p *Player) ask(ctx context.Context, what func(*towline.Engine) error) error {
	e, err := p.engine(ctx)
	if err != nil {
		return err
	}
	err = what(e)
	switch {
	case errors.Is(err, sim.ErrDead):
		p.trace.say("no answer")
		return p.bury()
	case err != nil:
		p.refused++
		p.trace.say("refused: %s", oneLine(err))
		if p.Listen != nil {
			p.Listen(sim.Entry{Refused: err})
		}
	}
	return nil
}

// bury clears away the nodes that have died or stopped. Their leases and claims stay.
func (p *Player) bury() error {
	if !p.world.Gone() {
		return nil
	}
	return p.world.Bury()
}

// view looks at the views of a node that lives.
func (p *Player) view(ctx context.Context, fn func(projections.View) error) error {
	e, err := p.engine(ctx)
	if err != nil {
		return err
	}
	return e.View(ctx, fn)
}

// run is the run of a name: weather, weather#2.
func (p *Player) run(name string) (events.RunID, error) {
	for id, n := range p.trace.runs {
		if n == name {
			return id, nil
		}
	}
	return events.RunID{}, noSuch("run", name, slices.Collect(maps.Values(p.trace.runs)))
}

// unit is that of a run with a number.
func (p *Player) unit(run string, number int) (events.UnitID, error) {
	for id, name := range p.trace.units {
		if strings.HasPrefix(name, fmt.Sprintf("%s %d ", run, number)) {
			return id, nil
		}
	}
	if _, err := p.run(run); err != nil {
		return events.UnitID{}, err
	}
	return events.UnitID{}, fmt.Errorf("there is no unit %s %d", run, number)
}

// message is that of a topic with a key.
func (p *Player) message(topic, key string) (events.MessageID, error) {
	id, err := p.run(strings.TrimSpace(topic + " " + key))
	if err != nil {
		return events.MessageID{}, noSuch("message", topic+" "+key, slices.Collect(maps.Values(p.trace.runs)))
	}
	return events.MessageID(id), nil
}

// runs are all runs, in the order of their plans.
func (p *Player) runs(ctx context.Context) (runs []projections.SyncRun, err error) {
	const many = 1000
	err = p.view(ctx, func(v projections.View) error {
		runs, err = v.Runs(events.RunID{}, many)
		return err
	})
	slices.SortStableFunc(runs, func(a, b projections.SyncRun) int {
		if c := a.PlannedAt.Compare(b.PlannedAt); c != 0 {
			return c
		}
		return strings.Compare(p.trace.runs[a.Run], p.trace.runs[b.Run])
	})
	return runs, err
}
