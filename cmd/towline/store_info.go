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
	Owed     int64           `json:"owed_bytes"` // that open runs may take until they end
	MaxBytes int64           `json:"max_bytes"`  // 0: no budget
	Full     int64           `json:"full_bytes"` // no run is accepted with which used and owed would pass this; 0: no budget
	Tables   []tableFacts    `json:"tables"`
	Backups  backupFacts     `json:"backups"`
	Archive  archiveFacts    `json:"archive"`
}

type archiveFacts struct {
	After    string    `json:"after"` // 0s: nothing is archived
	Segments int       `json:"segments"`
	Events   int       `json:"events"`
	Plain    int64     `json:"plain_bytes"`
	Bytes    int64     `json:"bytes"`
	Newest   time.Time `json:"newest,omitzero"` // when the newest segment was sealed
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
			f, err := p.factsOf(cmd.Context(), c)
			if err != nil {
				return storeError(err)
			}
			return p.out.one(f, f.write)
		},
	}
}

func (p *program) factsOf(ctx context.Context, c *config.Config) (f storeFacts, err error) {
	i, err := sqlite.Look(ctx, c.Store.Path)
	if err != nil {
		return f, err
	}
	f = storeFacts{
		File: i.Path, Level: i.Level, Writes: i.Writes, Epoch: i.Epoch, Seq: i.Head, Bytes: i.Bytes, WAL: i.WAL, Used: i.Used, Free: i.Free,
		MaxBytes: int64(c.Store.MaxBytes), Tables: []tableFacts{},
		Backups: backupFacts{Dir: c.Store.Backup.Dir, Every: c.Store.Backup.Every.String()},
	}
	f.Archive = archiveFacts{
		After: c.Retention.ArchiveAfter.String(), Segments: i.Archive.Count, Events: i.Archive.Events, Plain: i.Archive.Plain, Bytes: i.Archive.Bytes,
	}
	if i.Archive.Newest != 0 {
		f.Archive.Newest = i.Archive.Newest.Time()
	}
	if i.At != 0 {
		f.At = i.At.Time()
	}
	for _, t := range i.Tables {
		f.Tables = append(f.Tables, tableFacts{t.Name, t.Bytes})
	}
	if f.Owed, err = p.owedIn(ctx, i); err != nil {
		return f, err
	}
	f.Full = f.budget().Full
	kept, err := sqlite.Backups(ctx, i.Path, c.Store.Backup.Dir)
	if n := len(kept); n > 0 {
		f.Backups.Count, f.Backups.Newest = n, kept[n-1].At
	}
	return f, err
}

// owedIn asks what open runs may take. A store without a table has none.
func (p *program) owedIn(ctx context.Context, i sqlite.Info) (bytes int64, err error) {
	if i.Head == 0 {
		return 0, nil
	}
	r, err := p.reader(ctx, i.Path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return r.Engine().Owed(ctx)
}

func (f storeFacts) budget() towline.Budget { return towline.NewBudget(f.Used, f.Owed, f.MaxBytes) }

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
		fmt.Fprintf(w, "budget   %s, %s\n", size(f.MaxBytes), nearness(f.budget()))
	} else {
		fmt.Fprintln(w, "budget   none")
	}
	if f.Backups.Count > 0 {
		fmt.Fprintf(w, "backups  %d in %s, the newest of %s\n", f.Backups.Count, f.Backups.Dir, f.Backups.Newest.Local().Format(time.DateTime))
	} else {
		fmt.Fprintf(w, "backups  none in %s\n", f.Backups.Dir)
	}
	fmt.Fprintln(w, "archive  "+f.Archive.inWords())
	for i, t := range f.Tables {
		if i == mostTables {
			fmt.Fprintf(w, "         and %s\n", plural(len(f.Tables)-i, "more table", "more tables"))
			break
		}
		fmt.Fprintf(w, "%9s  %s\n", size(t.Bytes), t.Name)
	}
}

func (a archiveFacts) inWords() string {
	if a.Segments == 0 {
		return "nothing yet"
	}
	return fmt.Sprintf("%s with %s in %s, %s before; the newest of %s", plural(a.Segments, "segment", "segments"), plural(a.Events, "event", "events"),
		size(a.Bytes), size(a.Plain), a.Newest.Local().Format(time.DateTime))
}

// checkArchive says how much was archived, and by when; a store that may not be archived yet is named (DUR-7).
func (f storeFacts) checkArchive() finding {
	a := finding{What: "archive", State: fine, Text: f.Archive.inWords()}
	const archives = 2 // the level from which on a store does
	if f.Level < archives && f.Archive.After != "0s" {
		a.State, a.Text, a.Fix = warning, fmt.Sprintf("a store of level %d is not archived, so it grows", f.Level), "stop the engine and run: towline store upgrade"
	}
	return a
}

// nearness says how near a refusal is (DUR-6).
func nearness(b towline.Budget) string {
	const percent = 100
	text := fmt.Sprintf("%d %% used, and open runs may take %s more: ", b.Used*percent/b.Max, size(b.Owed))
	if b.Refuses() {
		return text + "no new run is accepted"
	}
	return text + fmt.Sprintf("a run is refused %s from here", size(b.Full-b.Used-b.Owed))
}

func checkBudget(f storeFacts) []finding {
	b := f.budget()
	if b.Max <= 0 {
		return nil
	}
	said := finding{What: "budget", State: fine, Text: size(b.Max) + ", " + nearness(b)}
	switch {
	case b.Refuses():
		said.State, said.Fix = failed, makeRoom
	case b.Ratio() > nearlyFull:
		said.State, said.Fix = warning, makeRoom
	}
	return []finding{said}
}

// makeRoom is what to do about a budget that is used up.
const makeRoom = "archive finished runs (towline store prune --older-than 7d), or raise store.max_bytes"

// nearlyFull is from where check warns, as the alert TowlineBudget does.
const nearlyFull = 0.9

// checkKept says how near the budget is, and a backup that is long overdue (DUR-6). A store that is not there has neither.
func (p *program) checkKept(ctx context.Context, c *config.Config) (out []finding) {
	f, err := p.factsOf(ctx, c)
	if err != nil {
		return nil // checkStore says why
	}
	out = append(out, checkBudget(f)...)
	out = append(out, f.checkArchive())
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
