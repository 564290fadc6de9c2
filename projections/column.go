package projections

import (
	"encoding/json"
	"strings"

	"github.com/towline-dev/towline/events"
)

// The helpers below turn values into columns: what is not set is NULL, times are integer microseconds (CLK-5).

func micros(m events.Micros) any {
	if m == 0 {
		return nil
	}
	return int64(m)
}

func text[S ~string](s S) any {
	if s == "" {
		return nil
	}
	return string(s)
}

func blob(id [16]byte) any {
	if id == [16]byte{} {
		return nil
	}
	return id[:]
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// oneOf is SQL for a column that holds one of some values. SQLite builds a table for an IN list each time that a CHECK or a
// partial index asks it, which costs as much as the rest of an update.
func oneOf[S ~string](column string, values ...S) string {
	terms := make([]string, len(values))
	for i, v := range values {
		terms[i] = column + ` = '` + string(v) + `'`
	}
	return `(` + strings.Join(terms, ` OR `) + `)`
}

// list is a JSON column; an empty list is NULL.
func list[T any](l []T) (any, error) {
	if len(l) == 0 {
		return nil, nil
	}
	return asJSON(l)
}

// asJSON is a JSON column. Like the log it is read by people, so it is not escaped for HTML.
func asJSON(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

func windowFrom(w events.Window) any {
	if w.From.IsZero() {
		return nil
	}
	return w.From.UnixMicro()
}
