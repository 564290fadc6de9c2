package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/config"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store/sqlite"
)

// storeFacts are the answer of store info.
type storeFacts struct {
	File     string          `json:"file"`
	Level    int             `json:"level"`
	Writes   int             `json:"writes"` // the highest level to which this release can raise it
	Epoch    int             `json:"epoch"`
	Seq      events.Position `json:"seq"`
	At       time.Time       `json:"at,omitzero"`
	Bytes    int64           `json:"bytes"`
	WAL      int64           `json:"wal_bytes"`
	Used     int64           `json:"used_bytes"` // that hold something, also those that only the WAL has
	Free     int64           `json:"free_bytes"` // that hold nothing
	MaxBytes int64           `json:"max_bytes"`  // 0: no budget
	Tables   []tableFacts    `json:"tables"`
	Backups  backupFacts     `json:"backups"`
}

type tableFacts struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

type backupFacts struct {
	Dir    string    `json:"dir"`
	Every  string    `json:"every"` // 0s: none are made
	Count  int       `json:"count"`
	Newest time.Time `json:"newest,omitzero"`
}

func (p *program) storeInfo() *cobra.Command {
	return &cobra.Command{
		Use: "info", Short: "Say what the store holds: its level, its size by table, its backups",
		Long: `Says what the store holds. It changes nothing, and works beside a running engine
and on a copy. Exit code 10 for a store that this release cannot read.`,
		Example: "  towline store info\n  towline --store copy.db store info -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.load(false)
			if err != nil {
				return err
			}
			f, err := factsOf(cmd.Context(), c)
			if err != nil {
				return storeError(err)
			}
			return p.out.one(f, f.write)
		},
	}
}

func factsOf(ctx context.Context, c *config.Config) (f storeFacts, err error) {
	i, err := sqlite.Look(ctx, c.Store.Path)
	if err != nil {
		return f, err
	}
	f = storeFacts{
		File: i.Path, Level: i.Level, Writes: i.Writes, Epoch: i.Epoch, Seq: i.Head, Bytes: i.Bytes, WAL: i.WAL, Used: i.Used, Free: i.Free,
		MaxBytes: int64(c.Store.MaxBytes), Tables: []tableFacts{},
		Backups: backupFacts{Dir: c.Store.Backup.Dir, Every: c.Store.Backup.Every.String()},
	}
	if i.At != 0 {
		f.At = i.At.Time()
	}
	for _, t := range i.Tables {
		f.Tables = append(f.Tables, tableFacts{t.Name, t.Bytes})
	}
	kept, err := sqlite.Backups(ctx, i.Path, c.Store.Backup.Dir)
	if n := len(kept); n > 0 {
		f.Backups.Count, f.Backups.Newest = n, kept[n-1].At
	}
	return f, err
}

// mostTables are as many as a table shows; JSON has all.
const mostTables = 12

func (f storeFacts) write(w io.Writer) {
	fmt.Fprintf(w, "store    %s\n", f.File)
	fmt.Fprintf(w, "level    %d; this release writes %d\n", f.Level, f.Writes)
	fmt.Fprintf(w, "epoch    %d\n", f.Epoch)
	fmt.Fprintf(w, "seq      %d", f.Seq)
	if !f.At.IsZero() {
		fmt.Fprintf(w, "  of %s", f.At.Local().Format(time.DateTime))
	}
	fmt.Fprintf(w, "\nsize     %s, of which %s hold nothing; wal %s\n", size(f.Bytes), size(f.Free), size(f.WAL))
	if f.MaxBytes > 0 {
		const percent = 100
		fmt.Fprintf(w, "budget   %s, %d %% used\n", size(f.MaxBytes), f.Used*percent/f.MaxBytes)
	} else {
		fmt.Fprintln(w, "budget   none")
	}
	if f.Backups.Count > 0 {
		fmt.Fprintf(w, "backups  %d in %s, the newest of %s\n", f.Backups.Count, f.Backups.Dir, f.Backups.Newest.Local().Format(time.DateTime))
	} else {
		fmt.Fprintf(w, "backups  none in %s\n", f.Backups.Dir)
	}
	for i, t := range f.Tables {
		if i == mostTables {
			fmt.Fprintf(w, "         and %s\n", plural(len(f.Tables)-i, "more table", "more tables"))
			break
		}
		fmt.Fprintf(w, "%9s  %s\n", size(t.Bytes), t.Name)
	}
}

// checkKept names a budget that is used up, and a backup that is long overdue (DUR-6). A store that is not there has neither.
func checkKept(ctx context.Context, c *config.Config) (out []finding) {
	f, err := factsOf(ctx, c)
	if err != nil {
		return nil // checkStore says why
	}
	const eighths, taken = 8, 7 // of the budget, from where no run is accepted
	if f.MaxBytes > 0 && f.Used >= f.MaxBytes/eighths*taken {
		out = append(out, finding{
			What: "budget", State: failed, Text: fmt.Sprintf("%s of %s are used, so no new run is accepted", size(f.Used), size(f.MaxBytes)), Fix: "raise store.max_bytes",
		})
	}
	every := c.Store.Backup.Every
	if every <= 0 {
		return out
	}
	b := finding{What: "backup", State: fine, Text: "none yet in " + f.Backups.Dir}
	if f.Backups.Count > 0 {
		age := time.Since(f.Backups.Newest)
		b.Text = fmt.Sprintf("%d in %s, the newest %s old", f.Backups.Count, f.Backups.Dir, age.Round(time.Second))
		if age > 2*every {
			b.State, b.Fix = warning, "look at the log of the engine, or whether one runs"
		}
	}
	return append(out, b)
}
