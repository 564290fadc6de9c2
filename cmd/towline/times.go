package main

import (
	"fmt"
	"time"
)

// Times are local in tables, as people live by them, and in UTC in JSON.

// clockForms are how a person writes a time: in full, or of today.
var clockForms = []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"}

// parseTime reads a time; without a zone it is local, without a day it is today's.
func parseTime(text string, now time.Time) (time.Time, error) {
	for _, form := range clockForms {
		if t, err := time.ParseInLocation(form, text, time.Local); err == nil {
			return t, nil
		}
	}
	for _, form := range []string{"15:04:05", "15:04"} {
		if t, err := time.ParseInLocation(form, text, time.Local); err == nil {
			y, m, d := now.Date()
			return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, time.Local), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: want 2026-11-30T14:03:00Z, 2026-11-30 14:03 or 14:03", text)
}

const none = "–"

// clock is a time of a table: that of the day if it is near, else the day, too.
func clock(t, now time.Time) string {
	const near = 12 * time.Hour
	switch d := now.Sub(t); {
	case t.IsZero():
		return none
	case d < near && d > -near:
		return t.Local().Format("15:04:05")
	}
	return t.Local().Format("2006-01-02 15:04")
}

// span is a time in minutes and seconds, in hours and minutes, or in days.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	d = max(d, 0).Truncate(time.Second)
	switch {
	case d < time.Hour:
		return fmt.Sprintf("%02d:%02d", int(d.Minutes()), int(d.Seconds())%60)
	case d < day:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d/day), int(d%day/time.Hour))
}

// age is how long ago a time is.
func age(t, now time.Time) string {
	if t.IsZero() {
		return none
	}
	return span(now.Sub(t))
}

// ahead is how far a time lies ahead, in words.
func ahead(t, now time.Time) string {
	if d := t.Sub(now); d > 0 {
		return "in " + span(d)
	}
	return "now"
}

func orDash(text string) string {
	if text == "" {
		return none
	}
	return text
}

// grouped is a number with thin blanks, as seq 1 204.
func grouped(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + " " + text[i:]
	}
	return text
}
