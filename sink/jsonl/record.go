package jsonl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sink"
)

// The records are JSON files, each replaced as a whole. Their fields are a file format.
type (
	// windowRecord says what was committed last at a window. It is the fence.
	windowRecord struct {
		Source      string       `json:"source"`
		Dataset     string       `json:"dataset"`
		Window      string       `json:"window"`
		Fence       events.Fence `json:"fence"`
		Store       string       `json:"store,omitempty"` // that the fence belongs to; missing: not known
		Run         string       `json:"run"`
		Unit        string       `json:"unit"`
		Attempt     int          `json:"attempt"`
		CommittedAt string       `json:"committed_at"`
		Files       []dataFile   `json:"files,omitempty"`
	}
	dataFile struct {
		Surface string `json:"surface"`
		File    string `json:"file"` // relative to the folder, with slashes
		Rows    int    `json:"rows"`
		SHA256  string `json:"sha256"`
	}
	// datasetRecord says to whom a dataset of a source belongs, and what its newest attempt has left.
	datasetRecord struct {
		Source      string          `json:"source"`
		Dataset     string          `json:"dataset"`
		Store       string          `json:"store,omitempty"`
		State       json.RawMessage `json:"state,omitempty"`
		StateFence  events.Fence    `json:"state_fence,omitempty"`
		StateStore  string          `json:"state_store,omitempty"`
		CommittedAt string          `json:"committed_at"`
	}
	// surfaceRecord says which dataset owns a surface: two would replace each other's windows.
	surfaceRecord struct {
		Surface string `json:"surface"`
		Dataset string `json:"dataset"`
	}
)

// timestamp has a fixed width, so that it compares as text.
const timestamp = "2006-01-02T15:04:05.000000Z"

func (d *Destination) datasetFolder(s sink.Scope) string {
	return d.own(datasetsFolder, fileName(s.Dataset), fileName(s.Source))
}

// relative is a path as records and journal have it.
func (d *Destination) relative(path string) string {
	return filepath.ToSlash(strings.TrimPrefix(path, d.dir+string(filepath.Separator)))
}

func (d *Destination) surfacePath(surface string) string {
	return d.own(surfacesFolder, fileName(surface)+".json")
}

// span is a window as the name of its record has it, so that a list of the names says which windows lie inside of which.
// A window without a start is the whole source, whatever its end is.
type span struct {
	whole    bool
	from, to int64 // microseconds
}

const wholeSpan = "whole"

func spanOf(w events.Window) span {
	if w.From.IsZero() {
		return span{whole: true}
	}
	return span{from: w.From.UnixMicro(), to: w.To.UnixMicro()}
}

func (s span) file() string {
	if s.whole {
		return wholeSpan + ".json"
	}
	return fmt.Sprintf("%d_%d.json", s.from, s.to)
}

func parseSpan(file string) (span, bool) {
	name, ok := strings.CutSuffix(file, ".json")
	if name == wholeSpan {
		return span{whole: true}, ok
	}
	from, to, both := strings.Cut(name, "_")
	a, err := strconv.ParseInt(from, 10, 64)
	b, err2 := strconv.ParseInt(to, 10, 64)
	return span{from: a, to: b}, ok && both && err == nil && err2 == nil
}

// covers reports that o lies inside of s, or is s.
func (s span) covers(o span) bool {
	return s.whole || !o.whole && s.from <= o.from && o.to <= s.to
}

// read fills v from a record. It is false if there is none.
func read(path string, v any) (bool, error) {
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	return true, nil
}

// found is the record of one window.
type found struct {
	path string
	span span
	windowRecord
}

// related are the records of the windows around a scope's and inside of it, its own among them.
func (d *Destination) related(s sink.Scope) ([]found, error) {
	folder := d.datasetFolder(s)
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	own := spanOf(s.Window)
	var out []found
	for _, e := range entries {
		other, ok := parseSpan(e.Name())
		if !ok || !own.covers(other) && !other.covers(own) {
			continue
		}
		f := found{path: filepath.Join(folder, e.Name()), span: other}
		ok, err := read(f.path, &f.windowRecord)
		if err != nil {
			return nil, err
		}
		if ok { // a commit may have removed it meanwhile
			out = append(out, f)
		}
	}
	return out, nil
}

func (w *writer) windowRecord(at time.Time, files []dataFile) windowRecord {
	s := w.scope
	return windowRecord{
		Source: s.Source, Dataset: s.Dataset, Window: w.window, Fence: s.Fence, Store: s.Store, Run: s.Run.String(), Unit: s.Unit.String(),
		Attempt: s.Attempt, CommittedAt: at.UTC().Format(timestamp), Files: files,
	}
}
