package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
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
	tell.status("reading the history")
	repo, err := find(ctx, o.repo, dir)
	if err != nil {
		return err
	}
	number := rand.New(rand.NewPCG(o.seed, 0)).IntN // choices that can be made again, no secrets
	s := &stage{repo: repo, choices: draw(repo, number), dir: dir, tell: tell, report: newReport(repo, o, dir)}
	tell.opening(s, o)
	if err := s.perform(ctx); err != nil {
		return err
	}
	s.report.TookMS = time.Since(began).Milliseconds()
	if o.json {
		if err := s.report.print(stdout); err != nil {
			return fmt.Errorf("print the document: %w", err)
		}
	}
	tell.ending(s, o)
	if !s.report.OK {
		return errReported
	}
	return nil
}

// perform plays and draws the conclusion. What goes wrong on the stage is a problem of the report; an error is of what
// was interrupted.
func (s *stage) perform(ctx context.Context) error {
	err := s.play(ctx)
	if err == nil {
		s.tell.timeline(s)
	}
	// Closed before the store is opened here: to close one descriptor of a file takes away all POSIX locks on it.
	err = errors.Join(err, s.closeLog())
	if err == nil {
		s.tell.oracle(s)
		err = inspect(ctx, s.order(order{}), s.report)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		s.report.problem("%v", err)
		if line := lastLine(s.dir); line != "" {
			s.report.problem("the engine said last: %s", line)
		}
	}
	s.report.judge()
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
	mark := filepath.Join(dir, "towline-demo")
	_, err = os.Lstat(mark)
	ours := err == nil
	for _, name := range []string{filepath.Base(storePath(dir)), filepath.Base(historyPath(dir)), madeName} {
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
	if err := sweep(dir); err != nil {
		return "", nil, errors.Join(err, f.Close())
	}
	return dir, f.Close, nil
}

// sweep removes what an earlier demo has left in its folder.
func sweep(dir string) error {
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
