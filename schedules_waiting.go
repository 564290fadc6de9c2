package towline

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// ScheduleWaits is the name of the condition in which a due time of a schedule is decided neither way: each look at it fails, as
// when the store has no room for its run (S-8). It is tried for ever.
const ScheduleWaits = "schedule_waits"

// ScheduleWait is that the newest look at a schedule has failed.
type ScheduleWait struct {
	Schedule string    `json:"schedule"`
	Since    time.Time `json:"since"`  // the first look that failed, by the wall clock, of this process
	Text     string    `json:"text"`   // why
	Budget   bool      `json:"budget"` // the store has no room for its run (DUR-6)
}

// scheduleWaits are those of this process. No event says it: a look that fails writes nothing.
type scheduleWaits struct {
	mu   sync.Mutex
	list map[string]ScheduleWait
}

// note remembers how a look has ended. A store that cannot be written is no matter of the schedule, and says so itself.
func (w *scheduleWaits) note(name string, now time.Time, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil, errors.Is(err, ErrNotFound):
		delete(w.list, name)
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrStopped), errors.Is(err, ErrMoved):
	default:
		next := ScheduleWait{Schedule: name, Since: now, Text: err.Error(), Budget: errors.As(err, new(*DiskBudgetError))}
		if old, ok := w.list[name]; ok {
			next.Since = old.Since
		}
		if w.list == nil {
			w.list = map[string]ScheduleWait{}
		}
		w.list[name] = next
	}
}

// ScheduleWaits lists the schedules of which this process cannot decide what is due, by name.
func (e *Engine) ScheduleWaits() []ScheduleWait {
	e.scheduleWaits.mu.Lock()
	defer e.scheduleWaits.mu.Unlock()
	var out []ScheduleWait
	for _, name := range slices.Sorted(maps.Keys(e.scheduleWaits.list)) {
		out = append(out, e.scheduleWaits.list[name])
	}
	return out
}

func (e *Engine) scheduleConditions() (out []Condition) {
	for _, w := range e.ScheduleWaits() {
		out = append(out, Condition{
			Name: ScheduleWaits, ID: w.Schedule, Since: w.Since,
			Text: fmt.Sprintf("schedule %q cannot start what is due, and tries again for ever: %s", w.Schedule, w.Text),
		})
	}
	return out
}
