package events

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Describe is one stable line for logs, traces and pages: the type, then the fields that are set, in the order of
// the catalogue, by their stored names. Tokens are masked (E-4).
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
		return string(x)
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
	case reflect.Struct:
		return "{" + strings.Join(describeFields(nil, v), ", ") + "}"
	case reflect.String:
		s := v.String()
		if strings.ContainsAny(s, " ,:{}[]\"") {
			return fmt.Sprintf("%q", s)
		}
		return s
	}
	return fmt.Sprint(v.Interface())
}
