package config

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/provider/git"
	"github.com/towline-dev/towline/sink/sqlite"
)

// makeGit looks for the repositories, and makes each a source.
func makeGit(ctx context.Context, b *building, s Sync) (parts, error) {
	paths, err := b.repositories(s)
	if err != nil {
		return parts{}, err
	}
	found, err := git.Discover(ctx, paths...)
	if err != nil {
		return parts{}, fmt.Errorf("look for repositories: %w", err)
	}
	if len(found) == 0 {
		return parts{}, fmt.Errorf("repos: there is no git repository in %s", strings.Join(s.Git.Repos, ", "))
	}
	p, err := git.New(git.Options{Repos: found, Refs: s.Git.Refs, Mailmap: s.Git.Mailmap, TrustOwner: s.Git.TrustOwner})
	if err != nil {
		return parts{}, err
	}
	out := parts{provider: p, sources: sortedKeys(found), closed: true}
	for _, d := range git.Datasets() {
		out.datasets = append(out.datasets, towline.Dataset{
			Name: d.Name, Tier: d.Tier, Cost: d.Cost, Window: d.Calendar, Snapshot: d.Snapshot, Surfaces: d.Surfaces,
		})
	}
	for _, t := range git.Tables() {
		out.tables = append(out.tables, sqlite.Table{Name: t.Name, Columns: t.Columns, Key: t.Key, Source: t.Source, Window: t.Window})
	}
	return out, nil
}

// repositories are the folders that match repos and not exclude. One that is named without a pattern and is not there gets
// a note: its units are held until it is back.
func (b *building) repositories(s Sync) ([]string, error) {
	var paths []string
	for _, pattern := range s.Git.Repos {
		matches, err := filepath.Glob(b.c.resolve(b.home(), pattern))
		if err != nil {
			return nil, fmt.Errorf("repos: %q is no pattern: %w", pattern, err)
		}
		if len(matches) == 0 {
			b.note("sync %q: nothing is at %s", s.Name, pattern)
		}
		paths = append(paths, matches...)
	}
	var wrong error
	paths = slices.DeleteFunc(paths, func(path string) bool {
		for _, pattern := range s.Git.Exclude {
			out, err := b.excluded(path, pattern)
			if err != nil && wrong == nil {
				wrong = fmt.Errorf("exclude: %q is no pattern: %w", pattern, err)
			}
			if out {
				return true
			}
		}
		return false
	})
	return paths, wrong
}

// excluded: a pattern without a folder is one of names.
func (b *building) excluded(path, pattern string) (bool, error) {
	if !strings.ContainsRune(pattern, '/') && !strings.ContainsRune(pattern, filepath.Separator) {
		return filepath.Match(pattern, filepath.Base(path))
	}
	return filepath.Match(b.c.resolve(b.home(), pattern), path)
}
