package jsonl

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
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

// begin commits the attempt whose new files are there, and does the rest.
func (d *Destination) begin(j journal) error {
	if err := d.replace(d.own(journalFile), j); err != nil {
		return err
	}
	return d.finish(j)
}

// redo ends a commit that was begun.
func (d *Destination) redo() error {
	var j journal
	begun, err := read(d.own(journalFile), &j)
	if err != nil || !begun {
		return err
	}
	return d.finish(j)
}

// finish moves the files of a commit to their places. The journal goes last.
func (d *Destination) finish(j journal) error {
	for i, f := range j.Window.Files {
		if err := d.place(d.own(newFolder, strconv.Itoa(i)), f.File); err != nil {
			return err
		}
	}
	for _, name := range j.Remove {
		if err := d.remove(filepath.Join(d.dir, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	for _, s := range j.Surfaces {
		if err := d.replace(d.surfacePath(s.Surface), s); err != nil {
			return err
		}
	}
	records := d.own(datasetsFolder, fileName(j.Dataset.Dataset), fileName(j.Dataset.Source))
	if err := d.replace(filepath.Join(records, datasetFile), j.Dataset); err != nil {
		return err
	}
	if err := d.replace(filepath.Join(records, j.Span), j.Window); err != nil {
		return err
	}
	return d.remove(d.own(journalFile))
}

// place moves a new file over the old one, unless that was done before.
func (d *Destination) place(fresh, name string) error {
	if _, err := os.Lstat(fresh); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	to := filepath.Join(d.dir, filepath.FromSlash(name))
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
