package script

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

type (
	// Schedule is a schedule. Said again, it changes.
	Schedule struct {
		Name      string         `line:"arg"`
		Sync      string         `line:"key=sync"` // empty: of that name
		Cron      string         `line:"key=cron"`
		Zone      string         `line:"key=zone"` // empty: UTC
		CatchUp   events.CatchUp `line:"key=catch_up"`
		Max       int            `line:"key=max"`
		Overlap   events.Overlap `line:"key=overlap"`
		AutoPause int            `line:"key=auto_pause_after"`
		Sources   []string       `line:"key=sources"`
	}

	// Unschedule takes a schedule away.
	Unschedule struct {
		Name string `line:"arg"`
	}

	// PauseSchedule pauses a schedule.
	PauseSchedule struct {
		Name string `line:"arg"`
	}

	// ResumeSchedule ends its pause.
	ResumeSchedule struct {
		Name string `line:"arg"`
	}

	// RunSchedule runs it by hand.
	RunSchedule struct {
		Name string `line:"arg"`
		Key  string `line:"key=key"`
	}
)

func (c Schedule) String() string       { return line(c) }
func (c Unschedule) String() string     { return line(c) }
func (c PauseSchedule) String() string  { return line(c) }
func (c ResumeSchedule) String() string { return line(c) }
func (c RunSchedule) String() string    { return line(c) }

func (c Schedule) play(_ context.Context, p *Player) error {
	if _, err := p.mustSync(cmp.Or(c.Sync, c.Name)); err != nil {
		return err
	}
	for _, source := range c.Sources {
		if err := p.hasSource(source); err != nil {
			return err
		}
	}
	p.scheduled = true
	p.wereScheduled = append(p.wereScheduled, c.Name)
	if i := p.scheduleAt(c.Name); i >= 0 {
		p.schedules[i] = c
	} else {
		p.schedules = append(p.schedules, c)
	}
	p.configure()
	return nil
}

func (c Unschedule) play(_ context.Context, p *Player) error {
	i := p.scheduleAt(c.Name)
	if i < 0 {
		return noSuch("schedule", c.Name, p.wereScheduled)
	}
	p.schedules = slices.Delete(p.schedules, i, i+1)
	p.configure()
	return nil
}

func (p *Player) scheduleAt(name string) int {
	return slices.IndexFunc(p.schedules, func(s Schedule) bool { return s.Name == name })
}

// scheduledAs are the schedules of the nodes that start from now on.
func (p *Player) scheduledAs() []towline.Schedule {
	out := []towline.Schedule{} // not nil: one that is gone is removed
	for _, s := range p.schedules {
		out = append(out, towline.Schedule{
			Name: s.Name, Sync: cmp.Or(s.Sync, s.Name), Sources: s.Sources, Cron: s.Cron, TimeZone: s.Zone, CatchUp: s.CatchUp, Max: s.Max,
			Overlap: s.Overlap, AutoPause: s.AutoPause,
		})
	}
	return out
}

func (c PauseSchedule) play(ctx context.Context, p *Player) error {
	return p.ask(ctx, func(e *towline.Engine) error { return e.PauseSchedule(ctx, c.Name, ops) })
}

func (c ResumeSchedule) play(ctx context.Context, p *Player) error {
	return p.ask(ctx, func(e *towline.Engine) error { return e.ResumeSchedule(ctx, c.Name, ops) })
}

func (c RunSchedule) play(ctx context.Context, p *Player) error {
	return p.ask(ctx, func(e *towline.Engine) error { return p.planned(e.RunSchedule(ctx, c.Name, c.Key, ops)) })
}

func (p *Player) showSchedules(ctx context.Context) error {
	return p.ask(ctx, func(e *towline.Engine) error {
		all, err := e.Schedules(ctx, 1)
		for _, s := range all {
			text := s.Name + ": active"
			if s.Paused {
				text = s.Name + ": paused by " + s.By + quoted(s.Reason)
			}
			if s.Failures > 0 {
				text += fmt.Sprintf(", failures %d", s.Failures)
			}
			if len(s.Next) > 0 {
				text += ", next " + s.Next[0].Key
			}
			p.trace.say("%s", text)
		}
		return err
	})
}

// showNext lists the next due times of a schedule, with remarks.
func (p *Player) showNext(ctx context.Context, name string) error {
	const some = 4
	return p.ask(ctx, func(e *towline.Engine) error {
		s, err := e.Schedule(ctx, name, some)
		for _, f := range s.Next {
			text := fmt.Sprintf("%s  %s", f.At.Format("2006-01-02T15:04:05Z"), f.Local)
			if f.Remark != "" {
				text += ": " + f.Remark
			}
			p.trace.say("%s", text)
		}
		return err
	})
}

// showOccurrences is the ledger of a schedule.
func (p *Player) showOccurrences(ctx context.Context, name string) error {
	const many = 1000
	if !slices.Contains(p.wereScheduled, name) {
		return noSuch("schedule", name, p.wereScheduled)
	}
	return p.view(ctx, func(v projections.View) error {
		rows, err := v.Occurrences(name, projections.OccurrenceCursor{}, many)
		if err != nil {
			return err
		}
		for _, o := range slices.Backward(rows) {
			text := o.Civil + ": " + string(o.Status)
			if !o.Run.IsZero() {
				text += " " + p.trace.runs[o.Run]
			}
			p.trace.say("%s%s%s", text, parens(o.Reason), quoted(o.Text))
		}
		missed, err := v.Missed(name, 0, many)
		for _, m := range slices.Backward(missed) {
			p.trace.say("%d missed, %s to %s%s", m.Count, m.FromCivil, m.ToCivil, parens(string(m.Reason)))
		}
		return err
	})
}

// schedule tells an event of a schedule.
func (t *trace) schedule(e events.Event) string {
	switch e := e.(type) {
	case events.ScheduleDefined:
		text := fmt.Sprintf("%s, %s, catch-up %s", e.Cron, e.TimeZone, e.CatchUp)
		if e.Max > 0 {
			text += fmt.Sprintf(" %d", e.Max)
		}
		text += fmt.Sprintf(", overlap %s", e.Overlap)
		if e.AutoPause > 0 {
			text += fmt.Sprintf(", auto-pause after %d", e.AutoPause)
		}
		return text
	case events.SchedulePaused:
		return "by " + e.Actor + quoted(e.Reason)
	case events.ScheduleResumed:
		return "by " + e.Actor + quoted(e.Reason)
	case events.ScheduleRemoved:
		return "by " + e.Actor + quoted(e.Reason)
	case events.OccurrencesMissed:
		return fmt.Sprintf("%d from %s to %s, %s", e.Count, e.FromCivil, e.ToCivil, e.Reason)
	}
	return events.Describe(e)
}

// occurrence tells an event of a due time.
func occurrence(e events.Event) string {
	switch e := e.(type) {
	case events.OccurrenceSkipped:
		return string(e.Reason)
	case events.OccurrenceRejected:
		return string(e.Category) + quoted(e.Text)
	}
	return ""
}
