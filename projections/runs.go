package projections

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// runs is SyncRun. Counts are written with the end of the run, out of the terminal event; while it is open they are
// counted from its units, so no settle writes here (spec 4.2).
//
// post_sync_armed is a fact of another stream, the first arm of the register. It is here so that the index runs_post
// holds the runs of which nobody has been told, and none of those that have (REC-10). What is owed stays on record.
//
// archived is the position of the RunsArchived by which the run moved into a segment (L-1); NULL: it is in the log. The index
// runs_archivable holds the runs that have ended and are in the log, by their end, so that a look for the oldest of them costs
// nothing for those that are archived.
//
// effects is the state of a post_sync in exactly_once mode, which REC-10 looks at behind the arm, too. The index
// runs_effects holds the runs that are not done, the held ones apart from those that may be armed again.
type runs struct{}

func (runs) Name() string    { return "runs" }
func (runs) Revision() int   { return 6 }
func (runs) Tables() []Table { return []Table{{"runs", "run_id"}} }

func (runs) Schema() []string {
	return []string{`
CREATE TABLE runs (
  run_id          BLOB PRIMARY KEY CHECK (length(run_id) = 16),
  job_id          BLOB NOT NULL,
  sync            TEXT NOT NULL,
  triggered_by    TEXT NOT NULL,
  mode            TEXT NOT NULL,
  selection       TEXT NOT NULL,
  retry_of        BLOB,
  left_out        TEXT,
  policy          TEXT NOT NULL,
  status          TEXT NOT NULL CHECK ` + oneOf("status", events.RunIsPlanned, events.RunIsDispatching, events.RunSucceeded,
		events.RunPartialFailed, events.RunFailed, events.RunIsCancelled) + `,
  reason          TEXT,
  total_units     INTEGER NOT NULL,
  succeeded_units INTEGER NOT NULL DEFAULT 0,
  failed_units    INTEGER NOT NULL DEFAULT 0,
  cancelled_units INTEGER NOT NULL DEFAULT 0,
  post_sync_owed  INTEGER NOT NULL DEFAULT 0,
  post_sync_armed INTEGER NOT NULL DEFAULT 0,
  effects         TEXT CHECK ` + oneOf("effects", decider.EffectsOpen, decider.EffectsHeld, decider.EffectsDone) + `,
  posts           TEXT,
  planned_at      INTEGER NOT NULL,
  started_at      INTEGER,
  completed_at    INTEGER,
  archived        INTEGER,
  CHECK ((completed_at IS NULL) = ` + oneOf("status", events.RunIsPlanned, events.RunIsDispatching) + `),
  CHECK (completed_at IS NULL OR succeeded_units + failed_units + cancelled_units = total_units)
) STRICT, WITHOUT ROWID`,
		`CREATE INDEX runs_ending ON runs (substr(run_id, 13))`, // people call a run by the end of its id
		`CREATE INDEX runs_open ON runs (run_id) WHERE completed_at IS NULL`,
		`CREATE INDEX runs_retry ON runs (retry_of, run_id) WHERE retry_of IS NOT NULL`,
		`CREATE INDEX runs_post ON runs (run_id) WHERE post_sync_owed = 1 AND post_sync_armed = 0`,
		`CREATE INDEX runs_effects ON runs (effects, run_id) WHERE ` + oneOf("effects", decider.EffectsOpen, decider.EffectsHeld),
		`CREATE INDEX runs_archivable ON runs (completed_at, run_id) WHERE completed_at IS NOT NULL AND archived IS NULL`,
		`CREATE VIEW runs_view AS SELECT ` + ulidText("run_id") + ` AS run_id, ` + ulidText("job_id") + ` AS job_id,
  sync, triggered_by, mode, selection, ` + ulidText("retry_of") + ` AS retry_of, left_out, status, reason,
  total_units, succeeded_units, failed_units, cancelled_units, post_sync_owed, post_sync_armed,
  effects, ` + postsText + ` AS posts, ` + unconfirmed + ` AS unconfirmed, ` + timeText("planned_at") + ` AS planned_at, ` + timeText("started_at") + ` AS started_at,
  ` + timeText("completed_at") + ` AS completed_at, archived FROM runs`,
	}
}

// postsText is SQL for the posts, whose times are microseconds in the table and text for people.
var postsText = `CASE WHEN posts IS NOT NULL THEN (SELECT json_group_array(json_set(value, '$.at', ` + timeText(`(value ->> '$.at')`) + `))
  FROM json_each(posts)) END`

