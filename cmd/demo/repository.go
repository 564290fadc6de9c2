package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/provider/git"
	"github.com/towline-dev/towline/sink"
)

// repository is what the demo copies.
type repository struct {
	path    string // where git is run
	source  string // its name in Towline
	commits int
	periods []provider.Period // of its layout, by start
	layout  layout
	created bool
	notes   []string // what was decided, and why, in sentences
}

// layout is how the history is cut into units.
type layout struct {
	Calendar events.Calendar `json:"calendar"`
	Changes  bool            `json:"changes"` // with the changed lines of every commit
}

func (l layout) has(dataset string) bool { return l.Changes || dataset != git.Changes }

// datasets are those of the provider, with a retry: it declares that their surfaces may be written again.
func (l layout) datasets() []towline.Dataset {
	var out []towline.Dataset
	for _, d := range git.Datasets() {
		if !l.has(d.Name) {
			continue
		}
		window := d.Calendar
		if window != "" {
			window = l.Calendar
		}
		out = append(out, towline.Dataset{
			Name: d.Name, Tier: d.Tier, Cost: d.Cost, Window: window, Snapshot: d.Snapshot, Surfaces: d.Surfaces,
			Retry: towline.Retry{Max: retryMax, Backoff: retryBackoff},
		})
	}
	return out
}

// units is the size of a first run.
func (l layout) units(periods int) int {
	n := 0
	for _, d := range l.datasets() {
		if d.Window == "" {
			n++
			continue
		}
		n += periods
	}
	return n
}

const (
	// maxUnits is plan.max_units, which no plan may pass.
	maxUnits = 1000
	// maxChanged is up to how many commits their changed lines are read too, which is by far the longest part.
	maxChanged = 100_000
)

// choose cuts a history so that the demo ends within minutes and no plan is too large.
func choose(commits, months int, partial bool) (l layout, notes []string) {
	l = layout{Calendar: events.Month, Changes: true}
	switch {
	case partial:
		l.Changes = false
		notes = append(notes, "It is a partial clone, and counting changed lines would fetch what it lacks: the dataset changes is left out.")
	case commits > maxChanged:
		l.Changes = false
		notes = append(notes, "It is large: the dataset changes is left out, so that this ends within minutes.")
	}
	if units := l.units(months); units > maxUnits {
		l.Calendar = events.Year
		notes = append(notes, fmt.Sprintf("Month by month the first run would have %d units, and a run may hold %d: it is cut into years.", units, maxUnits))
	}
	return l, notes
}

// find settles which repository to copy. Without a path it is the one around the working folder; if that cannot be
// read, a small one is made in dir. Errors: *argumentError for a path that was given and cannot be used.
func find(ctx context.Context, path, dir string) (repository, error) {
	if path != "" {
		r, err := open(ctx, path)
		var unfit *unfitError
		if errors.As(err, &unfit) {
			return r, &argumentError{"-repo: " + unfit.Error()}
		}
		return r, err
	}
	r, err := open(ctx, ".")
	var unfit *unfitError
	if !errors.As(err, &unfit) {
		return r, err
	}
	made := filepath.Join(dir, madeName)
	if err := create(ctx, made); err != nil {
		return r, fmt.Errorf("make a repository: %w", err)
	}
	if r, err = open(ctx, made); err != nil {
		return r, fmt.Errorf("open the repository that was made: %w", err)
	}
	r.created = true
	r.notes = append([]string{fmt.Sprintf("Made for this demo, because %s.", unfit.why)}, r.notes...)
	return r, nil
}

// madeName is the folder of a repository that the demo makes.
const madeName = "harbour"

// unfitError says why a repository cannot be copied.
type unfitError struct{ why, fix string }

func (e *unfitError) Error() string { return e.why + ": " + e.fix }

func open(ctx context.Context, path string) (r repository, err error) {
	top, err := top(ctx, path)
	if err != nil {
		return r, err
	}
	found, err := git.Discover(ctx, top)
	if err != nil {
		return r, err
	}
	for source, at := range found { // one, or none
		r.source, r.path = source, at
	}
	if r.path == "" {
		return r, &unfitError{top + " is no git repository", "name one"}
	}
	p, err := git.New(git.Options{Repos: map[string]string{r.source: r.path}})
	if err != nil {
		return r, err
	}
	months, err := p.Periods(ctx, r.source, git.Commits, events.Month, nil)
	if err == nil {
		err = trySnapshots(ctx, p, r.source)
	}
	var refused *provider.Error
	switch {
	case errors.As(err, &refused) && refused.Category == provider.Configuration:
		why, fix, _ := strings.Cut(refused.Err.Error(), ": ")
		return r, &unfitError{why, fix}
	case err != nil:
		return r, err
	case len(months) == 0:
		return r, &unfitError{r.path + " has no commits", "commit something, or name another repository"}
	}
	if r.commits, err = p.CountAll(ctx, r.source); err != nil {
		return r, err
	}
	partial, err := p.Partial(ctx, r.source)
	if err != nil {
		return r, err
	}
	r.layout, r.notes = choose(r.commits, len(months), partial)
	r.periods = months
	if r.layout.Calendar != events.Month {
		r.periods, err = p.Periods(ctx, r.source, git.Commits, r.layout.Calendar, nil)
	}
	return r, err
}

