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
func show(ctx context.Context, o options, stdout *printer, stderr io.Writer) (err error) {
	began := time.Now()
	tell := newNarrator(o, stdout, stderr)
	defer tell.clearBar()
	f, err := enter(o.keep)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.leave()) }()
	tell.status("reading the history")
	repo, err := find(ctx, o.repo, f.dir)
	if err != nil {
		return err
	}
	number := rand.New(rand.NewPCG(o.seed, 0)).IntN // choices that can be made again, no secrets
	s := &stage{repo: repo, choices: draw(repo, number), dir: f.dir, tell: tell, report: newReport(repo, o, f.dir)}
	tell.opening(s, o, f.swept)
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

// folder is where the files go.
type folder struct {
	dir   string
	swept bool         // an earlier demo had left something there, which is removed
	leave func() error // in the end
}

// enter makes the folder ready. One that is kept is marked as the demo's own, so that the next demo may begin anew in
// it, and nobody else's files are ever touched.
func enter(keep string) (f folder, err error) {
	if keep == "" {
		f.dir, err = os.MkdirTemp("", "towline-demo-")
		if err != nil {
			return f, &argumentError{fmt.Sprintf("no folder for the files can be made in %s: %v: set TMPDIR to a folder that can be written, or name one with -keep",
				os.TempDir(), causeOf(err))}
		}
		f.leave = func() error { return os.RemoveAll(f.dir) }
		return f, nil
	}
	if f.dir, err = filepath.Abs(keep); err != nil {
		return f, err
	}
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return f, &argumentError{fmt.Sprintf("-keep: %v: name a folder that can be made", err)}
	}
	mark := filepath.Join(f.dir, markName)
	ours, err := isMark(mark)
	if err != nil {
		return f, &argumentError{fmt.Sprintf("-keep: %v: name a folder that can be read", err)}
	}
	for _, name := range []string{filepath.Base(storePath("")), filepath.Base(historyPath("")), madeName, markName} {
		if _, err := os.Lstat(filepath.Join(f.dir, name)); err == nil && !ours {
			return f, &argumentError{fmt.Sprintf("-keep: %s already holds a %s that no demo has made: name another folder", f.dir, name)}
		}
	}
	held, err := os.OpenFile(mark, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return f, &argumentError{fmt.Sprintf("-keep: %v: name a folder that can be written", err)}
	}
	if err := holdFile(held); err != nil {
		return f, errors.Join(err, held.Close())
	}
	f.swept, err = sweep(f.dir)
	if err = errors.Join(err, held.Truncate(0)); err == nil {
		_, err = held.WriteString(markText)
	}
	if err != nil {
		return f, errors.Join(err, held.Close())
	}
	f.leave = func() error { return errors.Join(removeEmpty(childLogPath(f.dir)), held.Close()) }
	return f, nil
}

const (
	markName = "towline-demo"
	markHead = "The Towline demo keeps its files here"
	markText = markHead + ` (demo -keep DIR). The next demo that is told to
keep its files in this folder removes what is listed here first.

towline-demo   this text; a demo that is at work locks it
towline.db     the log, and views of it. towline.db-lock and towline.db-setup keep
               the store for one process
history.db     what was copied: refs, files, commits, changes; and activity, which
               post_sync writes
engine.log     warnings of the engine; missing if there were none
harbour        the repository, where one had to be made
`
)

// isMark reports the mark of a demo: its text, or nothing yet. A program may have the same name.
func isMark(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, int64(len(markHead))))
	return len(head) == 0 || string(head) == markHead, err
}

// causeOf is an error of a file without its operation and path.
func causeOf(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// removeEmpty removes a file in which there is nothing to read.
func removeEmpty(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Size() == 0 {
		err = os.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// sweep removes what an earlier demo has left in its folder, and reports whether there was something.
func sweep(dir string) (swept bool, err error) {
	paths := []string{childLogPath(dir)}
	for _, base := range []string{storePath(dir), historyPath(dir)} {
		for _, suffix := range []string{"", "-wal", "-shm", "-lock", "-setup"} {
			paths = append(paths, base+suffix)
		}
	}
	var errs []error
	for _, path := range paths {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			swept, errs = true, append(errs, err)
		}
	}
	made := filepath.Join(dir, madeName)
	if _, err := os.Lstat(made); err == nil {
		swept, errs = true, append(errs, os.RemoveAll(made))
	}
	return swept, errors.Join(errs...)
}
