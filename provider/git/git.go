// Package git is the provider of the first job: the history of repositories, month by month. It runs the git program,
// only reads, and never fetches.
//
// What a unit of commits or changes reads depends on the objects of its window alone, never on what is checked out, on
// anyone's configuration, or on what git replace, a graft or a shallow file puts in their place. So an equal fingerprint
// means equal rows, and a second attempt writes what the first did. Two things remain: info/attributes in the git
// directory, which git lets nobody overrule and hardly anyone has, and Options.Mailmap, which says so itself.
//
// Where there are refs of git replace, counts are those of git --no-replace-objects rev-list.
package git

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// Name is the provider's name in buckets and retry policies.
const Name = "git"

// The datasets. Each writes one surface of the same name.
const (
	Refs    = "refs"    // every ref and its target
	Files   = "files"   // the files of HEAD
	Commits = "commits" // one row a commit
	Changes = "changes" // one row for each commit and path; a merge has none
)

// Dataset is what planning must know of a dataset.
type Dataset struct {
	Name     string
	Tier     events.Tier
	Cost     events.Cost
	Calendar events.Calendar // empty: no windows
	Snapshot bool            // every unit reads all there is
	Surfaces []string        // all of them may be written again (RW-5)
}

// Datasets are all datasets, in the order in which a source needs them.
func Datasets() []Dataset {
	return []Dataset{
		{Name: Refs, Tier: events.TierReference, Cost: events.CostLight, Snapshot: true, Surfaces: []string{Refs}},
		{Name: Files, Tier: events.TierReference, Cost: events.CostLight, Snapshot: true, Surfaces: []string{Files}},
		{Name: Commits, Tier: events.TierWorkItem, Cost: events.CostLight, Calendar: events.Month, Surfaces: []string{Commits}},
		{Name: Changes, Tier: events.TierWorkItem, Cost: events.CostHeavy, Calendar: events.Month, Surfaces: []string{Changes}},
	}
}

// Options is what the provider works on. The zero value of every field but Repos is a good choice.
type Options struct {
	// Repos are the repositories by source name. See Discover. A linked worktree is read as git reads it: files are
	// those of its own HEAD.
	Repos map[string]string
	// Refs select what is read, as git rev-list takes it: --all, --branches, --tags, --remotes, each but the first also
	// with =PATTERN, --glob=PATTERN, and --exclude=PATTERN before one of them, never at the end. Empty: --all.
	Refs []string
	// Mailmap maps names and addresses by the .mailmap of HEAD. A change of that file changes no fingerprint, so
	// months that were read before keep the old names until they are read again.
	Mailmap bool
	// TrustOwner reads repositories of other users, which git refuses. It needs git 2.38.
	TrustOwner bool
	// Program is the git to run. Empty: git, from PATH.
	Program string
	// Now is the clock of the progress, which is given once a second at most. Nil: time.Now.
	Now func() time.Time
}

// Provider reads repositories. It is safe for concurrent use.
type Provider struct {
	repos      map[string]string
	refs       []string
	mailmap    bool
	trustOwner bool
	now        func() time.Time
	program    program

	mu     sync.Mutex
	fit    bool // the program is there and new enough
	places map[string]*place
}

var (
	_ provider.Provider = (*Provider)(nil)
	_ provider.Lister   = (*Provider)(nil)
)

// New is a provider of the repositories in o. It runs nothing yet. Errors: a ref selection that is none, or that ends in
// an exclusion.
func New(o Options) (*Provider, error) {
	p := &Provider{
		repos: maps.Clone(o.Repos), refs: o.Refs, mailmap: o.Mailmap, trustOwner: o.TrustOwner, now: o.Now,
		program: program{path: o.Program, env: Environment()}, places: make(map[string]*place),
	}
	for source, path := range p.repos {
		absolute, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("repository %s of source %s: %w", path, source, err)
		}
		p.repos[source] = absolute
	}
	if len(p.refs) == 0 {
		p.refs = []string{"--all"}
	}
	if err := checkSelection(p.refs); err != nil {
		return nil, err
	}
	if p.now == nil {
		p.now = time.Now
	}
	if p.program.path == "" {
		p.program.path = "git"
	}
	return p, nil
}

// checkSelection refuses what is no selection. The last word must select something: git counts an exclusion for the
// words behind it only, so one at the end has no effect, and one alone leaves git without anything to read.
func checkSelection(words []string) error {
	for _, w := range words {
		if !selectsRefs(w) {
			return fmt.Errorf("refs: %q selects no refs: use --all, --branches, --tags, --remotes, --glob=PATTERN or --exclude=PATTERN", w)
		}
	}
	if last := words[len(words)-1]; strings.HasPrefix(last, "--exclude=") {
		return fmt.Errorf("refs: %q excludes from nothing: put --all, --branches, --tags, --remotes or --glob=PATTERN behind it", last)
	}
	return nil
}

// selectsRefs is an allow list, because the words are arguments of a program.
func selectsRefs(word string) bool {
	name, pattern, hasPattern := strings.Cut(word, "=")
	switch name {
	case "--all":
		return !hasPattern
	case "--branches", "--tags", "--remotes":
		return !hasPattern || pattern != ""
	case "--glob", "--exclude":
		return pattern != ""
	}
	return false
}

// Sync does one unit. Beside those of the sink its errors are: not_found for a repository that is gone; configuration
// for one that is refused, with the fix in the text; provider.ErrStopped when the process is stopping and nothing else was
// wrong; the cause of ctx when that was cancelled for another reason, and the error of its deadline; provider_error for
// anything that git says.
func (p *Provider) Sync(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
	result, err := p.sync(ctx, u, s)
	if err == nil {
		return result, nil
	}
	cause := context.Cause(ctx)
	cancelled := ctx.Err() == context.Canceled && (errors.Is(err, context.Canceled) || errors.Is(err, cause))
	switch {
	case cancelled && provider.Stopping(ctx):
		return provider.Result{}, provider.ErrStopped
	case cancelled:
		err = cause // the sink may have said no more than that it was cancelled
	}
	return provider.Result{}, fmt.Errorf("git %s of %s: %w", u.Dataset, u.Source, err)
}

func (p *Provider) sync(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
	read := map[string]func(context.Context, *repository, provider.Unit, sink.Sink) (provider.Result, error){
		Refs: p.syncRefs, Files: p.syncFiles, Commits: p.syncCommits, Changes: p.syncChanges,
	}[u.Dataset]
	if read == nil {
		return provider.Result{}, provider.Fail(provider.Configuration, fmt.Errorf("there is no dataset %q", u.Dataset))
	}
	r, err := p.open(ctx, u.Source)
	if err != nil {
		return provider.Result{}, err
	}
	return read(ctx, r, u, s)
}
