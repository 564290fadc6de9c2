package events

import (
	"encoding/json"
	"time"
)

// Window is a half-open interval [From, To) in UTC, in whole microseconds. A zero From is an open start.
// In a payload it is {"from": micros, "to": micros}; an open start has no from.
type Window struct {
	From, To time.Time
}

// NewWindow cuts both ends to whole microseconds UTC, so that equal windows are equal values.
func NewWindow(from, to time.Time) Window {
	return Window{From: utcMicros(from), To: utcMicros(to)}
}

func utcMicros(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

// IsZero reports a window without ends.
func (w Window) IsZero() bool { return w.From.IsZero() && w.To.IsZero() }

// Empty reports that no instant lies in the window.
func (w Window) Empty() bool { return !w.From.IsZero() && !w.From.Before(w.To) }

type storedWindow struct {
	From *int64 `json:"from,omitempty"` // absent: open; 0 is 1970, a date that wrong clocks really write
	To   int64  `json:"to"`
}

func (w Window) MarshalJSON() ([]byte, error) {
	s := storedWindow{To: w.To.UnixMicro()}
	if !w.From.IsZero() {
		from := w.From.UnixMicro()
		s.From = &from
	}
	return json.Marshal(s)
}

func (w *Window) UnmarshalJSON(b []byte) error {
	var s storedWindow
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*w = Window{To: time.UnixMicro(s.To).UTC()}
	if s.From != nil {
		w.From = time.UnixMicro(*s.From).UTC()
	}
	return nil
}

// Name is the window as people and sinks write it: "-" for an open start, the calendar name of a whole UTC year,
// month, week (its Monday behind a w) or day, and FROM..TO for any other.
//
// A window with an open start covers all there is up to its end, so two of them are one place to a sink, whatever
// their ends are.
func (w Window) Name() string {
	if w.From.IsZero() {
		return "-"
	}
	from := w.From
	midnight := from.Equal(from.Truncate(24 * time.Hour))
	switch {
	case midnight && from.YearDay() == 1 && from.AddDate(1, 0, 0).Equal(w.To):
		return from.Format("2006")
	case midnight && from.Day() == 1 && from.AddDate(0, 1, 0).Equal(w.To):
		return from.Format("2006-01")
	case midnight && from.Weekday() == time.Monday && from.AddDate(0, 0, 7).Equal(w.To):
		return from.Format("w2006-01-02")
	case midnight && from.AddDate(0, 0, 1).Equal(w.To):
		return from.Format("2006-01-02")
	}
	return instantName(from) + ".." + instantName(w.To)
}

func instantName(t time.Time) string {
	if t.Equal(t.Truncate(24 * time.Hour)) {
		return t.Format("2006-01-02")
	}
	return t.Format("2006-01-02T15:04:05.999999Z")
}

// Alias is the readable name of a unit: RUN:source/dataset/window, with the last six characters of the run.
func Alias(run RunID, source, dataset string, w Window) string {
	return run.Short() + ":" + source + "/" + dataset + "/" + w.Name()
}
