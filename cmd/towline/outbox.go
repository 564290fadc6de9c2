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

func (p *program) outboxCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "outbox", Short: "Look at what is to be published, resolve what is unknown, requeue what is parked",
		Long: `An outbox entry is the wish that somebody be woken, of a run or a message, and of a
kind. ENTRY is RUN/KIND, or RUN/KIND#N with the number of its wakeup, or OWNER.KIND.N as
message ids begin.`,
		Example: "  towline outbox list --where 'state:pending,claimed,unresolved'\n  towline outbox resolve 7Q4ZKD/post_sync --delivered --reason 'the report is there'",
		Args:    cobra.ArbitraryArgs,
		RunE:    func(cmd *cobra.Command, args []string) error { return p.group(cmd, args) },
	}
	c.AddCommand(p.outboxList(), p.outboxShow(), p.outboxResolve(), p.outboxRequeue())
	return c
}

func (p *program) outboxList() *cobra.Command {
	var l listFlags
	c := &cobra.Command{
		Use: "list", Short: "List outbox entries, those of the newest owners first",
		Long: `Lists outbox entries. The query knows run, kind, state, outcome, transport and age.
What waits for a person says so in its note.`,
		Example: "  towline outbox list --where 'state:pending,claimed,unresolved'\n  towline outbox list --where 'kind:post_sync outcome:unknown' -o json",
		Args:    cobra.NoArgs,
	}
	l.add(c.Flags(), "state:pending,claimed,unresolved")
	return p.readsAt(c, func(ctx context.Context, c *client.Client, at client.At, _ []string) error {
		then, err := p.momentOf(ctx, c, at)
		if err != nil {
			return err
		}
		now := time.Now()
		found := c.Entries(client.Query{Where: l.where, At: at, Page: l.page()})
		shown, err := rows(p, found.All(ctx), l.limit, []string{"ENTRY", "GUARANTEE", "STATE", "OUTCOME", "AGE", "TRY", "NEXT", "NOTE"}, func(e wire.Entry) []string {
			return []string{e.Alias, orDash(strings.ReplaceAll(e.Guarantee, "_", "-")), e.State, orDash(e.Outcome), ageOf(e, then), fmt.Sprint(e.Attempts), clock(e.AvailableAt, now), noteOf(e)}
		})
		if err == nil {
			p.out.say("%s", summaryOf(shown, then))
		}
		return err
	})
}

// ageOf is for how long an entry is due, or since when it was last sent.
func ageOf(e wire.Entry, now time.Time) string {
	if !e.AvailableAt.IsZero() {
		return age(e.AvailableAt, now)
	}
	return age(e.LastDispatched, now)
}

// noteOf is what a person should know of an entry.
func noteOf(e wire.Entry) string {
	var notes []string
	switch e.State {
	case "unresolved":
		notes = append(notes, "nobody knows whether it was sent: resolve --delivered | --lost")
	case "parked":
		notes = append(notes, "requeue it when its cause is gone")
	}
	if e.LastText != "" {
		notes = append(notes, oneLine(e.LastText))
	} else if e.LastCause != "" && e.State != "idle" {
		notes = append(notes, e.LastCause)
	}
	if e.Next > 0 {
		notes = append(notes, fmt.Sprintf("#%d waits behind it", e.Next))
	}
	return orDash(strings.Join(notes, "; "))
}

func summaryOf(shown []wire.Entry, now time.Time) string {
	var oldest time.Duration
	unknown, parked := 0, 0
	for _, e := range shown {
		if e.State == "pending" {
			oldest = max(oldest, now.Sub(e.AvailableAt))
		}
		switch {
		case e.State == "parked":
			parked++
		case e.State == "unresolved":
			unknown++
		}
	}
	due := "nothing due"
	if oldest > 0 {
		due = "oldest due " + span(oldest)
	}
	return fmt.Sprintf("%s · %s · unknown %d · parked %d", plural(len(shown), "entry", "entries"), due, unknown, parked)
}

func (p *program) outboxShow() *cobra.Command {
	c := &cobra.Command{
		Use: "show ENTRY", Short: "Show an outbox entry, and why it is no further",
		Example: "  towline outbox show 7Q4ZKD/post_sync#1\n  towline outbox show 7Q4ZKD/dispatch_sync_run --at-seq 40 -o json",
		Args:    one,
	}
	return p.readsAt(c, func(ctx context.Context, c *client.Client, at client.At, args []string) error {
		e, err := c.Entry(ctx, args[0], at)
		if err != nil || p.out.form != "table" {
			return p.oneOr(e.Value, err)
		}
		var why *wire.Explanation
		if at == client.Now {
			got, err := c.WhyEntry(ctx, args[0])
			if err != nil {
				return err
			}
			why = &got.Value
		}
		return p.out.one(e.Value, func(w io.Writer) { writeEntry(w, e.Value, why, int64(e.Seq)) })
	})
}

func writeEntry(w io.Writer, e wire.Entry, why *wire.Explanation, seq int64) {
	now := time.Now()
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	if why != nil && why.NeedsPerson {
		line("fix", "%s", orDash(why.Fix))
	}
	fmt.Fprintf(w, "%s   %s   as of seq %s\n", e.Alias, stateWord(e.State), grouped(seq))
	line("entry", "%s   %s   transport %s", e.ID, orDash(strings.ReplaceAll(e.Guarantee, "_", "-")), orDash(e.Transport))
	line("wakeup", "#%d, closed up to #%d, %s", e.N, e.Closed, plural(e.Attempts, "attempt", "attempts"))
	if !e.AvailableAt.IsZero() {
		line("due", "%s (%s)", clock(e.AvailableAt, now), ahead(e.AvailableAt, now))
	}
	if !e.ClaimExpiresAt.IsZero() {
		line("claim", "ends %s (%s)", clock(e.ClaimExpiresAt, now), ahead(e.ClaimExpiresAt, now))
	}
	if e.Next > 0 {
		line("next", "#%d, due %s", e.Next, clock(e.NextAt, now))
	}
	if e.LastCause != "" {
		line("last", "%s %s", e.LastCause, oneLine(e.LastText))
	}
	for _, t := range e.Targets {
		text := orDash(t.Outcome)
		if t.Cause != "" {
			text += " (" + t.Cause + ")"
		}
		if t.Resolved != "" {
			text += fmt.Sprintf(", resolved as %s by %s: %s", t.Resolved, t.By, t.Why)
		}
		line("target", "%s  %s", t.Target, text)
	}
	if why != nil && why.Reason != "" {
		line("waits", "%s", reasonOf(*why, now))
	}
}
