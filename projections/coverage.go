package projections

import (
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// coverage says which calendar periods of a dataset have succeeded and with what fingerprint (W-8), and holds the state
// that the last success of a source and dataset left for the next. A period whose newest unit ended without a success is a gap,
// whether one before it succeeded or not: what the sink holds of it is missing, or older than its source.
type coverage struct{}

func (coverage) Name() string  { return "coverage" }
func (coverage) Revision() int { return 2 }
func (coverage) Tables() []Table {
	return []Table{{"coverage", "source, dataset, window_from, window_to"}, {"left_state", "source, dataset"}}
}

func (coverage) Schema() []string {
	return []string{`
CREATE TABLE coverage (
  source       TEXT NOT NULL,
  dataset      TEXT NOT NULL,
  window_from  INTEGER NOT NULL,
  window_to    INTEGER NOT NULL,
  fingerprint  TEXT,
  rows         INTEGER,
  unit_id      BLOB,
  succeeded_at INTEGER,
  missed_at    INTEGER,
  CHECK ((rows IS NOT NULL) = (succeeded_at IS NOT NULL)),
  CHECK ((unit_id IS NOT NULL) = (succeeded_at IS NOT NULL)),
  CHECK (succeeded_at IS NOT NULL OR missed_at IS NOT NULL),
  PRIMARY KEY (source, dataset, window_from, window_to)
) STRICT, WITHOUT ROWID`,
		`CREATE INDEX coverage_gaps ON coverage (source, dataset) WHERE missed_at IS NOT NULL`, `
CREATE TABLE left_state (
  source  TEXT NOT NULL,
  dataset TEXT NOT NULL,
  unit_id BLOB NOT NULL,
  state   TEXT NOT NULL,
  PRIMARY KEY (source, dataset)
) STRICT, WITHOUT ROWID`,
		`CREATE VIEW coverage_view AS SELECT source, dataset, ` + timeText("window_from") + ` AS window_from,
  ` + timeText("window_to") + ` AS window_to, fingerprint, rows, ` + ulidText("unit_id") + ` AS unit_id,
  ` + timeText("succeeded_at") + ` AS succeeded_at, ` + timeText("missed_at") + ` AS missed_at FROM coverage`,
		`CREATE VIEW left_state_view AS SELECT source, dataset, ` + ulidText("unit_id") + ` AS unit_id, state FROM left_state`,
	}
}

func (coverage) Apply(tx Writer, env events.Envelope, _, after decider.State) error {
	var e events.UnitSucceeded
	switch x := env.Event.(type) {
	case events.UnitFailed, events.UnitCancelled:
		return missed(tx, after.(decider.Unit).Plan, env.At)
	case events.UnitSucceeded:
		e = x
	default:
		return nil
	}
	u := after.(decider.Unit)
	if len(e.Result.State) > 0 {
		err := tx.Exec(`INSERT INTO left_state (source, dataset, unit_id, state) VALUES ($1, $2, $3, $4)
			ON CONFLICT (source, dataset) DO UPDATE SET unit_id = excluded.unit_id, state = excluded.state`,
			u.Plan.Source, u.Plan.Dataset, blob(u.ID), string(e.Result.State))
		if err != nil {
			return err
		}
	}
	if u.Plan.Calendar == "" {
		return nil
	}
	return tx.Exec(`INSERT INTO coverage (source, dataset, window_from, window_to, fingerprint, rows, unit_id, succeeded_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (source, dataset, window_from, window_to) DO UPDATE SET fingerprint = excluded.fingerprint,
		rows = excluded.rows, unit_id = excluded.unit_id, succeeded_at = excluded.succeeded_at, missed_at = NULL`,
		u.Plan.Source, u.Plan.Dataset, u.Plan.Window.From.UnixMicro(), u.Plan.Window.To.UnixMicro(), text(e.Result.Fingerprint),
		e.Result.Rows, blob(u.ID), int64(env.At))
}

func missed(tx Writer, p events.UnitPlanned, at events.Micros) error {
	if p.Calendar == "" {
		return nil
	}
	return tx.Exec(`INSERT INTO coverage (source, dataset, window_from, window_to, missed_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (source, dataset, window_from, window_to) DO UPDATE SET missed_at = excluded.missed_at`,
		p.Source, p.Dataset, p.Window.From.UnixMicro(), p.Window.To.UnixMicro(), int64(at))
}
