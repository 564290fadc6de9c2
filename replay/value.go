package replay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// words puts values of the log and of the views as people say them.
type words struct {
	h     *History
	names map[string]string // of units, by the bytes of their ids
}

// since is a time as its distance from the plan.
func (w *words) since(at events.Micros) string {
	d := at.Sub(w.h.PlannedAt)
	if d < 0 {
		return "-" + length(-d)
	}
	return "+" + length(d)
}

// split parts the row of what the event happened to from the others.
func (w *words) split(s Step) (own, others []projections.Change) {
	for _, c := range s.Changes {
		if w.row(s, c) == "" {
			own = append(own, c)
		} else {
			others = append(others, c)
		}
	}
	return own, others
}

const status = "status"

// state is how the status of a row has changed; "": it has not.
func (w *words) state(own []projections.Change) string {
	switch was, is := w.went(own); {
	case was == "" && is == "":
		return ""
	case was == "":
		return "new, " + is
	case is == "":
		return "gone"
	default:
		return was + " → " + is
	}
}

// went are the states before and after; "" before: the row is new, "" after: it is gone, twice: it stays in its state.
func (w *words) went(own []projections.Change) (was, is string) {
	for _, c := range own {
		i := slices.IndexFunc(c.Columns, func(x projections.ColumnChange) bool { return x.Name == status })
		was, is := "open", "open" // a job, which is given a status when it is closed
		if i >= 0 {
			is = w.value(status, c.Columns[i].After)
			if c.Columns[i].Before != nil {
				was = w.value(status, c.Columns[i].Before)
			}
		}
		switch {
		case c.Op == projections.RowNew:
			return "", is
		case c.Op == projections.RowGone:
			return was, ""
		case i >= 0:
			return was, is
		}
	}
	return "", ""
}

// change is what else became of a row: columns that have another value, then those that have none any more. What is new in
// a row of the run stands in its event, and its status above. Of a row that other runs write too, only what it holds now is
// known.
func (w *words) change(s Step, c projections.Change) string {
	var changed, cleared []string
	for _, column := range c.Columns {
		was, is := w.value(column.Name, column.Before), w.value(column.Name, column.After)
		switch name := w.row(s, c); {
		case name == "" && (column.Name == status || c.Op != projections.RowChanged):
		case c.Shared || c.Op == projections.RowNew:
			changed = append(changed, column.Name+" "+is)
		case column.After == nil:
			cleared = append(cleared, column.Name)
		case column.Before == nil || isJSON(column.After):
			changed = append(changed, column.Name+" → "+is)
		default:
			changed = append(changed, column.Name+" "+was+" → "+is)
		}
	}
	if len(cleared) > 0 {
		changed = append(changed, "cleared "+strings.Join(cleared, ", "))
	}
	text := strings.Join(changed, ", ")
	if name := w.row(s, c); name != "" {
		text = name + ": " + text
	}
	return text
}

// isJSON: a list is read as a whole, so what it was before is left to where that was written.
func isJSON(v any) bool {
	s, ok := v.(string)
	return ok && (strings.HasPrefix(s, "{") || strings.HasPrefix(s, "["))
}

// row names a row; "": it is that of what the event happened to.
func (w *words) row(s Step, c projections.Change) string {
	family := s.Subject.Stream.Family()
	_, kind, register := s.Subject.Stream.Register()
	switch {
	case c.Table == "runs" && family == events.FamilyRun, c.Table == "units" && family == events.FamilyUnit,
		c.Table == "jobs" && family == events.FamilyJob, c.Table == "outbox" && register && c.Key[1] == string(kind):
		return ""
	case c.Table == "runs":
		return "run"
	}
	return c.Table + " " + w.key(c)
}

// key is source/dataset/window, as people call a unit, or whatever else the key of a table is.
func (w *words) key(c projections.Change) string {
	columns := keyOf(c.Table)
	var parts []string
	for i, k := range c.Key {
		switch {
		case columns[i] == "window_from" && i+1 < len(columns) && columns[i+1] == "window_to":
			from, to := k.(int64), c.Key[i+1].(int64)
			parts = append(parts, events.NewWindow(time.UnixMicro(from), time.UnixMicro(to)).Name())
		case columns[i] == "window_to":
		default:
			parts = append(parts, w.value(columns[i], k))
		}
	}
	return strings.Join(parts, "/")
}

func keyOf(table string) []string {
	tables := projections.Tables()
	i := slices.IndexFunc(tables, func(t projections.Table) bool { return t.Name == table })
	return strings.Split(tables[i].Key, ", ")
}

// value is a column for people: an instant of the run counts from its plan, one of the data is a date, an id is the thing
// that it names.
func (w *words) value(column string, v any) string {
	switch v := v.(type) {
	case nil:
		return "–"
	case int64:
		switch {
		case strings.HasSuffix(column, "_at"), strings.HasSuffix(column, "until"):
			return w.since(events.Micros(v))
		case column == "at", strings.HasPrefix(column, "window_"):
			return time.UnixMicro(v).UTC().Format("2006-01-02T15:04:05.999999Z")
		case column == "duration":
			return length(events.Span(v))
		}
		return strconv.FormatInt(v, 10)
	case []byte:
		return w.id(v)
	case string:
		return word(v)
	}
	return fmt.Sprint(v)
}

func (w *words) remember(s Subject) {
	if w.names == nil {
		w.names = map[string]string{}
	}
	if id, ok := s.Stream.Unit(); ok {
		w.names[string(id[:])] = s.Name
	}
}

// id is the name of a unit of the run, or the end of an id: that of a process, for one, whose whole id stands where it
// started.
func (w *words) id(b []byte) string {
	if name, ok := w.names[string(b)]; ok {
		return name
	}
	var id ulid.ULID
	if copy(id[:], b) != len(id) || len(b) != len(id) {
		return fmt.Sprintf("%x", b)
	}
	return "…" + id.String()[20:]
}

// word is a text that keeps to its place: as it is, if nothing in it could break the line or be taken for what stands
// around it.
func word(s string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(" ,→\"", r) }
	if isJSON(s) {
		odd = func(r rune) bool { return !unicode.IsPrint(r) }
	}
	if s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, odd) {
		return strconv.Quote(s)
	}
	return s
}
