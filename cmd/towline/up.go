package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/config"
	"github.com/towline-dev/towline/node"
)

func (p *program) upCommand() *cobra.Command {
	var start string
	c := &cobra.Command{
		Use: "up", Short: "Run the engine and its API, with local workers",
		Long: `Runs the engine, and serves its API at the addresses of api.listen, until Ctrl-C
or SIGTERM: intake stops first, running units finish within shutdown.grace or are
handed back, and nothing accepted is lost. A second Ctrl-C leaves at once, as a
crash would; the next start goes on from the log. SIGHUP reads the configuration
again, and takes it over as a whole or not at all.

What it says goes to standard error; standard output stays empty.`,
		Example: `  towline up
  towline up --start code     # and start the sync "code" once it is ready
  towline up --config /etc/towline/towline.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.up(cmd.Context(), start, true) },
	}
	c.Flags().StringVar(&start, "start", "", "start this `SYNC` once, as soon as the engine is ready")
	return c
}

func (p *program) serveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "serve", Short: "Run the engine and its API, without local workers",
		Long: `Runs the engine and serves its API as up does, and works on no unit: workers ask for
them over the API (towline worker, or clients/python for another language), or, if
the store is shared, another process of it works. It ends and reloads as up does.`,
		Example: "  towline serve\n  towline serve --config /etc/towline/towline.yaml",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.up(cmd.Context(), "", false) },
	}
}

// engine is one that up runs.
type engine struct {
	p      *program
	c      *config.Config
	built  []*config.Built // the newest last; older ones may still be written through
	node   *node.Node
	served served
	logger *slog.Logger
	level  *slog.LevelVar
	screen *screen
	work   bool // with local workers

	supervisor supervisor

	hangups chan os.Signal // each is a wish to reload
}

func (p *program) up(ctx context.Context, start string, work bool) error {
	began := time.Now()
	c, err := p.load(true)
	if err != nil {
		return err
	}
	if _, ok := c.Sync(start); start != "" && !ok {
		return &configError{fmt.Errorf("--start: there is no sync %q in %s: want one of %s", start, c.File, syncNames(c))}
	}
	e := &engine{p: p, c: c, screen: newScreen(p.stderr, p.flags.noColor), work: work, level: new(slog.LevelVar), hangups: hangups()}
	e.logger = e.newLogger()
	slog.SetDefault(e.logger) // of libraries
	e.supervisor = supervised(e.logger)
	ctx, stop := untilSignal(ctx, e.screen, "left at once; the next towline up goes on from the log")
	defer stop()
	if err := e.open(ctx); err != nil {
		return err
	}
	e.banner(began)
	defer e.watched()()
	err = e.node.RunWhile(ctx, func(ctx context.Context) error { return e.beside(ctx, start) })
	for _, b := range e.built {
		err = errors.Join(err, b.Close())
	}
	if err == nil {
		e.screen.line("stopped cleanly; what is open goes on with the next towline up")
	}
	return err
}

// open makes the node and what is served beside it.
func (e *engine) open(ctx context.Context) (err error) {
	b, err := e.build(ctx, e.c)
	if err != nil {
		return err
	}
	if e.node, err = node.Open(ctx, b.Node); err != nil {
		return errors.Join(err, b.Close())
	}
	e.built = append(e.built, b)
	o := serving{Logger: e.logger, Version: thisBuild().Version}
	if e.served, err = e.p.surfaces.Open(ctx, e.node, e.c, o); err != nil {
		return errors.Join(err, e.node.Close(), b.Close())
	}
	return nil
}

func (e *engine) build(ctx context.Context, c *config.Config) (*config.Built, error) {
	b, err := config.Build(ctx, c, config.BuildOptions{Logger: e.logger, Version: thisBuild().Version, NoWorkers: !e.work})
	if err != nil {
		return nil, &configError{err}
	}
	for _, note := range b.Notes {
		e.screen.line(note)
	}
	return b, nil
}

// watched lets the watchdog of a service manager be fed until the function is called: also while the node stops.
func (e *engine) watched() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		e.supervisor.watch(ctx, func(ctx context.Context) error {
			return e.node.Engine().Transact(ctx, "", func(*towline.Tx) error { return nil }) // it writes nothing
		})
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

// beside is what goes on while the node runs. Its end stops the node.
func (e *engine) beside(ctx context.Context, start string) error {
	group, ctx := errgroup.WithContext(ctx)
	e.supervisor.ready("ready" + e.syncsInWords())
	group.Go(func() error {
		<-ctx.Done()
		e.supervisor.stopping()
		return nil
	})
	group.Go(func() error { return e.served.Serve(ctx) })
	group.Go(func() error { return e.reloads(ctx) })
	if start != "" {
		group.Go(func() error { return e.start(ctx, start) })
	}
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil // it was asked to stop
	}
	return err
}

// untilSignal ends ctx with the first signal. The second ends the process, with a last word.
func untilSignal(ctx context.Context, s *screen, last string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, stopSignals...)
	go func() {
		select {
		case <-ctx.Done():
			return
		case got := <-signals:
			s.line(fmt.Sprintf("%s: stopping; again to leave at once", got))
			cancel()
		}
		// A wrapper, as timeout or make, sends the same signal once more behind that of the terminal: that is no second wish.
		for first := time.Now(); ; {
			if <-signals; time.Since(first) > sameWish {
				break
			}
		}
		s.line(last)
		os.Exit(int(exitInterrupted))
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}

// sameWish is how close two signals may come and be one wish.
const sameWish = 300 * time.Millisecond

// newLogger logs to standard error, in the form that people read if a person sits there and nobody has said otherwise.
func (e *engine) newLogger() *slog.Logger {
	e.setLevel(e.c)
	o := &slog.HandlerOptions{Level: e.level}
	format, _ := e.c.Value("log.format")
	if e.c.Log.Format == "text" || e.screen.terminal && format.Origin.Kind == config.FromDefault {
		return slog.New(slog.NewTextHandler(e.screen, o))
	}
	return slog.New(slog.NewJSONHandler(e.screen, o))
}

func (e *engine) setLevel(c *config.Config) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Log.Level)); err != nil {
		panic(fmt.Sprintf("towline: log.level: %v", err)) // the configuration allows the words of slog only
	}
	e.level.Set(level)
}

// banner says what runs and where.
func (e *engine) banner(began time.Time) {
	c, s := e.c, e.screen
	head, err := e.node.Engine().Head(context.Background())
	seq := fmt.Sprintf("seq %d", head)
	if err != nil {
		seq = err.Error() // it is only shown here; whoever needs the store will meet it again
	}
	s.line(fmt.Sprintf("store    %s   sqlite, %s sync   %s   %s", c.Store.Path, c.Store.Synchronous, seq, c.Store.Mode))
	if at := reachedAt(e.served.Addresses(), c.Console); at != "" {
		s.line(at)
	}
	workers := fmt.Sprintf("%d local", c.Workers)
	if !e.work || c.Workers == 0 {
		workers = "none here, " + unitsWaitFor(c)
	}
	s.line(fmt.Sprintf("workers  %s      transport  local (in-process)", workers))
	s.line(fmt.Sprintf("ready in %d ms%s", time.Since(began).Milliseconds(), e.syncsInWords()))
}

// unitsWaitFor says who does the units of a process without workers.
func unitsWaitFor(c *config.Config) string {
	if c.Store.Mode == "shared" {
		return "units wait for another process of the store"
	}
	return "units wait for workers that ask"
}

func (e *engine) syncsInWords() string {
	var out strings.Builder
	n := e.built[len(e.built)-1].Node
	for _, s := range n.Syncs {
		fmt.Fprintf(&out, " · sync %q: %s", s.Name, plural(len(s.Sources), "source", "sources"))
	}
	if len(n.Schedules) > 0 {
		out.WriteString(" · " + plural(len(n.Schedules), "schedule", "schedules"))
	}
	return out.String()
}

func syncNames(c *config.Config) string {
	var names []string
	for _, s := range c.Syncs {
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return "none, for it has no syncs"
	}
	return strings.Join(names, ", ")
}
