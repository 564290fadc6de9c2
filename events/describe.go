package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Describe is one stable line for logs, traces and pages: the type, then the fields that are set, in the order of
// the catalogue, by their stored names. Tokens are masked (E-4). Whatever a text or a payload holds, it stays one line.
func Describe(e Event) string {
	fields := describeFields(nil, reflect.ValueOf(e))
	if len(fields) == 0 {
		return e.EventType().String()
	}
	return e.EventType().String() + " {" + strings.Join(fields, ", ") + "}"
}

func describeFields(out []string, v reflect.Value) []string {
	t := v.Type()
	for i := range t.NumField() {
		f, fv := t.Field(i), v.Field(i)
		switch {
		case fv.IsZero():
		case f.Anonymous:
			out = describeFields(out, fv)
		default:
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			out = append(out, strings.TrimSuffix(name, "_us")+": "+describeValue(fv))
		}
	}
	return out
}

func describeValue(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case json.RawMessage:
		var line bytes.Buffer
		if err := json.Compact(&line, x); err != nil {
			return strconv.Quote(string(x))
		}
		return line.String()
	case Window:
		return x.Name()
	case fmt.Stringer:
		return x.String()
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = describeValue(v.Index(i))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		parts := make([]string, len(keys))
		for i, k := range keys {
			parts[i] = describeValue(k) + ": " + describeValue(v.MapIndex(k))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case reflect.Struct:
		return "{" + strings.Join(describeFields(nil, v), ", ") + "}"
	case reflect.String:
		if s := v.String(); plain(s) {
			return s
		}
		return strconv.Quote(v.String())
	}
	return fmt.Sprint(v.Interface())
}

// plain reports a text that cannot be taken for the form around it, nor break the line. Texts come from providers,
// brokers and people.
func plain(s string) bool {
	return s != "" && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return strings.ContainsRune(" ,:{}[]\"", r) || !unicode.IsPrint(r)
	})
}
