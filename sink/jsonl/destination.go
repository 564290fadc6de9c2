// Package jsonl is the sink into a folder of files with a JSON object on each line. Each window of a surface is a file:
//
//	out/readings/harbour/2024-03-01.jsonl
//	{"source":"harbour","key":"00:10","window":"2024-03-01","data":{"tide_cm":312}}
//
//	cat out/readings/harbour/*.jsonl | jq .data
//
// A file is always whole: it is what one attempt has put, and is replaced by the next attempt at its window. A window
// without rows has no file. A commit at a window removes the files of windows that lie inside of it, for it has read what
// they hold anew; a unit without a window start replaces its whole source. A key that was put in two windows is in both
// files, and the one of the later window counts:
//
//	cat out/readings/*/*.jsonl | jq -cs 'group_by([.source, .key]) | map(max_by(.window)) | .[]'
//
// The folder _towline holds the records of the sink and may be read by anyone. _towline/datasets/DATASET/SOURCE has a
// record for each window: its fence, and its files with their rows and SHA-256. A dataset of a source belongs to the
// Towline store that has written it; another one is refused with sink.ErrForeign, unless the folder is opened with
// TakeOver.
//
// An attempt gathers its rows in a file without a name, so a killed process leaves nothing behind, and keeps about a
// hundred bytes for each key in memory. Commit writes them to new files, syncs these, and then writes one journal,
// _towline/pending.json, which says what belongs where. With it the attempt is committed, all surfaces, fence and state
// together; the files are moved to their places behind it. Where not even the first can be moved, the attempt is taken
// back. Where a process dies in between, the next Open or Commit goes on; until then a person may see the old file of one
// surface beside the new one of another.
package jsonl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/towline-dev/towline/sink"
)

// Destination is one folder. It is safe for concurrent use, and several processes of one machine may write to it. It must
// not lie on a network file system: the locks of such are not to be relied upon.
type Destination struct {
	dir      string
	now      func() time.Time
	wait     time.Duration
	takeOver bool
	broken   error // a mistake in the path; every call answers with it

	// turn lets one writer of this process at a time to the lock of the folder. The others wait here, in order.
	turn chan struct{}
	// step is told of each change of the disk before it is made. It is for tests, which end the process there.
	step func(change string)
}

// Option changes what Dir makes.
type Option func(*Destination)

// Now sets the clock of committed_at. The default is time.Now.
func Now(now func() time.Time) Option { return func(d *Destination) { d.now = now } }

// Wait sets how long a commit waits for another process that is committing. The default is 30 s; a context that ends
// earlier ends it earlier.
func Wait(wait time.Duration) Option { return func(d *Destination) { d.wait = wait } }

// TakeOver lets a store go on where another one has written. What the other left of a dataset, or a store that is not
// known, counts as older than anything of this one. The default is to refuse, with sink.ErrForeign.
//
// It is for the heir of a store that is gone for good: lost, deleted, or begun anew on purpose. Do not use it while the
// other store lives. Where this store has written already it does nothing, so it may stay set.
func TakeOver() Option { return func(d *Destination) { d.takeOver = true } }

// Dir is the destination in the folder at path. It touches nothing: the folder is made by the first Open, in a folder that
// is there.
func Dir(path string, opts ...Option) *Destination {
	d := &Destination{now: time.Now, wait: 30 * time.Second, turn: make(chan struct{}, 1), step: func(string) {}}
	d.dir, d.broken = filepath.Abs(path) // a program may change its folder later
	for _, o := range opts {
		o(d)
	}
	return d
}

// Path is the absolute path of the folder.
func (d *Destination) Path() string { return d.dir }

// Fenced reports that an older attempt is refused under the lock of the write.
func (d *Destination) Fenced() bool { return true }

// Open begins one attempt at one scope. Errors: one that wraps sink.ErrFenced or sink.ErrForeign; a name that cannot be
// one of a file.
func (d *Destination) Open(ctx context.Context, s sink.Scope) (sink.Writer, error) {
	w, err := d.open(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", d.dir, err)
	}
	return w, nil
}

func (d *Destination) open(ctx context.Context, s sink.Scope) (*writer, error) {
	if d.broken != nil {
		return nil, d.broken
	}
	if s.Fence == "" || s.Source == "" || s.Dataset == "" {
		return nil, fmt.Errorf("source %q, dataset %q and fence %q must all be given", s.Source, s.Dataset, s.Fence)
	}
	if d.takeOver && s.Store == "" {
		return nil, errors.New("TakeOver needs a scope that names its store, else its own fences count as those of another")
	}
	for _, name := range append([]string{s.Source, s.Dataset}, s.Surfaces...) {
		if err := checkName(name); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := d.setup(ctx); err != nil {
		return nil, err
	}
	if _, err := d.checkFence(s); err != nil {
		return nil, err
	}
	return newWriter(d, s)
}

// setup makes the folders of the sink, and ends a commit that a process did not live to end.
func (d *Destination) setup(ctx context.Context) error {
	if parent := filepath.Dir(d.dir); !isDir(parent) {
		return fmt.Errorf("there is no folder %s: make it, or choose another path", parent)
	}
	if !isDir(d.own(newFolder)) || exists(d.own(journalFile)) {
		return d.locked(ctx, func() error { return nil })
	}
	return nil
}

// own is the path of something of the sink itself.
func (d *Destination) own(name ...string) string {
	return filepath.Join(append([]string{d.dir, ownFolder}, name...)...)
}

// The names in the folder of the sink. They are a file format.
const (
	ownFolder      = "_towline"
	lockFile       = "lock"
	journalFile    = "pending.json"
	newFolder      = "new"      // files of the commit in progress
	datasetsFolder = "datasets" // records, by dataset and source
	surfacesFolder = "surfaces" // which dataset owns a surface
	datasetFile    = "dataset.json"
)

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
