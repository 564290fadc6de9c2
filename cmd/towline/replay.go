package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/ident"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/replay"
)

// replaying says how a run is told.
type replaying struct {
	step     bool
	until    int64
	html     string
	renewals bool
}

func (p *program) replayCommand() *cobra.Command {
	var o replaying
	c := &cobra.Command{
		Use: "replay RUN", Short: "Step through what happened to a run",
		Long: `Folds the events of a run one by one, and tells each: what it happened to, how
that went from one state to the next, which rows it changed, what it followed
from, and where a process died between two of them. It reads the file of the
store, whoever has it open, and changes nothing.

--step waits for Enter behind each event; q ends it. --html writes a page with a
picture, to open in a browser or to send to somebody.`,
		Example: "  towline replay 7Q4ZKD\n  towline replay 7Q4ZKD --until 1187 --step\n  towline replay 7Q4ZKD --html run.html\n  towline replay 7Q4ZKD --db backup/towline.db",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.command = cmd.CommandPath()
			switch {
			case o.until < 0:
				return p.usage("--until %d: the log begins at 1", o.until)
			case o.step && (o.html != "" || p.out.form != "table"):
				return p.usage("--step tells one event after the other: leave --html and -o away")
			case o.html != "" && p.out.form != "table":
				return p.usage("--html and -o both say in which form: give one of them")
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			return interrupted(ctx, p.replay(ctx, args[0], o))
		},
	}
	f := c.Flags()
	p.dbFlag(f)
	f.BoolVar(&o.step, "step", false, "wait for Enter behind each event")
	f.Int64Var(&o.until, "until", 0, "end behind the event at this `N`")
	f.StringVar(&o.html, "html", "", "write a page to this `FILE`; - is standard output")
	f.BoolVar(&o.renewals, "renewals", false, "tell each renewal of a lease")
	must(cobra.MarkFlagFilename(f, "html", "html"))
	return c
}

func (p *program) replay(ctx context.Context, name string, o replaying) error {
	return p.reading(ctx, func(r *node.Reader) error {
		run, err := runNamed(ctx, r, name)
		if err != nil {
			return err
		}
		at := events.Position(o.until)
		if head, err := r.Engine().Head(ctx); err != nil {
			return err
		} else if at == 0 {
			at = head
		}
		past, err := r.AsOf(ctx, at)
		if err != nil {
			return err
		}
		h, err := replay.Open(ctx, past, run)
		if err == nil {
			err = p.tellRun(ctx, h, o)
		}
		return errors.Join(err, past.Close())
	})
}

func (p *program) tellRun(ctx context.Context, h *replay.History, o replaying) error {
	switch {
	case o.html == "-":
		return replay.HTML(ctx, p.out, h, replay.HTMLOptions{Renewals: o.renewals})
	case o.html != "":
		err := wholeFile(o.html, func(w io.Writer) error { return replay.HTML(ctx, w, h, replay.HTMLOptions{Renewals: o.renewals}) })
		if err == nil {
			fmt.Fprintf(p.stderr, "towline: wrote %s\n", o.html)
		}
		return err
	case p.out.form != "table":
		return p.stepsAsJSON(ctx, h)
	}
	text := replay.TextOptions{Width: newScreen(p.stderr, true).width, Renewals: o.renewals || o.step}
	if o.step {
		text.Behind = p.waitForEnter(ctx)
	}
	err := replay.Text(ctx, p.out, h, text)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// errEnough is what ends a text that somebody does not want to go on with.
var errEnough = errors.New("enough")

// waitForEnter waits for a line of standard input. q, or the end of the input, is enough.
func (p *program) waitForEnter(ctx context.Context) func(replay.Step) error {
	lines := make(chan string)
	go func() { // it ends with the input, or with the process: a read of a terminal cannot be taken back
		defer close(lines)
		for s := bufio.NewScanner(p.stdin); s.Scan(); {
			select {
			case lines <- s.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return func(replay.Step) error {
		select {
		case line, more := <-lines:
			if !more || line == "q" {
				return errEnough
			}
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// toldStep is a step in JSON. Values of rows are in the text of the events.
type toldStep struct {
	Seq      events.Position `json:"seq"`
	Time     time.Time       `json:"time"`
	SinceUS  int64           `json:"since_us"` // the plan of the run
	Subject  string          `json:"subject"`
	Stream   events.StreamID `json:"stream"`
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Because  []because       `json:"because,omitempty"` // events of its transaction that it follows from, the nearest first
	Rows     []changedRow    `json:"rows,omitempty"`
	Restarts []restart       `json:"restarts,omitempty"` // of processes since the step before
}

type because struct {
	Seq     events.Position `json:"seq"`
	Subject string          `json:"subject"`
	Type    string          `json:"type"`
}

type changedRow struct {
	Table   string               `json:"table"`
	Op      projections.ChangeOp `json:"op"`
	Columns []string             `json:"columns"`
	Shared  bool                 `json:"shared,omitzero"` // other runs write it, too
}

type restart struct {
	How   replay.Change `json:"how"`
	From  events.NodeID `json:"from"`
	To    events.NodeID `json:"to"`
	GapUS int64         `json:"gap_us"`
}

func (p *program) stepsAsJSON(ctx context.Context, h *replay.History) error {
	var all []toldStep
	for s, err := range h.Steps(ctx) {
		if err != nil {
			return err
		}
		t := asJSON(s)
		if p.out.form != "jsonl" {
			all = append(all, t)
			continue
		}
		if err := p.out.json(t, ""); err != nil {
			return err
		}
	}
	if p.out.form == "jsonl" {
		return nil
	}
	return list(p.out, all, nil, nil)
}

func asJSON(s replay.Step) toldStep {
	t := toldStep{
		Seq: s.Event.Position, Time: s.Event.At.Time(), SinceUS: int64(s.Since), Subject: s.Subject.Name, Stream: s.Event.Stream,
		Type: s.Event.Event.EventType().String(), Text: events.Describe(s.Event.Event),
	}
	for _, l := range s.Because {
		t.Because = append(t.Because, because{l.Position, l.Subject.Name, l.Type.String()})
	}
	for _, c := range s.Changes {
		row := changedRow{Table: c.Table, Op: c.Op, Shared: c.Shared, Columns: []string{}}
		for _, column := range c.Columns {
			row.Columns = append(row.Columns, column.Name)
		}
		t.Rows = append(t.Rows, row)
	}
	for _, r := range s.Restarts {
		t.Restarts = append(t.Restarts, restart{r.How, r.From.Node, r.To.Node, int64(r.Gap())})
	}
	return t
}

// runNamed is the run that a person calls so.
func runNamed(ctx context.Context, r *node.Reader, name string) (run events.RunID, err error) {
	err = r.Engine().View(ctx, func(v projections.View) error {
		run, err = ident.Run(v, name)
		return err
	})
	switch {
	case errors.Is(err, ident.ErrUnknown):
		return run, &exitError{exitNotFound, err}
	case errors.Is(err, ident.ErrMalformed), errors.Is(err, ident.ErrAmbiguous):
		return run, &exitError{exitUsage, err}
	}
	return run, err
}

// wholeFile makes a file, whole or not at all.
func wholeFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Chmod(0o644), f.Close()) //nolint:gosec // it is made to be sent: no secret is in it
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
