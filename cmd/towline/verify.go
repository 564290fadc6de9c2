package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/config"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
)

// verified is what verify has found. It is good if OK says so.
type verified struct {
	OK          bool            `json:"ok"`
	Store       string          `json:"store"`
	Seq         events.Position `json:"seq"` // the log was folded up to here
	Invariants  int             `json:"invariants"`
	Violations  []violation     `json:"violations"`
	Projections string          `json:"projections"` // ok, differ, or not_compared
	Differences []string        `json:"differences"`
	Oracle      []counted       `json:"oracle,omitempty"`
	// Unchecked are the syncs about which no oracle has a word, and why.
	Unchecked []string `json:"unchecked,omitempty"`
}

type violation struct {
	Invariant string          `json:"invariant"`
	Seq       events.Position `json:"seq"`
	Stream    events.StreamID `json:"stream"`
	Text      string          `json:"text"`
}

const (
	projectionsOK     = "ok"
	projectionsDiffer = "differ"
	notCompared       = "not_compared"
)

func (p *program) verifyCommand() *cobra.Command {
	var o oracleOptions
	c := &cobra.Command{
		Use: "verify", Short: "Prove the log and its views, and compare rows with git",
		Long: `Folds the whole log twice, by two folds that share no code, holds every event
against the invariants, and compares all views with both. It works on the store of
a running engine, on a backup and on a copy, and changes nothing. It needs as much
room in the folder for temporary files as the store has.

--oracle git also asks each repository for its commits, and compares them with the
rows of the sink, month by month. While a run goes on, only windows that are done
are compared. Commits that were made since the last run count as missing: the
window is said to have moved.

Exit code 1 if anything is wrong.`,
		Example: "  towline verify\n  towline verify --oracle git --window 2024-03\n  towline verify --db backup/towline.db",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.command = cmd.CommandPath()
			if err := o.check(p); err != nil {
				return err
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			return interrupted(ctx, p.verify(ctx, o))
		},
	}
	f := c.Flags()
	p.dbFlag(f)
	f.StringVar(&o.oracle, "oracle", "", "also compare the rows with what this `ORACLE` says: git")
	f.StringVar(&o.window, "window", "", "with --oracle: only this `WINDOW`, as 2024-03")
	f.StringVar(&o.source, "source", "", "with --oracle: only this `SOURCE`")
	must(c.RegisterFlagCompletionFunc("oracle", cobra.FixedCompletions([]string{"git"}, cobra.ShellCompDirectiveNoFileComp)))
	return c
}

func (p *program) verify(ctx context.Context, o oracleOptions) error {
	var c *config.Config
	if o.oracle != "" {
		var err error
		if c, err = p.load(true); err != nil {
			return err
		}
	}
	return p.reading(ctx, func(r *node.Reader) error {
		v, err := p.proveLog(ctx, r)
		if err == nil && o.oracle != "" {
			err = v.askGit(ctx, c, r, o)
		}
		if err != nil {
			return err
		}
		if err := p.out.one(v, v.text); err != nil {
			return err
		}
		if !v.OK {
			return &exitError{code: exitFailed}
		}
		return nil
	})
}

// proveLog folds the log. A log that cannot be read to its end is an error, with what was found until then.
func (p *program) proveLog(ctx context.Context, r *node.Reader) (verified, error) {
	v := verified{Store: r.Path(), Violations: []violation{}, Differences: []string{}, Projections: projectionsOK}
	head, err := r.Engine().Head(ctx)
	if err != nil {
		return v, err
	}
	told := p.progress("events folded")
	result, err := r.Verify(ctx, func(at events.Position) { told.at(int(at), int(head)) })
	told.over()
	v.take(result)
	if err != nil && len(v.Violations) > 0 {
		err = fmt.Errorf("%w\nuntil then %s: %s", err, v.Violations[0].Invariant, v.Violations[0].Text)
	}
	return v, err
}

func (v *verified) take(result towline.Verification) {
	v.Seq = result.Position
	for _, i := range check.Invariants {
		if i.By == check.ByLog {
			v.Invariants++
		}
	}
	for _, f := range result.Violations {
		v.Violations = append(v.Violations, violation{f.Rule, f.Position, f.Stream, f.Text})
	}
	v.Differences = append(v.Differences, result.Differences...)
	switch {
	case result.NoViews:
		v.Projections = notCompared
	case len(result.Differences) > 0:
		v.Projections = projectionsDiffer
	}
	v.OK = result.OK()
}

// text is for people: one line if all is well.
func (v *verified) text(w io.Writer) {
	log := "ok"
	if n := len(v.Violations); n > 0 {
		log = fmt.Sprintf("FAILED (%s)", plural(n, "violation", "violations"))
	}
	views := fmt.Sprintf("projections = fold at seq %s: ok", grouped(int64(v.Seq)))
	switch v.Projections {
	case projectionsDiffer:
		views = fmt.Sprintf("projections ≠ fold at seq %s: FAILED", grouped(int64(v.Seq)))
	case notCompared:
		views = "projections are those of another release, and were not compared"
	}
	fmt.Fprintf(w, "%d invariants over %s events: %s · %s\n", v.Invariants, grouped(int64(v.Seq)), log, views)
	for _, f := range v.Violations {
		fmt.Fprintf(w, "%s at %d %s: %s\n", f.Invariant, f.Seq, f.Stream, f.Text)
	}
	for _, d := range v.Differences {
		fmt.Fprintln(w, d)
	}
	if v.Oracle != nil {
		oracleText(w, v.Oracle)
	}
	for _, u := range v.Unchecked {
		fmt.Fprintln(w, u)
	}
}

// oracleOptions are what is asked of whom.
type oracleOptions struct{ oracle, window, source string }

func (o oracleOptions) check(p *program) error {
	switch {
	case o.oracle == "" && (o.window != "" || o.source != ""):
		return p.usage("--window and --source choose what an oracle compares: add --oracle git")
	case o.oracle != "" && o.oracle != "git":
		return p.usage("--oracle %s: want git", o.oracle)
	}
	return nil
}
