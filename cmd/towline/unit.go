package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/wire"
)

func (p *program) unitCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "unit", Short: "Look into units, end them, and say that their worker is gone",
		Long: `A unit is one piece of a run: a source, a dataset and a window. UNIT is its alias, as
7Q4ZKD:orders/commits/2024-03, the last six characters of its id or more, the ULID, or
unit/ULID.`,
		Example: "  towline unit list --where 'run:7Q4ZKD state:failed'\n  towline unit why 7Q4ZKD:orders/commits/2024-03",
		Args:    cobra.ArbitraryArgs,
		RunE:    func(cmd *cobra.Command, args []string) error { return p.group(cmd, args) },
	}
	c.AddCommand(p.unitList(), p.unitShow(), p.unitWhy(), p.unitCancel(), p.unitRelease())
	return c
}

func (p *program) unitList() *cobra.Command {
	var l listFlags
	var run string
	c := &cobra.Command{
		Use: "list", Short: "List units",
		Long: `Lists units, newest first; those of one run by their place in its plan. The query knows
run, sync, source, dataset, state, error, window and age.`,
		Example: "  towline unit list --run 7Q4ZKD\n  towline unit list --where 'state:retrying error:timeout' -o jsonl\n  towline unit list --where 'source:orders window>=2025-01' --at-time 14:03",
		Args:    cobra.NoArgs,
	}
	l.add(c.Flags(), "state:retrying error:timeout")
	c.Flags().StringVar(&run, "run", "", "those of this `RUN`, in the order of its plan")
	return p.readsAt(c, func(ctx context.Context, c *client.Client, at client.At, _ []string) error {
		q := client.Query{Where: l.where, At: at, Page: l.page()}
		found := c.Units(q)
		if run != "" {
			found = c.UnitsOf(run, q)
		}
		now := time.Now()
		shown, err := rows(p, found.All(ctx), l.limit, []string{"UNIT", "STATE", "TRY", "ROWS", "NEXT", "ERROR"}, func(u wire.Unit) []string {
			return []string{u.Alias, string(u.State), orDash(count(u.Attempt)), rowsOf(u), nextOfUnit(u, now), errorOf(u)}
		})
		if err == nil {
			p.out.say("%s · as of seq %s", plural(len(shown), "unit", "units"), grouped(int64(found.Seq())))
		}
		return err
	})
}

func rowsOf(u wire.Unit) string {
	if u.Result == nil {
		return none
	}
	return fmt.Sprint(u.Result.Rows)
}

// nextOfUnit is when something happens to a unit by itself.
func nextOfUnit(u wire.Unit, now time.Time) string {
	switch {
	case u.State == events.UnitIsRetrying:
		return clock(u.AvailableAt, now)
	case u.Lease != nil:
		return "lease " + clock(u.Lease.ExpiresAt, now)
	}
	return none
}

func (p *program) unitShow() *cobra.Command {
	c := &cobra.Command{
		Use: "show UNIT", Short: "Show a unit with its events",
		Example: "  towline unit show 7Q4ZKD:orders/commits/2024-03\n  towline unit show 7Q4ZKD:orders/commits/2024-03 --at-seq 1190 -o json",
		Args:    one,
	}
	return p.readsAt(c, func(ctx context.Context, c *client.Client, at client.At, args []string) error {
		u, err := c.Unit(ctx, args[0], at)
		if err != nil || p.out.form != "table" {
			return p.oneOr(u.Value, err)
		}
		var history []wire.Event
		for e, err := range c.Events(ctx, client.EventQuery{Where: "unit:" + u.Value.ID.String(), At: at}) {
			if err != nil {
				return err
			}
			history = append(history, e)
		}
		return p.out.one(u.Value, func(w io.Writer) { writeUnit(w, u.Value, history, int64(u.Seq)) })
	})
}

// oneOr answers with a value, or ends with the error that it came with.
func (p *program) oneOr(v any, err error) error {
	if err != nil {
		return err
	}
	return p.out.one(v, nil)
}

