package projections

import (
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// controls says what is paused, by whom, why and since when. A row stays when its pause has ended, so the
// table is as long as the catalogue.
type controls struct{}

func (controls) Name() string    { return "controls" }
func (controls) Revision() int   { return 1 }
func (controls) Tables() []Table { return []Table{{"controls", "source"}} }

func (controls) Schema() []string {
	return []string{`
CREATE TABLE controls (
  source TEXT PRIMARY KEY, -- empty: the engine
  paused INTEGER NOT NULL CHECK (paused IN (0, 1)),
  actor  TEXT NOT NULL,
  reason TEXT,
  since  INTEGER NOT NULL
) STRICT, WITHOUT ROWID`,
		`CREATE INDEX controls_paused ON controls (source) WHERE paused = 1`,
		`CREATE VIEW controls_view AS SELECT CASE source WHEN '' THEN 'engine' ELSE 'source' END AS what, nullif(source, '') AS source,
  CASE paused WHEN 1 THEN 'paused' ELSE 'resumed' END AS status, actor, reason, ` + timeText("since") + ` AS since FROM controls`,
	}
}

const controlColumns = `source, paused, actor, reason, since`

func (controls) Apply(tx Writer, env events.Envelope, before, after decider.State) error {
	c, ok := after.(decider.Control)
	if _, hold := env.Event.(events.RestoreHoldReleased); !ok || hold || after == before {
		return nil // the end of a restored hold ends no pause
	}
	return tx.Exec(`INSERT INTO controls (`+controlColumns+`) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (source) DO UPDATE SET paused = excluded.paused, actor = excluded.actor, reason = excluded.reason,
		  since = excluded.since`,
		c.Source, flag(c.Paused), c.By, text(c.Reason), int64(c.Since))
}
