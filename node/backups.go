package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
)

// Backups say when a running node copies its store by itself.
type Backups struct {
	Every time.Duration // between two copies; zero: none are made
	Dir   string        // where they go; made if missing. Empty: the folder "backup" beside the store
	Keep  int           // how many stay, the newest; zero: 7, negative: all. In a restored hold all do (DUR-5)
}

const keptBackups = 7

func (b Backups) dir(path string) string {
	return cmp.Or(b.Dir, filepath.Join(filepath.Dir(path), "backup"))
}

func (b Backups) check() error {
	if b.Every < 0 {
		return fmt.Errorf("backups: every %s is no time between two: give one, or 0 for none", b.Every)
	}
	return nil
}

// BackupState is how the regular backup of a node fares. The zero BackupState is that of a node that makes none.
type BackupState struct {
	Every  time.Duration `json:"every,omitzero"`
	Newest time.Time     `json:"newest,omitzero"` // when the newest copy in the folder was begun; zero: there is none
	Path   string        `json:"path,omitzero"`   // of it
	Since  time.Time     `json:"since,omitzero"`  // when this process began to look, while there is none; else zero
	// Error is why the last one was not made; empty: it was, or none has been due yet.
	Error string `json:"error,omitzero"`
}

// Overdue reports a backup that should have been made long ago: two times of Every have passed.
func (b BackupState) Overdue(now time.Time) bool {
	return b.Every > 0 && now.Sub(b.Newest) > 2*b.Every && (!b.Newest.IsZero() || b.Error != "")
}

// backups is the loop that makes them.
type backups struct {
	mu    sync.Mutex
	state BackupState
	ahead time.Time // since when a copy with a name of the future is seen, and none of the past behind it
}

// BackupState says how the regular backup fares (Config.Backups).
func (n *Node) BackupState() BackupState {
	n.backups.mu.Lock()
	defer n.backups.mu.Unlock()
	return n.backups.state
}

// BackupAge is how old the newest copy is; while there is none, for how long this process knows that.
func (n *Node) BackupAge() time.Duration {
	b := n.BackupState()
	since := b.Newest
	if since.IsZero() {
		since = b.Since
	}
	if since.IsZero() { // it has not begun to look
		return 0
	}
	return max(n.wall().Sub(since), 0)
}

func (b *backups) note(change func(*BackupState)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.state)
}

// backupAgain is when a backup that failed is tried again: the disk may be full, or a mount away.
const backupAgain = time.Minute

// keepBackups copies the store when the newest copy is as old as Backups.Every, also over restarts, and removes the oldest. A
// failure is logged, shown, and tried again: nothing else waits for it.
func (n *Node) keepBackups(ctx context.Context) error {
	c := n.c.Backups
	if c.Every <= 0 {
		return nil
	}
	n.backups.note(func(s *BackupState) { s.Since = n.wall() })
	timer := time.NewTimer(n.untilBackup(ctx, n.wall()))
	defer timer.Stop()
	unpruned := false // one was made, and old ones could not be removed
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		now := n.wall()
		if wait := n.untilBackup(ctx, now); wait > 0 { // somebody else has made one, or the clock was set back
			if !unpruned {
				n.backups.note(func(s *BackupState) { s.Error = "" })
			}
			timer.Reset(min(wait, c.Every))
			continue
		}
		made, err := n.regularBackup(ctx, now)
		unpruned = made && err != nil
		switch {
		case ctx.Err() != nil, errors.Is(err, towline.ErrStopped):
			return nil
		case errors.Is(err, store.ErrLocked), errors.Is(err, fs.ErrExist): // another node of the store makes it
			timer.Reset(min(backupAgain, c.Every))
		case err != nil:
			n.backups.note(func(s *BackupState) { s.Error = err.Error() })
			n.logger.Error("backup", "error", err)
			timer.Reset(min(backupAgain, c.Every))
		default:
			timer.Reset(n.untilBackup(ctx, n.wall()))
		}
	}
}

func (n *Node) wall() time.Time {
	if n.c.Now != nil {
		return n.c.Now()
	}
	return time.Now()
}

// untilBackup is how long the newest copy lasts. One with a name of the future, of a clock that ran ahead, counts as made when it
// was first seen: so it holds up the next for a whole time between two at most.
func (n *Node) untilBackup(ctx context.Context, now time.Time) time.Duration {
	all, err := sqlite.Backups(ctx, n.store.Path(), n.c.Backups.dir(n.store.Path()))
	made, known := n.backups.newest(all, now)
	n.backups.note(func(s *BackupState) {
		s.Every = n.c.Backups.Every
		if known {
			s.Newest, s.Path, s.Since = made.At, made.Path, time.Time{}
		}
	})
	if err != nil || !known {
		return 0
	}
	return max(made.At.Add(n.c.Backups.Every).Sub(now), 0)
}

// newest is the copy that was made last, with the time at which it was, or was first seen.
func (b *backups) newest(all []sqlite.BackupFile, now time.Time) (newest sqlite.BackupFile, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fromAhead := false
	for _, x := range all {
		if x.At.After(now) {
			fromAhead = true
			if b.ahead.IsZero() || b.ahead.After(now) {
				b.ahead = now
			}
			x.At = b.ahead
		}
		if !known || !x.At.Before(newest.At) {
			newest, known = x, true
		}
	}
	if !fromAhead {
		b.ahead = time.Time{}
	}
	return newest, known
}

// regularBackup makes a backup and removes what is too old. made: it is there, whatever err says.
func (n *Node) regularBackup(ctx context.Context, now time.Time) (made bool, err error) {
	path := n.store.Path()
	dir := n.c.Backups.dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	if err := sqlite.RemoveUnfinished(path, dir); err != nil { // first, for the disk may be full of it
		return false, fmt.Errorf("remove unfinished backups: %w", err)
	}
	began := time.Now()
	c, err := n.Backup(ctx, filepath.Join(dir, sqlite.BackupName(path, now)), BackupOptions{})
	if err != nil {
		return false, err
	}
	n.logger.Info("backed up", "file", c.Path, "position", c.Head, "bytes", c.Bytes, "took", time.Since(began))
	if err := n.removeOld(ctx, dir); err != nil {
		return true, fmt.Errorf("remove old backups: %w", err)
	}
	n.backups.note(func(s *BackupState) { s.Newest, s.Path, s.Since, s.Error = now, c.Path, time.Time{}, "" })
	return true, nil
}

// removeOld removes the oldest backups, but none in a restored hold: those of the earlier life are what a person looks for then.
func (n *Node) removeOld(ctx context.Context, dir string) error {
	if _, held, err := n.engine.Hold(ctx); err != nil || held {
		return err
	}
	removed, err := sqlite.PruneBackups(ctx, n.store.Path(), dir, cmp.Or(n.c.Backups.Keep, keptBackups))
	for _, b := range removed {
		n.logger.Info("removed an old backup", "file", b.Path)
	}
	return err
}
