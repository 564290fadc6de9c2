// Package projections holds the views: tables that are folds of the log, changed in the transaction that appends.
//
// A row of runs, units, outbox and jobs is the folded state of one stream, so the fold is not written a second time in
// SQL; what that sharing could hide is seen by package check, which folds by itself (I-26).
package projections

import (
	"fmt"
	"slices"
	"strings"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// Projection is one view.
type Projection interface {
	// Name is stored beside the checkpoint.
	Name() string
	// Revision is raised when Apply or Schema changes; the next open rebuilds the view (L-8).
	Revision() int
	// Tables lists the tables with their keys, for comparison.
	Tables() []Table
	// Schema creates the tables, their indexes and the readable SQL views.
	Schema() []string
	// Apply changes the tables for one event. before and after are the folded state of the event's stream.
	Apply(tx Writer, e events.Envelope, before, after decider.State) error
}

// Table is a table of a projection. Key is its primary key, the columns with ", " between them: pages are cut by it.
type Table struct {
	Name, Key string
}

// Writer is the half of a transaction that a projection may use. It cannot read: a row depends on the folded state and
// the event alone, so a rebuild needs no order among projections.
type Writer interface {
	Exec(query string, args ...any) error
}

// All lists every projection of this release, in the order in which they are applied.
func All() []Projection {
	return []Projection{
		nodes{}, runs{}, units{}, outbox{}, jobs{}, watermarks{}, coverage{}, clock{}, controls{}, cooldowns{}, appMessages{}, begun{}, schedules{}, occurrences{}, restored{},
	}
}

const checkpointSchema = `
CREATE TABLE IF NOT EXISTS projection (
  name     TEXT PRIMARY KEY,
  revision INTEGER NOT NULL,
  position INTEGER NOT NULL
) STRICT, WITHOUT ROWID`

// Open brings every projection to the head of the log, from the log alone: one that is missing or of another revision
// is made anew, one that lags is caught up (L-8). It is one transaction; an interrupted one leaves the old tables.
func Open(tx store.Tx) error { return open(tx, nil) }

func open(tx store.Tx, g *gaps) error {
	if err := tx.Exec(checkpointSchema); err != nil {
		return fmt.Errorf("create checkpoint table: %w", err)
	}
	checkpoints, err := readCheckpoints(tx)
	if err != nil {
		return err
	}
	var behind []*follower
	for _, p := range All() {
		c, known := checkpoints[p.Name()]
		f := &follower{p: p, position: c.position}
		if !known || c.revision != p.Revision() || !tablesExist(tx, p) {
			if err := recreate(tx, p); err != nil {
				return err
			}
			f.position = 0
		}
		behind = append(behind, f)
	}
	return catchUp(tx, behind, g)
}

// CatchUp applies what lies beyond the checkpoint, for example a row that an application appended in its own
// transaction.
func CatchUp(tx store.Tx) error { return Open(tx) }

// Rebuild makes projections anew from the log, in one transaction: those that are named, or all of them. The others are brought
// to its head, as Open does (L-8). It publishes nothing and calls nobody. A name that is none of Names is ignored. An event that
// cannot be read or folded ends it (L-7), with an error that names it.
func Rebuild(tx store.Tx, names ...string) error {
	if err := remake(tx, nil, names); err != nil {
		return err
	}
	return forget(tx, names)
}

func remake(tx store.Tx, g *gaps, names []string) error {
	if err := tx.Exec(checkpointSchema); err != nil {
		return fmt.Errorf("create checkpoint table: %w", err)
	}
	for _, p := range All() {
		if len(names) > 0 && !slices.Contains(names, p.Name()) {
			continue
		}
		if err := recreate(tx, p); err != nil {
			return err
		}
	}
	return open(tx, g)
}

// Names are those of all projections.
func Names() (names []string) {
	for _, p := range All() {
		names = append(names, p.Name())
	}
	return names
}

// Drop removes every projection, as if this release had never been here. The next Open makes them anew.
func Drop(tx store.Tx) error {
	for _, p := range All() {
		if err := drop(tx, p); err != nil {
			return err
		}
	}
	return tx.Exec(`DROP TABLE IF EXISTS projection`)
}

// known are the checkpoints of this release. A newer one that was here before may have left others: they stay where they
// are, so that it finds what its own views lack when it comes back (DUR-7).
var known = func() string {
	var names []string
	for _, p := range All() {
		names = append(names, `'`+p.Name()+`'`)
	}
	return `name IN (` + strings.Join(names, `, `) + `)`
}()

// Checkpoint notes that every projection has seen the log up to a position. It is the last write of a commit.
func Checkpoint(tx store.Tx, p events.Position) error {
	return tx.Exec(`UPDATE projection SET position = $1 WHERE `+known, int64(p))
}

// Position is the checkpoint of the projection that is furthest behind.
func Position(tx store.ReadTx) (events.Position, error) {
	var p int64
	err := tx.Query(func(r store.Row) error { return r.Scan(&p) }, `SELECT coalesce(min(position), 0) FROM projection WHERE `+known)
	return events.Position(p), err
}

// Current reports that the tables are what this release would make of the log that tx sees: a store that was last written
// by another release may have none of them, others, or some that lag. What an application has just submitted is in nobody's
// tables until the next transaction of an engine, and makes no difference.
func Current(tx store.ReadTx) (bool, error) {
	if there, err := exists(tx, "table", "projection"); err != nil || !there {
		return false, err
	}
	head, _, err := tx.Head()
	if err != nil {
		return false, err
	}
	checkpoints, err := readCheckpoints(tx)
	if err != nil {
		return false, err
	}
	for _, p := range All() {
		c, known := checkpoints[p.Name()]
		if !known || c.revision != p.Revision() || !tablesExist(tx, p) {
			return false, nil
		}
	}
	applied, err := Position(tx)
	if err != nil {
		return false, err
	}
	return onlySubmitted(tx, applied, head)
}

// onlySubmitted reports that applications have made all events of the log behind a position.
func onlySubmitted(tx store.ReadTx, after, head events.Position) (bool, error) {
	for after < head {
		page, err := tx.After(after, followPage)
		if err != nil || len(page) == 0 {
			return false, err
		}
		for _, e := range page {
			if e.Event.EventType() != events.TypeMessageSubmitted {
				return false, nil
			}
		}
		after = page[len(page)-1].Position
	}
	return true, nil
}

type checkpoint struct {
	revision int
	position events.Position
}

func readCheckpoints(tx store.ReadTx) (map[string]checkpoint, error) {
	out := map[string]checkpoint{}
	err := tx.Query(func(r store.Row) error {
		var name string
		var c checkpoint
		var position int64
		if err := r.Scan(&name, &c.revision, &position); err != nil {
			return err
		}
		c.position = events.Position(position)
		out[name] = c
		return nil
	}, `SELECT name, revision, position FROM projection`)
	if err != nil {
		return nil, fmt.Errorf("read checkpoints: %w", err)
	}
	return out, nil
}

func tablesExist(tx store.ReadTx, p Projection) bool {
	for _, t := range p.Tables() {
		if there, err := exists(tx, "table", t.Name); err != nil || !there {
			return false
		}
	}
	return true
}

func exists(tx store.ReadTx, kind, name string) (bool, error) {
	n := 0
	err := tx.Query(func(r store.Row) error { return r.Scan(&n) },
		`SELECT count(*) FROM sqlite_schema WHERE type = $1 AND name = $2 COLLATE NOCASE`, kind, name)
	return n > 0, err
}

// checkOurs refuses a table that an application has made (D-20) under a name which a later release wants for a view: ours
// have their readable view beside them.
func checkOurs(tx store.Tx, t Table) error {
	there, err := exists(tx, "table", t.Name)
	if err != nil || !there {
		return err
	}
	if ours, err := exists(tx, "view", readable(t.Name)); err != nil || ours {
		return err
	}
	return fmt.Errorf("table %s was not made by Towline, which needs the name: rename it (with the release that was here before, or sqlite3)", t.Name)
}

func drop(tx store.Tx, p Projection) error {
	for _, t := range p.Tables() {
		if err := checkOurs(tx, t); err != nil {
			return fmt.Errorf("drop projection %s: %w", p.Name(), err)
		}
		for _, q := range []string{`DROP VIEW IF EXISTS "` + readable(t.Name) + `"`, `DROP TABLE IF EXISTS "` + t.Name + `"`} {
			if err := tx.Exec(q); err != nil {
				return fmt.Errorf("drop projection %s: %w", p.Name(), err)
			}
		}
	}
	return nil
}

func recreate(tx store.Tx, p Projection) error {
	if err := drop(tx, p); err != nil {
		return err
	}
	for _, q := range p.Schema() {
		if err := tx.Exec(q); err != nil {
			return fmt.Errorf("create projection %s: %w", p.Name(), err)
		}
	}
	return tx.Exec(`INSERT INTO projection (name, revision, position) VALUES ($1, $2, 0)
		ON CONFLICT (name) DO UPDATE SET revision = excluded.revision, position = 0`, p.Name(), p.Revision())
}

// readable is the name of the SQL view that renders a table for people (D-22).
func readable(table string) string { return table + "_view" }
