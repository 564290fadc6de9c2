package script

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/towline-dev/towline/sim"
)

// fault is one that was said.
type fault struct {
	of    Fault
	skip  int
	times times[Fault]
	until time.Duration // 0: no time ends it
}

func (c Fault) check() error {
	if !slices.Contains(ports, c.Port) {
		return noSuch("port", string(c.Port), words(ports...))
	}
	kinds := sim.FaultKinds(c.Port)
	switch {
	case !slices.Contains(kinds, c.How):
		if near := nearest(string(c.How), words(kinds...)); near != "" {
			return fmt.Errorf("a call of %s does not meet %q: did you mean %s?", c.Port, c.How, near)
		}
		return fmt.Errorf("a call of %s does not meet %q, but %q", c.Port, c.How, kinds)
	case c.How == sim.Delay && c.By == 0:
		return errors.New("it does not say by how much: by is missing")
	case c.How != sim.Delay && c.By != 0:
		return fmt.Errorf("only a delay has a by, and not %s; for is how long the fault lasts", c.How)
	case c.Port == sim.PortCommit && c.Of != "":
		return errors.New("before a commit nobody knows what it will hold: leave of out, and skip those before it")
	}
	return nil
}

func (c Fault) play(ctx context.Context, p *Player) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	if c.Node != 0 {
		if err := p.hasNode(c.Node); err != nil {
			return err
		}
	}
	f := &fault{of: c, skip: c.Skip, times: times[Fault]{left: c.Times, said: p.says(c)}}
	switch {
	case c.For != 0:
		f.until = p.elapsed() + c.For
	case c.Times == 0:
		f.times.left = 1
	}
	p.faults = append(p.faults, f)
	p.configure()
	return nil
}

// meets reports that a call goes wrong.
func (f *fault) meets(call sim.Call, now time.Duration) bool {
	c := f.of
	if c.Port != call.Port || c.Node != 0 && c.Node != call.Node || !strings.Contains(call.What, c.Of) || f.until != 0 && now >= f.until {
		return false
	}
	if f.skip > 0 {
		f.skip--
		return false
	}
	return f.times.take()
}
