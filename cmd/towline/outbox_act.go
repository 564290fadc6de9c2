package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/wire"
)

func (p *program) outboxResolve() *cobra.Command {
	var (
		a               action
		delivered, lost bool
		to              string
	)
	c := &cobra.Command{
		Use: "resolve ENTRY (--delivered | --lost)", Short: "Say what became of a publish of which nobody knows",
		Long: `Says what you have found out: --delivered, it was sent and has arrived, or --lost, it
was not. Nothing is sent either way. It is the only way out of unresolved.`,
		Example: "  towline outbox resolve 7Q4ZKD/post_sync#1 --delivered --reason 'the report is there'\n  towline outbox resolve 7Q4ZKD/post_sync --target index --lost --reason 'the broker has no such message'",
		Args:    one,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.acting(cmd, func(ctx context.Context, c *client.Client) error {
				if delivered == lost {
					return p.usage("give one of --delivered and --lost")
				}
				if err := a.why(p); err != nil {
					return err
				}
				body := wire.Resolve{Outcome: events.ResolvedLost, Target: to, Reason: a.reason}
				if delivered {
					body.Outcome = events.ResolvedDelivered
				}
				var all []wire.Entry
				err := a.each(ctx, p, fmt.Sprintf("resolve as %s", body.Outcome), []target{{id: args[0]}}, func(ctx context.Context, t target) error {
					got, err := c.Resolve(ctx, t.id, body)
					if err == nil {
						all = append(all, got.Value)
					}
					return err
				})
				return answered(p, all, true, err, func(e wire.Entry) string { return fmt.Sprintf("entry %s  %s", e.Alias, e.State) })
			})
		},
	}
	f := c.Flags()
	f.BoolVar(&delivered, "delivered", false, "it was sent")
	f.BoolVar(&lost, "lost", false, "it was not sent, and will not be")
	f.StringVar(&to, "target", "", "of a post_sync with several: which `TARGET`")
	a.add(f)
	p.urlFlags(f)
	return c
}

func (p *program) outboxRequeue() *cobra.Command {
	var a action
	var where string
	c := &cobra.Command{
		Use: "requeue ENTRY… | --where QUERY", Short: "Publish after all what is parked",
		Long: `Publishes parked entries again, with a new wakeup number. A post_sync that is sent at
most once is refused: it had its one publish. Resolve it and run its action by hand, or
start a new run.`,
		Example: "  towline outbox requeue 7Q4ZKD/dispatch_sync_run --reason 'the broker has its queue again'\n  towline outbox requeue --where 'state:parked kind:message' --rate 5/s --reason 'the consumer is mended'",
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.acting(cmd, func(ctx context.Context, c *client.Client) error {
				if err := a.why(p); err != nil {
					return err
				}
				what, err := targets(ctx, p, args, "ENTRY", where, c.Entries(client.Query{Where: where}), func(e wire.Entry) (target, bool) {
					return target{e.Alias, oneLine(e.LastText)}, e.State == "parked"
				})
				if err != nil {
					return err
				}
				var all []wire.Entry
				err = a.each(ctx, p, "requeue", what, func(ctx context.Context, t target) error {
					got, err := c.Requeue(ctx, t.id, a.reason)
					if err == nil {
						all = append(all, got.Value)
					}
					return err
				})
				return answered(p, all, len(args) == 1, err, func(e wire.Entry) string { return fmt.Sprintf("entry %s  %s", e.Alias, e.State) })
			})
		},
	}
	a.addBulk(c.Flags())
	c.Flags().StringVar(&where, "where", "", "all parked ones that this `QUERY` chooses")
	c.Flags().StringVar(&a.rate, "rate", "", "at most `N/s`, as 5/s; Ctrl-C stops between two")
	p.urlFlags(c.Flags())
	return c
}
