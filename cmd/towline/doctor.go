package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/config"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/ident"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/wire"
)

func (p *program) doctorCommand() *cobra.Command {
	warnOK := false
	c := &cobra.Command{
		Use: "doctor", Short: "Say in words how the engine and its store are, and what to do",
		Long: `Asks the running engine how it is, and looks at the file of its store, if it is on
this machine. Without an engine it looks at the file alone. It changes nothing.

Exit code 1 if something has failed or needs a look; --warn-ok lets the second
pass. What must be right before an engine starts is what towline check looks at.`,
		Example: "  towline doctor\n  towline doctor --warn-ok -o json\n  towline doctor --db backup/towline.db",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.asking(cmd, func(ctx context.Context, c *client.Client) error {
				found, err := p.examine(ctx, c)
				if err != nil {
					return err
				}
				return p.diagnosis(found, warnOK)
			})
		},
	}
	p.accessFlags(c.Flags())
	c.Flags().BoolVar(&warnOK, "warn-ok", false, "exit code 0 also if something needs a look")
	return c
}

// stateSigns stand before what was found; they say the same as the word in JSON.
var stateSigns = map[string]string{fine: "✔", warning: "!", failed: "✘"}

func (p *program) diagnosis(found []finding, warnOK bool) error {
	bad := map[string]int{}
	width := 0
	for _, f := range found {
		bad[f.State]++
		width = max(width, len(f.What))
	}
	if p.out.form != "table" {
		if err := list(p.out, found, nil, nil); err != nil {
			return err
		}
	} else {
		for _, f := range found {
			if err := f.diagnosed(p.out, width); err != nil {
				return err
			}
		}
	}
	warnings := plural(bad[warning], "warning", "warnings")
	switch {
	case bad[failed] > 0:
		fmt.Fprintf(p.stderr, "towline: %d failed, %s\n", bad[failed], warnings)
	case bad[warning] > 0 && !warnOK:
		fmt.Fprintf(p.stderr, "towline: %s, counted as a failure; --warn-ok to ignore\n", warnings)
	default:
		return nil
	}
	return &exitError{code: exitFailed}
}

func (f finding) diagnosed(w io.Writer, width int) error {
	_, err := fmt.Fprintf(w, "%s %-*s  %s\n", stateSigns[f.State], width, f.What, strings.ReplaceAll(f.Text, "\n", "; "))
	if err == nil && f.Fix != "" {
		_, err = fmt.Fprintf(w, "  %-*s  → %s\n", width, "", f.Fix)
	}
	return err
}

// examine looks at the engine that answers, and at the file, whichever there is.
func (p *program) examine(ctx context.Context, c *client.Client) ([]finding, error) {
	ready, err := c.Ready(ctx)
	if err != nil {
		return nil, err
	}
	state, err := c.State(ctx, client.Now)
	if err != nil {
		return nil, err
	}
	inFile := c.Address() == "http://"+inFileHost
	var out []finding
	if file, known := p.fileOf(inFile); known {
		out = append(out, p.examineFile(ctx, file, inFile)...)
	}
	out = append(out, engineFindings(ready, inFile)...)
	if paused := pausedOf(state.Value); len(paused) > 0 {
		out = append(out, paused...)
	}
	if p.access.db == "" && p.access.url == "" {
		conf, err := p.load(false)
		if err != nil {
			return nil, err
		}
		out = append(out, checkDisk(conf))
		if f, err := p.factsOf(ctx, conf); err == nil { // what is wrong with the file is said above
			for _, b := range checkBudget(f) {
				if b.State == failed {
					b.State = warning // what was accepted goes on
				}
				out = append(out, b)
			}
		}
	}
	return out, nil
}

// fileOf is the store, where it is on this machine: what an engine behind --url has open, nobody knows here.
func (p *program) fileOf(inFile bool) (string, bool) {
	if !inFile && (p.access.url != "" || os.Getenv("TOWLINE_URL") != "") {
		return "", false
	}
	path, err := p.file()
	return path, err == nil
}

// examineFile looks at a store as whoever reads it.
func (p *program) examineFile(ctx context.Context, path string, alone bool) []finding {
	f := finding{What: "store", State: fine}
	r, err := p.reader(ctx, path)
	if err != nil {
		f.State, f.Text = failed, err.Error()
		return []finding{f}
	}
	defer func() { _ = r.Close() }() // nothing was written
	var head events.Position
	var newest events.Micros
	err = r.Engine().View(ctx, func(v projections.View) (err error) {
		head, newest, err = v.Head()
		return err
	})
	if err != nil {
		f.State, f.Text = failed, err.Error()
		return []finding{f}
	}
	f.Text = fmt.Sprintf("%s, seq %s, format level %d", r.Path(), grouped(int64(head)), r.Level())
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(r.Path() + suffix); err == nil && info.Size() > 0 {
			f.Text += fmt.Sprintf(", %s %s", cmp.Or(strings.TrimPrefix(suffix, "-"), "size"), config.Size(info.Size()).Rounded())
		}
	}
	out := []finding{f.withIntegrity(ctx, r)}
	if alone { // a running engine says it itself
		out = append(out, checkClock(newest, time.Now()))
	}
	return out
}

