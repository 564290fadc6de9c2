package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/config"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/worker"
)

// workerFlags are those of worker.
type workerFlags struct {
	workers int
	name    string
	syncs   []string
}

func (p *program) workerCommand() *cobra.Command {
	var f workerFlags
	c := &cobra.Command{
		Use: "worker", Short: "Do units of an engine that runs elsewhere",
		Long: `Asks an engine for units, over its API, and does them here: with the providers and
the sinks of this towline.yaml, which names the syncs as that of the engine does. The
engine is one without workers of its own (towline serve), or any other that has units
waiting. Its store is not touched, and need not be on this machine.

Ctrl-C or SIGTERM ends it: units at work have shutdown.grace to finish, and what is
not done is handed back. Killed, its units come again when their leases end, as far as
their datasets allow it. An engine that is away is asked again until it answers.

Progress goes to standard error. With -o jsonl each attempt is a line on standard
output when it has ended; with -o json there is one list at the end.`,
		Example: `  towline worker
  towline worker --url https://towline.example.org --token-file worker.token --workers 8
  towline worker --sync code -o jsonl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.command = cmd.CommandPath()
			switch {
			case cmd.Flags().Changed("workers") && f.workers < 1:
				return p.usage("--workers %d: want one or more", f.workers)
			case cmd.Flags().Changed("sync"):
				if err := named("sync", f.syncs); err != nil {
					return p.usage("%w", err)
				}
			}
			return p.worker(cmd.Context(), f)
		},
	}
	p.urlFlags(c.Flags())
	c.Flags().IntVar(&f.workers, "workers", 0, "do `N` units at once; without it workers.local, or 4 if that is 0")
	c.Flags().StringVar(&f.name, "name", "", "`NAME` of this process, for people; without it HOST:PID")
	c.Flags().StringSliceVar(&f.syncs, "sync", nil, "take units of this `SYNC` only; may be repeated")
	return c
}

// working is one process of workers.
type working struct {
	p      *program
	c      *config.Config
	screen *screen
	work   *worker.Worker

	mu    sync.Mutex
	did   []attemptDone // for -o json
	count map[string]int
}

func (p *program) worker(ctx context.Context, f workerFlags) error {
	c, err := p.load(true)
	if err != nil {
		return err
	}
	w := &working{p: p, c: c, screen: newScreen(p.stderr, p.flags.noColor), count: map[string]int{}}
	logger := w.logger()
	slog.SetDefault(logger) // of libraries
	manager := supervised(logger)
	ctx, stop := untilSignal(ctx, w.screen, "left at once; what was at work comes again when its leases end")
	defer stop()
	keepOnWithoutReader()
	go w.hearReloads(ctx)
	b, err := config.Build(ctx, c, config.BuildOptions{Logger: logger, Version: thisBuild().Version})
	if err != nil {
		return &configError{err}
	}
	defer func() { _ = b.Close() }() // what was committed is on disk
	for _, note := range b.Notes {
		w.screen.line(note)
	}
	if b.Node.Syncs, err = p.chosen(b.Node.Syncs, f.syncs, c); err != nil {
		return err
	}
	to, done, err := p.engineFor(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = done() }()
	if err := w.open(b, to, f, logger); err != nil {
		return err
	}
	manager.ready("ready")
	err = w.work.Run(ctx)
	manager.stopping()
	if err := errors.Join(err, w.answer()); err != nil {
		return err
	}
	w.screen.line("stopped cleanly: " + w.inWords())
	return nil
}

// chosen are the syncs to work for.
func (p *program) chosen(all []node.Sync, names []string, c *config.Config) ([]node.Sync, error) {
	for _, name := range names {
		if _, ok := c.Sync(name); !ok {
			return nil, &configError{fmt.Errorf("--sync: there is no sync %q in %s: want one of %s", name, c.File, syncNames(c))}
		}
	}
	if len(all) == 0 {
		return nil, &configError{fmt.Errorf("%s has no syncs: there is nothing to work for", c.File)}
	}
	if len(names) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(all, func(s node.Sync) bool { return !slices.Contains(names, s.Name) }), nil
}

// engineFor is the engine to ask. Unlike those that are asked once, it need not answer yet.
func (p *program) engineFor(ctx context.Context) (*client.Client, func() error, error) {
	to, done, err := p.reach(ctx, false)
	if !errors.Is(err, client.ErrUnreachable) {
		return to, done, err
	}
	c, loadErr := config.Load(p.options(false))
	if loadErr != nil {
		return nil, nil, &configError{loadErr}
	}
	addresses, addressErr := c.Addresses()
	if addressErr != nil || len(addresses) == 0 {
		return nil, nil, p.usage("there is no engine to ask, for api.listen is empty: name one with --url")
	}
	for _, at := range addresses {
		if schemeOf(at) != "" { // as reach prefers it
			return p.over(at, "")
		}
	}
	return p.over(urlOf(addresses[0]), "")
}

func (w *working) open(b *config.Built, to *client.Client, f workerFlags, logger *slog.Logger) (err error) {
	n := cmp.Or(f.workers, w.c.Workers, localWorkers)
	w.work, err = worker.New(worker.Config{
		Client: to, Syncs: b.Node.Syncs, Workers: n, Name: f.name,
		Grace: w.c.Knobs.ShutdownGrace, Logger: logger, Ended: w.ended,
		Away: func(err error) {
			if err == nil {
				w.screen.line("the engine answers")
				return
			}
			w.screen.line(fmt.Sprintf("%v; asking again until it answers", err))
		},
	})
	if err != nil {
		return &configError{err}
	}
	var names []string
	for _, s := range b.Node.Syncs {
		names = append(names, fmt.Sprintf("%q", s.Name))
	}
	w.screen.line(fmt.Sprintf("%s for %s · engine %s", plural(n, "worker", "workers"), strings.Join(names, ", "), to.Address()))
	return nil
}

// localWorkers is how many work where the configuration says 0, which is meant for the engine.
const localWorkers = 4

// logger says what is wrong: what each attempt came to is said anyway.
func (w *working) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(w.screen, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// hearReloads keeps SIGHUP from ending the process, and says what to do instead.
func (w *working) hearReloads(ctx context.Context) {
	wishes := hangups()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wishes:
			w.screen.line("reload refused: a worker reads its configuration at its start; restart it, and what it is at is handed back")
		}
	}
}

// attemptDone is how an attempt ended here, as -o gives it.
type attemptDone struct {
	Unit       events.UnitID   `json:"unit"`
	Alias      string          `json:"alias"`
	Run        events.RunID    `json:"run"`
	Attempt    int             `json:"attempt"`
	Ended      string          `json:"ended"`
	Category   events.Category `json:"category,omitzero"`
	Text       string          `json:"text,omitzero"`
	Rows       int             `json:"rows,omitzero"`
	DurationMS int64           `json:"duration_ms"`
}

// The words for how an attempt ended.
const (
	endedWell    = "succeeded"
	endedBadly   = "failed"
	endedBack    = "handed_back"
	endedLate    = "late"       // refused: its lease was lost
	endedStopped = "stopped"    // it was cancelled, or its lease ended, and nothing was offered
	endedUnheard = "unreported" // no answer came
)

func doneOf(e worker.Ended) attemptDone {
	d := attemptDone{
		Unit: e.Lease.Unit, Alias: e.Lease.Alias, Run: e.Lease.Run, Attempt: e.Lease.Attempt, DurationMS: e.Took.Milliseconds(),
		Ended: endedStopped,
	}
	switch how := e.How.(type) {
	case towline.Completed:
		d.Ended, d.Rows = endedWell, how.Result.Rows
	case towline.Failed:
		d.Ended, d.Category, d.Text = endedBadly, how.Category, towline.CleanText(how.Text, maxErrorText)
	case towline.HandedBack:
		d.Ended, d.Text = endedBack, how.Reason
	}
	switch {
	case errors.Is(e.Err, towline.ErrLeaseLost):
		d.Ended = endedLate
	case errors.Is(e.Err, towline.ErrInvalid): // a failure was reported in its place
		d.Ended, d.Category, d.Text, d.Rows = endedBadly, events.ProviderError, towline.CleanText(e.Err.Error(), maxErrorText), 0
	case e.Err != nil:
		d.Ended, d.Text = endedUnheard, e.Err.Error()
	}
	return d
}

const maxErrorText = 2000

// ended tells of an attempt, on the screen and in the form that was asked for.
func (w *working) ended(e worker.Ended) {
	d := doneOf(e)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count[d.Ended]++
	switch w.p.out.form {
	case "jsonl":
		_ = w.p.out.json(d, "") // a reader that has gone ends the command when it ends; work goes on
	case "json":
		w.did = append(w.did, d)
	}
	colour := red
	if d.Ended == endedWell || d.Ended == endedBack {
		colour = green
	}
	text := fmt.Sprintf("%s  %s", d.Alias, w.screen.paint(colour, strings.ReplaceAll(d.Ended, "_", " ")))
	if d.Ended == endedWell {
		text += "  " + plural(d.Rows, "row", "rows")
	}
	text += " in " + e.Took.Round(time.Millisecond).String()
	if d.Attempt > 1 {
		text += fmt.Sprintf(" · attempt %d", d.Attempt)
	}
	if d.Category != "" {
		text += " · " + string(d.Category)
	}
	if d.Text != "" {
		text += " · " + firstLine(d.Text)
	}
	w.screen.line(text)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// answer is what -o json prints at the end.
func (w *working) answer() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.p.out.form != "json" {
		return nil
	}
	return list(w.p.out, w.did, nil, nil)
}

// inWords counts what was done.
func (w *working) inWords() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, word := range []string{endedWell, endedBadly, endedBack, endedLate, endedStopped, endedUnheard} {
		if n := w.count[word]; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, strings.ReplaceAll(word, "_", " ")))
		}
	}
	if len(out) == 0 {
		return "no unit was done"
	}
	return strings.Join(out, ", ")
}
