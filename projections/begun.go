package projections

import (
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// begun holds one row per at_most_once effect that somebody has begun, until its end is on record, or that nobody knows it
// (HP-5). So a start, and a pass, find those of dead processes without a look at the runs that are over.
type begun struct{}

func (begun) Name() string    { return "begun" }
func (begun) Revision() int   { return 1 }
func (begun) Tables() []Table { return []Table{{"begun", "run_id, target"}} }

func (begun) Schema() []string {
	return []string{`
CREATE TABLE begun (
  run_id   BLOB NOT NULL CHECK (length(run_id) = 16),
  target   TEXT NOT NULL,
  node     BLOB,
  begun_at INTEGER NOT NULL,
  PRIMARY KEY (run_id, target)
) STRICT, WITHOUT ROWID`,
		`CREATE VIEW begun_view AS SELECT ` + ulidText("run_id") + ` AS run_id, target, ` + ulidText("node") + ` AS node,
  ` + timeText("begun_at") + ` AS begun_at FROM begun`,
	}
}

func (begun) Apply(tx Writer, env events.Envelope, _, after decider.State) error {
	switch e := env.Event.(type) {
	case events.PostSyncStarted:
		return tx.Exec(`INSERT INTO begun (run_id, target, node, begun_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (run_id, target) DO UPDATE SET node = excluded.node, begun_at = excluded.begun_at`,
			blob(after.(decider.Run).ID), e.Target, blob(env.Node), int64(env.At))
	case events.PostSyncCompleted:
		return over(tx, after.(decider.Run).ID, e.Target)
	case events.PostSyncFailed:
		return over(tx, after.(decider.Run).ID, e.Target)
	case events.OutboxOutcome:
		if e.Outcome == events.Unknown {
			return over(tx, after.(decider.Register).Owner, e.Target)
		}
	case events.OutboxResolved:
		return over(tx, after.(decider.Register).Owner, e.Target)
	}
	return nil
}

func over(tx Writer, run [16]byte, target string) error {
	return tx.Exec(`DELETE FROM begun WHERE run_id = $1 AND target = $2`, blob(run), target)
}

// Begun names the effect of a target of a run.
type Begun struct {
	Run    events.RunID
	Target string
}

func (b Begun) String() string { return "post_sync of run " + b.Run.String() + ", target " + b.Target }

// LostEffects lists at_most_once effects behind one that a gone incarnation has begun, and of which nothing says that nobody
// knows their end (HP-5). One whose publish was known to be unknown before it began is not among them. LoseEffect decides it
// again. At most limit, by run and target.
func (v View) LostEffects(after Begun, limit int) (out []Begun, err error) {
	err = v.tx.Query(func(r store.Row) error {
		var run []byte
		var b Begun
		if err := r.Scan(&run, &b.Target); err != nil {
			return err
		}
		copy(b.Run[:], run)
		out = append(out, b)
		return nil
	}, `SELECT b.run_id, b.target FROM begun b CROSS JOIN outbox o
		WHERE (b.run_id, b.target) > ($1, $2) AND b.node NOT IN (SELECT incarnation FROM nodes WHERE gone = 0)
		  AND o.owner = b.run_id AND o.kind = 'post_sync' AND o.status IN ('idle', 'unresolved')
		  AND NOT EXISTS (SELECT 1 FROM json_each(o.resolved) AS x WHERE json_extract(x.value, '$.target') = b.target)
		  AND EXISTS (SELECT 1 FROM json_each(o.outcomes) AS x
			WHERE json_extract(x.value, '$.target') = b.target AND json_extract(x.value, '$.outcome') <> 'unknown')
		ORDER BY b.run_id, b.target LIMIT $3`, after.Run[:], after.Target, limit)
	return out, err
}
