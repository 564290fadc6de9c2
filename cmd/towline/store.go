package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/store/sqlite"
)

func (p *program) storeCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "store", Short: "Look at the store, copy it, restore it, archive finished runs, upgrade it",
		Example: "  towline store info\n  towline store backup /mnt/backup/towline.db",
		Args:    cobra.ArbitraryArgs,
		RunE:    func(cmd *cobra.Command, args []string) error { return p.group(cmd, args) },
	}
	c.AddCommand(p.storeInfo(), p.storeBackup(), p.storeRestore(), p.storePrune(), p.storeUpgrade())
	return c
}

// copied is what a backup or a restore answers.
type copied struct {
	File  string          `json:"file"`
	Bytes int64           `json:"bytes"`
	Level int             `json:"level"`
	Epoch int             `json:"epoch"`
	Seq   events.Position `json:"seq"`             // of the newest event in it
	At    time.Time       `json:"at,omitzero"`     // its time
	Aside string          `json:"aside,omitempty"` // where the store is that was replaced
	Lost  int64           `json:"lost,omitempty"`  // events of that store which the copy does not have
	Owner string          `json:"owner,omitempty"` // why the owner of that store is not the owner of this
}

func copiedOf(c sqlite.Copy) copied {
	out := copied{File: c.Path, Bytes: c.Bytes, Level: c.Level, Epoch: c.Epoch, Seq: c.Head}
	if c.At != 0 {
		out.At = c.At.Time()
	}
	return out
}

func (p *program) storeBackup() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "backup FILE", Short: "Copy the store, while it is used or at rest, and verify the copy",
		Long: `Copies the store as it is at one moment. An engine that runs on it goes on. The
copy is checked and verified, and has its name only when it is whole and on disk:
whatever fails leaves no file, or the one that was there.`,
		Example: "  towline store backup /mnt/backup/towline.db\n  towline store backup --force copy.db   # replaces copy.db",
		Args:    one,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.load(false)
			if err != nil {
				return err
			}
			s := newScreen(p.stderr, p.flags.noColor)
			made, err := node.Backup(cmd.Context(), c.Store.Path, args[0], node.BackupOptions{Force: force, Progress: s.pages("copied")})
			s.draw("")
			if err != nil {
				return storeError(err)
			}
			return p.out.one(copiedOf(made), func(w io.Writer) {
				fmt.Fprintf(w, "%s  %s  seq %d  verified\n", made.Path, size(made.Bytes), made.Head)
			})
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace FILE, if it is there")
	return c
}

func (p *program) storeRestore() *cobra.Command {
	var epoch int
	c := &cobra.Command{
		Use: "restore FILE", Short: "Put a copy in the place of the store, and hold what it would send",
		Long: `Puts a copy in the place of the store, which no engine may have open. The copy is
checked and verified first; the old store is kept beside the new one. The next up
sends nothing until an operator ends the hold:

  1. towline up, and look at what would be sent: towline outbox list
  2. what the receiver has already: towline outbox resolve ID --delivered --reason …
  3. towline resume --after-restore --reason …`,
		Example: "  towline store restore /mnt/backup/towline.db\n  towline store restore copy.db --epoch 5   # the store has lived on elsewhere, up to epoch 4",
		Args:    one,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.load(false)
			if err != nil {
				return err
			}
			s := newScreen(p.stderr, p.flags.noColor)
			made, err := node.Restore(cmd.Context(), args[0], c.Store.Path, node.RestoreOptions{Epoch: epoch, Progress: s.pages("copied")})
			s.draw("")
			if err != nil {
				return storeError(err)
			}
			out := copiedOf(made.Copy)
			out.Aside = made.Aside
			if made.Replaced != nil {
				out.Lost = max(int64(made.Replaced.Head-made.Head), 0)
			}
			if made.Disowned != nil {
				out.Owner = oneLine(made.Disowned.Error())
			}
			return p.out.one(out, func(w io.Writer) {
				fmt.Fprintf(w, "%s  %s  seq %d  epoch %d\n", made.Path, size(made.Bytes), made.Head, made.Epoch)
				switch {
				case out.Aside != "" && made.Replaced == nil:
					fmt.Fprintf(w, "the old store is %s; it cannot be read, so nobody knows what it has that the copy has not\n", out.Aside)
					fmt.Fprintf(w, "if its epoch was %d or more, restore again with a higher one: --epoch\n", made.Epoch)
				case out.Aside != "":
					fmt.Fprintf(w, "the old store is %s; it has %s that the copy has not\n", out.Aside, plural(int(out.Lost), "event", "events"))
				}
				if out.Owner != "" {
					fmt.Fprintf(w, "its owner could not be kept (%s): an engine of another user may not be able to open it\n", out.Owner)
				}
				fmt.Fprintln(w, "the next engine sends nothing until: towline resume --after-restore")
			})
		},
	}
	c.Flags().IntVar(&epoch, "epoch", 0, "least epoch `N` of the restored store; 0: one more than any that is known here")
	return c
}

func (p *program) storeUpgrade() *cobra.Command {
	return &cobra.Command{
		Use: "upgrade", Short: "Raise the format level of the store by one step, behind a copy",
		Long: `Raises the format level of the store by one step, if this release writes a higher
one. No engine may have the store open. A copy is made first. Until then the
previous release opens the store and goes on; from then on only the copy is the way
back to it.`,
		Example: "  towline store upgrade",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.load(false)
			if err != nil {
				return err
			}
			u, err := sqlite.Upgrade(cmd.Context(), c.Store.Path)
			if err != nil {
				return storeError(err)
			}
			answer := struct {
				From int    `json:"from"`
				To   int    `json:"to"`
				Copy string `json:"copy,omitempty"`
			}{u.From, u.To, u.Copy}
			return p.out.one(answer, func(w io.Writer) {
				if u.From == u.To {
					fmt.Fprintf(w, "%s has format level %d, the highest that this release writes\n", c.Store.Path, u.To)
					return
				}
				fmt.Fprintf(w, "%s has format level %d now; as it was before: %s\n", c.Store.Path, u.To, u.Copy)
			})
		},
	}
}

// storeError gives the errors of files their exit code.
func storeError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &exitError{exitNotFound, err}
	case errors.Is(err, fs.ErrExist):
		return &exitError{exitConflict, err}
	case errors.Is(err, os.ErrPermission):
		return &exitError{exitUnreachable, err}
	}
	return err
}

// pages draws how much of a store is copied.
func (s *screen) pages(done string) func(int, int) {
	return func(n, all int) { s.draw(s.barOf(n, all, fmt.Sprintf("%d/%d pages %s", n, all, done))) }
}

// size is a number of bytes for people.
func size(n int64) string {
	const kilo = 1024
	if n < kilo {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, unit := float64(n)/kilo, "KiB"
	for _, next := range []string{"MiB", "GiB"} {
		if f < kilo {
			break
		}
		f, unit = f/kilo, next
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + " " + unit
}
