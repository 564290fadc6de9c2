package exec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// word is a line of the native protocol. Which fields count depends on its kind.
type word struct {
	Kind        kind            `json:"towline"`
	Stream      string          `json:"stream"`
	Key         json.RawMessage `json:"key"`
	Data        json.RawMessage `json:"data"`
	Done        int64           `json:"done"`
	Total       int64           `json:"total"`
	State       json.RawMessage `json:"state"`
	Level       string          `json:"level"`
	Text        string          `json:"text"`
	Rows        *int            `json:"rows"`
	Fingerprint string          `json:"fingerprint"`
	Seconds     *float64        `json:"seconds"`
	Account     string          `json:"account"`
}

type kind string

const (
	kindRecord     kind = "record"
	kindProgress   kind = "progress"
	kindState      kind = "state"
	kindLog        kind = "log"
	kindResult     kind = "result"
	kindRetryAfter kind = "retry_after"
)

var kinds = []kind{kindRecord, kindProgress, kindState, kindLog, kindResult, kindRetryAfter}

var errNotUTF8 = errors.New("it is not UTF-8: encode it before it is written, for instance with iconv")

// isObject reports a JSON object. Its bytes need not be UTF-8.
func isObject(line []byte) bool { return len(line) > 0 && line[0] == '{' && json.Valid(line) }

// parseWord reads a line of the native protocol. What it returns shares nothing with line.
func parseWord(line []byte) (word, error) {
	var w word
	if !isObject(line) {
		return w, errors.New("it is no JSON object, and behind the first line of the native protocol each must be one: write what is for people to standard error")
	}
	if !utf8.Valid(line) {
		return w, errNotUTF8
	}
	if err := json.Unmarshal(line, &w); err != nil {
		return w, err
	}
	return w, w.check()
}

func (w word) check() error {
	switch {
	case w.Kind == "":
		return errors.New(`it has no field towline, which says what it is: {"towline":"record",…}`)
	case !slices.Contains(kinds, w.Kind):
		return fmt.Errorf("towline is %q, which version %d of the contract does not have", w.Kind, version)
	case w.Kind == kindRecord && !isObject(w.Data):
		return errors.New("a record has no data, or data that is no object")
	case w.Kind == kindState && len(w.State) == 0:
		return errors.New("a state has no field state")
	case w.Kind == kindResult && w.Rows != nil && *w.Rows < 0:
		return fmt.Errorf("rows is %d", *w.Rows)
	case w.Kind == kindRetryAfter && (w.Seconds == nil || *w.Seconds < 0):
		return errors.New("a retry_after has no seconds, or negative ones")
	}
	return nil
}

// detect says which protocol a program speaks whose first JSON object is line. A line of the native protocol is known by its
// field. Error: a protocol that is not read here, and whose envelopes must not become rows.
func detect(line []byte) (Protocol, error) {
	var first map[string]json.RawMessage
	if err := json.Unmarshal(line, &first); err != nil {
		return "", err
	}
	if _, native := first["towline"]; native {
		return Native, nil
	}
	foreign := []string{"SCHEMA", "RECORD", "STATE", "ACTIVATE_VERSION", "SPEC", "CATALOG", "LOG", "TRACE", "CONNECTION_STATUS", "CONTROL"}
	var envelope string
	if json.Unmarshal(first["type"], &envelope) == nil && slices.Contains(foreign, envelope) {
		return "", fmt.Errorf("its first line is a %s of Singer or Airbyte, which this release does not read: set protocol to lines if that is meant to be a row", envelope)
	}
	return Lines, nil
}

// errKey goes before the key.
var errKey = errors.New("key is no text, no number and no list of them")

// keyText is a key as the sink takes it: of one value its text, of several the JSON of the list. Digits stay as they are.
func keyText(raw json.RawMessage) (string, error) {
	var list []json.RawMessage
	if len(raw) == 0 || raw[0] != '[' {
		list = append(list, raw)
	} else if err := json.Unmarshal(raw, &list); err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", errors.New("key is an empty list")
	}
	for _, v := range list {
		if len(v) == 0 || v[0] == '{' || v[0] == '[' || v[0] == 'n' {
			return "", errKey
		}
	}
	if len(list) > 1 {
		return compact(raw)
	}
	text := string(list[0])
	if text[0] == '"' {
		if err := json.Unmarshal(list[0], &text); err != nil {
			return "", err
		}
		if strings.HasPrefix(text, "[") { // it must not look like a list of several
			return compact([]byte("[" + string(list[0]) + "]"))
		}
	}
	return text, nil
}

func compact(raw []byte) (string, error) {
	var b bytes.Buffer
	err := json.Compact(&b, raw)
	return b.String(), err
}

// fieldsKey is the key of a row whose fields are named.
func fieldsKey(data json.RawMessage, fields []string) (string, error) {
	var row map[string]json.RawMessage
	if err := json.Unmarshal(data, &row); err != nil {
		return "", err
	}
	list := make([]json.RawMessage, len(fields))
	for i, f := range fields {
		v, ok := row[f]
		if !ok {
			return "", fmt.Errorf("the row has no field %q, which is part of its key", f)
		}
		list[i] = v
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	return keyText(raw)
}
