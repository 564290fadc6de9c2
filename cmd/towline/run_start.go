package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/wire"
)

// waiting is whether a command stays until its run has ended.
type waiting struct {
	wait  waitFor
	watch bool
}

// waitFor is the value of --wait. It names no type, so that the help shows --wait[=DUR].
type waitFor string

func (w *waitFor) String() string { return string(*w) }

// Set takes any text; limit reads it.
func (w *waitFor) Set(text string) error {
	*w = waitFor(text)
	return nil
}

// Type is none.
func (*waitFor) Type() string { return "" }

// forEver is the value of --wait without one.
const forEver = "DUR"

func (w *waiting) add(f *pflag.FlagSet) {
	f.Var(&w.wait, "wait", "wait for the end of the run, or for so long at most: --wait=10m")
	f.Lookup("wait").NoOptDefVal = forEver
	f.BoolVar(&w.watch, "watch", false, "wait, and show how far it is")
}

// limit is how long is waited; ok is false if not at all, zero is for ever.
func (w *waiting) limit(p *program) (limit time.Duration, ok bool, err error) {
	switch w.wait {
	case "":
		return 0, w.watch, nil
	case forEver:
		return 0, true, nil
	}
	limit, err = time.ParseDuration(string(w.wait))
	if err != nil || limit <= 0 {
		return 0, false, p.usage("--wait=%s: want a duration, as 10m", w.wait)
	}
	return limit, true, nil
}

