package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/wire"
)

func (p *program) eventsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "events", Short: "Read the log, follow it, export it",
		Example: "  towline events tail --run 7Q4ZKD\n  towline events list --where type:UnitFailed",
		Args:    cobra.ArbitraryArgs,
		RunE:    func(cmd *cobra.Command, args []string) error { return p.group(cmd, args) },
	}
	c.AddCommand(p.eventsTail(), p.eventsList(), p.eventsExport())
	return c
}

// eventFlags choose events.
type eventFlags struct {
	run, where string
	after      int64
}

// query is what the flags choose, in the grammar of every search.
func (f eventFlags) query() string {
	if f.run == "" {
		return f.where
	}
	return strings.TrimSpace("run:" + f.run + " " + f.where)
}

func (p *program) eventsTail() *cobra.Command {
	var f eventFlags
	c := &cobra.Command{
		Use: "tail", Short: "Follow the log",
		Long: `Follows the log until Ctrl-C: each event once, in order, also over a restart of the
engine. It begins behind the newest event; of a run with its first, and with --after-seq
behind that one.`,
		Example: "  towline events tail --run 7Q4ZKD\n  towline events tail --where type:UnitFailed -o jsonl | jq .data",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.asking(cmd, func(ctx context.Context, c *client.Client) error {
				after := client.Newest
				switch {
				case cmd.Flags().Changed("after-seq"):
					after = events.Position(f.after)
				case f.run != "":
					after = 0
				}
				return p.tail(ctx, c, client.TailOptions{Where: f.query(), After: after, Lost: func(err error) {
					fmt.Fprintf(p.stderr, "towline: the stream has ended (%s), trying again\n", oneLine(err.Error()))
				}})
			})
		},
	}
	f.add(c)
	p.accessFlags(c.Flags())
	return c
}

func (f *eventFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.run, "run", "", "those of this `RUN`, with its units and its outbox")
	c.Flags().StringVar(&f.where, "where", "", "only what this `QUERY` chooses, such as type:UnitFailed")
	c.Flags().Int64Var(&f.after, "after-seq", 0, "those behind this `N`")
}

// tail writes until it is interrupted, which is how it ends.
func (p *program) tail(ctx context.Context, c *client.Client, o client.TailOptions) error {
	for e, err := range c.Tail(ctx, o) {
		switch {
		case errors.Is(err, errInterrupted):
			return nil
		case err != nil:
			return err
		}
		if err := p.event(e); err != nil {
			return err
		}
	}
	return nil
}

// event writes one event as it comes: JSON is one object a line, for a log has no end.
func (p *program) event(e wire.Event) error {
	if p.out.form != "table" {
		return p.out.json(e, "")
	}
	_, err := fmt.Fprintf(p.out, "%s  %s  %-*s  %s\n", e.Seq, e.At.Local().Format("15:04:05.000"), streamWidth, shortStream(e.Stream), oneLine(e.Text))
	return err
}

const streamWidth = 26

// shortStream is a stream by what tells it from others: the end of its ULID.
func shortStream(stream string) string {
	const ulid, end = 26, 6
	parts := strings.Split(stream, "/")
	for i, part := range parts {
		if len(part) == ulid && i > 0 {
			parts[i] = "…" + part[ulid-end:]
		}
	}
	return strings.Join(parts, "/")
}

func (p *program) eventsList() *cobra.Command {
	var f eventFlags
	limit := 0
	c := &cobra.Command{
		Use: "list", Short: "List events, oldest first",
		Example: "  towline events list --run 7Q4ZKD\n  towline events list --where 'type:UnitFailed age<1d' --limit 20\n  towline events list --db backup/towline.db --after-seq 1180 -o jsonl",
		Args:    cobra.NoArgs,
	}
	f.add(c)
	c.Flags().IntVar(&limit, "limit", 1000, "events at most; 0: all")
	return p.readsAt(c, func(ctx context.Context, c *client.Client, at client.At, _ []string) error {
		found := c.Events(ctx, client.EventQuery{Where: f.query(), After: events.Position(f.after), At: at})
		_, err := rows(p, found, limit, []string{"SEQ", "TIME", "STREAM", "EVENT"}, func(e wire.Event) []string {
			return []string{e.Seq.String(), clock(e.At, time.Now()), shortStream(e.Stream), oneLine(e.Text)}
		})
		return err
	})
}

func (p *program) eventsExport() *cobra.Command {
	var f eventFlags
	c := &cobra.Command{
		Use: "export", Short: "Write events as JSON lines, with every digit",
		Long: `Writes events, oldest first, one JSON object a line, whatever -o says. It is the form of
the API, with tokens masked; nothing is left out, and no number is rounded.`,
		Example: "  towline events export > log.jsonl\n  towline events export --run 7Q4ZKD --db backup/towline.db",
		Args:    cobra.NoArgs,
	}
	f.add(c)
	return p.readsAt(c, func(ctx context.Context, c *client.Client, at client.At, _ []string) error {
		return export(ctx, p.out, c, client.EventQuery{Where: f.query(), After: events.Position(f.after), At: at})
	})
}

func export(ctx context.Context, to io.Writer, c *client.Client, q client.EventQuery) error {
	enc := json.NewEncoder(to)
	enc.SetEscapeHTML(false)
	for e, err := range c.Events(ctx, q) {
		if err != nil {
			return err
		}
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	return nil
}
