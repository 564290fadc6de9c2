package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/wire"
)

func (p *program) runWatch() *cobra.Command {
	var wait waitFor
	c := &cobra.Command{
		Use: "watch RUN", Short: "Follow a run to its end",
		Long: `Follows a run to its end: a bar on a terminal, elsewhere a line for each quarter, on
standard error. Then it is shown as by run show, and the exit code says how it ended: 0
succeeded, 6 failed, 7 partial_failed, 8 cancelled, 9 the time of --wait was over. What
waits for a person is said at once. Ctrl-C ends the watching and leaves the run alone.`,
		Example: "  towline run watch 7Q4ZKD\n  towline run watch 7Q4ZKD --wait=10m -o json",
		Args:    one,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.asking(cmd, func(ctx context.Context, c *client.Client) error {
				w := waiting{wait: wait, watch: true}
				limit, _, err := w.limit(p)
				if err != nil {
					return err
				}
				return p.await(ctx, c, args[0], limit, true)
			})
		},
	}
	c.Flags().StringVar((*string)(&wait), "wait", "", "at most `DUR`, as 10m")
	p.accessFlags(c.Flags())
	return c
}

// await stays until a run has ended, answers with it, and ends with the exit code of its state.
func (p *program) await(ctx context.Context, c *client.Client, id string, limit time.Duration, show bool) error {
	f := follower{p: p, c: c, id: id, show: show, screen: newScreen(p.stderr, p.flags.noColor), began: time.Now(), told: -1}
	waiting := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeoutCause(ctx, limit, errWaited)
		defer cancel()
	}
	run, err := f.follow(waiting)
	switch {
	case errors.Is(err, errWaited):
		return &exitError{exitTimeout, fmt.Errorf("run %s has not ended within %s, and goes on; towline run watch %s follows it", f.name(), limit, f.name())}
	case errors.Is(err, errInterrupted):
		return &exitError{exitInterrupted, fmt.Errorf("run %s goes on; towline run watch %s follows it, towline run cancel %s --reason … ends it", f.name(), f.name(), f.name())}
	case err != nil:
		return err
	}
	if err := p.showRun(ctx, c, run.ID.String(), client.Now); err != nil {
		return err
	}
	if code := exitOf[run.State]; code != exitOK {
		return &exitError{code: code}
	}
	return nil
}

var errWaited = errors.New("the time to wait is over")

// exitOf says how a run ended that was waited for.
var exitOf = map[events.RunStatus]exitCode{
	events.RunSucceeded: exitOK, events.RunFailed: exitRunFailed, events.RunPartialFailed: exitRunPartial, events.RunIsCancelled: exitRunCanceled,
}

// follower tells how far a run is.
type follower struct {
	p      *program
	c      *client.Client
	id     string
	show   bool
	screen *screen
	began  time.Time

	run    wire.Run // as it was seen last; without an id: not yet
	told   int      // quarters; the first line is that of none
	person string   // what was said last that a person must do
	away   bool     // the engine does not answer, which was said
}

func (f *follower) name() string {
	if f.run.Alias != "" {
		return f.run.Alias
	}
	return f.id
}

// follow looks until the run has ended. An engine that does not answer is waited for, once it has answered.
func (f *follower) follow(ctx context.Context) (wire.Run, error) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	defer f.screen.draw("")
	for {
		run, err := f.c.Run(ctx, f.id, client.Now)
		switch {
		case ctx.Err() != nil:
			return f.run, context.Cause(ctx)
		case err != nil && !f.outlives(err):
			return f.run, err
		case err == nil:
			f.seen(run.Value)
			if f.run.State.Terminal() {
				return f.run, nil
			}
			f.watch(ctx)
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return f.run, context.Cause(ctx)
		}
	}
}

// outlives: an engine that was there comes back, and the run with it.
func (f *follower) outlives(err error) bool {
	if f.run.Alias == "" || !errors.Is(err, client.ErrUnreachable) && !refusedWith(exitUnreachable)(err) {
		return false
	}
	if !f.away {
		f.away = true
		f.screen.line(fmt.Sprintf("the engine does not answer; run %s goes on when it is back", f.name()))
	}
	return true
}

func (f *follower) seen(run wire.Run) {
	if f.away {
		f.away = false
		f.screen.line("the engine answers again")
	}
	f.run = run
}

// watch draws, or tells each quarter once, and says when a person is needed.
func (f *follower) watch(ctx context.Context) {
	if !f.show {
		return
	}
	r := f.run
	ended := r.Succeeded + r.Failed + r.Cancelled
	words := fmt.Sprintf("%d/%d", ended, r.Units)
	if r.Failed > 0 {
		words += fmt.Sprintf(" · %d failed", r.Failed)
	}
	f.screen.draw(f.screen.barOf(ended, r.Units, fmt.Sprintf("run %s %s %s%s", r.Alias, r.State, words, eta(ended, r.Units, time.Since(f.began)))))
	const quarters = 4
	now := f.told
	if r.Units > 0 {
		now = quarters * ended / r.Units
	}
	if now > f.told && now < quarters && !f.screen.terminal {
		f.screen.line(fmt.Sprintf("run %s  %s  %s", r.Alias, r.State, words))
	}
	f.told = now
	why, err := f.c.WhyRun(ctx, r.ID.String())
	if err != nil || !why.Value.NeedsPerson {
		return
	}
	if text := personNeeded(why.Value); text != f.person {
		f.person = text
		f.screen.line("needs a person: " + text)
	}
}