// unconfirmed is SQL for the targets of a post_sync that was sent and has not been reported as done or failed, nor
// resolved, nor is accepted where nobody would report (HP-4).
const unconfirmed = `(SELECT group_concat(t.value, ', ')
  FROM outbox AS o, json_each(policy, '$.targets') AS t
  WHERE o.owner = run_id AND o.kind = 'post_sync' AND o.closed > 0
    AND NOT EXISTS (SELECT 1 FROM json_each(posts) AS p
      WHERE json_extract(p.value, '$.target') = t.value AND json_extract(p.value, '$.status') <> 'started')
    AND NOT EXISTS (SELECT 1 FROM json_each(o.resolved) AS x WHERE json_extract(x.value, '$.target') = t.value)
    AND NOT EXISTS (SELECT 1 FROM json_each(policy, '$.sent') AS s, json_each(o.outcomes) AS x
      WHERE s.value = t.value AND json_extract(x.value, '$.target') = t.value
        AND json_extract(x.value, '$.outcome') = 'accepted'))`

func (runs) Apply(tx Writer, env events.Envelope, before, after decider.State) error {
	if e, ok := env.Event.(events.RunsArchived); ok {
		return archiveRuns(tx, env.Position, e)
	}
	switch s := after.(type) {
	case decider.Run:
		return applyRun(tx, env, s)
	case decider.Register:
		if s.Kind == events.KindPostSync && before.(decider.Register).Status == "" {
			return tx.Exec(`UPDATE runs SET post_sync_armed = 1 WHERE run_id = $1`, blob(s.Owner))
		}
	}
	return nil
}

// archiveRuns notes the runs whose own stream was sealed: with it, or before it, went all that belongs to them.
func archiveRuns(tx Writer, at events.Position, e events.RunsArchived) error {
	for _, name := range e.Streams {
		text, ok := strings.CutPrefix(name, runPrefix)
		if !ok || strings.Contains(text, "/") { // a part of a run, whose own stream follows
			continue
		}
		run, err := events.ParseRunID(text)
		if err != nil {
			return fmt.Errorf("archived stream %q: %w", name, err)
		}
		if err := tx.Exec(`UPDATE runs SET archived = $2 WHERE run_id = $1`, blob(run), int64(at)); err != nil {
			return err
		}
	}
	return nil
}

var runPrefix = strings.TrimSuffix(events.RunStream(events.RunID{}).String(), events.RunID{}.String())

func applyRun(tx Writer, env events.Envelope, r decider.Run) error {
	switch e := env.Event.(type) {
	case events.RunPlanned:
		return insertRun(tx, r, e)
	case events.RunDispatchStarted:
		return tx.Exec(`UPDATE runs SET status = $2, started_at = $3 WHERE run_id = $1`, blob(r.ID), string(r.Status), int64(r.StartedAt))
	case events.RunFinalized, events.RunCancelled:
		return tx.Exec(`UPDATE runs SET status = $2, reason = $3, succeeded_units = $4, failed_units = $5,
			cancelled_units = $6, post_sync_owed = $7, completed_at = $8, effects = $9 WHERE run_id = $1`,
			blob(r.ID), string(r.Status), text(r.Reason), r.Counts.Succeeded, r.Counts.Failed, r.Counts.Cancelled,
			flag(r.PostSyncOwed), int64(r.CompletedAt), text(r.Effects()))
	}
	posts, err := list(r.Posts)
	if err != nil {
		return err
	}
	return tx.Exec(`UPDATE runs SET posts = $2, effects = $3 WHERE run_id = $1`, blob(r.ID), posts, text(r.Effects()))
}

func insertRun(tx Writer, r decider.Run, e events.RunPlanned) error {
	selection, err := json.Marshal(e.Selection)
	if err != nil {
		return fmt.Errorf("encode selection: %w", err)
	}
	policy, err := json.Marshal(e.Policy)
	if err != nil {
		return fmt.Errorf("encode policy: %w", err)
	}
	leftOut, err := list(e.LeftOut)
	if err != nil {
		return err
	}
	return tx.Exec(`INSERT INTO runs (run_id, job_id, sync, triggered_by, mode, selection, retry_of, left_out, policy,
		status, total_units, planned_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		blob(r.ID), blob(e.Job), e.Sync, string(e.TriggeredBy), string(e.Mode), string(selection), blob(e.RetryOf), leftOut,
		string(policy), string(r.Status), e.TotalUnits, int64(r.PlannedAt))
}
