package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/config"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/relay"
	"github.com/towline-dev/towline/store"
)

// passed is what one pass has done.
type passed struct {
	AfterSeq  events.Position `json:"after_seq"` // of the newest event before
	Seq       events.Position `json:"seq"`       // of the newest event behind
	Done      []doneEvents    `json:"done"`      // events, but for those of the start and the stop of this process itself
	Held      int             `json:"held"`      // what waits for a person
	Suspended int             `json:"suspended"` // due wakeups that wait for a transport that fails
	Waiting   int             `json:"waiting"`   // wakeups that are open, and left to an engine
}

type doneEvents struct {
	Type  string `json:"type"`
	Count int    `json:"count"`
}

const onceLong = `Opens the store, which no engine may hold, as an engine does: what a dead process has
left is decided. Then it makes one %s, tells what it has done, and stops.
What goes through the queue of a process is left to towline up: that queue would end
with this command. An engine that runs makes its passes itself.`

func (p *program) reconcileCommand() *cobra.Command {
	return p.onceCommand("reconcile", "Make one pass of the reconciler on a store that no engine holds",
		"pass of the reconciler: it expires leases,\narms what is owed, and publishes what is due", (*node.Node).Pass)
}

func (p *program) relayCommand() *cobra.Command {
	return p.onceCommand("relay", "Make one step of the relay on a store that no engine holds",
		"step of the relay: it publishes what is due", (*node.Node).Step)
}

func (p *program) onceCommand(name, short, what string, round func(*node.Node, context.Context) (relay.Report, error)) *cobra.Command {
	once := false
	c := &cobra.Command{
		Use: name, Short: short, Long: fmt.Sprintf(onceLong, what), Example: "  towline " + name + " --once", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.command = cmd.CommandPath()
			if !once {
				return p.usage("--once is missing: a %s that goes on is part of towline up", name)
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			return interrupted(ctx, p.once(ctx, round))
		},
	}
	c.Flags().BoolVar(&once, "once", false, "one round, and no more")
	return c
}

func (p *program) once(ctx context.Context, round func(*node.Node, context.Context) (relay.Report, error)) error {
	c, err := p.load(true)
	if err != nil {
		return err
	}
	before, err := p.headOf(ctx, c.Store.Path)
	if err != nil {
		return err
	}
	b, err := config.Build(ctx, c, config.BuildOptions{Logger: p.quietLogger(), Version: thisBuild().Version})
	if err != nil {
		return &configError{err}
	}
	defer func() { _ = b.Close() }() // nothing was written
	b.Node.NoSchedules = true        // they stay as the engine has them
	n, err := node.Open(ctx, b.Node)
	if err != nil {
		return heldBy(err)
	}
	report, failure := round(n, ctx)
	if err := errors.Join(failure, n.Close()); err != nil {
		return err
	}
	return p.tellPass(ctx, c.Store.Path, before, report)
}

// heldBy adds what to do about an engine that has the store.
func heldBy(err error) error {
	if errors.Is(err, store.ErrLocked) {
		return fmt.Errorf("%w: an engine that runs does this itself", err)
	}
	return err
}

// headOf is the newest event of a store that is there: this makes none.
func (p *program) headOf(ctx context.Context, path string) (events.Position, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%w: there is no store %s", store.ErrUnavailable, path)
	}
	r, err := p.reader(ctx, path)
	if err != nil {
		return 0, err
	}
	head, err := r.Engine().Head(ctx)
	return head, errors.Join(err, r.Close())
}

// tellPass counts what the log says of it.
func (p *program) tellPass(ctx context.Context, path string, before events.Position, report relay.Report) error {
	r, err := p.reader(ctx, path)
	if err != nil {
		return err
	}
	out := passed{AfterSeq: before, Done: []doneEvents{}, Held: report.Held, Suspended: report.Suspended}
	own := []events.Type{events.TypeNodeStarted, events.TypeNodeRecovered, events.TypeNodeStopped}
	counts := map[string]int{}
	err = r.Engine().Log(ctx, before, func(env events.Envelope) error {
		out.Seq = env.Position
		if t := env.Event.EventType(); !slices.Contains(own, t) {
			counts[t.String()]++
		}
		return nil
	})
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		out.Done = append(out.Done, doneEvents{name, counts[name]})
	}
	if err == nil {
		out.Waiting, err = openWakeups(ctx, r)
	}
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	return p.out.one(out, out.text)
}

func (o passed) text(w io.Writer) {
	if len(o.Done) == 0 {
		fmt.Fprintln(w, "nothing was due")
	}
	for _, d := range o.Done {
		fmt.Fprintf(w, "%4d  %s\n", d.Count, d.Type)
	}
	fmt.Fprintf(w, "seq %s to %s · %s left to an engine · %d wait for a person", grouped(int64(o.AfterSeq)), grouped(int64(o.Seq)),
		plural(o.Waiting, "wakeup", "wakeups"), o.Held)
	if o.Suspended > 0 {
		fmt.Fprintf(w, " · %d wait for a transport that fails", o.Suspended)
	}
	fmt.Fprintln(w)
}
