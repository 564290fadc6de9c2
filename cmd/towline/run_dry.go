package main

import (
	"context"
	"fmt"
	"io"

	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/wire"
)

// dryRun answers with what a run would plan.
func (p *program) dryRun(ctx context.Context, c *client.Client, body wire.StartRun, key string, stay bool) error {
	if stay {
		return p.usage("--dry-run starts nothing: leave --wait and --watch out")
	}
	seen, err := c.DryRun(ctx, body, key)
	if err != nil {
		return p.withHolder(ctx, c, inFlags(err))
	}
	return p.out.one(seen, func(out io.Writer) { p.writeDryRun(out, seen) })
}

// writeDryRun shows a line for each source and dataset: where its windows begin and end, and how many there are.
func (p *program) writeDryRun(out io.Writer, d wire.DryRun) {
	if !d.Known.IsZero() {
		fmt.Fprintf(out, "would plan nothing: run %s has this key already\n", d.Known.Short())
		return
	}
	fmt.Fprintf(out, "would plan %s of %s, %s; nothing is written\n", plural(d.Units, "unit", "units"), d.Sync, d.Mode)
	if d.Units == 0 {
		fmt.Fprintln(out, "the run would end as failed, with the reason no_sync_units_planned")
	}
	rows := [][]string{{"SOURCE", "DATASET", "TIER", "UNITS", "WINDOWS"}}
	for i := 0; i < len(d.Planned); {
		first, n := d.Planned[i], 0
		for i+n < len(d.Planned) && d.Planned[i+n].Source == first.Source && d.Planned[i+n].Dataset == first.Dataset {
			n++
		}
		windows := first.Window.Name
		if last := d.Planned[i+n-1].Window.Name; n > 1 {
			windows += " to " + last
		}
		rows = append(rows, []string{first.Source, first.Dataset, string(first.Tier), fmt.Sprint(n), orDash(windows)})
		i += n
	}
	if len(rows) > 1 {
		_ = p.out.table(rows) // out is p.out, which remembers
	}
	for _, l := range d.LeftOut {
		fmt.Fprintf(out, "left out: %s (%s)\n", l.Source, l.Reason)
	}
}
