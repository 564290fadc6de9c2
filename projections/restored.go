package projections

import (
	"fmt"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// restored is one row, once the store was put in the place of another: which life of it this is, and whether what it would send
// is still held (DUR-5).
type restored struct{}

func (restored) Name() string    { return "restored" }
func (restored) Revision() int   { return 1 }
func (restored) Tables() []Table { return []Table{{"restored", "one"}} }

func (restored) Schema() []string {
	return []string{`
CREATE TABLE restored (
  one      INTEGER PRIMARY KEY CHECK (one = 1),
  epoch    INTEGER NOT NULL CHECK (epoch > 1),
  held     INTEGER NOT NULL CHECK (held IN (0, 1)),
  position INTEGER NOT NULL, -- of the newest StoreRestored
  at       INTEGER NOT NULL, -- its time
  head     INTEGER NOT NULL  -- of the copy that was restored
) STRICT`,
		`CREATE VIEW restored_view AS SELECT epoch, CASE held WHEN 1 THEN 'held' ELSE 'released' END AS status, position, ` + timeText("at") + ` AS at, head FROM restored`,
	}
}

func (restored) Apply(tx Writer, env events.Envelope, _, _ decider.State) error {
	switch e := env.Event.(type) {
	case events.StoreRestored:
		return tx.Exec(`INSERT INTO restored (one, epoch, held, position, at, head) VALUES (1, $1, 1, $2, $3, $4)
			ON CONFLICT (one) DO UPDATE SET epoch = excluded.epoch, held = 1, position = excluded.position, at = excluded.at, head = excluded.head`,
			e.Epoch, int64(env.Position), int64(env.At), int64(e.Head))
	case events.RestoreHoldReleased:
		return tx.Exec(`UPDATE restored SET held = 0`)
	}
	return nil
}

// Restored is what is known of the newest restore of a store. The zero Restored is that of a store that was never restored.
type Restored struct {
	Epoch    int             `json:"epoch"`
	Held     bool            `json:"held"`          // nobody has released it
	Position events.Position `json:"position"`      // of its StoreRestored
	At       time.Time       `json:"at,omitzero"`   // when the first engine started on it
	Head     events.Position `json:"head,omitzero"` // of the copy: what had happened behind it is not known here
}

// Restored is the newest restore of the store; its zero value: there was none (DUR-5).
func (v View) Restored() (Restored, error) { return readRestored(v.tx) }

// CountPending counts the wakeups that wait for their publish, by kind: due ones, and those that come due.
func (v View) CountPending() (map[events.Kind]int, error) {
	out := map[events.Kind]int{}
	for _, k := range events.Kinds {
		n := 0
		err := v.tx.Query(func(r store.Row) error { return r.Scan(&n) },
			`SELECT count(*) FROM outbox WHERE status = 'pending' AND kind = $1`, string(k))
		if err != nil {
			return nil, fmt.Errorf("count what waits: %w", err)
		}
		if n > 0 {
			out[k] = n
		}
	}
	return out, nil
}

func readRestored(tx store.ReadTx) (x Restored, err error) {
	err = tx.Query(func(r store.Row) error {
		var at int64
		err := r.Scan(&x.Epoch, &x.Held, &x.Position, &at, &x.Head)
		x.At = events.Micros(at).Time()
		return err
	}, `SELECT epoch, held, position, at, head FROM restored`)
	if err != nil {
		return x, fmt.Errorf("read what is known of a restore: %w", err)
	}
	return x, nil
}