func (f finding) withIntegrity(ctx context.Context, r *node.Reader) finding {
	switch wrong, err := r.Integrity(ctx); {
	case errors.Is(err, towline.ErrUnavailable):
		f.Text += ", integrity not looked at: " + err.Error()
	case err != nil:
		f.State, f.Text = failed, f.Text+": "+err.Error()
	case wrong != "":
		f.State, f.Text = failed, f.Text+": "+wrong
	default:
		f.Text += ", integrity ok"
	}
	if f.State == failed {
		f.Fix = "stop the engine, keep the file aside with all that begins with its name, and restore a backup: " + filepath.Base(r.Path())
	}
	return f
}

// kinds are the lines under which the reasons of an engine stand, and how bad each is.
var kinds = map[string]struct{ what, state string }{
	"store_unavailable": {"store", failed},
	"loop_stalled":      {"loops", failed},
	"not_running":       {"engine", failed},
	"clock":             {"clock", warning},
	"breaker_open":      {"transport", warning},
	"overdue":           {"outbox", warning},
	"unresolved":        {"outbox", warning},
	"parked":            {"outbox", warning},
	"held":              {"outbox", warning},
	"restored_hold":     {"outbox", warning},
	"disk_budget":       {"disk", warning},
	"schedule_waits":    {"schedule", warning},
	"backup":            {"backup", warning},
	"views_incomplete":  {"views", failed},
}

// engineFindings are what an engine says of itself, with a line for what is well. Of a file, to which no engine belongs, that
// no engine runs is no finding, but what waits is one.
func engineFindings(ready wire.Readiness, inFile bool) []finding {
	var out []finding
	spoken := map[string]bool{}
	for _, r := range ready.Reasons {
		if inFile && r.What == "not_running" {
			continue
		}
		out = append(out, findingOf(r, inFile))
		spoken[out[len(out)-1].What] = true
	}
	well := func(what, text string) {
		if !spoken[what] {
			out = append(out, finding{What: what, State: fine, Text: text})
		}
	}
	if inFile {
		out = append(out, finding{What: "engine", State: fine, Text: "none runs on this store"})
	} else {
		well("loops", loopsInWords(ready.Loops))
		well("transport", "no breaker is open")
		well("clock", "no step that matters")
	}
	well("outbox", "nothing waits for a person, and nothing is overdue")
	return out
}

func findingOf(r wire.Reason, inFile bool) finding {
	kind, known := kinds[r.What]
	if !known { // of a newer engine
		kind.what, kind.state = r.What, warning
	}
	f := finding{What: kind.what, State: kind.state, Fix: r.Fix}
	words := []string{strings.ReplaceAll(r.What, "_", " ")}
	if r.ID != "" {
		words = append([]string{r.ID + ":"}, words...)
	}
	f.Text = strings.Join(words, " ")
	if !r.Since.IsZero() {
		f.Text += " since " + clock(r.Since, time.Now())
	}
	if r.Text != "" {
		f.Text += ", " + r.Text
	}
	if inFile && r.What == "overdue" {
		f.Fix = "towline up"
	}
	return f
}

// loopsInWords says how long ago each has had a success.
func loopsInWords(loops []wire.Loop) string {
	var parts []string
	for _, l := range loops {
		text := "none yet"
		if l.LastSuccess >= 0 {
			text = fmt.Sprintf("%s ago", span(time.Duration(l.LastSuccess)*time.Millisecond))
		}
		parts = append(parts, l.Name+" "+text)
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// pausedOf are warnings: somebody has paused it, and it is the first answer to why nothing happens.
func pausedOf(s wire.State) (out []finding) {
	for _, p := range s.Paused {
		what, fix := "the engine is paused", "towline resume --reason …"
		if p.Source != "" {
			what, fix = "source "+p.Source+" is paused", "towline resume --source "+ident.Shell(p.Source)+" --reason …"
		}
		out = append(out, finding{What: "paused", State: warning, Text: fmt.Sprintf("%s since %s by %s: %s", what, clock(p.Since, time.Now()), p.By, p.Reason), Fix: fix})
	}
	return out
}
