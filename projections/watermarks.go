package projections

import (
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// watermarks is a fold of UnitSucceeded.watermarks. The event holds only those that rise (WM-3), and the statement says
// it again.
type watermarks struct{}

func (watermarks) Name() string    { return "watermarks" }
func (watermarks) Revision() int   { return 1 }
func (watermarks) Tables() []Table { return []Table{{"watermarks", "source, dataset"}} }

func (watermarks) Schema() []string {
	return []string{`
CREATE TABLE watermarks (
  source  TEXT NOT NULL,
  dataset TEXT NOT NULL,
  at      INTEGER NOT NULL,
  unit_id BLOB NOT NULL,
  PRIMARY KEY (source, dataset)
) STRICT, WITHOUT ROWID`,
		`CREATE VIEW watermarks_view AS SELECT source, dataset, ` + timeText("at") + ` AS at, ` + ulidText("unit_id") + ` AS unit_id
  FROM watermarks`,
	}
}

func (watermarks) Apply(tx Writer, env events.Envelope, _, _ decider.State) error {
	e, ok := env.Event.(events.UnitSucceeded)
	if !ok {
		return nil
	}
	unit, _ := env.Stream.Unit()
	for _, w := range e.Watermarks {
		err := tx.Exec(`INSERT INTO watermarks (source, dataset, at, unit_id) VALUES ($1, $2, $3, $4)
			ON CONFLICT (source, dataset) DO UPDATE SET at = excluded.at, unit_id = excluded.unit_id
			WHERE excluded.at > watermarks.at`, w.Source, w.Dataset, int64(w.At), unit[:])
		if err != nil {
			return err
		}
	}
	return nil
}
