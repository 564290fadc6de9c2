package httpapi

import (
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

func schedulePath(name string) string { return "/v1/schedules/" + url.PathEscape(name) }

func scheduleOf(row projections.Schedule) (Schedule, error) {
	var asks struct {
		Sync     string      `json:"sync"`
		Mode     events.Mode `json:"mode"`
		Sources  []string    `json:"sources"`
		Datasets []string    `json:"datasets"`
	}
	if err := json.Unmarshal([]byte(row.Template), &asks); err != nil {
		return Schedule{}, fmt.Errorf("schedule %q: its template: %w", row.Name, err)
	}
	self := schedulePath(row.Name)
	return Schedule{
		Name: row.Name, Sync: asks.Sync, Mode: asks.Mode, Selection: Selection{Sources: asks.Sources, Datasets: asks.Datasets},
		Cron: row.Cron, TimeZone: row.TimeZone, CatchUp: row.CatchUp, Max: row.Max, Overlap: row.Overlap, AutoPause: row.AutoPause,
		DefinedAt: row.DefinedAt, Paused: row.Paused, By: row.By, Reason: row.Reason, Since: row.Since, LastRun: row.LastRun, Failures: row.Failures,
		Links: map[string]string{"self": self, "pause": self + "/pause", "resume": self + "/resume", "run_now": self + "/run-now"},
	}, nil
}

// addDue adds what only the present knows.
func addDue(out *Schedule, state towline.ScheduleState) {
	out.Error = state.Error
	if w := state.Wait; w != nil {
		out.Waits = &ScheduleWait{Since: w.Since, Text: w.Text}
		if w.Budget {
			out.Waits.Code = CodeDiskBudget
		}
	}
	for _, f := range state.Next {
		out.Next = append(out.Next, Fire{At: f.At, Local: f.Local, Civil: f.Key, Remark: f.Remark})
	}
}

func occurrenceOf(o projections.Occurrence) Occurrence {
	return Occurrence{Civil: o.Civil, At: o.Instant, State: string(o.Status), Job: o.Job, Run: o.Run, Reason: o.Reason, Text: o.Text, Decided: o.Decided}
}

func missedOf(m projections.Missed) MissedTimes {
	return MissedTimes{FromCivil: m.FromCivil, ToCivil: m.ToCivil, From: m.From, To: m.To, Count: m.Count, Reason: m.Reason, Decided: m.Decided}
}
