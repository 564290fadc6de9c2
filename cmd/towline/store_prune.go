package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/config"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/store/sqlite"
)

// pruned is what store prune answers.
type pruned struct {
	towline.Archived
	OlderThan string `json:"older_than,omitzero"`
	MaxBytes  int64  `json:"max_bytes,omitzero"` // what the store was to hold at most
	Size      int64  `json:"file_bytes"`
	Free      int64  `json:"free_bytes"` // of the file, that hold nothing behind it
}

func (p *program) storePrune() *cobra.Command {
	var older, most string
	var compact bool
	c := &cobra.Command{
		Use: "prune", Short: "Archive finished runs, on a store that no engine holds",
		Long: `Moves finished runs into sealed, compressed segments of the store, in short steps: the
oldest first, whatever their end was. What waits for a person keeps its run as it is. Every
command shows an archived run as it did before, and what was free is used again. An engine that
runs does this by itself, behind retention.archive_after. Ctrl-C ends it between two steps;
the next one goes on.

With --max-bytes runs are archived whatever their age, until the store holds no more than
that. With --older-than beside it, those only that are so old.

The file stays as large as it is, and what is free in it is used again. --compact makes it as
small as what it holds, for which it needs that much room beside it meanwhile.`,
		Example: "  towline store prune\n  towline store prune --older-than 7d\n  towline store prune --max-bytes 256MiB\n  towline store prune --compact   # and give back what is free",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.command = cmd.CommandPath()
			if older != "" {
				p.flags.set = append(p.flags.set, "retention.archive_after="+older)
			}
			how := pruning{anyAge: most != "" && older == "", compact: compact}
			if most != "" {
				var err error
				if how.most, err = config.ParseSize(most); err != nil || how.most == 0 {
					return p.usage("--max-bytes %q: want a size, as 256MiB", most)
				}
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			return interrupted(ctx, p.prune(ctx, how))
		},
	}
	c.Flags().BoolVar(&compact, "compact", false, "make the file as small as what it holds")
	c.Flags().StringVar(&most, "max-bytes", "", "archive until the store holds no more than `SIZE`, as in 256MiB")
	c.Flags().StringVar(&older, "older-than", "", "archive runs that ended so long `AGO`, as in 7d or 12h; without it retention.archive_after")
	return c
}

// pruning is what store prune is asked for.
type pruning struct {
	anyAge  bool        // not only what is older than retention.archive_after
	most    config.Size // that the store is to hold; zero: all that is old enough is archived
	compact bool
}

func (p *program) prune(ctx context.Context, how pruning) error {
	c, err := p.load(true)
	if err != nil {
		return err
	}
	age := c.Retention.ArchiveAfter
	if how.anyAge {
		age = 0
	} else if age == 0 {
		return &configError{errors.New("retention.archive_after is 0, so nothing is archived: name an age with --older-than")}
	}
	if _, err := p.headOf(ctx, c.Store.Path); err != nil {
		return err
	}
	b, err := config.Build(ctx, c, config.BuildOptions{Logger: p.quietLogger(), Version: thisBuild().Version})
	if err != nil {
		return &configError{err}
	}
	defer func() { _ = b.Close() }() // nothing was written
	b.Node.NoSchedules = true        // they stay as the engine has them
	b.Node.MaxBytes = int64(how.most)
	n, err := node.Open(ctx, b.Node)
	if err != nil {
		return heldBy(err)
	}
	all, failure := p.pruneOpen(ctx, n, age, how)
	if err := errors.Join(failure, n.Close()); err != nil {
		return storeError(err)
	}
	if how.compact {
		if err := sqlite.Compact(ctx, c.Store.Path, sqlite.Options{AllowNetworkFS: c.Store.AllowNetworkFS}); err != nil {
			return heldBy(err)
		}
	}
	i, err := sqlite.Look(ctx, c.Store.Path)
	if err != nil {
		return storeError(err)
	}
	out := pruned{Archived: all, MaxBytes: int64(how.most), Size: i.Bytes, Free: i.Free}
	if !how.anyAge {
		out.OlderThan = age.String()
	}
	return p.out.one(out, out.text)
}

// pruneOpen archives what there is, or as much as brings the store below its bound.
func (p *program) pruneOpen(ctx context.Context, n *node.Node, age time.Duration, how pruning) (towline.Archived, error) {
	within := func() (bool, error) {
		if how.most == 0 {
			return false, nil
		}
		b, err := n.Engine().Budget(ctx)
		return b.Used <= b.Max, err
	}
	if enough, err := within(); enough || err != nil {
		return towline.Archived{}, err
	}
	s := newScreen(p.stderr, p.flags.noColor)
	defer s.draw("")
	var broken error
	all, failure := n.Prune(ctx, age, func(a towline.Archived) bool {
		s.draw(fmt.Sprintf("archived %s in %s", plural(a.Runs, "run", "runs"), plural(a.Segments, "segment", "segments")))
		var enough bool
		enough, broken = within()
		return !enough && broken == nil
	})
	return all, errors.Join(failure, broken)
}

func (o pruned) text(w io.Writer) {
	used := o.Size - o.Free
	switch {
	case o.Segments == 0 && o.MaxBytes > 0 && used <= o.MaxBytes:
		fmt.Fprintf(w, "nothing to archive: the store holds %s, and may hold %s\n", size(used), size(o.MaxBytes))
	case o.Segments == 0 && o.OlderThan == "":
		fmt.Fprintln(w, "nothing to archive: no run is over that is not archived")
	case o.Segments == 0:
		fmt.Fprintf(w, "nothing to archive: no finished run is older than %s\n", o.OlderThan)
	default:
		fmt.Fprintf(w, "archived %s: %s of events are %s in %s\n", plural(o.Runs, "run", "runs"), size(o.Plain), size(o.Bytes), plural(o.Segments, "segment", "segments"))
	}
	if o.MaxBytes > 0 && used > o.MaxBytes {
		fmt.Fprintf(w, "the store holds %s, more than %s: nothing more can be archived now. What is open, parked or waits for a person stays as it is\n", size(used), size(o.MaxBytes))
	}
	o.sizeInWords(w)
}

func (o pruned) sizeInWords(w io.Writer) {
	fmt.Fprintf(w, "the file has %s, of which %s hold nothing and are used again\n", size(o.Size), size(o.Free))
}
