package git

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/towline-dev/towline/provider"
)

// Discover finds the repositories among paths, and gives each a source name: what Options.Repos takes. A path that is
// no repository is left out, so the matches of a pattern can be given as they are. Linked worktrees, symlinks and
// paths that are given twice are one repository, which goes by its common git directory, and so by the HEAD of its main
// worktree.
//
// A name is that of the repository's folder. It depends on nothing else, so it survives a restart, a new neighbour and
// a move of the folder's parents. If two repositories have the same folder name, both names start with that of the
// folder above, and if this does not help, end in a number made from the path: none of them keeps the plain name, which
// would pass from one repository to the other when a third turns up.
func Discover(ctx context.Context, paths ...string) (map[string]string, error) {
	g := program{path: "git", env: Environment()}
	if err := g.checkVersion(ctx); err != nil {
		return nil, err
	}
	tops := make(map[string]string) // by common git directory
	for _, path := range paths {
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("repository: %w", err)
		}
		// Whose it is does not matter yet: nothing of the repository is run here, and the plan says what git refuses.
		found, err := g.locate(ctx, path, true)
		switch {
		case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
			return nil, err
		case provider.CategoryOf(err) == provider.NotFound && err != nil:
			continue
		case err != nil:
			tops[path] = path // git cannot read it: the plan will say why
			continue
		}
		tops[found.common] = top(found.common)
	}
	return named(tops), nil
}

// top is the path by which a repository is opened: its main worktree, if there is one, because safe.directory is
// written with that.
func top(dir string) string {
	if filepath.Base(dir) == ".git" {
		return filepath.Dir(dir)
	}
	return dir
}

func named(tops map[string]string) map[string]string {
	plain := count(tops, plainName)
	longer := count(tops, longerName)
	out := make(map[string]string, len(tops))
	for dir, path := range tops {
		name := plainName(dir)
		if plain[name] > 1 {
			name = longerName(dir)
			if longer[name] > 1 || plain[name] > 0 {
				name = fmt.Sprintf("%s-%08x", name, number(dir))
			}
		}
		out[name] = path
	}
	return out
}

func count(tops map[string]string, name func(string) string) map[string]int {
	n := make(map[string]int)
	for dir := range tops {
		n[name(dir)]++
	}
	return n
}

// plainName is the name of the folder: of the worktree of DIR/.git and DIR/.bare, else of the git directory itself.
func plainName(dir string) string {
	base := filepath.Base(dir)
	if base == ".git" || base == ".bare" {
		base = filepath.Base(filepath.Dir(dir))
	}
	return tidy(strings.TrimSuffix(base, ".git"))
}

func longerName(dir string) string {
	parent := filepath.Dir(dir)
	if base := filepath.Base(dir); base == ".git" || base == ".bare" {
		parent = filepath.Dir(parent)
	}
	return tidy(filepath.Base(parent)) + "-" + plainName(dir)
}

// tidy keeps what is safe in RUN:source/dataset/window and in a shell.
func tidy(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, strings.ToValidUTF8(name, "-"))
	if name = strings.Trim(name, "-."); name == "" {
		return "repository"
	}
	return name
}

func number(dir string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(dir))
	return h.Sum32()
}
