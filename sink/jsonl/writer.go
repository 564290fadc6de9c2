package jsonl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"

	"github.com/towline-dev/towline/sink"
)

// writer is one attempt.
//
//	open ──Put──► staging ──Commit──► committed
//	  └────────────┴──Abort──► aborted
type writer struct {
	d      *Destination
	scope  sink.Scope
	window string

	mu        sync.Mutex // a provider may put from several goroutines
	stage     *stage     // nil: committed or aborted
	fault     error      // of the staging, which has lost rows that were put; every later call answers with it
	rows      int
	state     json.RawMessage
	committed bool
}

// fenceEvery is after how many rows a running attempt looks whether it was overtaken (I-29).
const fenceEvery = 10_000

func newWriter(d *Destination, s sink.Scope) (*writer, error) {
	s.Surfaces = slices.Compact(slices.Sorted(slices.Values(s.Surfaces)))
	stage, err := newStage(d.own(newFolder), s.Surfaces)
	if err != nil {
		return nil, err
	}
	return &writer{d: d, scope: s, window: s.Window.Name(), stage: stage}, nil
}

var errEnded = errors.New("the attempt was committed or aborted")

// usable answers whether the attempt can go on. After a fault of the staging it cannot, even if the provider looks away
// from the error of its Put: what is left is a part of the rows.
func (w *writer) usable() error {
	if w.stage == nil {
		return errEnded
	}
	if w.fault != nil {
		return fmt.Errorf("rows that were put before are lost: %w", w.fault)
	}
	return nil
}

func (w *writer) Put(ctx context.Context, surface, key string, row any) error {
	if err := w.scope.Declares(surface); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.put(ctx, surface, key, row); err != nil {
		return fmt.Errorf("put %s %q: %w", surface, key, err)
	}
	w.rows++
	return nil
}

func (w *writer) put(ctx context.Context, surface, key string, row any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.usable(); err != nil {
		return err
	}
	line, err := w.stage.encode(w.scope.Source, key, w.window, row)
	if err != nil {
		return err
	}
	if w.fault = w.stage.add(surface, key, line); w.fault != nil {
		return w.fault
	}
	if w.rows%fenceEvery != fenceEvery-1 {
		return nil
	}
	_, err = w.d.checkFence(w.scope)
	return err
}

func (w *writer) Progress(int64, int64) {} // shown by whoever wraps the writer

func (w *writer) State(s json.RawMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = slices.Clone(s)
}

// Commit makes the attempt visible. It may be repeated after an error, and after a success it does nothing. Once it waits
// no longer for the lock, ctx does not interrupt it.
func (w *writer) Commit(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.committed && w.stage == nil {
		return nil
	}
	if err := w.commit(ctx); err != nil {
		return fmt.Errorf("commit %s/%s/%s to %s: %w", w.scope.Source, w.scope.Dataset, w.window, w.d.dir, err)
	}
	w.committed = true
	return w.release()
}

func (w *writer) commit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.usable(); err != nil {
		return err
	}
	return w.d.locked(ctx, w.merge)
}

// merge is the commit, under the lock of the folder.
func (w *writer) merge() error {
	now, err := w.d.checkFence(w.scope)
	if err != nil {
		return err
	}
	if err := w.d.sweep(); err != nil {
		return err
	}
	j := journal{Span: spanOf(w.scope.Window).file()}
	for _, surface := range w.scope.Surfaces {
		if err := w.own(surface, &j); err != nil {
			return err
		}
	}
	files, err := w.writeFiles()
	if err != nil {
		return err
	}
	j.Window = w.windowRecord(w.d.now(), files)
	j.Dataset = w.owned(now.dataset, j.Window.CommittedAt)
	j.Remove = w.superseded(now, files)
	err = w.d.begin(j)
	if err != nil && exists(w.d.own(journalFile)) {
		w.committed = true // whoever comes next ends it, so nobody may hand its unit back as untouched (U-16)
	}
	return err
}

// own refuses a second dataset in a surface: each would replace the windows of the other.
func (w *writer) own(surface string, j *journal) error {
	owner := surfaceRecord{surface, w.scope.Dataset}
	known, err := read(w.d.surfacePath(surface), &owner)
	switch {
	case err != nil:
		return err
	case !known:
		j.Surfaces = append(j.Surfaces, owner)
		return nil
	case owner.Surface != surface:
		return fmt.Errorf("surfaces %q and %q are one file to this file system: write the name in one way, or choose another", owner.Surface, surface)
	case owner.Dataset != w.scope.Dataset:
		return fmt.Errorf("dataset %s would replace rows of dataset %s: give it a surface of its own, or, if it was renamed, delete %s",
			w.scope.Dataset, owner.Dataset, w.d.surfacePath(surface))
	}
	return nil
}

// writeFiles writes the new files, one for each surface that has rows.
func (w *writer) writeFiles() ([]dataFile, error) {
	var files []dataFile
	for _, surface := range w.scope.Surfaces {
		n := len(w.stage.tables[surface].lines)
		if n == 0 {
			continue
		}
		f := dataFile{Surface: surface, File: dataName(surface, w.scope.Source, w.window), Rows: n}
		err := w.d.write(w.d.own(newFolder, strconv.Itoa(len(files))), func(to io.Writer) (err error) {
			f.SHA256, err = w.stage.copyTo(surface, to)
			return err
		})
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, nil
	}
	return files, w.d.syncDir(w.d.own(newFolder))
}

// superseded is what the commit removes: files of this window that have no rows any more, and the windows inside of it
// that no newer attempt has written.
func (w *writer) superseded(now standing, files []dataFile) []string {
	own := spanOf(w.scope.Window)
	var out []string
	for _, f := range now.related {
		newer := f.Fence > w.scope.Fence && !w.d.void(f.windowRecord, now.dataset, w.scope)
		if !own.covers(f.span) || newer {
			continue
		}
		for _, old := range f.Files {
			if !slices.ContainsFunc(files, func(n dataFile) bool { return n.File == old.File }) {
				out = append(out, old.File)
			}
		}
		if f.span != own {
			out = append(out, w.d.relative(f.path))
		}
	}
	return out
}

// Abort leaves nothing of the attempt.
func (w *writer) Abort() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.release()
}

func (w *writer) release() error {
	if w.stage == nil {
		return nil
	}
	s := w.stage
	w.stage = nil
	_ = s.close() // its rows are in other files, or are not wanted
	return nil
}

func (w *writer) Rows() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rows
}

func (w *writer) Left() json.RawMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.state)
}

func (w *writer) Committed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.committed
}
