package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/towline-dev/towline/provider"
)

// oldest is the oldest git that is read with: the first whose --since-as-filter selects by date without losing commits
// whose dates are out of order, which is the rule that the units are held to.
const oldest = "2.37"

// repository is one that was found fit to be read.
type repository struct {
	path string // as configured
	dir  string // its git directory; of a linked worktree its own, which has its HEAD
	git  program
}

// open looks at the repository of a source. It is done before every read: a repository can vanish, or become shallow,
// between two units.
func (p *Provider) open(ctx context.Context, source string) (*repository, error) {
	path, ok := p.repos[source]
	if !ok {
		return nil, provider.Fail(provider.Configuration, fmt.Errorf("no repository is configured for source %q", source))
	}
	if err := p.checkProgram(ctx); err != nil {
		return nil, err
	}
	found, err := p.program.locate(ctx, path, p.trustOwner)
	if err != nil {
		return nil, err
	}
	if found.shallow {
		return nil, provider.Fail(provider.Configuration, fmt.Errorf(
			"%s is a shallow clone, which lacks history: run git -C %s fetch --unshallow", path, path))
	}
	return &repository{path: path, dir: found.dir, git: p.program.at(found.dir)}, nil
}

// at is the program for one repository. The directory is given and not searched for, and no configuration but the
// repository's own applies: that of the user was asked by locate, for safe.directory. The work tree is set to the git
// directory, so that no .gitattributes of a checkout decides what counts as binary.
func (g program) at(dir string) program {
	env := append(g.env[:len(g.env):len(g.env)],
		"GIT_DIR="+dir, "GIT_WORK_TREE="+dir, "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_SHALLOW_FILE=") // none: a clone that becomes shallow behind open lacks commits, and that is an error of git
	return program{path: g.path, env: env}
}

// overridden is what the repository's configuration may not say: all that decides which files count as binary. attr.tree
// is known from git 2.43 on, and means nothing to an older one.
var overridden = []string{
	"-c", "core.attributesFile=" + os.DevNull, "-c", "attr.tree=", "-c", "diff.default.binary=auto", "-c", "core.bigFileThreshold=512m",
}

// run runs git in the repository.
func (r *repository) run(ctx context.Context, c command, read func(io.Reader) error) error {
	c.global = slices.Concat([]string{"-C", r.dir}, overridden, c.global)
	return r.explain(r.git.run(ctx, c, read))
}

func (r *repository) output(ctx context.Context, args ...string) (string, error) {
	var out []byte
	err := r.run(ctx, command{args: args}, func(rd io.Reader) (err error) {
		out, err = io.ReadAll(rd)
		return err
	})
	return string(out), err
}

// explain gives a failure of git its category. A repository that is deleted while git reads it makes git fail in many
// ways, so the question is whether it is still there, not what git said (E-1).
func (r *repository) explain(err error) error {
	var exit *exitError
	if !errors.As(err, &exit) {
		return err
	}
	if !isRepository(r.dir) {
		return gone(r.path)
	}
	return provider.Fail(provider.OtherError, err)
}

func gone(path string) error {
	return provider.Fail(provider.NotFound, fmt.Errorf("there is no git repository at %s: restore it, or remove it from the configuration", path))
}

// Partial reports whether a source is a clone without some of its objects, which git would fetch. Where the datasets
// Changes and Files need those, they refuse with a configuration error.
func (p *Provider) Partial(ctx context.Context, source string) (bool, error) {
	r, err := p.open(ctx, source)
	if err != nil {
		return false, err
	}
	return r.partial(ctx)
}

func (r *repository) partial(ctx context.Context) (bool, error) {
	out, err := r.output(ctx, "config", "--null", "--get-regexp", `^(extensions\.partialclone|remote\..*\.(promisor|partialclonefilter))$`)
	if exitCode(err) == 1 {
		return false, nil // nothing is set
	}
	return out != "", err
}

// wouldFetch refuses to read what a partial clone lacks. cause is what git said; nil if it was not asked.
func (r *repository) wouldFetch(what, otherwise string, cause error) error {
	err := fmt.Errorf("%s is a partial clone, and %s would fetch what it lacks: clone it without --filter, or %s", r.path, what, otherwise)
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return provider.Fail(provider.Configuration, err)
}

// location is a repository on disk.
type location struct {
	dir     string // git directory, without symlinks
	common  string // the one of them that holds objects and branches: the same for every linked worktree
	shallow bool
}

