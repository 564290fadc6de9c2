package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/config"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider/git"
	"github.com/towline-dev/towline/sink/sqlite"
)

// counted is what git and the rows say of the commits of one source.
type counted struct {
	Sync       string   `json:"sync"`
	Source     string   `json:"source"`
	Windows    int      `json:"windows"` // that were compared
	Git        int      `json:"git"`     // commits that the refs reach, in the windows that were compared
	Rows       int      `json:"rows"`    // of these windows
	Missing    int      `json:"missing"`
	Doubled    int      `json:"doubled"`
	Unexpected int      `json:"unexpected"`
	Commits    []differ `json:"commits"`            // that are wrong: the first of each kind
	Moved      []string `json:"moved,omitempty"`    // windows that have other commits than when they were last read
	LeftOut    []string `json:"left_out,omitempty"` // windows that are not done, for a run is at them
}

// differ is a commit in which git and the rows differ.
type differ struct {
	Commit string `json:"commit"`
	Is     string `json:"is"` // missing, doubled or unexpected
	Window string `json:"window"`
}

func (c counted) ok() bool { return c.Missing+c.Doubled+c.Unexpected == 0 }

// namedMost is how many commits of each kind are named.
const namedMost = 20

// askGit compares every source of every sync that can be compared.
func (v *verified) askGit(ctx context.Context, c *config.Config, r *node.Reader, o oracleOptions) error {
	b, err := config.Build(ctx, c, config.BuildOptions{NoWorkers: true})
	if err != nil {
		return &configError{err}
	}
	defer func() { _ = b.Close() }() // nothing was written
	v.Oracle = []counted{}
	comparable, known, windows := 0, false, 0
	for _, s := range b.Node.Syncs {
		g, why := newOracle(s, r)
		if why != "" {
			v.Unchecked = append(v.Unchecked, fmt.Sprintf("sync %s is not compared: %s", s.Name, why))
			continue
		}
		comparable++
		for _, source := range s.Sources {
			if o.source != "" && source != o.source {
				continue
			}
			known = true
			one, err := g.compare(ctx, source, o.window)
			if err != nil {
				return fmt.Errorf("oracle git: %s: %w", source, err)
			}
			windows += one.Windows + len(one.LeftOut)
			v.Oracle = append(v.Oracle, one)
			v.OK = v.OK && one.ok()
		}
	}
	switch {
	case comparable == 0:
		return &configError{errNothingToCompare}
	case !known && o.source != "":
		return fmt.Errorf("--source %s: no sync that is compared has it: %w", o.source, towline.ErrNotFound)
	case windows == 0 && o.window != "":
		return fmt.Errorf("--window %s: neither git nor the rows have a commit in it: %w", o.window, towline.ErrNotFound)
	}
	return nil
}

// oracle compares one sync.
type oracle struct {
	sync     node.Sync
	calendar events.Calendar
	provider *git.Provider
	rows     *sqlite.Destination
	reader   *node.Reader
}

// newOracle says why a sync cannot be compared, if it cannot.
func newOracle(s node.Sync, r *node.Reader) (*oracle, string) {
	g := &oracle{sync: s, reader: r}
	var ok bool
	if g.provider, ok = s.Provider.(*git.Provider); !ok {
		return nil, "it does not read git"
	}
	if g.rows, ok = s.Sink.(*sqlite.Destination); !ok {
		return nil, "its sink is not sqlite"
	}
	i := slices.IndexFunc(s.Datasets, func(d towline.Dataset) bool { return d.Name == git.Commits })
	if i < 0 {
		return nil, "it has no dataset commits"
	}
	g.calendar = s.Datasets[i].Window
	return g, ""
}

// windows are those of which something was read, by name.
type windows map[string]*git.Digest

func (w windows) at(name string) *git.Digest {
	d := w[name]
	if d == nil {
		d = new(git.Digest)
		w[name] = d
	}
	return d
}

// compare counts the commits of each window and XORs their ids, in git and in the rows. Commits are named only of windows in
// which that differs, so a history of any size that is right needs no memory.
func (g *oracle) compare(ctx context.Context, source, only string) (counted, error) {
	out := counted{Sync: g.sync.Name, Source: source, Commits: []differ{}}
	before, err := g.work(ctx, source)
	if err != nil {
		return out, err
	}
	inGit, inRows, strange := windows{}, windows{}, map[string]bool{}
	err = g.eachCommit(ctx, source, only, func(sha, window string) error { return inGit.at(window).Add(sha) })
	if err != nil {
		return out, err
	}
	err = g.eachRow(ctx, source, only, func(sha, window string) {
		if inRows.at(window).Add(sha) != nil {
			strange[window] = true // it is no commit id
		}
	})
	if err != nil {
		return out, err
	}
	after, err := g.work(ctx, source)
	if err != nil {
		return out, err
	}
	different := map[string]bool{}
	for _, window := range namesOf(inGit, inRows) {
		if !before.done(window) || !after.done(window) {
			out.LeftOut = append(out.LeftOut, window)
			continue
		}
		out.Windows++
		fromGit, fromRows := inGit.at(window), inRows.at(window)
		out.Git += fromGit.Commits()
		out.Rows += fromRows.Commits()
		if read, known := after.covered[window]; known && read != fromGit.String() {
			out.Moved = append(out.Moved, window)
		}
		different[window] = strange[window] || fromGit.String() != fromRows.String()
	}
	return out, g.name(ctx, source, only, different, &out)
}

