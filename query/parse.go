package query

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// Error says which part of a query is wrong, and what to write instead.
type Error struct {
	Term    string // as it was written, cut to 64 bytes
	Problem string
	Fix     string
}

func (e *Error) Error() string {
	s := fmt.Sprintf("query %q: %s", e.Term, e.Problem)
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// Bounds of a query.
const (
	maxBytes  = 2000
	maxTerms  = 20
	maxValues = 50 // of one term
)

// Filter is a parsed query. The zero Filter chooses everything.
type Filter struct {
	subject Subject
	terms   []projections.Term
	streams map[int]map[events.StreamID]bool // of a query of events: those of the runs that a term names, by its number
}

// Terms are what the searches of projections.View take. Those of Events are for Match alone.
func (f Filter) Terms() []projections.Term { return f.terms }

// Parse reads a query about a subject. now is the moment to which ages are counted back. Error: *Error.
func Parse(s Subject, text string, now time.Time) (Filter, error) {
	f := Filter{subject: s}
	if len(text) > maxBytes || !utf8.ValidString(text) {
		return f, wrong(text, "it is too long, or no UTF-8", fmt.Sprintf("write at most %d bytes", maxBytes))
	}
	for len(f.terms) < maxTerms {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		if text == "" {
			return f, nil
		}
		raw, rest, err := cutTerm(text)
		if err != nil {
			return f, err
		}
		t, err := parseTerm(s, raw, now)
		if err != nil {
			return f, err
		}
		f.terms, text = append(f.terms, t), rest
	}
	if strings.TrimSpace(text) != "" {
		return f, wrong(text, "there are too many terms", fmt.Sprintf("write at most %d", maxTerms))
	}
	return f, nil
}

func wrong(term, problem, fix string) *Error {
	const shown = 64
	return &Error{Term: strings.ToValidUTF8(term[:min(len(term), shown)], "�"), Problem: problem, Fix: fix}
}

// cutTerm takes the first term off: up to a blank that is not in quotes.
func cutTerm(text string) (term, rest string, err error) {
	quoted, taken := false, false
	for i, c := range text {
		switch {
		case taken:
			taken = false
		case quoted && c == '\\':
			taken = true
		case c == '"':
			quoted = !quoted
		case !quoted && unicode.IsSpace(c):
			return text[:i], text[i:], nil
		}
	}
	if quoted {
		return "", "", wrong(text, "a quote is not closed", `end the value with "`)
	}
	return text, "", nil
}

func parseTerm(s Subject, raw string, now time.Time) (t projections.Term, err error) {
	text := raw
	if t.Not = strings.HasPrefix(text, "-"); t.Not {
		text = text[1:]
	}
	end := strings.IndexAny(text, ":<>=\"")
	if end < 1 || text[end] == '"' {
		return t, wrong(raw, "it has no field", "write field:value, with a field of "+names(s))
	}
	f, ok := find(s, text[:end])
	if !ok {
		return t, wrong(raw, fmt.Sprintf("%s have no field %q", s, text[:end]), "use one of "+names(s))
	}
	t.Field = f.Name
	text = text[end:]
	if t.Op, text = cutOp(text); t.Op != projections.Is && !f.Ordered() {
		return t, wrong(raw, f.Name+" has no order", "write "+f.Name+":value")
	}
	values, err := splitValues(raw, text)
	if err != nil {
		return t, err
	}
	for _, v := range values {
		value, err := f.value(raw, v, now)
		if err != nil {
			return t, err
		}
		t.Values = append(t.Values, value)
	}
	if f.sort == age {
		t.Field, t.Op, err = since(raw, t.Op)
	}
	return t, err
}

func find(s Subject, name string) (Field, bool) {
	i := slices.IndexFunc(fields[s], func(f Field) bool { return f.Name == name })
	if i < 0 {
		return Field{}, false
	}
	return fields[s][i], true
}

func names(s Subject) string {
	var out []string
	for _, f := range fields[s] {
		out = append(out, f.Name)
	}
	return strings.Join(out, ", ")
}

// cutOp takes the comparison off. A colon may stand before it, as after every field.
func cutOp(text string) (projections.Op, string) {
	text = strings.TrimPrefix(text, ":")
	for _, op := range []projections.Op{projections.AtLeast, projections.AtMost, projections.More, projections.Less, projections.Is} {
		if rest, ok := strings.CutPrefix(text, string(op)); ok {
			return op, rest
		}
	}
	return projections.Is, text
}

// splitValues takes the values of a term apart, and the quotes off.
func splitValues(term, text string) (out []string, err error) {
	var value strings.Builder
	quoted, taken, hasAny := false, false, false
	flush := func() error {
		if value.Len() == 0 && !hasAny {
			return wrong(term, "a value is missing", `write one behind the colon and behind each comma, or "" for none`)
		}
		out = append(out, value.String())
		value.Reset()
		hasAny = false
		return nil
	}
	for _, c := range text {
		switch {
		case taken:
			value.WriteRune(c)
			taken = false
		case quoted && c == '\\':
			taken = true
		case c == '"':
			quoted, hasAny = !quoted, true
		case c == ',' && !quoted:
			if err := flush(); err != nil {
				return nil, err
			}
		default:
			value.WriteRune(c)
		}
	}
	if err := flush(); err != nil {
		return nil, err
	}
	if len(out) > maxValues {
		return nil, wrong(term, fmt.Sprintf("it has %d values", len(out)), fmt.Sprintf("write at most %d", maxValues))
	}
	return out, nil
}

// since turns the comparison of an age into that of the moment: what is older began earlier.
func since(term string, op projections.Op) (string, projections.Op, error) {
	switch op {
	case projections.More:
		return "since", projections.Less, nil
	case projections.AtLeast:
		return "since", projections.AtMost, nil
	case projections.Less:
		return "since", projections.More, nil
	case projections.AtMost:
		return "since", projections.AtLeast, nil
	case projections.Is:
	}
	return "", op, wrong(term, "nothing has exactly an age", "write age>10m or age<10m")
}
