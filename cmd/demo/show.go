package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/towline-dev/towline/events"
)

// show is the demo. Errors: of arguments; of the world; errReported when it came to its end and something is wrong.
func show(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	began := time.Now()
	tell := newNarrator(o.json, stdout, stderr)
	defer tell.clearBar()
	dir, leave, err := folder(o.keep)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	repo, err := find(ctx, o.repo, dir)
	if err != nil {
		return err
	}
	number := rand.New(rand.NewPCG(o.seed, 0)).IntN // choices that can be made again, no secrets
	r := &report{
		Seed: o.seed, Verify: "failed",
		Repository: repositoryReport{
			Path: repo.path, Created: repo.created, Commits: repo.commits, Window: string(repo.layout.Calendar), Windows: len(repo.periods),
		},
	}
	if o.keep != "" {
		r.Dir = dir
	}
	s := &stage{repo: repo, choices: draw(repo, number), dir: dir, tell: tell, report: r}
	tell.opening(s, o)
	playErr := s.play(ctx)
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), s.closeLog())
	}
	if playErr != nil {
		r.problem("%v", playErr)
		if line := lastLine(dir); line != "" {
			r.problem("the engine said last: %s", line)
		}
	} else {
		tell.timeline(s)
	}
	// Closed before the store is opened here: to close one descriptor of a file takes away all POSIX locks on it.
	if err := s.closeLog(); err != nil {
		return err
	}
	if playErr == nil {
		tell.oracle(s)
		if err := inspect(ctx, s.order(order{}), r); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			r.problem("%v", err)
		}
	}
	r.judge()
	r.TookMS = time.Since(began).Milliseconds()
	if o.json {
		if err := r.print(stdout); err != nil {
			return fmt.Errorf("print the document: %w", err)
		}
	} else {
		tell.ending(s, o)
	}
	if !r.OK {
		return errReported
	}
	return nil
}

func (s *stage) closeLog() error {
	if s.log == nil {
		return nil
	}
	return s.log.close()
}

// folder is where the files go, and how to leave it. A folder that is kept is marked as the demo's own, so that the next
// demo may begin anew in it, and nobody else's files are ever touched.
func folder(keep string) (dir string, leave func() error, err error) {
	if keep == "" {
		dir, err = os.MkdirTemp("", "towline-demo-")
		return dir, func() error { return os.RemoveAll(dir) }, err
	}
	if dir, err = filepath.Abs(keep); err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, &argumentError{fmt.Sprintf("-keep: %v: name a folder that can be made", err)}
	}
	mark := filepath.Join(dir, "demo.json")
	ours := true
	if _, err := os.Stat(mark); errors.Is(err, fs.ErrNotExist) {
		ours = false
	}
	for _, name := range []string{"towline.db", "history.db", madeName} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil && !ours {
			return "", nil, &argumentError{fmt.Sprintf("-keep: %s already holds a %s that no demo has made: name another folder", dir, name)}
		}
	}
	f, err := os.OpenFile(mark, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", nil, err
	}
	if err := holdFile(f); err != nil {
		return "", nil, errors.Join(err, f.Close())
	}
	if err := errors.Join(clear(dir), json.NewEncoder(f).Encode(map[string]string{"made_by": "towline demo"})); err != nil {
		return "", nil, errors.Join(err, f.Close())
	}
	return dir, f.Close, nil
}

// clear removes what an earlier demo has left in its folder.
func clear(dir string) error {
	var errs []error
	for _, base := range []string{storePath(dir), historyPath(dir)} {
		for _, suffix := range []string{"", "-wal", "-shm", "-lock", "-setup"} {
			if err := os.Remove(base + suffix); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	if err := os.Remove(childLogPath(dir)); !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, os.RemoveAll(filepath.Join(dir, madeName)))...)
}

// runName is a run as people know it.
func runName(id events.RunID) string { return id.Short() }
