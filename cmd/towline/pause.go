package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/wire"
)

func (p *program) pauseCommand() *cobra.Command {
	c, source := p.control("pause", func(c *client.Client, ctx context.Context, source, reason string) (client.Answer[wire.Paused], error) {
		return c.Pause(ctx, wire.PauseRequest{Source: source, Reason: reason})
	})
	c.Short = "Pause the engine, or a source"
	c.Long = `Nothing more is dispatched; triggers are accepted, and what runs goes on. A pause of what
is paused changes nothing, and the first reason stays.`
	c.Example = "  towline pause --reason 'the disk is being replaced'\n  towline pause --source orders --reason 'its token is revoked'"
	c.Flags().StringVar(source, "source", "", "this `SOURCE`, and not the engine")
	return c
}

func (p *program) resumeCommand() *cobra.Command {
	var body wire.ResumeRequest
	c, source := p.control("resume", func(c *client.Client, ctx context.Context, source, reason string) (client.Answer[wire.Paused], error) {
		body.Source, body.Reason = source, reason
		return c.Resume(ctx, body)
	})
	c.Short = "End a pause, the hold of a restored store, or the doubt about a clock"
	c.Long = `Ends a pause. --after-restore ends the hold of a restored store: what it holds back is sent
from now on, so look at towline outbox list first. --clock-ok says that the wall clock is
right although it lies before the newest event, so that schedules go on.`
	c.Example = "  towline resume --reason 'the disk is new'\n  towline resume --source orders --reason 'it has a new token'\n  towline resume --after-restore --reason 'what was sent is resolved'\n  towline resume --clock-ok --reason 'it ran ahead for a day'"
	c.Flags().StringVar(source, "source", "", "this `SOURCE`, and not the engine")
	c.Flags().BoolVar(&body.AfterRestore, "after-restore", false, "end the hold of a restored store")
	c.Flags().BoolVar(&body.ClockOK, "clock-ok", false, "the wall clock is right")
	return c
}

// control is a command about the engine, or the source that is set. Its answer is what is paused then.
func (p *program) control(verb string, do func(c *client.Client, ctx context.Context, source, reason string) (client.Answer[wire.Paused], error)) (c *cobra.Command, source *string) {
	var a action
	source = new(string)
	c = &cobra.Command{
		Use: verb, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.acting(cmd, func(ctx context.Context, c *client.Client) error {
				if err := a.why(p); err != nil {
					return err
				}
				if a.dry {
					return a.each(ctx, p, verb, []target{{id: controlled(*source)}}, nil)
				}
				got, err := do(c, ctx, *source, a.reason)
				if err != nil {
					return err
				}
				return p.paused(got)
			})
		},
	}
	a.add(c.Flags())
	p.urlFlags(c.Flags())
	return c, source
}

// paused answers with what is paused.
func (p *program) paused(got client.Answer[wire.Paused]) error {
	now := time.Now()
	if ended := got.Value.Ended; ended != nil && p.out.form == "table" {
		p.out.say("%s", endedInWords(*ended))
	}
	if p.out.form == "table" && len(got.Value.Items) == 0 {
		p.out.say("nothing is paused · as of seq %s", grouped(int64(got.Seq)))
		return p.out.err
	}
	return list(p.out, got.Value.Items, []string{"PAUSED", "SINCE", "BY", "REASON"}, func(x projections.Pause) []string {
		return []string{controlled(x.Source), clock(x.Since, now), orDash(x.By), oneLine(x.Reason)}
	})
}

// endedInWords says whether there was a hold or a doubt. That there was none is no failure: it is as it was wanted.
func endedInWords(ended bool) string {
	if ended {
		return "it has ended, and what waited for it goes on"
	}
	return "there was nothing to end, and nothing was written"
}

// controlled is what a pause is of, in words; without a source it is the engine.
func controlled(source string) string {
	if source == "" {
		return "the engine"
	}
	return "source " + source
}
