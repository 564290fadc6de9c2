package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/config"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
)

// rebuilt is what a rebuild has done.
type rebuilt struct {
	Seq         events.Position `json:"seq"`
	Projections []string        `json:"projections"`
	Before      []string        `json:"before"` // in what the old tables differed from the log
	Older       bool            `json:"older"`  // they were those of another release, and were not compared
	After       []string        `json:"after"`  // in what the new ones do: nothing

	// LeftOut are events of the log without which they were made; then nothing was compared.
	LeftOut []projections.LeftOut `json:"left_out"`
}

func (p *program) rebuildCommand() *cobra.Command {
	names := projections.Names()
	skip := false
	c := &cobra.Command{
		Use: "rebuild [PROJECTION]", Short: "Make the views anew from the log, on a store that no engine holds",
		Long: `Folds the log beside the store and compares every view with it. Then it makes all of
them, or one, anew in one transaction, until whose end the old ones stand, and compares
once more. It publishes nothing, calls nobody, and adds nothing to the log.

The projections are ` + strings.Join(names, ", ") + `.
Exit code 1 if a view differs from the log behind it: one that was not made anew, or
one that was, and that is a defect, to report with the store.`,
		Example:   "  towline rebuild\n  towline rebuild units",
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			p.command = cmd.CommandPath()
			for _, name := range args {
				if !slices.Contains(names, name) {
					return fmt.Errorf("projection %q: want one of %s: %w", name, strings.Join(names, ", "), towline.ErrNotFound)
				}
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			return interrupted(ctx, p.rebuild(ctx, args, skip))
		},
	}
	c.Flags().BoolVar(&skip, "skip-bad", false, "leave events out that cannot be read, and list them")
	return c
}

func (p *program) rebuild(ctx context.Context, names []string, skip bool) error {
	c, err := p.load(false)
	if err != nil {
		return err
	}
	if _, err := p.headOf(ctx, c.Store.Path); err != nil {
		return err
	}
	s, err := sqlite.Open(ctx, c.Store.Path, sqlite.Options{Shared: c.Store.Mode == "shared", AllowNetworkFS: c.Store.AllowNetworkFS})
	if err != nil {
		return heldBy(err)
	}
	out := rebuilt{Projections: names, Before: []string{}, After: []string{}, LeftOut: []projections.LeftOut{}}
	if len(names) == 0 {
		out.Projections = projections.Names()
	}
	err = p.swap(ctx, s, c, &out)
	switch bad := isBad(err); {
	case bad && skip:
		fmt.Fprintf(p.stderr, "towline: %v\n", err)
		err = p.without(ctx, s, &out)
	case bad:
		err = fmt.Errorf("the views stand as they were: %w\nfix: start a release that reads it, or restore a backup; towline rebuild --skip-bad makes the views without such events", err)
	}
	if err := errors.Join(err, s.Close()); err != nil {
		return err
	}
	if err := p.out.one(out, out.text); err != nil {
		return err
	}
	if len(out.After) > 0 {
		return &exitError{code: exitFailed}
	}
	return nil
}

// swap compares, makes anew, and compares. The store is held meanwhile.
func (p *program) swap(ctx context.Context, s *sqlite.Store, c *config.Config, out *rebuilt) error {
	before, err := p.compare(ctx, c.Store.Path)
	if err != nil {
		return err
	}
	out.Before, out.Older = append([]string{}, before.Differences...), before.NoViews
	fmt.Fprintf(p.stderr, "towline: the log was folded to seq %d; now the views are made anew\n", before.Position)
	if err := s.Write(ctx, func(tx store.Tx) error { return projections.Rebuild(tx, out.Projections...) }); err != nil {
		return fmt.Errorf("make the views anew: the old ones stand: %w", err)
	}
	after, err := p.compare(ctx, c.Store.Path)
	out.Seq, out.After = after.Position, append([]string{}, after.Differences...)
	return err
}

// isBad reports an event that cannot be read, or does not fold.
func isBad(err error) bool { return as[*events.DecodeError](err) || as[*projections.FoldError](err) }

// without makes them anew of what can be read.
func (p *program) without(ctx context.Context, s *sqlite.Store, out *rebuilt) error {
	return s.Write(ctx, func(tx store.Tx) (err error) {
		if out.Seq, _, err = tx.Head(); err != nil {
			return err
		}
		out.LeftOut, err = projections.RebuildWithout(tx, out.Projections...)
		return err
	})
}

// compare folds the log beside the store.
func (p *program) compare(ctx context.Context, path string) (v towline.Verification, err error) {
	r, err := p.reader(ctx, path)
	if err != nil {
		return v, err
	}
	head, err := r.Engine().Head(ctx)
	if err == nil {
		told := p.progress("events folded")
		v, err = r.Verify(ctx, func(at events.Position) { told.at(int(at), int(head)) })
		told.over()
	}
	return v, errors.Join(err, r.Close())
}

func (o rebuilt) text(w io.Writer) {
	if n := len(o.LeftOut); n > 0 {
		fmt.Fprintf(w, "%s made anew at seq %s, without %s of the log\n", plural(len(o.Projections), "projection", "projections"), grouped(int64(o.Seq)),
			plural(n, "event", "events"))
		for _, l := range o.LeftOut {
			fmt.Fprintf(w, "left out: seq %d  %s\n", l.Position, l.Reason)
		}
		return
	}
	was := "they were what the log says"
	switch {
	case o.Older:
		was = "they were those of another release"
	case len(o.Before) > 0:
		was = fmt.Sprintf("they differed from the log in %s", plural(len(o.Before), "table or count", "tables or counts"))
	}
	is := "projections = fold at seq " + grouped(int64(o.Seq)) + ": ok"
	if len(o.After) > 0 {
		is = "projections ≠ fold at seq " + grouped(int64(o.Seq)) + ": FAILED"
	}
	fmt.Fprintf(w, "%s made anew: %s · %s\n", plural(len(o.Projections), "projection", "projections"), was, is)
	for _, d := range o.Before {
		fmt.Fprintln(w, "was: "+d)
	}
	for _, d := range o.After {
		fmt.Fprintln(w, "is: "+d)
	}
}

// openWakeups counts what is to be published.
func openWakeups(ctx context.Context, r *node.Reader) (n int, err error) {
	err = r.Engine().View(ctx, func(v projections.View) error {
		const many = 10_000
		open, err := v.OpenRegisters(many)
		n = len(open)
		return err
	})
	return n, err
}
