package jsonl

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"unicode/utf8"
)

// stage keeps the rows of an attempt in a file without a name.
type stage struct {
	file   *os.File
	out    *bufio.Writer
	offset int64
	tables map[string]*rows // by surface
	line   bytes.Buffer
	json   *json.Encoder
}

// rows are those of one surface, in the order in which their keys came first.
type rows struct {
	index map[string]int // by key, into lines
	lines []piece
}

type piece struct{ offset, length int64 }

func newStage(dir string, surfaces []string) (*stage, error) {
	f, err := os.CreateTemp(dir, "rows-")
	if err != nil {
		return nil, err
	}
	// It lives as long as it is open. A sweep may have removed it.
	if err := os.Remove(f.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, f.Close())
	}
	s := &stage{file: f, out: bufio.NewWriterSize(f, 1<<16), tables: map[string]*rows{}}
	s.json = json.NewEncoder(&s.line)
	s.json.SetEscapeHTML(false) // people read the file; <b> must not become \u003cb\u003e
	for _, name := range surfaces {
		s.tables[name] = &rows{index: map[string]int{}}
	}
	return s, nil
}

func (s *stage) close() error { return s.file.Close() }

// line is one row as it is stored. The names are a file format, and those of the columns of the SQLite sink.
type line struct {
	Source string          `json:"source"`
	Key    string          `json:"key"`
	Window string          `json:"window"`
	Data   json.RawMessage `json:"data"`
}

// encode checks a row and makes its line. An error is one of this row alone.
func (s *stage) encode(source, key, window string, row any) ([]byte, error) {
	if !utf8.ValidString(key) {
		return nil, errors.New("the key is not valid UTF-8, and without the bytes that are not, two keys could become one: encode them")
	}
	s.line.Reset()
	if err := s.json.Encode(row); err != nil {
		return nil, err
	}
	data := bytes.TrimSpace(s.line.Bytes())
	if len(data) == 0 || data[0] != '{' {
		return nil, fmt.Errorf("a row must encode as a JSON object, %T does not", row)
	}
	if data = bytes.Clone(data); !utf8.Valid(data) { // a json.RawMessage, which the encoder takes as it is
		data = bytes.ToValidUTF8(data, []byte(`\ufffd`))
	}
	s.line.Reset()
	if err := s.json.Encode(line{source, key, window, data}); err != nil {
		return nil, err
	}
	return s.line.Bytes(), nil
}

// add keeps a line; a later one with the same key counts. After an error nothing of the stage is whole.
func (s *stage) add(surface, key string, line []byte) error {
	if _, err := s.out.Write(line); err != nil {
		return err
	}
	t, p := s.tables[surface], piece{s.offset, int64(len(line))}
	s.offset += p.length
	if i, ok := t.index[key]; ok {
		t.lines[i] = p
		return nil
	}
	t.index[key] = len(t.lines)
	t.lines = append(t.lines, p)
	return nil
}

// copyTo writes the lines of a surface that count, and returns their SHA-256.
func (s *stage) copyTo(surface string, to io.Writer) (string, error) {
	if err := s.out.Flush(); err != nil {
		return "", err
	}
	sum := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(to, sum), 1<<16)
	for _, run := range joined(s.tables[surface].lines) {
		if _, err := io.Copy(out, io.NewSectionReader(s.file, run.offset, run.length)); err != nil {
			return "", err
		}
	}
	if err := out.Flush(); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// joined makes one piece of those that follow each other, which mostly are all.
func joined(lines []piece) []piece {
	var out []piece
	for _, p := range lines {
		if n := len(out); n > 0 && out[n-1].offset+out[n-1].length == p.offset {
			out[n-1].length += p.length
			continue
		}
		out = append(out, p)
	}
	return out
}