// name finds the commits in which windows differ. A row is right in whatever window it lies.
func (g *oracle) name(ctx context.Context, source, only string, different map[string]bool, out *counted) error {
	seen := map[string]int{} // of git's commits, how often the rows have them
	at := map[string]string{}
	err := g.eachCommit(ctx, source, only, func(sha, window string) error {
		if different[window] {
			seen[sha], at[sha] = 0, window
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = g.eachRow(ctx, source, only, func(sha, window string) {
		if !different[window] {
			return
		}
		_, known := seen[sha]
		switch {
		case !known:
			out.note(&out.Unexpected, differ{sha, "unexpected", window})
		case seen[sha] > 0:
			out.note(&out.Doubled, differ{sha, "doubled", window})
		}
		if known {
			seen[sha]++
		}
	})
	if err != nil {
		return err
	}
	var missing []differ
	for sha, n := range seen {
		if n == 0 {
			missing = append(missing, differ{sha, "missing", at[sha]})
		}
	}
	slices.SortFunc(missing, func(a, b differ) int { return strings.Compare(a.Window+a.Commit, b.Window+b.Commit) })
	for _, d := range missing {
		out.note(&out.Missing, d)
	}
	return nil
}

// note counts a commit, and names it if few of its kind were named.
func (c *counted) note(n *int, d differ) {
	if *n++; *n <= namedMost {
		c.Commits = append(c.Commits, d)
	}
}

func (g *oracle) eachCommit(ctx context.Context, source, only string, f func(sha, window string) error) error {
	return g.provider.EachCommit(ctx, source, g.calendar, func(id string, w events.Window) error {
		if name := w.Name(); only == "" || name == only {
			return f(id, name)
		}
		return nil
	})
}

func (g *oracle) eachRow(ctx context.Context, source, only string, f func(sha, window string)) error {
	db, err := g.rows.DB(ctx)
	if err != nil {
		return err
	}
	rows, err := db.QueryContext(ctx, `SELECT sha, window FROM commits WHERE repo = $1`, source)
	if err != nil {
		return fmt.Errorf("read the commits in %s: %w", g.rows.Path(), err)
	}
	defer rows.Close()
	for rows.Next() {
		var sha string
		var window sql.NullString
		if err := rows.Scan(&sha, &window); err != nil {
			return fmt.Errorf("read the commits in %s: %w", g.rows.Path(), err)
		}
		if only == "" || window.String == only {
			f(sha, window.String)
		}
	}
	return rows.Err()
}

// atWork is what the store says of the windows of a source.
type atWork struct {
	running bool // a run of the sync is open
	covered map[string]string
	undone  map[string]bool // windows of units of open runs that have not succeeded
}

// done: while a run goes on a window is, of which a unit has succeeded, and none is to come. Without one all are: what
// the last run has not brought is missing.
func (w atWork) done(window string) bool {
	_, covered := w.covered[window]
	return !w.running || covered && !w.undone[window]
}

func (g *oracle) work(ctx context.Context, source string) (atWork, error) {
	w := atWork{covered: map[string]string{}, undone: map[string]bool{}}
	err := g.reader.Engine().View(ctx, func(v projections.View) error {
		periods, err := v.Covered(source, git.Commits)
		if err != nil {
			return err
		}
		for _, p := range periods {
			w.covered[p.Window.Name()] = p.Fingerprint
		}
		const page = 1000
		for after := (events.RunID{}); ; {
			runs, err := v.OpenRuns(after, page)
			if err != nil || len(runs) == 0 {
				return err
			}
			for _, run := range runs {
				after = run.Run
				if run.Sync != g.sync.Name {
					continue
				}
				w.running = true
				if err := w.add(v, run.Run, source); err != nil {
					return err
				}
			}
		}
	})
	return w, err
}

// add takes note of what an open run has not brought.
func (w *atWork) add(v projections.View, run events.RunID, source string) error {
	const page = 1000
	for after := 0; ; {
		units, err := v.Units(run, after, page)
		if err != nil || len(units) == 0 {
			return err
		}
		for _, u := range units {
			after = u.Ordinal
			if u.Source == source && u.Dataset == git.Commits && u.Status != events.UnitHasSucceeded {
				w.undone[u.Window.Name()] = true
			}
		}
	}
}

func namesOf(all ...windows) []string {
	var names []string
	for _, w := range all {
		for name := range w {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// oracleText is the line about all sources, and below it what is wrong and what was left out.
func oracleText(w io.Writer, all []counted) {
	var parts []string
	var sum counted
	for _, c := range all {
		parts = append(parts, fmt.Sprintf("%s %d/%d", c.Source, c.Rows, c.Git))
		sum.Missing, sum.Doubled, sum.Unexpected = sum.Missing+c.Missing, sum.Doubled+c.Doubled, sum.Unexpected+c.Unexpected
	}
	parts = append(parts, fmt.Sprintf("missing %d", sum.Missing), fmt.Sprintf("doubled %d", sum.Doubled), fmt.Sprintf("unexpected %d", sum.Unexpected))
	fmt.Fprintf(w, "oracle git: %s\n", strings.Join(parts, " · "))
	for _, c := range all {
		for _, d := range c.Commits {
			fmt.Fprintf(w, "%s %s  %s/%s\n", d.Is, d.Commit, c.Source, d.Window)
		}
		if more := c.Missing + c.Doubled + c.Unexpected - len(c.Commits); more > 0 {
			fmt.Fprintf(w, "and %d more of %s\n", more, c.Source)
		}
		if len(c.Moved) > 0 && !c.ok() {
			fmt.Fprintf(w, "%s has changed since it was read, in %s: the next run brings it\n", c.Source, someOf(c.Moved))
		}
		if len(c.LeftOut) > 0 {
			fmt.Fprintf(w, "%s is not compared in %s: a run is at it\n", c.Source, someOf(c.LeftOut))
		}
	}
}

// someOf are the first few names of many.
func someOf(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

var errNothingToCompare = errors.New("no sync reads git and writes commits to a sink of sqlite: there is nothing that git could be compared with")