// trySnapshots reads what has no months, and throws it away: a HEAD that names no branch is seen by nothing else, and
// would end the first run in the middle of the show.
func trySnapshots(ctx context.Context, p *git.Provider, source string) error {
	for _, d := range git.Datasets() {
		if !d.Snapshot {
			continue
		}
		u := provider.Unit{Source: source, Dataset: d.Name, Surfaces: d.Surfaces}
		w, err := sink.Discard.Open(ctx, u.Scope())
		if err != nil {
			return err
		}
		_, err = p.Sync(ctx, u, w)
		if err := errors.Join(err, w.Abort()); err != nil {
			return err
		}
	}
	return nil
}

// top is where the repository around a path is, as git says: its main worktree, or the folder of a bare one.
func top(ctx context.Context, path string) (string, error) {
	question := []string{"rev-parse", "--is-shallow-repository", "--path-format=absolute", "--git-common-dir"}
	trusting := append([]string{"-c", "safe.directory=*"}, question...)
	out, err := runGit(ctx, path, nil, trusting...)
	if errors.Is(err, exec.ErrNotFound) {
		return "", &argumentError{"there is no git in the folders of PATH: install git 2.37 or newer"}
	}
	if err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			return "", err
		}
		place, absErr := filepath.Abs(path)
		if absErr != nil {
			place = path
		}
		return "", &unfitError{place + " is in no git repository", "name one"}
	}
	shallow, common, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	place := common
	if filepath.Base(common) == ".git" {
		place = filepath.Dir(common)
	}
	if shallow == "true" {
		return "", &unfitError{place + " is a shallow clone, which lacks history", "run git -C " + place + " fetch --unshallow"}
	}
	if _, err := runGit(ctx, place, nil, question...); err != nil {
		if _, err := runGit(ctx, place, nil, trusting...); err == nil {
			return "", &unfitError{place + " belongs to another user, and git refuses to read it", "run git config --global --add safe.directory " + quoted(place)}
		}
	}
	return place, nil
}

// runGit runs git in a folder, in the environment of the provider: both must see one history. The command may have -c
// NAME=VALUE before it.
func runGit(ctx context.Context, dir string, in io.Reader, args ...string) ([]byte, error) {
	// A bare repository that somebody has named is as explicit as can be.
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "-c", "safe.bareRepository=all"}, args...)...)
	cmd.Env = git.Environment()
	cmd.Stdin = in
	out, err := cmd.Output()
	for args[0] == "-c" {
		args = args[2:]
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		err = fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(exit.Stderr))
	} else if err != nil {
		err = fmt.Errorf("git %s: %w", args[0], err)
	}
	return out, err
}

// create makes a small repository with git: some years of work by several people, with branches, merges and tags. It is
// the same every time, to the last commit id.
func create(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	steps := []struct {
		in   io.Reader
		args []string
	}{
		{nil, []string{"init", "--quiet", "--template=", "--initial-branch=main", "."}},
		{strings.NewReader(history()), []string{"fast-import", "--quiet"}},
		{nil, []string{"reset", "--quiet", "--hard"}},
	}
	for _, s := range steps {
		if _, err := runGit(ctx, dir, s.in, s.args...); err != nil {
			return err
		}
	}
	return nil
}

// Of the history that is made.
const (
	madeCommits = 480
	madeEvery   = 55 * time.Hour // so 480 commits are three years
	madeBranch  = 23             // a branch is merged every so many commits
	madeTag     = 120
)

var (
	madeFirst  = time.Date(2021, 3, 1, 7, 30, 0, 0, time.UTC)
	madePeople = []string{"Ada Quist <ada@harbour.example>", "Béla Imre <bela@harbour.example>", "Chidi Okafor <chidi@harbour.example>", "Dorte Holm <dorte@harbour.example>"}
	madeFiles  = []string{"README.md", "tides.csv", "berths.csv", "src/crane.go", "src/pilot.go", "src/lock.go", "docs/signals.md"}
)

// history is a stream for git fast-import.
func history() string {
	var b strings.Builder
	files := map[string]string{}
	commit := func(n int, branch, subject string, parents ...int) {
		at := madeFirst.Add(time.Duration(n) * madeEvery).Unix()
		who := madePeople[n*n%len(madePeople)]
		fmt.Fprintf(&b, "commit refs/heads/%s\nmark :%d\nauthor %s %d +0100\ncommitter %s %d +0000\ndata %d\n%s\n",
			branch, n, who, at-3600, who, at, len(subject), subject)
		for i, p := range parents {
			fmt.Fprintf(&b, "%s :%d\n", []string{"from", "merge"}[i], p)
		}
		name := madeFiles[n*7%len(madeFiles)]
		files[name] += fmt.Sprintf("%d %s\n", n, subject)
		fmt.Fprintf(&b, "M 100644 inline %s\ndata %d\n%s\n", name, len(files[name]), files[name])
	}
	main := 1
	commit(1, "main", "harbour: first tide table")
	for n := 2; n <= madeCommits; n++ {
		if n%madeBranch == 0 && n+1 <= madeCommits {
			commit(n, "crane", fmt.Sprintf("crane: try load curve %d", n), main)
			commit(n+1, "main", fmt.Sprintf("merge crane %d", n), main, n)
			main, n = n+1, n+1
			continue
		}
		commit(n, "main", fmt.Sprintf("harbour: log day %d", n), main)
		main = n
		if n%madeTag == 0 {
			fmt.Fprintf(&b, "reset refs/tags/v%d\nfrom :%d\n\n", n/madeTag, n)
		}
	}
	return b.String()
}
