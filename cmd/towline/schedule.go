package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/wire"
)

func (p *program) scheduleCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "schedule", Short: "Look at schedules, pause them, and start what they would start",
		Long: `A schedule starts a sync by itself. SCHEDULE is its name, which is that of its sync in
towline.yaml.`,
		Example: "  towline schedule list\n  towline schedule next code\n  towline schedule run-now code",
		Args:    cobra.ArbitraryArgs,
		RunE:    func(cmd *cobra.Command, args []string) error { return p.group(cmd, args) },
	}
	c.AddCommand(p.scheduleList(), p.scheduleShow(), p.schedulePause(), p.scheduleResume(), p.scheduleRunNow(), p.scheduleNext())
	return c
}

func (p *program) scheduleList() *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List schedules with their next due time",
		Example: "  towline schedule list\n  towline schedule list -o json\n  towline schedule list --db backup/towline.db",
		Args:    cobra.NoArgs,
	}
	return p.readsAt(c, func(ctx context.Context, c *client.Client, at client.At, _ []string) error {
		got, err := c.Schedules(ctx, 1, at)
		if err != nil {
			return err
		}
		now := time.Now()
		return list(p.out, got.Value.Items, []string{"SCHEDULE", "SYNC", "CRON", "ZONE", "STATE", "NEXT", "LAST RUN", "NOTE"}, func(s wire.Schedule) []string {
			return []string{s.Name, s.Sync, s.Cron, s.TimeZone, stateOfSchedule(s), nextFire(s), lastRun(s), noteOfSchedule(s, now)}
		})
	})
}

func stateOfSchedule(s wire.Schedule) string {
	if s.Paused {
		return "paused"
	}
	if s.Waits != nil {
		return "waits"
	}
	return "on"
}

func nextFire(s wire.Schedule) string {
	if len(s.Next) == 0 {
		return none
	}
	return s.Next[0].Local
}

func lastRun(s wire.Schedule) string {
	if s.LastRun.IsZero() {
		return none
	}
	return s.LastRun.Short()
}

func noteOfSchedule(s wire.Schedule, now time.Time) string {
	switch {
	case s.Paused:
		return fmt.Sprintf("since %s by %s: %s", clock(s.Since, now), orDash(s.By), oneLine(s.Reason))
	case s.Error != "":
		return oneLine(s.Error)
	case s.Waits != nil:
		return fmt.Sprintf("cannot start what is due since %s: %s", clock(s.Waits.Since, now), oneLine(s.Waits.Text))
	case s.Failures > 0:
		return plural(s.Failures, "failure", "failures") + " in a row"
	}
	return none
}

func (p *program) scheduleShow() *cobra.Command {
	c := &cobra.Command{
		Use: "show SCHEDULE", Short: "Show a schedule, and what became of its due times",
		Example: "  towline schedule show code\n  towline schedule show code --at-time '2026-11-30 14:03' -o json",
		Args:    one,
	}
	return p.readsAt(c, func(ctx context.Context, c *client.Client, at client.At, args []string) error {
		got, err := c.Schedule(ctx, args[0], 5, at)
		if err != nil {
			return err
		}
		return p.out.one(got.Value, func(w io.Writer) { writeSchedule(w, got.Value, int64(got.Seq)) })
	})
}

func writeSchedule(w io.Writer, s wire.Schedule, seq int64) {
	now := time.Now()
	fmt.Fprintf(w, "%s  %s   as of seq %s\n", s.Name, stateWord(stateOfSchedule(s)), grouped(seq))
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-8s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("due", "%s in %s   sync %s, %s   missed: %s, overlap: %s", s.Cron, s.TimeZone, s.Sync, s.Mode, s.CatchUp, s.Overlap)
	if note := noteOfSchedule(s, now); note != none {
		line("note", "%s", note)
	}
	for _, f := range s.Next {
		line("next", "%s", fireInWords(f))
	}
	for _, o := range s.History {
		text := fmt.Sprintf("%s  %s", o.Civil, o.State)
		if !o.Run.IsZero() {
			text += "  run " + o.Run.Short()
		}
		if o.Reason != "" {
			text += "  " + o.Reason + " " + oneLine(o.Text)
		}
		line("was", "%s", text)
	}
	for _, m := range s.Missed {
		line("missed", "%s to %s: %d, %s", m.FromCivil, m.ToCivil, m.Count, m.Reason)
	}
}

