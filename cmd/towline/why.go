package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/wire"
)

func (p *program) whyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "why ID", Short: "Say why anything is no further: a run, unit, outbox entry, job or message",
		Long: `Says why a thing is no further: one reason, the events that show it, and what comes
next. ID is any name of it. Of a run the reason that only a person can end comes first,
with the command that ends it, then how many units wait for what.`,
		Example: "  towline why 7Q4ZKD\n  towline why 7Q4ZKD/post_sync#1\n  towline why 7Q4ZKD:orders/commits/2024-03 --db backup/towline.db",
		Args:    one,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.asking(cmd, func(ctx context.Context, c *client.Client) error {
				why, err := c.Why(ctx, args[0])
				if err != nil {
					return err
				}
				return p.out.one(why.Value, func(w io.Writer) { writeWhy(w, why.Value, int64(why.Seq)) })
			})
		},
	}
	p.accessFlags(c.Flags())
	return c
}

func stateWord(state string) string { return strings.ToUpper(state) }

// writeWhy says why a thing is no further.
func writeWhy(w io.Writer, e wire.Explanation, seq int64) {
	now := time.Now()
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-8s %s\n", name, fmt.Sprintf(format, args...))
	}
	if e.NeedsPerson {
		line("fix", "%s", orDash(e.Fix))
	}
	fmt.Fprintf(w, "%s   %s %s   as of seq %s\n", stateWord(e.State), e.Of, e.ID, grouped(seq))
	if e.Reason == "" {
		line("reason", "it waits for nothing")
	} else {
		text := e.Reason
		if e.On != "" {
			text += " (" + e.On + ")"
		}
		if e.Behind != "" {
			text += " behind " + e.Behind
		}
		if !e.Since.IsZero() {
			text += fmt.Sprintf(", since %s (%s)", clock(e.Since, now), age(e.Since, now))
		}
		if e.NeedsPerson {
			text += "; no time ends it"
		}
		name := "reason"
		if !e.NoWorker.IsZero() {
			line(name, "no worker has asked for units since %s (%s): start one with towline worker", clock(e.NoWorker, now), age(e.NoWorker, now))
			name = ""
		}
		line(name, "%s", text)
	}
	for _, c := range e.Counts {
		line("", "%d × %s", c.Units, c.Why)
	}
	for _, x := range e.Evidence {
		line("because", "seq %s  %s  %s", grouped(int64(x.Position)), clock(x.At, now), oneLine(x.Text))
	}
	if e.Next != nil {
		line("then", "%s %s (%s)", e.Next.What, clock(e.Next.At, now), ahead(e.Next.At, now))
	}
	if e.Window != "" {
		line("window", "%s %s · may run twice: %s · may be lost: %s", e.Window, crashWindows[e.Window], yesNo(e.MayRepeat, "yes, and that is harmless"), yesNo(e.MayLose, "yes, by contract"))
	}
}

// crashWindows name the boundary that a thing has passed last.
var crashWindows = map[string]string{
	"W0": "accepted", "W1": "wakeup armed", "W2": "wakeup claimed", "W3": "the broker has it, perhaps", "W4": "marked as sent",
	"W5": "claimed, no result", "W6": "sink committed", "W7": "result recorded", "W8": "marked as sent, not proven",
}

func yesNo(is bool, yes string) string {
	if is {
		return yes
	}
	return "no"
}
