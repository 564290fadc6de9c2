package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/towline-dev/towline/store"
)

// place knows the files that this process has open, to see when somebody has taken them away: SQLite goes on writing into
// a file that was deleted or replaced, and what it acknowledges then is gone with the process.
type place struct {
	path string
	wal  bool        // it has one
	db   os.FileInfo // of the first connection
	log  os.FileInfo // the WAL; a new connection may have made a new one
	lock os.FileInfo // <path>-lock: a process that finds another one there does not know of this one
	seen bool        // the files of this connection
	gone error       // for good: what was acknowledged before may be missing in what would be found now
}

// opened looks at the files of a connection that has just read its first page.
func (p *place) opened() (err error) {
	if p.seen {
		return nil
	}
	if p.db == nil {
		if p.db, err = os.Stat(p.path); err != nil {
			err = p.moved(p.path, err)
		}
	} else {
		err = p.same(p.path, p.db)
	}
	if err != nil {
		return err
	}
	p.seen = true
	if p.wal {
		if p.log, err = os.Stat(p.path + "-wal"); err != nil {
			return p.moved(p.path+"-wal", err)
		}
	}
	return nil
}

// check says whether they are still there. It is asked right before each commit, so that a commit that is refused is not
// on disk either, and costs a look-up per file.
func (p *place) check() error {
	if err := p.same(p.path, p.db); err != nil {
		return err
	}
	if p.wal {
		if err := p.same(p.path+"-wal", p.log); err != nil {
			return err
		}
	}
	return p.same(p.path+"-lock", p.lock)
}

func (p *place) same(name string, was os.FileInfo) error {
	is, err := os.Stat(name)
	if err != nil || !os.SameFile(was, is) {
		return p.moved(name, err)
	}
	return nil
}

func (p *place) moved(name string, err error) error {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: look for %s: %w", store.ErrUnavailable, name, err)
	}
	p.gone = fmt.Errorf("%w: %s was deleted, moved or replaced: stop this process, and put the file back before the next start", store.ErrMoved, name)
	return p.gone
}

// checkFile refuses what cannot be a store, or would have more than one lock: the locks go by its name.
func checkFile(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(path + "-wal"); err == nil {
			return fmt.Errorf("%s is missing, and its WAL %s-wal is there: put the file back, or remove the WAL, and with it the last commits", path, path)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	if n := links(info); n > 1 {
		return fmt.Errorf("%s has %d names (hard links), and a store must have one: its WAL and its locks go by the name", path, n)
	}
	return nil
}
