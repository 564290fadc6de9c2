package query

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/towline-dev/towline/events"
)

// value reads one value of a field: a string, the microseconds of a moment, or an events.Window.
func (f Field) value(term, v string, now time.Time) (any, error) {
	switch f.sort {
	case word:
		if !slices.Contains(f.Words, v) {
			return nil, wrong(term, fmt.Sprintf("%s has no value %q", f.Name, v), oneOf(f.Words))
		}
	case name:
		digits := strings.ToUpper(v)
		const least, most = 6, 26
		if len(digits) < least || len(digits) > most || strings.Trim(digits, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") != "" {
			return nil, wrong(term, fmt.Sprintf("%q is neither a ULID nor the end of one", v), "write at least six of its last characters")
		}
		return digits, nil
	case window:
		w, ok := Period(v)
		if !ok {
			return nil, wrong(term, fmt.Sprintf("%q is no period", v), "write 2025, 2025-01, 2025-01-31, w2025-01-27 or FROM..TO, all in UTC")
		}
		return w, nil
	case age:
		d, ok := duration(v)
		if !ok {
			return nil, wrong(term, fmt.Sprintf("%q is no duration", v), "write 90s, 10m, 2h or 7d")
		}
		return int64(events.MicrosOf(now.Add(-d))), nil
	case text:
	}
	return v, nil
}

func oneOf(words []string) string {
	const most = 12
	if len(words) > most {
		return ""
	}
	return "use one of " + strings.Join(words, ", ")
}

func duration(text string) (time.Duration, bool) {
	const day = 24 * time.Hour
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * day, err == nil
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0
}

// Period reads the name of a window as events.Window.Name writes it, and a year, a month, a day or a week in UTC.
func Period(text string) (events.Window, bool) {
	if from, to, ok := strings.Cut(text, ".."); ok {
		f, okFrom := instant(from)
		t, okTo := instant(to)
		return events.NewWindow(f, t), okFrom && okTo && f.Before(t)
	}
	for layout, days := range map[string][3]int{"2006": {1, 0, 0}, "2006-01": {0, 1, 0}, "2006-01-02": {0, 0, 1}, "w2006-01-02": {0, 0, 7}} {
		from, err := time.Parse(layout, text)
		if err == nil && (days[2] != 7 || from.Weekday() == time.Monday) {
			return events.NewWindow(from, from.AddDate(days[0], days[1], days[2])), true
		}
	}
	return events.Window{}, false
}

func instant(text string) (time.Time, bool) {
	for _, layout := range []string{time.DateOnly, time.RFC3339Nano} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}
