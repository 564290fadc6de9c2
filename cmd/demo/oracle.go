package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
)

// oracle is what git and history.db say of the commits. It shares no code with the provider but the environment of git.
type oracle struct {
	Git        int      `json:"git"`        // git rev-list --all
	Rows       int      `json:"rows"`       // of commits, all of them
	Lost       int      `json:"lost"`       // in git, not in the table
	Doubled    int      `json:"doubled"`    // more than once in the table
	Unexpected int      `json:"unexpected"` // in the table, not in git
	Examples   []string `json:"examples,omitempty"`
}

func (o oracle) holds() bool {
	return o.Git == o.Rows && o.Lost == 0 && o.Doubled == 0 && o.Unexpected == 0
}

// commitsOf lists every commit that a ref reaches.
func commitsOf(ctx context.Context, path string) (map[string]bool, error) {
	out, err := runGit(ctx, path, nil, "rev-list", "--all")
	if err != nil {
		return nil, fmt.Errorf("ask git: %w", err)
	}
	ids := map[string]bool{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		ids[lines.Text()] = true
	}
	return ids, nil
}

// compare holds the rows of a repository against what git says.
func compare(ctx context.Context, ids map[string]bool, history, source string) (o oracle, err error) {
	db, err := openReader(history)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.QueryContext(ctx, `SELECT repo, sha FROM commits`)
	if err != nil {
		return o, fmt.Errorf("read commits: %w", err)
	}
	defer rows.Close()
	o.Git = len(ids)
	seen := map[string]bool{}
	for rows.Next() {
		var repo, sha string
		if err := rows.Scan(&repo, &sha); err != nil {
			return o, fmt.Errorf("read commits: %w", err)
		}
		o.Rows++
		switch {
		case repo != source || !ids[sha]:
			o.Unexpected++
			o.example("unexpected", sha)
		case seen[sha]:
			o.Doubled++
			o.example("doubled", sha)
		}
		seen[sha] = true
	}
	if err := rows.Err(); err != nil {
		return o, fmt.Errorf("read commits: %w", err)
	}
	for id := range ids {
		if !seen[id] {
			o.Lost++
			o.example("lost", id)
		}
	}
	slices.Sort(o.Examples)
	return o, nil
}

// example keeps the first few of what is wrong.
func (o *oracle) example(what, sha string) {
	const most = 20
	if len(o.Examples) < most {
		o.Examples = append(o.Examples, what+" "+sha)
	}
}

// effects counts how often the post_sync action ran for each generation: how many rows a month has of it, at most.
func effects(ctx context.Context, history string) (n map[string]int, err error) {
	db, err := openReader(history)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.QueryContext(ctx, `
SELECT generation, max(n)
FROM (SELECT generation, count(*) AS n FROM activity GROUP BY generation, repo, month)
GROUP BY generation`)
	if err != nil {
		return nil, fmt.Errorf("read activity: %w", err)
	}
	defer rows.Close()
	n = map[string]int{}
	for rows.Next() {
		var generation string
		var times int
		if err := rows.Scan(&generation, &times); err != nil {
			return nil, fmt.Errorf("read activity: %w", err)
		}
		n[generation] = times
	}
	return n, rows.Err()
}

// inspect opens the store once more, without workers, and asks it for a proof of itself and for what is still open.
// It is the last incarnation of the log.
func inspect(ctx context.Context, o order, r *report) (err error) {
	c, err := o.config(nil)
	if err != nil {
		return err
	}
	n, err := node.Open(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	v, err := n.Verify(ctx)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	r.Verify, r.Events = "ok", int(v.Position)
	if !v.OK() {
		r.Verify = "failed"
		for _, violation := range v.Violations {
			r.problem("verify: %v", violation)
		}
		for _, difference := range v.Differences {
			r.problem("verify: %s", difference)
		}
	}
	applied, err := effects(ctx, historyPath(o.Dir))
	if err != nil {
		return err
	}
	return n.Engine().View(ctx, func(view projections.View) error { return r.inspect(view, applied) })
}

// inspect notes every run, and counts what nobody would ever go on with.
func (r *report) inspect(v projections.View, applied map[string]int) error {
	const most = 100
	runs, err := v.Runs(events.RunID{}, most)
	if err != nil {
		return err
	}
	_, now, err := v.Head()
	if err != nil {
		return err
	}
	slices.Reverse(runs)
	for _, run := range runs {
		if !run.Status.Terminal() {
			r.Stranded++
			r.problem("run %s is still %s", run.Run.Short(), run.Status)
		}
		registers, err := v.RegistersOf(run.Run)
		if err != nil {
			return err
		}
		out := runReport{
			Run: run.Run.String(), Mode: string(run.Mode), Status: string(run.Status), Units: run.Total, Succeeded: run.Succeeded,
			Failed: run.Failed, Applied: applied[decider.Generation(run.Run)],
		}
		for _, g := range registers {
			if strands(g, run.Status, now.Time()) {
				r.Stranded++
				r.problem("the wakeup %s/%s#%d is %s, and nothing will move it", run.Run.Short(), g.Kind, g.Current, g.Status)
			}
			if g.Status == decider.RegisterUnresolved {
				r.Unresolved = append(r.Unresolved, fmt.Sprintf("%s/%s#%d", run.Run.Short(), g.Kind, g.Closed))
			}
			for _, o := range g.Outcomes {
				out.PostSync, out.Cause = string(o.Outcome), o.Cause
			}
		}
		r.Runs = append(r.Runs, out)
	}
	return nil
}
