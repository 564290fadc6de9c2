package projections

import (
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// schedules are the definitions, and beside each what decisions must know of its runs: the last one, and how many in a row
// have failed (S-6, S-9). A row stays when its schedule is removed, so the table is as long as the catalogue has ever been.
type schedules struct{}

func (schedules) Name() string    { return "schedules" }
func (schedules) Revision() int   { return 1 }
func (schedules) Tables() []Table { return []Table{{"schedules", "name"}} }

func (schedules) Schema() []string {
	return []string{`
CREATE TABLE schedules (
  name             TEXT PRIMARY KEY,
  cron             TEXT NOT NULL,
  time_zone        TEXT NOT NULL,
  catch_up         TEXT NOT NULL,
  max              INTEGER NOT NULL,
  overlap          TEXT NOT NULL,
  auto_pause_after INTEGER NOT NULL,
  template         TEXT NOT NULL,
  version          INTEGER NOT NULL, -- position of the definition
  defined_at       INTEGER NOT NULL,
  counts_from      INTEGER NOT NULL, -- wall time
  removed          INTEGER NOT NULL CHECK (removed IN (0, 1)),
  paused           INTEGER NOT NULL CHECK (paused IN (0, 1)),
  actor            TEXT,             -- who has paused or resumed it last, why, and when
  reason           TEXT,
  since            INTEGER,
  run_id           BLOB,             -- the newest that one of its occurrences has triggered
  failures         INTEGER NOT NULL DEFAULT 0 -- runs in a row that have failed, up to the newest that has ended
) STRICT, WITHOUT ROWID`,
		`CREATE VIEW schedules_view AS SELECT name, cron, time_zone, catch_up, nullif(max, 0) AS max, overlap,
  nullif(auto_pause_after, 0) AS auto_pause_after, template,
  CASE WHEN removed = 1 THEN 'removed' WHEN paused = 1 THEN 'paused' ELSE 'active' END AS status, actor, reason,
  ` + timeText("since") + ` AS since, ` + timeText("defined_at") + ` AS defined_at, ` + ulidText("run_id") + ` AS run_id, failures
  FROM schedules`,
	}
}

const upsertSchedule = `INSERT INTO schedules (name, cron, time_zone, catch_up, max, overlap, auto_pause_after, template, version,
		defined_at, counts_from, removed, paused, actor, reason, since)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
		ON CONFLICT (name) DO UPDATE SET cron = excluded.cron, time_zone = excluded.time_zone, catch_up = excluded.catch_up,
		  max = excluded.max, overlap = excluded.overlap, auto_pause_after = excluded.auto_pause_after,
		  template = excluded.template, version = excluded.version, defined_at = excluded.defined_at,
		  counts_from = excluded.counts_from, removed = excluded.removed, paused = excluded.paused, actor = excluded.actor,
		  reason = excluded.reason, since = excluded.since`

func (schedules) Apply(tx Writer, env events.Envelope, _, after decider.State) error {
	switch s := after.(type) {
	case decider.Schedule:
		if _, missed := env.Event.(events.OccurrencesMissed); missed || s.Version == 0 {
			return nil
		}
		d := s.Definition
		return tx.Exec(upsertSchedule, s.Name, d.Cron, d.TimeZone, string(d.CatchUp), d.Max, string(d.Overlap), d.AutoPause,
			string(d.Template), int64(s.Version), int64(s.DefinedAt), int64(s.CountsFrom()), flag(s.Removed), flag(s.Paused),
			text(s.By), text(s.Reason), micros(s.Since))
	case decider.Occurrence:
		if e, ok := env.Event.(events.OccurrenceTriggered); ok {
			return tx.Exec(`UPDATE schedules SET run_id = $2 WHERE name = $1`, s.Schedule, blob(e.Run))
		}
	case decider.Run:
		if name, ok := events.ScheduleOf(s.Plan.Occurrence); ok {
			return applyEnd(tx, env.Event, name)
		}
	}
	return nil
}

// applyEnd counts straight failures (S-9): a run that has failed in part, or was cancelled, is none.
func applyEnd(tx Writer, e events.Event, schedule string) error {
	switch e := e.(type) {
	case events.RunFinalized:
		if e.Status == events.RunFailed {
			return tx.Exec(`UPDATE schedules SET failures = failures + 1 WHERE name = $1`, schedule)
		}
	case events.RunCancelled:
	default:
		return nil
	}
	return tx.Exec(`UPDATE schedules SET failures = 0 WHERE name = $1`, schedule)
}
