package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/wire"
)

func (p *program) runCancel() *cobra.Command {
	var a action
	var where string
	c := &cobra.Command{
		Use: "cancel RUN… | --where QUERY", Short: "Cancel runs, at once",
		Long: `Cancels runs in one step each, with what is running of them: their workers hear of it
with the next renewal of their lease, and what they report is refused. A run that is
cancelled already is a success; one that has ended otherwise is a conflict.`,
		Example: "  towline run cancel 7Q4ZKD --reason 'wrong range'\n  towline run cancel --where 'sync:code state:planned' --reason 'wrong range' --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.acting(cmd, func(ctx context.Context, c *client.Client) error {
				if err := a.why(p); err != nil {
					return err
				}
				what, err := targets(ctx, p, args, "RUN", where, c.Runs(client.Query{Where: where}), func(r wire.Run) (target, bool) {
					return target{r.ID.String(), fmt.Sprintf("%s  %s  %s", r.Alias, r.Sync, r.State)}, !r.State.Terminal()
				})
				if err != nil {
					return err
				}
				var ended []wire.Run
				err = a.each(ctx, p, "cancel run", what, func(ctx context.Context, t target) error {
					got, err := c.CancelRun(ctx, t.id, a.reason)
					if err == nil {
						ended = append(ended, got.Value)
					}
					return err
				})
				return answered(p, ended, len(args) == 1, err, func(r wire.Run) string {
					return fmt.Sprintf("run %s  %s  %d of %s had succeeded", r.Alias, r.State, r.Succeeded, plural(r.Units, "unit", "units"))
				})
			})
		},
	}
	a.addBulk(c.Flags())
	c.Flags().StringVar(&where, "where", "", "all that this `QUERY` chooses")
	p.urlFlags(c.Flags())
	return c
}

// answered answers with what became of the targets of an action, also where it was refused for some of them. One thing that
// was named is an object; what a query has chosen is a list.
func answered[T any](p *program, all []T, single bool, err error, words func(T) string) error {
	if len(all) == 0 {
		return err
	}
	if p.out.form == "table" {
		for _, v := range all {
			p.out.say("%s", words(v))
		}
		return errors.Join(err, p.out.err)
	}
	if single {
		return errors.Join(err, p.out.one(all[0], nil))
	}
	return errors.Join(err, list(p.out, all, nil, nil))
}

func (p *program) runRetry() *cobra.Command {
	var (
		body wire.RetryRun
		key  string
		a    action
		w    waiting
	)
	c := &cobra.Command{
		Use: "retry RUN", Short: "Run again what failed of a run, as a new run",
		Long: `Starts a new run of the failed units of an ended one. The two name each other, and the
new one has a post_sync of its own.`,
		Example: "  towline run retry 7Q4ZKD --reason 'the token is valid again' --watch\n  towline run retry 7Q4ZKD --cancelled --reason 'after all'\n  towline run retry 7Q4ZKD --dry-run",
		Args:    one,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.acting(cmd, func(ctx context.Context, c *client.Client) error {
				if err := a.why(p); err != nil {
					return err
				}
				if a.dry {
					return p.wouldRetry(ctx, c, args[0], body.Cancelled)
				}
				limit, stay, err := w.limit(p)
				if err != nil {
					return err
				}
				body.Reason = a.reason
				started, err := c.RetryRun(ctx, args[0], body, client.StartOptions{Key: key})
				if err != nil {
					return p.withHolder(ctx, c, err)
				}
				return p.accepted(ctx, c, started, w, limit, stay)
			})
		},
	}
	a.add(c.Flags())
	c.Flags().BoolVar(&body.Cancelled, "cancelled", false, "those that were cancelled, too")
	c.Flags().StringVar(&key, "idempotency-key", "", "the same `KEY` gives the same run, for 7 days")
	w.add(c.Flags())
	p.urlFlags(c.Flags())
	return c
}

// wouldRetry lists the units that a retry would run.
func (p *program) wouldRetry(ctx context.Context, c *client.Client, run string, cancelled bool) error {
	where := "state:failed"
	if cancelled {
		where += ",cancelled"
	}
	var units []wire.Unit
	for u, err := range c.UnitsOf(run, client.Query{Where: where}).All(ctx) {
		if err != nil {
			return err
		}
		units = append(units, u)
	}
	return list(p.out, units, []string{"UNIT", "STATE", "ERROR"}, func(u wire.Unit) []string { return []string{u.Alias, string(u.State), errorOf(u)} })
}

// errorOf is the newest failure of a unit, in one line.
func errorOf(u wire.Unit) string {
	if u.Error == nil {
		return none
	}
	if u.Error.Text == "" {
		return string(u.Error.Category)
	}
	return string(u.Error.Category) + ": " + oneLine(u.Error.Text)
}
