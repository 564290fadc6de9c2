package towline

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/schedule"
)

// Schedule says when runs of a sync are planned without anybody asking (S-1). What it asks for is its template: the sync, and
// what follows it here.
type Schedule struct {
	Name     string // empty: the name of the sync
	Sync     string
	Mode     events.Mode // Incremental (zero) or FullResync
	Sources  []string    // nil: all
	Datasets []string    // nil: all

	Cron     string         // five fields, six with seconds before them, or @every DURATION
	TimeZone string         // of the IANA database; empty: UTC
	CatchUp  events.CatchUp // what becomes of missed times; zero: once
	Max      int            // how many CatchUpAll runs, from 1 to 1000; zero with the others
	Overlap  events.Overlap // what becomes of a due time while the last run is open; zero: skip
	// AutoPause pauses the schedule when so many runs in a row have failed (S-9); zero: never.
	AutoPause int
}

// The words of a Schedule: see events.
const (
	CatchUpSkip  = events.CatchUpSkip
	CatchUpOnce  = events.CatchUpOnce
	CatchUpAll   = events.CatchUpAll
	OverlapSkip  = events.OverlapSkip
	OverlapQueue = events.OverlapQueue
)

// maxCatchUp bounds what one look at a schedule queues.
const maxCatchUp = 1000

// template is what of a schedule a trigger request says, as the log keeps it.
type template struct {
	Sync     string      `json:"sync"`
	Mode     events.Mode `json:"mode"`
	Sources  []string    `json:"sources,omitempty"`
	Datasets []string    `json:"datasets,omitempty"`
}

func (t template) spec() RunSpec {
	return RunSpec{Sync: t.Sync, Mode: t.Mode, Sources: t.Sources, Datasets: t.Datasets}
}

func readTemplate(s projections.Schedule) (t template, err error) {
	if err = json.Unmarshal([]byte(s.Template), &t); err != nil {
		err = fmt.Errorf("schedule %q: its template cannot be read: %w", s.Name, err)
	}
	return t, err
}

// timetable is the checked configuration of schedules, and what the loop remembers.
type timetable struct {
	none     bool // Config.NoSchedules
	names    []string
	defined  map[string]events.ScheduleDefined
	watching *watching
}

// watching is since when, by the wall clock, this process looks at schedules. A clock that is set back begins anew.
type watching struct {
	mu    sync.Mutex
	since events.Micros
}

func (w *watching) from(wall events.Micros) events.Micros {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since == 0 || wall < w.since {
		w.since = wall
	}
	return w.since
}

func newTimetable(c Config, syncs catalogue) (timetable, error) {
	t := timetable{none: c.NoSchedules, defined: map[string]events.ScheduleDefined{}, watching: &watching{}}
	if t.none && len(c.Schedules) > 0 {
		return t, fmt.Errorf("schedules are given, and so is NoSchedules: leave one of them out")
	}
	for _, s := range c.Schedules {
		s = s.normal()
		if err := s.check(syncs); err != nil {
			return t, fmt.Errorf("schedule %q: %w", s.Name, err)
		}
		if _, twice := t.defined[s.Name]; twice {
			return t, fmt.Errorf("schedule %q is configured twice", s.Name)
		}
		t.defined[s.Name] = s.definition()
		t.names = append(t.names, s.Name)
	}
	slices.Sort(t.names)
	return t, nil
}

func (s Schedule) normal() Schedule {
	s.Name = cmp.Or(s.Name, s.Sync)
	s.Mode = cmp.Or(s.Mode, Incremental)
	s.TimeZone = cmp.Or(s.TimeZone, "UTC")
	s.CatchUp = cmp.Or(s.CatchUp, CatchUpOnce)
	s.Overlap = cmp.Or(s.Overlap, OverlapSkip)
	return s
}

func (s Schedule) check(syncs catalogue) error {
	if err := checkName("name", s.Name); err != nil {
		return err
	}
	sync, ok := syncs.syncs[s.Sync]
	if !ok {
		return fmt.Errorf("there is no sync %q", s.Sync)
	}
	for _, source := range s.Sources {
		if !slices.Contains(sync.Sources, source) {
			return fmt.Errorf("sync %q has no source %q", s.Sync, source)
		}
	}
	for _, name := range s.Datasets {
		if !slices.Contains(datasetNames(sync.Datasets), name) {
			return fmt.Errorf("sync %q has no dataset %q", s.Sync, name)
		}
	}
	switch {
	case s.Mode != Incremental && s.Mode != FullResync:
		return fmt.Errorf("mode %q: want incremental or full_resync", s.Mode)
	case !slices.Contains([]events.CatchUp{CatchUpSkip, CatchUpOnce, CatchUpAll}, s.CatchUp):
		return fmt.Errorf("catch-up %q: want skip, once or all", s.CatchUp)
	case s.CatchUp == CatchUpAll && (s.Max < 1 || s.Max > maxCatchUp):
		return fmt.Errorf("max %d: catch-up all needs how many, from 1 to %d", s.Max, maxCatchUp)
	case s.CatchUp != CatchUpAll && s.Max != 0:
		return fmt.Errorf("max %d: only catch-up all has one", s.Max)
	case !slices.Contains([]events.Overlap{OverlapSkip, OverlapQueue}, s.Overlap):
		return fmt.Errorf("overlap %q: want skip or queue", s.Overlap)
	case s.AutoPause < 0:
		return fmt.Errorf("auto-pause after %d runs: want 0 or more", s.AutoPause)
	}
	if err := distinct("source", s.Sources); err != nil {
		return err
	}
	if err := distinct("dataset", s.Datasets); err != nil {
		return err
	}
	_, err := schedule.Parse(s.Cron, s.TimeZone)
	return err
}

