package projections

import (
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// occurrences is the ledger of due times (J-2), and beside it those that were missed, which have no stream of their own: a
// row for each range.
type occurrences struct{}

func (occurrences) Name() string  { return "occurrences" }
func (occurrences) Revision() int { return 1 }
func (occurrences) Tables() []Table {
	return []Table{{"occurrences", "schedule, civil"}, {"missed_occurrences", "schedule, position"}}
}

func (occurrences) Schema() []string {
	return []string{`
CREATE TABLE occurrences (
  schedule   TEXT NOT NULL,
  civil      TEXT NOT NULL, -- local date and time with UTC offset
  instant    INTEGER NOT NULL,
  status     TEXT NOT NULL CHECK (status IN ('queued', 'triggered', 'skipped', 'rejected')),
  job_id     BLOB,
  run_id     BLOB,
  reason     TEXT, -- why it was skipped, or the category of a rejection
  error_text TEXT,
  decided_at INTEGER NOT NULL, -- last
  PRIMARY KEY (schedule, civil),
  CHECK ((status = 'triggered') = (run_id IS NOT NULL))
) STRICT, WITHOUT ROWID`,
		`CREATE INDEX occurrences_instant ON occurrences (schedule, instant, civil)`,
		`CREATE INDEX occurrences_queued ON occurrences (schedule, instant, civil) WHERE status = 'queued'`,
		`CREATE VIEW occurrences_view AS SELECT schedule, civil, ` + timeText("instant") + ` AS instant, status,
  ` + ulidText("job_id") + ` AS job_id, ` + ulidText("run_id") + ` AS run_id, reason, error_text,
  ` + timeText("decided_at") + ` AS decided_at FROM occurrences`,
		`
CREATE TABLE missed_occurrences (
  schedule     TEXT NOT NULL,
  position     INTEGER NOT NULL,
  from_civil   TEXT NOT NULL,
  to_civil     TEXT NOT NULL,
  from_instant INTEGER NOT NULL,
  to_instant   INTEGER NOT NULL,
  count        INTEGER NOT NULL,
  reason       TEXT,
  decided_at   INTEGER NOT NULL,
  PRIMARY KEY (schedule, position)
) STRICT, WITHOUT ROWID`,
		`CREATE INDEX missed_occurrences_instant ON missed_occurrences (schedule, from_instant)`,
		`CREATE VIEW missed_occurrences_view AS SELECT schedule, position, from_civil, to_civil,
  ` + timeText("from_instant") + ` AS from_instant, ` + timeText("to_instant") + ` AS to_instant, count, reason,
  ` + timeText("decided_at") + ` AS decided_at FROM missed_occurrences`,
	}
}

func (occurrences) Apply(tx Writer, env events.Envelope, _, after decider.State) error {
	switch s := after.(type) {
	case decider.Schedule:
		if e, ok := env.Event.(events.OccurrencesMissed); ok {
			return tx.Exec(`INSERT INTO missed_occurrences (schedule, position, from_civil, to_civil, from_instant, to_instant, count,
				reason, decided_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
				s.Name, int64(env.Position), e.FromCivil, e.ToCivil, int64(e.FromInstant), int64(e.ToInstant), e.Count,
				text(e.Reason), int64(env.At))
		}
	case decider.Occurrence:
		return applyOccurrence(tx, env, s)
	}
	return nil
}

func applyOccurrence(tx Writer, env events.Envelope, o decider.Occurrence) error {
	var job, run any
	reason, errorText := "", ""
	switch e := env.Event.(type) {
	case events.OccurrenceQueued:
	case events.OccurrenceTriggered:
		job, run = blob(e.Job), blob(e.Run)
	case events.OccurrenceSkipped:
		reason = string(e.Reason)
	case events.OccurrenceRejected:
		reason, errorText = string(e.Category), e.Text
	default:
		return nil
	}
	return tx.Exec(`INSERT INTO occurrences (schedule, civil, instant, status, job_id, run_id, reason, error_text, decided_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (schedule, civil) DO UPDATE SET instant = excluded.instant, status = excluded.status, job_id = excluded.job_id,
		  run_id = excluded.run_id, reason = excluded.reason, error_text = excluded.error_text, decided_at = excluded.decided_at`,
		o.Schedule, o.Civil, int64(o.Instant), string(o.Status), job, run, text(reason), text(errorText), int64(env.At))
}
