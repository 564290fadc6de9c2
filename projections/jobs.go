package projections

import (
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// jobs is JobRun: the activity that a person sees. Only the idempotency key is read by a rule (P-11).
type jobs struct{}

func (jobs) Name() string    { return "jobs" }
func (jobs) Revision() int   { return 1 }
func (jobs) Tables() []Table { return []Table{{"jobs", "job_id"}} }

func (jobs) Schema() []string {
	return []string{`
CREATE TABLE jobs (
  job_id              BLOB PRIMARY KEY CHECK (length(job_id) = 16),
  run_id              BLOB,
  trigger             TEXT NOT NULL,
  sync                TEXT NOT NULL,
  actor               TEXT,
  reason              TEXT,
  idempotency_key     TEXT,
  request_fingerprint TEXT,
  status              TEXT,
  succeeded_units     INTEGER,
  failed_units        INTEGER,
  cancelled_units     INTEGER,
  opened_at           INTEGER NOT NULL,
  closed_at           INTEGER,
  CHECK ((status IS NULL) = (closed_at IS NULL))
) STRICT, WITHOUT ROWID`,
		`CREATE INDEX jobs_key ON jobs (sync, idempotency_key, opened_at) WHERE idempotency_key IS NOT NULL`,
		`CREATE VIEW jobs_view AS SELECT ` + ulidText("job_id") + ` AS job_id, ` + ulidText("run_id") + ` AS run_id, trigger, sync,
  actor, reason, idempotency_key, coalesce(status, 'open') AS status, succeeded_units, failed_units, cancelled_units,
  ` + timeText("opened_at") + ` AS opened_at, ` + timeText("closed_at") + ` AS closed_at FROM jobs`,
	}
}

func (jobs) Apply(tx Writer, env events.Envelope, _, after decider.State) error {
	if j, ok := after.(decider.Job); ok {
		return applyJob(tx, env, j)
	}
	return nil
}

func applyJob(tx Writer, env events.Envelope, j decider.Job) error {
	switch e := env.Event.(type) {
	case events.JobOpened:
		return tx.Exec(`INSERT INTO jobs (job_id, trigger, sync, actor, reason, idempotency_key, request_fingerprint, opened_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			blob(j.ID), string(e.Trigger), e.Sync, text(e.Actor), text(e.Reason), text(e.IdempotencyKey),
			text(e.RequestFingerprint), int64(j.OpenedAt))
	case events.JobLinked:
		return tx.Exec(`UPDATE jobs SET run_id = $2 WHERE job_id = $1`, blob(j.ID), blob(e.Run))
	case events.JobClosed:
		return tx.Exec(`UPDATE jobs SET status = $2, succeeded_units = $3, failed_units = $4, cancelled_units = $5,
			closed_at = $6 WHERE job_id = $1`,
			blob(j.ID), string(e.Status), e.Succeeded, e.Failed, e.Cancelled, int64(j.ClosedAt))
	}
	return nil
}