func (s Schedule) definition() events.ScheduleDefined {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(template{s.Sync, s.Mode, s.Sources, s.Datasets}); err != nil {
		panic(fmt.Sprintf("towline: encode a template: %v", err))
	}
	return events.ScheduleDefined{
		Cron: s.Cron, TimeZone: s.TimeZone, CatchUp: s.CatchUp, Max: s.Max, Overlap: s.Overlap, AutoPause: s.AutoPause,
		Template: bytes.TrimSpace(text.Bytes()),
	}
}

// byConfiguration is who defines and removes schedules.
const byConfiguration = "configuration"

// defineSchedules brings what is stored to what is configured, in one transaction (S-7). Nothing is written if they agree.
func (e *Engine) defineSchedules(ctx context.Context) error {
	e.timers.watching.from(e.wallTime())
	if e.timers.none {
		return nil
	}
	var stored []projections.Schedule
	err := e.View(ctx, func(v projections.View) (err error) {
		stored, err = v.Schedules()
		return err
	})
	if err != nil || len(stored) == 0 && len(e.timers.names) == 0 {
		return err
	}
	return e.Transact(ctx, byConfiguration, func(tx *Tx) error {
		stored, err := tx.View().Schedules()
		if err != nil {
			return err
		}
		for _, s := range stored {
			if _, configured := e.timers.defined[s.Name]; configured {
				continue
			}
			c := decider.RemoveSchedule{Schedule: s.Name, Actor: byConfiguration, Reason: "it is configured no more"}
			if err := tx.changeSchedule(s.Name, c, events.SkippedRemoved); err != nil {
				return err
			}
		}
		for _, name := range e.timers.names {
			d := e.timers.defined[name]
			if world := tx.worldTime(); world < tx.now && !tx.ClockHeld() {
				d.From = world
			}
			if err := tx.changeSchedule(name, decider.DefineSchedule{Schedule: name, Defined: d}, events.SkippedChanged); err != nil {
				return err
			}
		}
		return nil
	})
}

// changeSchedule executes a command on a schedule, and skips what waits in it if that has changed anything (S-7).
func (t *Tx) changeSchedule(name string, c decider.Command, reason events.SkipReason) error {
	results, err := t.Execute(c)
	if err != nil || len(results[0].Events) == 0 {
		return err
	}
	queued, err := t.View().QueuedOccurrences(name, maxCatchUp)
	if err != nil {
		return err
	}
	for _, o := range queued {
		skip := decider.SkipOccurrence{Schedule: name, Civil: o.Civil, Instant: events.MicrosOf(o.Instant), Reason: reason}
		if _, err := t.Execute(skip); err != nil {
			return err
		}
	}
	return nil
}

// failedRun names the schedule of a run that has just failed.
func failedRun(before, after decider.State) (schedule string, ok bool) {
	b, isRun := before.(decider.Run)
	if !isRun || !b.Open() {
		return "", false
	}
	a := after.(decider.Run)
	if a.Status != events.RunFailed {
		return "", false
	}
	return events.ScheduleOf(a.Plan.Occurrence)
}

// pauseFailing pauses the schedules whose last runs have all failed, in the transaction that ends the last of them (S-9).
func (t *Tx) pauseFailing() error {
	for _, name := range t.failing {
		row, _, err := t.View().Schedule(name)
		if err != nil {
			return err
		}
		f, err := t.fold(events.ScheduleStream(name), false)
		if err != nil {
			return err
		}
		if !decider.AutoPauses(f.state.(decider.Schedule), row.Failures) {
			continue
		}
		asker := t.actor
		t.actor = "" // whoever ends the run has not paused the schedule
		c := decider.PauseSchedule{Schedule: name, Actor: byEngine, Reason: fmt.Sprintf("its last %s failed", countRuns(row.Failures))}
		err = t.changeSchedule(name, c, events.SkippedPaused)
		t.actor = asker
		if err != nil {
			return err
		}
	}
	return nil
}

// byEngine is who pauses a schedule whose runs all fail.
const byEngine = "engine"

func countRuns(n int) string {
	if n == 1 {
		return "run has"
	}
	return fmt.Sprintf("%d runs have all", n)
}
