package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/wire"
)

func (p *program) stateCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "state", Short: "Show the engine in short, also as it was",
		Example: "  towline state show\n  towline state show --at-seq 1204",
		Args:    cobra.ArbitraryArgs,
		RunE:    func(cmd *cobra.Command, args []string) error { return p.group(cmd, args) },
	}
	c.AddCommand(p.stateShow())
	return c
}

func (p *program) stateShow() *cobra.Command {
	c := &cobra.Command{
		Use: "show", Short: "Show what is open, what waits for a person, and what is paused, now or then",
		Example: "  towline state show\n  towline state show --at-time 14:03\n  towline state show --at-seq 1204 -o json --db backup/towline.db",
		Args:    cobra.NoArgs,
	}
	return p.readsAt(c, func(ctx context.Context, c *client.Client, at client.At, _ []string) error {
		s, err := c.State(ctx, at)
		if err != nil {
			return err
		}
		return p.out.one(s.Value, func(w io.Writer) { writeState(w, s.Value) })
	})
}

func writeState(w io.Writer, s wire.State) {
	now := time.Now()
	fmt.Fprintf(w, "as of seq %s, %s\n", grouped(int64(s.Seq)), clock(s.At, now))
	if s.NeedPerson > 0 {
		fmt.Fprintf(w, "needs a person: %s\n", plural(s.NeedPerson, "thing", "things"))
	}
	for _, e := range s.Held {
		fmt.Fprintf(w, "  %s  %s  %s\n", e.Alias, e.State, noteOf(e))
	}
	if h := s.Hold; h != nil {
		fmt.Fprintf(w, "restored hold: nothing is sent since %s, from a copy that ends at event %s (epoch %d): look at what would be sent, then towline resume --after-restore --reason …\n",
			clock(h.At, now), grouped(int64(h.Head)), h.Epoch)
	}
	for _, x := range s.Paused {
		fmt.Fprintf(w, "paused: %s since %s by %s: %s\n", controlled(x.Source), clock(x.Since, now), orDash(x.By), oneLine(x.Reason))
	}
	for _, b := range s.Breakers {
		fmt.Fprintf(w, "transport %s is away since %s: %s\n", b.Transport, clock(b.OpenedAt, now), oneLine(b.Cause))
	}
	fmt.Fprintf(w, "%s open\n", plural(len(s.Runs), "run", "runs"))
	for _, r := range s.Runs {
		fmt.Fprintf(w, "  %s  %s  %s  %s\n", r.Alias, r.Sync, r.State, done(r))
	}
	fmt.Fprintf(w, "%s to publish\n", plural(len(s.Entries), "entry", "entries"))
	for _, e := range s.Entries {
		fmt.Fprintf(w, "  %s  %s  due %s\n", e.Alias, e.State, clock(e.AvailableAt, now))
	}
	for _, n := range s.Nodes {
		fmt.Fprintf(w, "node %s  %s  %s  since %s\n", n.Incarnation.Short(), n.Version, n.StoreMode, clock(n.StartedAt, now))
	}
}
