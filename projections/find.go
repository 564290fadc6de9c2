package projections

import (
	"fmt"
	"strings"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// Op is how a Term compares.
type Op string

const (
	Is      Op = "="
	Less    Op = "<"
	AtMost  Op = "<="
	More    Op = ">"
	AtLeast Op = ">="
)

// Term is one condition of a search. It holds of a row if its field compares so with one of the values; with Not, if it
// does so with none of them. A field that a row has not is equal to nothing.
type Term struct {
	Field  string // of RunFields, UnitFields, RegisterFields or JobFields
	Op     Op
	Values []any // a string; int64 microseconds of "since"; an events.Window of "window"; digits of an id
	Not    bool
}

// field is SQL for the comparison of a field with one value, which arg makes a parameter of.
type field func(op Op, value any, arg func(any) string) (string, error)

// fields of the things that are searched, by the words of people.
var (
	runFields = map[string]field{
		"run": endsIn("r.run_id"), "sync": column("r.sync"), "state": column(runState), "mode": column("r.mode"), "trigger": column("r.triggered_by"),
		"reason": column("r.reason"), "since": column("r.planned_at"),
		"source":  ofUnits(column("u.source")),
		"dataset": ofUnits(column("u.dataset")),
		"error":   ofUnits(column("u.error_category")),
		"window":  ofUnits(window),
	}
	unitFields = map[string]field{
		"run": endsIn("u.run_id"), "unit": endsIn("u.unit_id"), "sync": ofRun("u.run_id", column("r.sync")), "mode": column("u.mode"), "source": column("u.source"),
		"dataset": column("u.dataset"), "provider": column("u.provider"), "tier": column("u.tier"), "state": column("u.status"),
		"error": column("u.error_category"), "worker": column("u.worker"), "window": window, "since": column("u.planned_at"),
	}
	registerFields = map[string]field{
		"run": endsIn("o.owner"), "kind": column("o.kind"), "state": column("o.status"), "outcome": column(lastOutcome), "transport": column("o.transport"),
		"cause": column("o.last_cause"), "sync": ofRun("o.owner", column("r.sync")),
		"since": column("coalesce(o.available_at, o.last_dispatched_at, o.last_closed_at)"),
	}
	jobFields = map[string]field{
		"job": endsIn("j.job_id"), "run": endsIn("j.run_id"), "sync": column("j.sync"), "trigger": column("j.trigger"), "actor": column("j.actor"),
		"state": column(jobState), "since": column("j.opened_at"),
	}
)

// runState is SQL for the status of a run as SyncRun has it, with the derived one.
const runState = `CASE WHEN r.completed_at IS NOT NULL THEN r.status
	WHEN EXISTS (SELECT 1 FROM units x WHERE x.run_id = r.run_id AND x.status IN ('running', 'retrying'))
	  OR (SELECT count(*) BETWEEN 1 AND r.total_units - 1 FROM units x WHERE x.run_id = r.run_id AND x.settled_at IS NOT NULL)
	THEN 'running' ELSE r.status END`

// jobState is SQL for the status of a job as JobRun has it, which is that of its run while it is open (J-1).
const jobState = `coalesce(j.status, (SELECT ` + runState + ` FROM runs r WHERE r.run_id = j.run_id))`

// lastOutcome is SQL for Register.LastOutcome.
const lastOutcome = `CASE
	WHEN EXISTS (SELECT 1 FROM json_each(o.outcomes) AS x WHERE json_extract(x.value, '$.outcome') = 'unknown') THEN 'unknown'
	WHEN EXISTS (SELECT 1 FROM json_each(o.outcomes) AS x WHERE json_extract(x.value, '$.outcome') = 'refused') THEN 'refused'
	WHEN o.outcomes IS NOT NULL THEN 'accepted'
	WHEN o.last_cause = 'refused' THEN 'refused'
	WHEN o.last_cause = 'publish_unknown' THEN 'unknown'
	WHEN o.last_cause IS NULL AND o.last_dispatched_at IS NOT NULL AND o.status <> 'marked' THEN 'accepted' END`

// LastOutcome is what is known of the last publish of a register; empty: there was none, or it has not ended.
func (r Register) LastOutcome() events.Outcome {
	has := func(o events.Outcome) bool {
		for _, t := range r.Outcomes {
			if t.Outcome == o {
				return true
			}
		}
		return false
	}
	switch {
	case has(events.Unknown):
		return events.Unknown
	case has(events.Refused):
		return events.Refused
	case len(r.Outcomes) > 0:
		return events.Accepted
	case r.LastCause == string(events.ReleaseRefused):
		return events.Refused
	case r.LastCause == string(events.ReleasePublishUnknown):
		return events.Unknown
	case r.LastCause == "" && !r.LastDispatched.IsZero() && r.Status != decider.RegisterMarked:
		return events.Accepted
	}
	return ""
}

func column(expr string) field {
	return func(op Op, value any, arg func(any) string) (string, error) {
		if value == "" { // what is not there is empty
			expr = "coalesce(" + expr + ", '')"
		}
		return expr + " " + string(op) + " " + arg(value), nil
	}
}

func ofUnits(f field) field {
	return func(op Op, value any, arg func(any) string) (string, error) {
		sql, err := f(op, value, arg)
		return `EXISTS (SELECT 1 FROM units u WHERE u.run_id = r.run_id AND ` + sql + `)`, err
	}
}

func ofRun(id string, f field) field {
	return func(op Op, value any, arg func(any) string) (string, error) {
		sql, err := f(op, value, arg)
		return `EXISTS (SELECT 1 FROM runs r WHERE r.run_id = ` + id + ` AND ` + sql + `)`, err
	}
}

// window compares with a period: a unit is in it if all of its window is, and before or behind it if nothing of it is.
// One with an open start is before its end, and behind nothing.
func window(op Op, value any, arg func(any) string) (string, error) {
	w, ok := value.(events.Window)
	if !ok {
		return "", fmt.Errorf("window: %v is none", value)
	}
	from, to := arg(w.From.UnixMicro()), arg(w.To.UnixMicro())
	switch op {
	case AtLeast:
		return `u.window_from >= ` + from, nil
	case More:
		return `u.window_from >= ` + to, nil
	case Less:
		return `u.window_to <= ` + from, nil
	case AtMost:
		return `u.window_to <= ` + to, nil
	case Is:
	}
	return `u.window_from >= ` + from + ` AND u.window_to <= ` + to, nil
}

// endsIn is a field that holds an id; the value is the end of it, or all of it.
func endsIn(expr string) field {
	return func(_ Op, value any, arg func(any) string) (string, error) {
		digits, _ := value.(string)
		if id, err := events.ParseRunID(digits); err == nil {
			return expr + " = " + arg(id[:]), nil
		}
		ends, err := lastBytes(digits)
		if err != nil {
			return "", err
		}
		var args []string
		for _, e := range ends {
			args = append(args, arg(e))
		}
		return `substr(` + expr + `, 13) IN (` + strings.Join(args, ", ") + `)`, nil
	}
}

// where is SQL for all terms together, each of which begins with AND; its parameters are numbered behind those that are there.
func where(fields map[string]field, terms []Term, args []any) (string, []any, error) {
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	var sql strings.Builder
	for _, t := range terms {
		f, known := fields[t.Field]
		if !known {
			return "", nil, fmt.Errorf("search: there is no field %q", t.Field)
		}
		parts := make([]string, len(t.Values))
		for i, value := range t.Values {
			part, err := f(t.Op, value, arg)
			if err != nil {
				return "", nil, fmt.Errorf("search: %s: %w", t.Field, err)
			}
			parts[i] = "(" + part + ")"
		}
		is := "IS TRUE"
		if t.Not {
			is = "IS NOT TRUE"
		}
		sql.WriteString("\n\t\tAND (" + strings.Join(parts, " OR ") + ") " + is)
	}
	return sql.String(), args, nil
}
