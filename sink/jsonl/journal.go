package jsonl

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
)

// journal is what a commit does to the folder. Once it is on disk the attempt is committed; all of it may be done twice.
type journal struct {
	Window   windowRecord    `json:"window"`
	Span     string          `json:"span"` // name of the window's record
	Dataset  datasetRecord   `json:"dataset"`
	Surfaces []surfaceRecord `json:"surfaces"`
	Remove   []string        `json:"remove,omitempty"` // relative to the folder
}

// begin commits the attempt whose new files are there, and does the rest. If not even the first file can be put in its
// place, because something stands there or may not be written, the journal is taken back: nobody could end it, and it would
// stop every other source.
func (d *Destination) begin(j journal) error {
	if err := d.replace(d.own(journalFile), j); err != nil {
		return err
	}
	err := d.carryOut(j)
	if err != nil && !d.untouched(j) {
		return err
	}
	return errors.Join(err, d.remove(d.own(journalFile)))
}

// untouched reports that nothing of a commit is in its place. Its files go first.
func (d *Destination) untouched(j journal) bool {
	for i := range j.Window.Files {
		if !exists(d.own(newFolder, strconv.Itoa(i))) {
			return false
		}
	}
	return len(j.Window.Files) > 0
}

// redo ends a commit that was begun. Its process may have died between a change and the sync of the folder behind it, and
// what is done already is not done again: so the journal is synced before anything follows from it, and all folders before
// it goes.
func (d *Destination) redo() error {
	var j journal
	begun, err := read(d.own(journalFile), &j)
	if err != nil || !begun {
		return err
	}
	if err := d.syncDir(d.own()); err != nil {
		return err
	}
	if err := d.carryOut(j); err != nil {
		return err
	}
	for _, folder := range d.folders(j) {
		if err := d.syncDir(folder); err != nil {
			return err
		}
	}
	return d.remove(d.own(journalFile))
}

// folders are those in which a commit changes a name, with those above them, each once.
func (d *Destination) folders(j journal) (out []string) {
	changed := []string{d.own(surfacesFolder), d.recordsFolder(j.Dataset)}
	for _, f := range j.Window.Files {
		changed = append(changed, filepath.Dir(d.path(f.File)))
	}
	for _, name := range j.Remove {
		changed = append(changed, filepath.Dir(d.path(name)))
	}
	above := filepath.Dir(d.dir)
	for _, folder := range changed {
		for ; !slices.Contains(out, folder) && isDir(folder); folder = filepath.Dir(folder) {
			if out = append(out, folder); folder == above {
				break
			}
		}
	}
	return out
}

func (d *Destination) recordsFolder(r datasetRecord) string {
	return d.own(datasetsFolder, fileName(r.Dataset), fileName(r.Source))
}

// path is that of a file whose name a record has.
func (d *Destination) path(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

// carryOut does what a journal says, also what is done in part.
func (d *Destination) carryOut(j journal) error {
	for i, f := range j.Window.Files {
		if err := d.place(d.own(newFolder, strconv.Itoa(i)), f.File); err != nil {
			return err
		}
	}
	for _, name := range j.Remove {
		if err := d.remove(d.path(name)); err != nil {
			return err
		}
	}
	for _, s := range j.Surfaces {
		if err := d.replace(d.surfacePath(s.Surface), s); err != nil {
			return err
		}
	}
	records := d.recordsFolder(j.Dataset)
	if err := d.replace(filepath.Join(records, datasetFile), j.Dataset); err != nil {
		return err
	}
	return d.replace(filepath.Join(records, j.Span), j.Window)
}

// place moves a new file over the old one, unless that was done before.
func (d *Destination) place(fresh, name string) error {
	if _, err := os.Lstat(fresh); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	to := d.path(name)
	if err := d.makeDir(filepath.Dir(to)); err != nil {
		return err
	}
	return d.move(fresh, to)
}

// sweep removes what a process has written that died before its journal.
func (d *Destination) sweep() error {
	entries, err := os.ReadDir(d.own(newFolder))
	if err != nil {
		return err
	}
	for _, e := range entries { // a staging file takes its name away itself
		if err := os.Remove(d.own(newFolder, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// dataName is where the rows of a window are, relative to the folder.
func dataName(surface, source, window string) string {
	return path.Join(fileName(surface), fileName(source), fileName(window)+".jsonl")
}
