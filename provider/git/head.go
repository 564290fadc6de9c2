package git

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/towline-dev/towline/provider"
)

// head is the commit of HEAD, and empty only for a repository without any commit. The sink takes away every row of a
// snapshot that is not written again, so "no files" must be true, and git rev-parse says the same of an empty repository
// and of a HEAD that is broken.
func (r *repository) head(ctx context.Context) (string, error) {
	id, err := r.output(ctx, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
	if exitCode(err) == 1 {
		return "", r.headless(ctx)
	}
	return strings.TrimSpace(id), err
}

// headless says why HEAD leads to no commit; nil: there is none to lead to. Errors: configuration for a branch that does
// not exist beside others that do, as in a mirror whose default branch was renamed, or behind git checkout --orphan;
// provider_error for what only a repair can help.
func (r *repository) headless(ctx context.Context) error {
	commits, err := r.hasCommits(ctx)
	if err != nil {
		return err
	}
	branch, err := r.unborn(ctx)
	switch {
	case err != nil:
		return err
	case branch == "":
		return provider.Fail(provider.OtherError, fmt.Errorf(
			"HEAD of %s leads to no commit: run git -C %s fsck, and restore what is missing", r.path, r.path))
	case commits:
		return provider.Fail(provider.Configuration, fmt.Errorf(
			"HEAD of %s names %s, which does not exist: run git -C %s symbolic-ref HEAD refs/heads/NAME with the branch whose files are wanted",
			r.path, branch, r.path))
	}
	return nil
}

// unborn is the branch that HEAD names, if that does not exist; else it is empty.
func (r *repository) unborn(ctx context.Context) (string, error) {
	branch, err := r.output(ctx, "symbolic-ref", "--quiet", "HEAD")
	switch {
	case exitCode(err) == 1:
		return "", nil // it names a commit
	case err != nil:
		return "", err
	}
	branch = strings.TrimSpace(branch)
	_, err = r.output(ctx, "show-ref", "--verify", "--quiet", branch)
	if exitCode(err) == 1 {
		return branch, nil
	}
	return "", err
}

// hasCommits reports whether any ref leads to a commit. It is an error if one leads to nothing that can be read: git
// for-each-ref warns of such a ref, leaves it out and ends well, but git rev-list does not.
func (r *repository) hasCommits(ctx context.Context) (bool, error) {
	out, err := r.output(ctx, "rev-list", "--no-walk=unsorted", "--max-count=1", "--all")
	var exit *exitError
	if errors.As(err, &exit) {
		return false, provider.Fail(provider.OtherError, fmt.Errorf(
			"a ref of %s leads to nothing that can be read: restore or delete the one that git names: %w", r.path, exit))
	}
	return out != "", err
}
