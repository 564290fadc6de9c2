package projections

import (
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// cooldowns says until when an account of a provider is left alone, and which sources have reported it (RL-4). Both
// tables are as long as the catalogue.
type cooldowns struct{}

func (cooldowns) Name() string  { return "cooldowns" }
func (cooldowns) Revision() int { return 1 }
func (cooldowns) Tables() []Table {
	return []Table{{"cooldowns", "key"}, {"cooldown_sources", "provider, source"}}
}

func (cooldowns) Schema() []string {
	return []string{`
CREATE TABLE cooldowns (
  key     TEXT PRIMARY KEY,
  until   INTEGER NOT NULL,
  unit_id BLOB NOT NULL -- the last to report it
) STRICT, WITHOUT ROWID`, `
CREATE TABLE cooldown_sources (
  provider TEXT NOT NULL,
  source   TEXT NOT NULL,
  key      TEXT NOT NULL, -- that the source has reported last
  PRIMARY KEY (provider, source)
) STRICT, WITHOUT ROWID`,
		`CREATE INDEX cooldown_sources_key ON cooldown_sources (key)`,
		`CREATE VIEW cooldowns_view AS SELECT key, ` + timeText("until") + ` AS until, ` + ulidText("unit_id") + ` AS unit_id FROM cooldowns`,
		`CREATE VIEW cooldown_sources_view AS SELECT provider, source, key FROM cooldown_sources`,
	}
}

func (cooldowns) Apply(tx Writer, env events.Envelope, _, after decider.State) error {
	e, ok := env.Event.(events.UnitRetryScheduled)
	if !ok || e.CooldownKey == "" {
		return nil
	}
	u := after.(decider.Unit)
	err := tx.Exec(`INSERT INTO cooldowns (key, until, unit_id) VALUES ($1, $2, $3)
		ON CONFLICT (key) DO UPDATE SET until = max(until, excluded.until), unit_id = excluded.unit_id`,
		e.CooldownKey, int64(e.CooldownUntil), blob(u.ID))
	if err != nil {
		return err
	}
	return tx.Exec(`INSERT INTO cooldown_sources (provider, source, key) VALUES ($1, $2, $3)
		ON CONFLICT (provider, source) DO UPDATE SET key = excluded.key`, u.Plan.Provider, u.Plan.Source, e.CooldownKey)
}
