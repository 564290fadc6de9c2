package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/wire"
)

func (p *program) runCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "run", Short: "Start runs, follow them, end them, and run again what failed",
		Long: `A run is one execution of a sync. RUN is the last six characters of its id, or more of
them, the ULID, or run/ULID.`,
		Example: "  towline run start code --watch\n  towline run list --where state:failed\n  towline run show 7Q4ZKD",
		Args:    cobra.ArbitraryArgs,
		RunE:    func(cmd *cobra.Command, args []string) error { return p.group(cmd, args) },
	}
	c.AddCommand(p.runStart(), p.runList(), p.runShow(), p.runWatch(), p.runCancel(), p.runRetry())
	return c
}

func (p *program) runList() *cobra.Command {
	var l listFlags
	c := &cobra.Command{
		Use: "list", Short: "List runs, newest first",
		Long: `Lists runs, newest first. The query knows sync, source, state, trigger, mode and age;
a comma is or, a blank is and, - is not.`,
		Example: "  towline run list\n  towline run list --where 'state:failed,partial_failed age<7d' -o json\n  towline run list --db backup/towline.db --limit 0",
		Args:    cobra.NoArgs,
	}
	l.add(c.Flags(), "state:failed sync:code")
	return p.readsAt(c, func(ctx context.Context, c *client.Client, at client.At, _ []string) error {
		then, err := p.momentOf(ctx, c, at)
		if err != nil {
			return err
		}
		now := time.Now()
		found := c.Runs(client.Query{Where: l.where, At: at, Page: l.page()})
		shown, err := rows(p, found.All(ctx), l.limit, []string{"RUN", "SYNC", "STATE", "UNITS", "FAILED", "TRIGGER", "PLANNED", "TOOK", "NOTE"},
			func(r wire.Run) []string {
				return []string{r.Alias, r.Sync, string(r.State), done(r), orDash(count(r.Failed)), string(r.Trigger), clock(r.PlannedAt, now), took(r, then), note(r)}
			})
		if err == nil {
			p.out.say("%s · as of seq %s", plural(len(shown), "run", "runs"), grouped(int64(found.Seq())))
		}
		return err
	})
}

// done is how many units of a run have ended, of how many.
func done(r wire.Run) string { return fmt.Sprintf("%d/%d", r.Succeeded+r.Failed+r.Cancelled, r.Units) }

func count(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// took is how long a run lasted, or had lasted by a moment.
func took(r wire.Run, by time.Time) string {
	if !r.CompletedAt.IsZero() {
		by = r.CompletedAt
	}
	return span(by.Sub(r.PlannedAt))
}

// note is what a person should know of a run beside its state.
func note(r wire.Run) string {
	var notes []string
	if r.Reason != "" {
		notes = append(notes, r.Reason)
	}
	if !r.RetryOf.IsZero() {
		notes = append(notes, "retries "+r.RetryOf.Short())
	}
	for _, t := range r.PostSync {
		if words := postInWords(t); words != "" {
			notes = append(notes, words)
		}
	}
	return strings.Join(notes, "; ")
}

func (p *program) runShow() *cobra.Command {
	c := &cobra.Command{
		Use: "show RUN", Short: "Show a run with its units",
		Long: `Shows how far a run is, its units by source and dataset, and what it waits for. What
only a person can end comes first, with the command that ends it.

  ✔ succeeded   ◐ running   ↻ retrying   · waits   ✘ failed   ○ cancelled`,
		Example: "  towline run show 7Q4ZKD\n  towline run show 7Q4ZKD --at-seq 1204\n  towline run show 7Q4ZKD --db backup/towline.db -o json",
		Args:    one,
	}
	return p.readsAt(c, func(ctx context.Context, c *client.Client, at client.At, args []string) error {
		return p.showRun(ctx, c, args[0], at)
	})
}

// showRun answers with a run, as it is, or was.
func (p *program) showRun(ctx context.Context, c *client.Client, id string, at client.At) error {
	run, err := c.Run(ctx, id, at)
	if err != nil {
		return err
	}
	if p.out.form != "table" {
		return p.out.one(run.Value, nil)
	}
	then, err := p.momentOf(ctx, c, at)
	if err != nil {
		return err
	}
	v := runView{run: run.Value, seq: int64(run.Seq), now: time.Now(), then: then}
	for u, err := range c.UnitsOf(run.Value.ID.String(), client.Query{At: at}).All(ctx) {
		if err != nil {
			return err
		}
		v.units = append(v.units, u)
	}
	if at == client.Now { // what a thing waited for then, nobody knows
		why, err := c.WhyRun(ctx, run.Value.ID.String())
		if err != nil {
			return err
		}
		v.why = &why.Value
	}
	return p.out.one(run.Value, func(w io.Writer) { v.write(w) })
}
