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
	return p.control("pause", "Pause the engine, or a source",
		`Nothing more is dispatched; triggers are accepted, and what runs goes on. A pause of what
is paused changes nothing, and the first reason stays.`,
		"  towline pause --reason 'the disk is being replaced'\n  towline pause --source orders --reason 'its token is revoked'", (*client.Client).Pause)
}

func (p *program) resumeCommand() *cobra.Command {
	return p.control("resume", "End a pause of the engine or a source, or confirm the clock",
		`Ends a pause. --clock-ok says that the wall clock is right although it lies before the
newest event, so that schedules go on.`,
		"  towline resume --reason 'the disk is new'\n  towline resume --source orders --reason 'it has a new token'\n  towline resume --clock-ok --reason 'it ran ahead for a day'", (*client.Client).Resume)
}

// control is a command about the engine or a source. Its answer is what is paused then.
func (p *program) control(verb, short, long, example string, do func(*client.Client, context.Context, wire.PauseRequest) (client.Answer[wire.Paused], error)) *cobra.Command {
	var a action
	var body wire.PauseRequest
	c := &cobra.Command{
		Use: verb, Short: short, Long: long, Example: example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.acting(cmd, func(ctx context.Context, c *client.Client) error {
				if err := a.why(p); err != nil {
					return err
				}
				name := "the engine"
				switch {
				case body.Source != "":
					name = "source " + body.Source
				case body.ClockOK:
					name = "the clock"
				}
				if a.dry {
					return a.each(ctx, p, verb, []target{{id: name}}, nil)
				}
				body.Reason = a.reason
				got, err := do(c, ctx, body)
				if err != nil {
					return err
				}
				return p.paused(got)
			})
		},
	}
	c.Flags().StringVar(&body.Source, "source", "", "this `SOURCE`, and not the engine")
	if verb == "resume" {
		c.Flags().BoolVar(&body.ClockOK, "clock-ok", false, "the wall clock is right")
	}
	a.add(c.Flags())
	p.urlFlags(c.Flags())
	return c
}

// paused answers with what is paused.
func (p *program) paused(got client.Answer[wire.Paused]) error {
	now := time.Now()
	if p.out.form == "table" && len(got.Value.Items) == 0 {
		p.out.say("nothing is paused · as of seq %s", grouped(int64(got.Seq)))
		return p.out.err
	}
	return list(p.out, got.Value.Items, []string{"PAUSED", "SINCE", "BY", "REASON"}, func(x projections.Pause) []string {
		return []string{pausedName(x), clock(x.Since, now), orDash(x.By), oneLine(x.Reason)}
	})
}

// pausedName is what is paused, in words.
func pausedName(x projections.Pause) string {
	if x.Source == "" {
		return "the engine"
	}
	return "source " + x.Source
}