func writeUnit(w io.Writer, u wire.Unit, history []wire.Event, seq int64) {
	now := time.Now()
	fmt.Fprintf(w, "%s  %s   attempt %d   as of seq %s\n", u.Alias, stateWord(string(u.State)), u.Attempt, grouped(seq))
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-8s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("unit", "%s   run %s   place %d   %s, %s, %s", u.ID, u.Run.Short(), u.Ordinal, u.Tier, u.Cost, u.Mode)
	if u.Lease != nil {
		line("lease", "%s, ends %s (%s)", orDash(u.Lease.Worker), clock(u.Lease.ExpiresAt, now), ahead(u.Lease.ExpiresAt, now))
	}
	if u.State == events.UnitIsRetrying {
		line("retry", "due %s (%s)", clock(u.AvailableAt, now), ahead(u.AvailableAt, now))
	}
	if u.Error != nil {
		line("error", "%s", errorOf(u))
	}
	if u.Result != nil {
		line("result", "%d rows in %s", u.Result.Rows, time.Duration(u.DurationMS)*time.Millisecond)
	}
	if u.LateResults > 0 {
		line("late", "%s, refused", plural(u.LateResults, "result", "results"))
	}
	for _, e := range history {
		line("event", "%s  %s  %s", grouped(int64(e.Seq)), clock(e.At, now), oneLine(e.Text))
	}
}

func (p *program) unitWhy() *cobra.Command {
	c := &cobra.Command{
		Use: "why UNIT", Short: "Say why a unit is no further",
		Example: "  towline unit why 7Q4ZKD:orders/commits/2024-03\n  towline unit why H2V9QE -o json",
		Args:    one,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.asking(cmd, func(ctx context.Context, c *client.Client) error {
				why, err := c.WhyUnit(ctx, args[0])
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

func (p *program) unitCancel() *cobra.Command {
	return p.unitAction("cancel", "Cancel units, at once",
		`Cancels units, also running ones: their workers hear of it with the next renewal of
their lease, and what they report is refused. One that is cancelled already is a
success; one that has ended otherwise is a conflict.`,
		(*client.Client).CancelUnit, func(u wire.Unit) bool { return !u.State.Terminal() })
}

func (p *program) unitRelease() *cobra.Command {
	return p.unitAction("release", "Say that the worker of a running unit is gone",
		`States that the worker is gone: the lease counts as expired at once, and the unit is
tried again or fails, as its dataset says. What the worker reports still is refused.`,
		(*client.Client).ReleaseUnit, func(u wire.Unit) bool { return u.State == events.UnitIsRunning })
}

// unitAction is a command that does something to units.
func (p *program) unitAction(verb, short, long string, do func(*client.Client, context.Context, string, string) (client.Answer[wire.Unit], error), chosen func(wire.Unit) bool) *cobra.Command {
	var a action
	var where string
	c := &cobra.Command{
		Use: verb + " UNIT… | --where QUERY", Short: short, Long: long,
		Example: fmt.Sprintf("  towline unit %s 7Q4ZKD:orders/commits/2024-03 --reason 'its machine is gone'\n  towline unit %s --where 'run:7Q4ZKD source:orders' --reason 'its machine is gone' --dry-run", verb, verb),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.acting(cmd, func(ctx context.Context, c *client.Client) error {
				if err := a.why(p); err != nil {
					return err
				}
				what, err := targets(ctx, p, args, "UNIT", where, c.Units(client.Query{Where: where}), func(u wire.Unit) (target, bool) {
					return target{u.ID.String(), fmt.Sprintf("%s  %s", u.Alias, u.State)}, chosen(u)
				})
				if err != nil {
					return err
				}
				var all []wire.Unit
				err = a.each(ctx, p, verb+" unit", what, func(ctx context.Context, t target) error {
					got, err := do(c, ctx, t.id, a.reason)
					if err == nil {
						all = append(all, got.Value)
					}
					return err
				})
				return answered(p, all, len(args) == 1, err, func(u wire.Unit) string { return fmt.Sprintf("unit %s  %s", u.Alias, u.State) })
			})
		},
	}
	a.addBulk(c.Flags())
	c.Flags().StringVar(&where, "where", "", "all that this `QUERY` chooses")
	p.urlFlags(c.Flags())
	return c
}