func (p *program) runStart() *cobra.Command {
	var (
		body           wire.StartRun
		mode, from, to string
		key            string
		sources, sets  []string
		w              waiting
		dry            bool
	)
	c := &cobra.Command{
		Use: "start SYNC", Short: "Start a run of a sync",
		Long: `Starts a run. It is committed when this returns, also while the transport is down. With
--from and --to it is a backfill of that range; a period, as 2024-12, is taken whole.

With --wait or --watch the exit code says how it ended: 0 succeeded, 6 failed,
7 partial_failed, 8 cancelled, 9 the time was over and the run goes on. Ctrl-C ends the
waiting and leaves the run alone. Waiting outlives the engine: it goes on when that is back.

With --dry-run it shows the units that would be planned now, or says what would be
refused, and starts nothing.`,
		Example: "  towline run start code --watch\n  towline run start code --from 2019-01 --to 2024-12 --source orders --dry-run\n  towline run start code --idempotency-key nightly-2026-11-30 --wait=1h",
		Args:    one,
		RunE: func(cmd *cobra.Command, args []string) error {
			body.Sync, body.Mode = args[0], events.Mode(mode)
			if cmd.Flags().Changed("source") {
				body.Sources = &sources
			}
			if cmd.Flags().Changed("dataset") {
				body.Datasets = &sets
			}
			return p.acting(cmd, func(ctx context.Context, c *client.Client) error {
				for flag, names := range map[string]*[]string{"source": body.Sources, "dataset": body.Datasets} {
					if names == nil {
						continue
					}
					if err := named(flag, *names); err != nil {
						return p.usage("%w", err)
					}
				}
				if err := p.between(&body, from, to); err != nil {
					return err
				}
				limit, stay, err := w.limit(p)
				if err != nil {
					return err
				}
				if dry {
					return p.dryRun(ctx, c, body, key, stay)
				}
				started, err := c.StartRun(ctx, body, client.StartOptions{Key: key})
				if err != nil {
					return p.withHolder(ctx, c, inFlags(err))
				}
				return p.accepted(ctx, c, started, w, limit, stay)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&mode, "mode", "", "incremental (the default), backfill or full_resync")
	f.StringVar(&from, "from", "", "begin of a backfill: a `PERIOD` as 2019-01, or an instant")
	f.StringVar(&to, "to", "", "end of a backfill: a `PERIOD`, which belongs to it, or an instant, which does not")
	f.StringSliceVar(&sources, "source", nil, "only this `SOURCE`; may be repeated")
	f.StringSliceVar(&sets, "dataset", nil, "only this `DATASET`; may be repeated")
	f.StringVar(&key, "idempotency-key", "", "the same `KEY` gives the same run, for 7 days")
	f.StringVar(&body.Reason, "reason", "", "why, for the `RECORD`")
	f.BoolVar(&dry, "dry-run", false, "show what would be planned, and start nothing")
	w.add(f)
	p.urlFlags(f)
	return c
}

// between sets the range of a backfill.
func (p *program) between(body *wire.StartRun, from, to string) error {
	if from == "" && to == "" {
		return nil
	}
	if body.Mode == "" {
		body.Mode = events.Backfill
	}
	var err error
	if from != "" {
		if body.Since, _, err = parsePeriod(from); err != nil {
			return p.usage("--from %w", err)
		}
	}
	if to != "" {
		if _, body.Before, err = parsePeriod(to); err != nil {
			return p.usage("--to %w", err)
		}
	}
	return nil
}

// inFlags tells what was refused of a range with the words of the command line; the API has other ones.
func inFlags(err error) error {
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Field != "since" && refused.Field != "before" {
		return err
	}
	told := *refused
	told.Detail = strings.NewReplacer("since:", "--from:", "before:", "--to:", "than before;", "than --to;").Replace(refused.Detail)
	return &told
}

// parsePeriod is where a period begins and ends, in UTC as windows are; an instant is both.
func parsePeriod(text string) (from, to time.Time, err error) {
	for form, last := range map[string]func(time.Time) time.Time{
		"2006":       func(t time.Time) time.Time { return t.AddDate(1, 0, 0) },
		"2006-01":    func(t time.Time) time.Time { return t.AddDate(0, 1, 0) },
		"2006-01-02": func(t time.Time) time.Time { return t.AddDate(0, 0, 1) },
	} {
		if t, err := time.Parse(form, text); err == nil {
			return t, last(t), nil
		}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, t, fmt.Errorf("%q is no period: want 2024, 2024-12, 2024-12-24 or 2024-12-24T18:00:00Z", text)
	}
	return t, t, nil
}

// withHolder adds of a run that keeps another from being accepted whether it is at work, and by when it recovers by itself.
func (p *program) withHolder(ctx context.Context, c *client.Client, err error) error {
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Code != client.CodeRunExists || refused.Holder == nil {
		return err
	}
	why, whyErr := c.WhyRun(ctx, refused.Holder.ID.String())
	if whyErr != nil {
		return err
	}
	words := "it is at work"
	switch e := why.Value; {
	case e.NeedsPerson:
		words = "it waits for a person: " + personNeeded(e)
	case e.Reason != "":
		words = reasonOf(e, time.Now())
	}
	return fmt.Errorf("%w\nrun %s: %s", err, refused.Holder.Alias, words)
}

// accepted answers with a run that was started, or with its end.
func (p *program) accepted(ctx context.Context, c *client.Client, s client.Started, w waiting, limit time.Duration, stay bool) error {
	r := s.Run
	if !stay {
		return p.out.one(r, func(out io.Writer) { writeAccepted(out, s) })
	}
	writeAccepted(p.stderr, s)
	return p.await(ctx, c, r.ID.String(), limit, w.watch)
}

func writeAccepted(out io.Writer, s client.Started) {
	r := s.Run
	word := "202 accepted"
	if s.Replayed {
		word = "202 known already"
	}
	fmt.Fprintf(out, "%s  run %s  %s", word, r.Alias, plural(r.Units, "unit", "units"))
	for _, l := range r.LeftOut {
		fmt.Fprintf(out, "  left out: %s (%s)", l.Source, l.Reason)
	}
	if d := r.Dispatch; d != nil {
		fmt.Fprintf(out, "  wakeup %s %s\ntransport %s %s · follow: towline run watch %s\n", d.Entry, d.State, orDash(d.Transport), transportState(d), r.Alias)
		return
	}
	fmt.Fprintf(out, "  %s\n", r.State)
}

func transportState(d *wire.Dispatch) string {
	if d.Breaker == "" {
		return "ok"
	}
	return fmt.Sprintf("is away since %s: %s; next try in %s, no attempt is used up", clock(d.Since, time.Now()), oneLine(d.Error), span(time.Duration(d.NextTryMS)*time.Millisecond))
}
