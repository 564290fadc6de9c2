package jsonl

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// What is on disk when a call returns survives a power cut: a file is synced, and so is the folder that names it. Each
// call tells step what it is about to do.

// write makes a file of what fill writes, synced, under a name that nothing depends on yet.
func (d *Destination) write(path string, fill func(io.Writer) error) (err error) {
	d.step("write " + d.short(path))
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := fill(f); err != nil {
		return err
	}
	d.step("sync " + d.short(path))
	return f.Sync()
}

// replace makes v the record at path, or leaves the old one.
func (d *Destination) replace(path string, v any) error {
	if err := d.makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	fresh := d.own(newFolder, "record")
	err = d.write(fresh, func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
	if err != nil {
		return err
	}
	return d.move(fresh, path)
}

// move renames a file that is synced.
func (d *Destination) move(from, to string) error {
	d.step("rename " + d.short(from) + " " + d.short(to))
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return d.syncDir(filepath.Dir(to))
}

func (d *Destination) remove(path string) error {
	d.step("remove " + d.short(path))
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.syncDir(filepath.Dir(path))
}

// makeDir makes a folder and those above it.
func (d *Destination) makeDir(path string) error {
	if isDir(path) {
		return nil
	}
	if err := d.makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	d.step("mkdir " + d.short(path))
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.syncDir(filepath.Dir(path))
}

func (d *Destination) syncDir(path string) (err error) {
	d.step("sync " + d.short(path))
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return f.Sync()
}

// short is a path as a person writes it.
func (d *Destination) short(path string) string {
	short, err := filepath.Rel(filepath.Dir(d.dir), path)
	if err != nil {
		return path
	}
	return filepath.ToSlash(short)
}
