package schedule

import (
	"fmt"
	"time"
)

// Fire is a due time for people.
type Fire struct {
	At     time.Time `json:"at"`               // UTC
	Local  string    `json:"local"`            // what the clock on the wall shows then: 2026-10-25 02:30:00 CET
	Key    string    `json:"civil"`            // of the occurrence
	Remark string    `json:"remark,omitempty"` // what the change of a clock does to it; empty: nothing
}

// Preview lists the next due times behind a cursor, at most n.
func (s Schedule) Preview(after Cursor, n int) []Fire {
	var out []Fire
	if n <= 0 || s.location == nil {
		return out
	}
	before := s.offsetAt(after.Instant)
	for d := range s.Between(after, after.Instant.AddDate(searchYears, 0, 0)) {
		out = append(out, s.fire(d, before))
		before = d.offset
		if len(out) == n {
			break
		}
	}
	return out
}

func (s Schedule) fire(d Due, before int) Fire {
	const local = "2006-01-02 15:04:05 MST"
	return Fire{At: d.Instant, Local: d.Instant.In(s.location).Format(local), Key: d.Key(), Remark: s.remark(d, before)}
}

func (s Schedule) remark(d Due, before int) string {
	clock := clip(time.Unix(int64(d.civil), 0).UTC().Format("15:04:05"), len(":00"))
	switch {
	case d.Change == Skipped:
		return fmt.Sprintf("the clock goes forward over %s: it is due at the first instant behind the gap", clock)
	case d.Change == Repeated && s.every == 0 && !s.isInterval(d.civil):
		return fmt.Sprintf("the clock goes back and shows %s twice: it is due at the first", clock)
	case d.Change == Repeated:
		return fmt.Sprintf("the clock goes back and shows %s twice: it is due at both", clock)
	case d.offset > before:
		return "the clock has gone forward since the time before"
	case d.offset < before:
		return "the clock has gone back since the time before"
	}
	return ""
}
