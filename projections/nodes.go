package projections

import (
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// nodes holds one row per incarnation, and says which of them are gone (N-3). A start in exclusive mode ends all
// earlier ones: the lock proves that they are dead. So does a start in shared mode for those that held the lock alone.
// A clean stop ends the incarnation itself.
//
// Beside it stands what each of them has last known of its transports (O-16). What a dead one left behind says nothing.
type nodes struct{}

func (nodes) Name() string  { return "nodes" }
func (nodes) Revision() int { return 2 }
func (nodes) Tables() []Table {
	return []Table{{"nodes", "incarnation"}, {"breakers", "incarnation, transport"}}
}

func (nodes) Schema() []string {
	return []string{`
CREATE TABLE nodes (
  incarnation  BLOB PRIMARY KEY CHECK (length(incarnation) = 16),
  position     INTEGER NOT NULL,
  host         TEXT,
  pid          INTEGER NOT NULL,
  version      TEXT,
  store_mode   TEXT NOT NULL CHECK (store_mode IN ('exclusive', 'shared')),
  config       TEXT,
  syncs        TEXT, -- what it is configured for (X-9); NULL: not recorded
  started_at   INTEGER NOT NULL,
  recovered_at INTEGER,
  stopped_at   INTEGER,
  gone         INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID`,
		`CREATE INDEX nodes_alive ON nodes (incarnation) WHERE gone = 0`,
		`CREATE VIEW nodes_view AS SELECT ` + ulidText("incarnation") + ` AS incarnation, position, host, pid, version, store_mode,
  config, syncs, ` + timeText("started_at") + ` AS started_at, ` + timeText("recovered_at") + ` AS recovered_at, ` + timeText("stopped_at") + ` AS stopped_at, gone FROM nodes`,
		breakersTable, breakersView,
	}
}

func (nodes) Apply(tx Writer, env events.Envelope, _, after decider.State) error {
	if n, ok := after.(decider.Node); ok {
		return applyNode(tx, env, n)
	}
	return nil
}

func applyNode(tx Writer, env events.Envelope, n decider.Node) error {
	switch e := env.Event.(type) {
	case events.NodeStarted:
		gone := `UPDATE nodes SET gone = 1 WHERE gone = 0`
		if e.StoreMode == events.StoreShared {
			gone += ` AND store_mode = 'exclusive'`
		}
		if err := tx.Exec(gone); err != nil {
			return err
		}
		syncs, err := configuredColumn(e.Syncs)
		if err != nil {
			return err
		}
		return tx.Exec(`INSERT INTO nodes (incarnation, position, host, pid, version, store_mode, config, syncs, started_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			blob(n.ID), int64(env.Position), text(e.Host), e.PID, text(e.Version), string(e.StoreMode), text(string(e.Config)),
			syncs, int64(env.At))
	case events.NodeConfigChanged:
		return tx.Exec(`UPDATE nodes SET config = $2 WHERE incarnation = $1`, blob(n.ID), text(string(n.Config)))
	case events.BreakerOpened, events.BreakerClosed:
		return applyBreaker(tx, env, n)
	case events.NodeRecovered:
		return tx.Exec(`UPDATE nodes SET recovered_at = $2 WHERE incarnation = $1`, blob(n.ID), int64(env.At))
	case events.NodeStopped:
		return tx.Exec(`UPDATE nodes SET stopped_at = $2, gone = 1 WHERE incarnation = $1`, blob(n.ID), int64(env.At))
	}
	return nil
}

func configuredColumn(syncs []events.Configured) (any, error) {
	if syncs == nil {
		return nil, nil
	}
	return asJSON(syncs)
}
