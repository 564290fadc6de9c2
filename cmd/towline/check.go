package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/config"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
)

// finding is one thing that check has looked at.
type finding struct {
	What  string `json:"what"`
	State string `json:"state"` // ok, warning or failed
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"`
}

const (
	fine    = "ok"
	warning = "warning"
	failed  = "failed"
)

func (p *program) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Look at configuration, sources, store, clock and disk, and say what to fix",
		Long: `Looks at everything that up needs, and says what to fix. It changes nothing. The
store is only read, also beside a running engine. Exit code 1 if something
has failed; a warning is none.`,
		Example: "  towline check\n  towline check --config /etc/towline/towline.yaml -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := p.check(cmd.Context())
			bad := 0
			for _, f := range found {
				if f.State == failed {
					bad++
				}
			}
			err := list(p.out, found, []string{"WHAT", "STATE", ""}, func(f finding) []string {
				text := f.Text
				if f.Fix != "" {
					text += " → " + f.Fix
				}
				return []string{f.What, f.State, strings.ReplaceAll(text, "\n", "; ")}
			})
			if err == nil && bad > 0 {
				err = &exitError{code: exitFailed}
			}
			return err
		},
	}
}

func (p *program) check(ctx context.Context) []finding {
	c, err := config.Load(p.options(true))
	if err != nil {
		f := finding{What: "configuration", State: failed, Text: err.Error()}
		if errors.Is(err, config.ErrNoFile) {
			f.Fix = "towline init git DIR"
		}
		return []finding{f}
	}
	out := []finding{{What: "configuration", State: fine, Text: c.File}}
	for _, note := range c.Notes() {
		out = append(out, finding{What: "configuration", State: warning, Text: note})
	}
	out = append(out, checkSyncs(ctx, c)...)
	out = append(out, p.checkStore(ctx, c)...)
	out = append(out, p.checkKept(ctx, c)...)
	return append(out, checkListen(c), checkDisk(c))
}

// checkSyncs builds what up would build, and looks into each source.
func checkSyncs(ctx context.Context, c *config.Config) []finding {
	b, err := config.Build(ctx, c, config.BuildOptions{})
	if err != nil {
		return []finding{{What: "syncs", State: failed, Text: err.Error()}}
	}
	defer func() { _ = b.Close() }() // nothing was written
	var out []finding
	for _, note := range b.Notes {
		out = append(out, finding{What: "syncs", State: warning, Text: note})
	}
	if len(b.Node.Syncs) == 0 {
		out = append(out, finding{What: "syncs", State: warning, Text: "there are none, so there is nothing to run", Fix: "towline init git DIR"})
	}
	for _, s := range b.Node.Syncs {
		out = append(out, checkSources(ctx, s))
	}
	return out
}

// checkSources lists the periods of a source where its provider can: that needs all that a plan needs.
func checkSources(ctx context.Context, s node.Sync) finding {
	f := finding{What: "sync " + s.Name, State: fine, Text: plural(len(s.Sources), "source", "sources") + ", provider " + s.ProviderName}
	lists, ok := s.Provider.(provider.Lister)
	if !ok {
		return f
	}
	var wrong []string
	for _, source := range s.Sources {
		for _, d := range s.Datasets {
			if d.Window == "" {
				continue
			}
			if _, err := lists.Periods(ctx, source, d.Name, d.Window, s.Config); err != nil {
				wrong = append(wrong, err.Error())
			}
			break // one dataset shows whether the source can be read
		}
	}
	if len(wrong) > 0 {
		f.State, f.Text = failed, strings.Join(wrong, "\n")
	}
	return f
}

// checkStore looks at the store, also beside an engine that runs on it. It makes none: up does.
func (p *program) checkStore(ctx context.Context, c *config.Config) []finding {
	at := finding{What: "store", State: fine, Text: c.Store.Path}
	if _, err := os.Stat(c.Store.Path); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Dir(c.Store.Path)); err != nil {
			at.State, at.Text, at.Fix = failed, err.Error(), "mkdir -p "+filepath.Dir(c.Store.Path)
			return []finding{at}
		}
		at.Text += ", which up will make"
		return []finding{at} // there is no event to compare the clock with
	}
	head, newest, err := p.newestOf(ctx, c.Store.Path)
	if err != nil {
		at.State, at.Text = failed, err.Error()
		return []finding{at}
	}
	at.Text += fmt.Sprintf(", seq %d", head)
	if addresses, err := c.Addresses(); err == nil { // checkListen says what is wrong with them
		for _, a := range addresses {
			if answers(ctx, a) {
				at.Text += ", held by a running engine"
				break
			}
		}
	}
	if err := isWritable(c.Store.Path); err != nil {
		at.State, at.Text, at.Fix = failed, at.Text+", which this user cannot write: "+err.Error(), "chown it to the user of the engine"
	}
	return []finding{at, checkClock(newest, time.Now())}
}

func (p *program) newestOf(ctx context.Context, path string) (head events.Position, newest events.Micros, err error) {
	r, err := p.reader(ctx, path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	err = r.Engine().View(ctx, func(v projections.View) (err error) {
		head, newest, err = v.Head()
		return err
	})
	return head, newest, err
}

// isWritable asks the system, and writes nothing.
func isWritable(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// checkClock: a clock behind the newest event holds back schedules (CLK-7).
func checkClock(newest events.Micros, now time.Time) finding {
	f := finding{What: "clock", State: fine, Text: now.Format(time.RFC3339)}
	if behind := newest.Time().Sub(now); behind > time.Minute {
		f.State, f.Text = failed, fmt.Sprintf("it is %s behind the newest event of the store", behind.Round(time.Second))
		f.Fix = "set the clock, as with timedatectl set-ntp true"
	}
	return f
}

// checkListen says where the API would be served. Whether an address is free is not looked at: a running engine may have it.
func checkListen(c *config.Config) finding {
	at, err := c.Addresses()
	switch {
	case err != nil:
		return finding{What: "api", State: failed, Text: err.Error(), Fix: "set XDG_RUNTIME_DIR"}
	case len(at) == 0:
		return finding{What: "api", State: warning, Text: "it is served nowhere", Fix: "name addresses in api.listen"}
	}
	return finding{What: "api", State: fine, Text: strings.Join(at, ", ")}
}

// checkDisk compares the room with what the store may grow to.
func checkDisk(c *config.Config) finding {
	free, err := freeBytes(filepath.Dir(c.Store.Path))
	f := finding{What: "disk", State: fine, Text: config.Size(free).Rounded() + " free"}
	switch {
	case err != nil:
		f.State, f.Text = warning, "cannot tell: "+err.Error()
	case c.Store.MaxBytes > 0 && free < int64(c.Store.MaxBytes):
		f.State = warning
		f.Text += fmt.Sprintf(", and store.max_bytes is %s", c.Store.MaxBytes)
		f.Fix = "make room, or lower store.max_bytes"
	}
	return f
}