// fireInWords is a due time on the wall and in UTC, with what a change of the clock does to it.
func fireInWords(f wire.Fire) string {
	text := f.Local + "   " + f.At.UTC().Format("2006-01-02 15:04:05Z")
	if f.Remark != "" {
		text += "   " + f.Remark
	}
	return text
}

func (p *program) schedulePause() *cobra.Command {
	return p.scheduleAction("pause", "Pause a schedule", `What waits in it is skipped, and runs that were accepted go on. A pause of what is paused
changes nothing, and the first reason stays.`, "the source is rebuilt", (*client.Client).PauseSchedule)
}

func (p *program) scheduleResume() *cobra.Command {
	return p.scheduleAction("resume", "End a pause of a schedule", "What was due during the pause is listed as missed, and not caught up.", "it is back", (*client.Client).ResumeSchedule)
}

func (p *program) scheduleAction(verb, short, long, reason string, do func(*client.Client, context.Context, string, string) (client.Answer[wire.Schedule], error)) *cobra.Command {
	var a action
	c := &cobra.Command{
		Use: verb + " SCHEDULE", Short: short, Long: long, Example: fmt.Sprintf("  towline schedule %s code --reason '%s'", verb, reason), Args: one,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.acting(cmd, func(ctx context.Context, c *client.Client) error {
				if err := a.why(p); err != nil {
					return err
				}
				var all []wire.Schedule
				err := a.each(ctx, p, verb+" schedule", []target{{id: args[0]}}, func(ctx context.Context, t target) error {
					got, err := do(c, ctx, t.id, a.reason)
					if err == nil {
						all = append(all, got.Value)
					}
					return err
				})
				return answered(p, all, true, err, func(s wire.Schedule) string {
					return fmt.Sprintf("schedule %s  %s  next %s", s.Name, stateOfSchedule(s), nextFire(s))
				})
			})
		},
	}
	a.add(c.Flags())
	p.urlFlags(c.Flags())
	return c
}

func (p *program) scheduleRunNow() *cobra.Command {
	var (
		body wire.RunNow
		key  string
		w    waiting
	)
	c := &cobra.Command{
		Use: "run-now SCHEDULE", Short: "Start now what a schedule asks for",
		Long: `Starts a run with what the schedule asks for, also while it is paused. It is a manual
trigger, and moves no due time. Exit codes of --wait and --watch are those of run start.`,
		Example: "  towline schedule run-now code --watch\n  towline schedule run-now code --idempotency-key 2026-11-30 --reason 'before the demo'",
		Args:    one,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.acting(cmd, func(ctx context.Context, c *client.Client) error {
				limit, stay, err := w.limit(p)
				if err != nil {
					return err
				}
				started, err := c.RunSchedule(ctx, args[0], body, client.StartOptions{Key: key})
				if err != nil {
					return p.withHolder(ctx, c, err)
				}
				return p.accepted(ctx, c, started, w, limit, stay)
			})
		},
	}
	c.Flags().StringVar(&body.Reason, "reason", "", "why, for the `RECORD`")
	c.Flags().StringVar(&key, "idempotency-key", "", "the same `KEY` gives the same run, for 7 days")
	w.add(c.Flags())
	p.urlFlags(c.Flags())
	return c
}

func (p *program) scheduleNext() *cobra.Command {
	n := 5
	c := &cobra.Command{
		Use: "next SCHEDULE", Short: "Show when a schedule is due next, on the wall and in UTC",
		Long: `Shows due times to come, with what a change of the clock does to them. Without an engine
they are computed from the file of the store.`,
		Example: "  towline schedule next code\n  towline schedule next code --count 20 -o json",
		Args:    one,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.asking(cmd, func(ctx context.Context, c *client.Client) error {
				got, err := c.Schedule(ctx, args[0], n, client.Now)
				if err != nil {
					return err
				}
				if got.Value.Error != "" {
					return &configError{fmt.Errorf("schedule %s: %s", got.Value.Name, got.Value.Error)}
				}
				return list(p.out, got.Value.Next, []string{"LOCAL", "UTC", "REMARK"}, func(f wire.Fire) []string {
					return []string{f.Local, f.At.UTC().Format("2006-01-02 15:04:05Z"), orDash(f.Remark)}
				})
			})
		},
	}
	c.Flags().IntVar(&n, "count", n, "how many, 100 at most")
	p.accessFlags(c.Flags())
	return c
}
