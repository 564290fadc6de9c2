package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/config"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/store/sqlite"
)

// pruned is what store prune answers.
type pruned struct {
	towline.Archived
	OlderThan string `json:"older_than"`
	Size      int64  `json:"file_bytes"`
	Free      int64  `json:"free_bytes"` // of the file, that hold nothing behind it
}

func (p *program) storePrune() *cobra.Command {
	var older string
	var compact bool
	c := &cobra.Command{
		Use: "prune", Short: "Archive finished runs, on a store that no engine holds",
		Long: `Moves finished runs into sealed, compressed segments of the store, in short steps: the
oldest first, whatever their end was. What waits for a person keeps its run as it is. Every
command shows an archived run as it did before, and what was free is used again. An engine that
runs does this by itself, behind retention.archive_after. Ctrl-C ends it between two steps;
the next one goes on.

The file stays as large as it is, and what is free in it is used again. --compact makes it as
small as what it holds, for which it needs that much room beside it meanwhile.`,
		Example: "  towline store prune\n  towline store prune --older-than 7d\n  towline store prune --compact   # and give back what is free",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.command = cmd.CommandPath()
			if older != "" {
				p.flags.set = append(p.flags.set, "retention.archive_after="+older)
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			return interrupted(ctx, p.prune(ctx, compact))
		},
	}
	c.Flags().BoolVar(&compact, "compact", false, "make the file as small as what it holds")
	c.Flags().StringVar(&older, "older-than", "", "archive runs that ended so long `AGO`, as in 7d or 12h; without it retention.archive_after")
	return c
}

func (p *program) prune(ctx context.Context, compact bool) error {
	c, err := p.load(true)
	if err != nil {
		return err
	}
	age := c.Retention.ArchiveAfter
	if age == 0 {
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
	n, err := node.Open(ctx, b.Node)
	if err != nil {
		return heldBy(err)
	}
	s := newScreen(p.stderr, p.flags.noColor)
	all, failure := n.Prune(ctx, age, func(a towline.Archived) {
		s.draw(fmt.Sprintf("archived %s in %s", plural(a.Runs, "run", "runs"), plural(a.Segments, "segment", "segments")))
	})
	s.draw("")
	if err := errors.Join(failure, n.Close()); err != nil {
		return storeError(err)
	}
	if compact {
		if err := sqlite.Compact(ctx, c.Store.Path, sqlite.Options{AllowNetworkFS: c.Store.AllowNetworkFS}); err != nil {
			return heldBy(err)
		}
	}
	i, err := sqlite.Look(ctx, c.Store.Path)
	if err != nil {
		return storeError(err)
	}
	out := pruned{Archived: all, OlderThan: age.String(), Size: i.Bytes, Free: i.Free}
	return p.out.one(out, out.text)
}

func (o pruned) text(w io.Writer) {
	if o.Segments == 0 {
		fmt.Fprintf(w, "nothing to archive: no finished run is older than %s\n", o.OlderThan)
		o.sizeInWords(w)
		return
	}
	fmt.Fprintf(w, "archived %s: %s of events are %s in %s\n", plural(o.Runs, "run", "runs"), size(o.Plain), size(o.Bytes), plural(o.Segments, "segment", "segments"))
	o.sizeInWords(w)
}

func (o pruned) sizeInWords(w io.Writer) {
	fmt.Fprintf(w, "the file has %s, of which %s hold nothing and are used again\n", size(o.Size), size(o.Free))
}