// locate asks git about the repository whose top is at path. Errors: not_found; configuration if git refuses the
// owner.
func (g program) locate(ctx context.Context, path string, trustOwner bool) (location, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return location{}, gone(path)
	case err != nil:
		return location{}, provider.Fail(provider.Configuration, fmt.Errorf("repository: %w", err))
	case !info.IsDir():
		return location{}, gone(path)
	}
	found, err := g.revParse(ctx, path, trustOwner)
	var exit *exitError
	if !errors.As(err, &exit) {
		return found, err
	}
	if !isRepository(filepath.Join(path, ".git")) && !isRepository(path) {
		return location{}, gone(path)
	}
	if !trustOwner {
		// git says "dubious ownership" in words only. If it has no complaint when the owner is trusted, that was it.
		if _, err := g.revParse(ctx, path, true); err == nil {
			return location{}, provider.Fail(provider.Configuration, fmt.Errorf(
				"%s belongs to another user and git refuses it: run git config --global --add safe.directory %s, or set trust_owner: true", path, path))
		}
	}
	return location{}, provider.Fail(provider.OtherError, err)
}

func (g program) revParse(ctx context.Context, path string, trustOwner bool) (location, error) {
	// A bare repository that is named in the configuration is as explicit as can be.
	global := []string{"-C", path, "-c", "safe.bareRepository=all"}
	if trustOwner {
		global = append(global, "-c", "safe.directory=*")
	}
	// The path comes last, since it alone may hold anything.
	args := []string{"rev-parse", "--is-shallow-repository", "--show-prefix", "--path-format=absolute", "--git-dir"}
	out, err := g.output(ctx, command{global: global, args: args})
	if err != nil {
		return location{}, err
	}
	shallow, rest, _ := strings.Cut(out, "\n")
	prefix, dir, _ := strings.Cut(rest, "\n")
	if prefix != "" {
		return location{}, gone(path) // git went up and found the repository around it
	}
	found := location{shallow: shallow == "true"}
	found.dir, err = filepath.EvalSymlinks(strings.TrimSuffix(dir, "\n"))
	if err == nil {
		found.common, err = filepath.EvalSymlinks(commonDir(found.dir))
	}
	if err != nil {
		return location{}, provider.Fail(provider.OtherError, fmt.Errorf("git directory of %s: %w", path, err))
	}
	return found, nil
}

// commonDir is where a git directory says that its objects and branches are: in the file commondir, which only that of
// a linked worktree has (gitrepository-layout).
func commonDir(dir string) string {
	link, err := os.ReadFile(filepath.Join(dir, "commondir"))
	if err != nil {
		return dir
	}
	common := strings.TrimSuffix(string(link), "\n")
	if filepath.IsAbs(common) {
		return common
	}
	return filepath.Join(dir, common)
}

// isRepository reports a git directory, or a .git file that leads to one, by what git itself requires of them.
func isRepository(path string) bool {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		if filepath.Base(path) != ".git" {
			return false
		}
		link, err := os.ReadFile(path)
		if err != nil {
			return true // it is there, and git will say what is wrong with it
		}
		dir, ok := strings.CutPrefix(strings.TrimSpace(string(link)), "gitdir: ")
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(filepath.Dir(path), dir)
		}
		_, err = os.Stat(dir)
		return ok && err == nil
	}
	for _, part := range []string{filepath.Join(path, "HEAD"), filepath.Join(commonDir(path), "objects")} {
		if _, err := os.Lstat(part); err != nil {
			return false
		}
	}
	return true
}

// checkProgram looks once whether git is there and new enough.
func (p *Provider) checkProgram(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fit {
		return nil
	}
	if err := p.program.checkVersion(ctx); err != nil {
		return err
	}
	p.fit = true
	return nil
}

func (g program) checkVersion(ctx context.Context) error {
	out, err := g.output(ctx, command{args: []string{"version"}})
	if err != nil {
		return err
	}
	var major, minor int
	if _, err := fmt.Sscanf(out, "git version %d.%d", &major, &minor); err != nil {
		return provider.Fail(provider.Configuration, fmt.Errorf("%s is no git: it says %.60q", g.path, out))
	}
	if major < 2 || major == 2 && minor < 37 {
		return provider.Fail(provider.Configuration, fmt.Errorf(
			"git %d.%d is too old: install git %s or newer", major, minor, oldest))
	}
	return nil
}
