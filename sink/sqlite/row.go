package sqlite

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// encoder turns rows into the values of a stage. It keeps its buffers from row to row.
type encoder struct {
	buf  bytes.Buffer
	json *json.Encoder
	args []any
	set  []bool
}

var errNotObject = errors.New("a row must encode as a JSON object")

// values are those of t.Columns, in order. They are valid until the next call.
func (e *encoder) values(t *table, key string, row any) ([]any, error) {
	object, err := e.object(row)
	if err != nil {
		return nil, err
	}
	if t.generic {
		e.args = append(e.args[:0], key, string(object))
		return e.args, nil
	}
	return e.columns(t, object)
}

// replaced is what encoding/json writes for bytes that are not valid UTF-8. A U+FFFD that was there it leaves as it is.
const replaced = `\ufffd`

// object is row as compact JSON of valid UTF-8.
func (e *encoder) object(row any) ([]byte, error) {
	if e.json == nil {
		e.json = json.NewEncoder(&e.buf)
		e.json.SetEscapeHTML(false) // people read the file; <b> must not become \u003cb\u003e
	}
	e.buf.Reset()
	if err := e.json.Encode(row); err != nil {
		return nil, err
	}
	object := bytes.TrimRight(e.buf.Bytes(), "\n")
	if len(object) == 0 || object[0] != '{' {
		return nil, fmt.Errorf("%w, %T does not", errNotObject, row)
	}
	if !utf8.Valid(object) { // a json.RawMessage, which the encoder takes as it is
		object = bytes.ToValidUTF8(object, []byte(replaced))
	}
	return object, nil
}

func (e *encoder) columns(t *table, object []byte) ([]any, error) {
	n := len(t.Columns)
	if cap(e.args) < n {
		e.args, e.set = make([]any, n), make([]bool, n)
	}
	e.args, e.set = e.args[:n], e.set[:n]
	clear(e.set)
	next := 0 // a struct has its fields in one order, mostly that of the columns
	err := eachField(object, func(name, raw []byte) error {
		i := next
		if i >= n || t.Columns[i].Name != string(name) {
			var ok bool
			if i, ok = t.index[string(name)]; !ok {
				return unknownField(t, string(name))
			}
		}
		next = i + 1
		if e.set[i] {
			return fmt.Errorf("field %s is there twice", name)
		}
		e.set[i] = true
		v, err := value(t.Columns[i].Type, raw)
		if err == nil && t.keyed[i] && wasReplaced(raw) {
			err = errors.New("the key is not valid UTF-8, and without the bytes that are not, two keys could become one: encode them")
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", name, err)
		}
		e.args[i] = v
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, ok := range e.set {
		if !ok {
			return nil, fmt.Errorf("the row has no field %s, which the table declares", t.Columns[i].Name)
		}
	}
	return e.args, nil
}

// wasReplaced reports the escape of replaced in a JSON value. One behind a backslash is text that looks like it.
func wasReplaced(raw []byte) bool {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return false
		}
		if bytes.HasPrefix(raw[i:], []byte(replaced)) {
			return true
		}
		raw = raw[i+2:]
	}
}

func unknownField(t *table, name string) error {
	if name == t.Source || t.Window != "" && name == t.Window {
		return fmt.Errorf("the row has a field %s, which the sink fills in: leave it out", name)
	}
	return fmt.Errorf("the row has a field %s, which the table does not declare", name)
}

// eachField walks the fields of a JSON object. The object must be compact and valid, as encoding/json writes it, which
// is what makes so short and fast a walk possible.
func eachField(object []byte, field func(name, raw []byte) error) error {
	for i := 1; object[i] != '}'; {
		if object[i] == ',' {
			i++
		}
		end := i + valueLen(object[i:])
		name := object[i+1 : end-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			s, err := text(object[i:end])
			if err != nil {
				return err
			}
			name = []byte(s)
		}
		i = end + 1 // behind the colon
		end = i + valueLen(object[i:])
		if err := field(name, object[i:end]); err != nil {
			return err
		}
		i = end
	}
	return nil
}

// valueLen is the length of the JSON value at the start of b.
func valueLen(b []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
			if !quoted && depth == 0 {
				return i + 1
			}
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth == 0 {
				return i // of the object around a bare value
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case c == ',' && depth == 0:
			return i
		}
	}
	return len(b)
}

// value is a JSON value as one of a column type. No digit of a whole number changes on the way, but in a REAL column,
// which is for numbers that may be rounded.
func value(kind string, raw []byte) (any, error) {
	switch raw[0] {
	case 'n':
		return nil, nil
	case 't', 'f':
		if kind == "TEXT" {
			return string(raw), nil
		}
		return boolean(kind, raw[0] == 't')
	case '"':
		s, err := text(raw)
		if err != nil || kind == "TEXT" || kind == "ANY" {
			return s, err
		}
		if kind == "BLOB" {
			return base64.StdEncoding.DecodeString(s) // as encoding/json writes a []byte
		}
		return nil, fmt.Errorf("a string is no %s", kind)
	case '{', '[':
		if kind == "TEXT" || kind == "ANY" {
			return string(raw), nil
		}
		return nil, fmt.Errorf("%.20s… is no %s", raw, kind)
	}
	return number(kind, string(raw))
}

func boolean(kind string, b bool) (any, error) {
	if kind == "BLOB" {
		return nil, errors.New("a truth value is no BLOB")
	}
	if b {
		return int64(1), nil
	}
	return int64(0), nil
}

func number(kind, raw string) (any, error) {
	if kind == "TEXT" {
		return raw, nil
	}
	whole, err := strconv.ParseInt(raw, 10, 64)
	switch kind {
	case "INTEGER":
		if err != nil {
			return nil, fmt.Errorf("%s is no whole number of 64 bits", raw)
		}
		return whole, nil
	case "REAL", "ANY":
		if err == nil && kind == "ANY" {
			return whole, nil
		}
		f, err := strconv.ParseFloat(raw, 64)
		if err != nil || math.IsInf(f, 0) {
			return nil, fmt.Errorf("%s is out of range", raw)
		}
		if kind == "ANY" && isWhole(raw) && strconv.FormatFloat(f, 'f', -1, 64) != raw {
			return nil, fmt.Errorf("%s is no whole number of 64 bits, and rounded it would be another: declare the column TEXT", raw)
		}
		return f, nil
	}
	return nil, fmt.Errorf("a number is no %s", kind)
}

// isWhole reports a number without a fraction and an exponent.
func isWhole(raw string) bool { return !strings.ContainsAny(raw, ".eE") }

func text(quoted []byte) (string, error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	var s string
	err := json.Unmarshal(quoted, &s)
	return s, err
}
