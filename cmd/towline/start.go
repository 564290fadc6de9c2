package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// start plans a run of a sync, and tells how it goes. A run that is open already is followed instead. A plan that is refused
// ends the engine, for it is what was asked for; a run that fails does not.
func (e *engine) start(ctx context.Context, sync string) error {
	planned, err := e.node.Engine().Plan(ctx, towline.RunSpec{Sync: sync, By: towline.Actor{Name: actor()}})
	var open *towline.RunExistsError
	switch {
	case errors.As(err, &open):
		e.screen.line(fmt.Sprintf("run %s of %s is open, and goes on", open.Run.Short(), sync))
		return e.follow(ctx, open.Run)
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("--start %s: %w", sync, err)
	}
	for _, l := range planned.LeftOut {
		e.screen.line(fmt.Sprintf("left out: %s, %s", l.Source, l.Reason))
	}
	e.screen.line(fmt.Sprintf("run %s of %s: %s planned", planned.Run.Short(), sync, plural(planned.Units, "unit", "units")))
	return e.follow(ctx, planned.Run)
}

// follow tells the progress of a run until it has ended: a bar on a terminal, else a line for each quarter.
func (e *engine) follow(ctx context.Context, run events.RunID) error {
	ended := make(chan projections.SyncRun, 1)
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(ended)
		if row, err := e.node.Engine().WaitPostSync(waiting, run); err == nil {
			ended <- row
		}
	}()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	told, began := 0, time.Now()
	for {
		select {
		case row, ok := <-ended:
			e.screen.draw("")
			if ok {
				e.screen.line(e.end(row, time.Since(began)))
			}
			return nil
		case <-look.C:
		}
		row, err := e.run(ctx, run)
		if err != nil {
			continue // the engine says what it is; the run goes on without being told
		}
		told = e.progress(row, told, time.Since(began))
	}
}

// lookEvery is how often progress is looked at. It is one small read of an index.
const lookEvery = 250 * time.Millisecond

func (e *engine) run(ctx context.Context, id events.RunID) (row projections.SyncRun, err error) {
	err = e.node.Engine().View(ctx, func(v projections.View) (err error) {
		row, _, err = v.Run(id)
		return err
	})
	return row, err
}

// progress draws, or tells each quarter once; it returns the quarters that were told.
func (e *engine) progress(row projections.SyncRun, told int, took time.Duration) int {
	done := row.Succeeded + row.Failed + row.Cancelled
	words := fmt.Sprintf("%d/%d", done, row.Total)
	if row.Failed > 0 {
		words += fmt.Sprintf(" · %d failed", row.Failed)
	}
	e.screen.draw(e.screen.barOf(done, row.Total, words+eta(done, row.Total, took)))
	const quarters = 4
	now := told
	if row.Total > 0 {
		now = quarters * done / row.Total
	}
	if now > told && now < quarters && !e.screen.terminal {
		e.screen.line(fmt.Sprintf("run %s  %s  %s", row.Run.Short(), row.Status, words))
	}
	return now
}

// end is the last line about a run.
func (e *engine) end(row projections.SyncRun, took time.Duration) string {
	colour := green
	if row.Status != events.RunSucceeded {
		colour = red
	}
	text := fmt.Sprintf("run %s  %s  %d of %s in %s", row.Run.Short(), e.screen.paint(colour, string(row.Status)), row.Succeeded,
		plural(row.Total, "unit", "units"), took.Round(10*time.Millisecond))
	if row.Failed > 0 {
		text += fmt.Sprintf(" · %d failed", row.Failed)
	}
	if row.Reason != "" {
		text += " · " + row.Reason
	}
	for _, target := range row.PostSync.Targets {
		if target.Effect != decider.PostCompleted { // the log has the reason
			text += fmt.Sprintf(" · post_sync %s: %s", target.Target, cmp.Or(string(target.Effect), string(target.Outcome), "unknown"))
		}
	}
	return text
}

// actor is who acts, for the record.
func actor() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "towline"
}
