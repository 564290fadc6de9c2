package sqlite

import (
	"context"
	"database/sql"
	"strings"

	"github.com/towline-dev/towline/events"
)

// The names that the view log shows are facts about this release, not about the log: each release that opens a store
// adds those that it is the first to know. Old ones stay, for none is ever reused (L-7).

// family is how the streams of one family byte are written as text.
type family struct {
	key            []byte
	prefix, suffix string
	named          bool
}

// families asks the package events itself, with an example of every family, so that the two cannot drift apart.
func families() []family {
	run, name := events.RunID{15: 1}, "x"
	examples := []events.StreamID{
		events.RunStream(run), events.UnitStream(events.UnitID(run)), events.JobStream(events.JobID(run)), events.NodeStream(events.NodeID(run)),
		events.ScheduleStream(name), events.OccurrenceStream(name, name), events.SourceControlStream(name), events.AppStream(name),
	}
	for _, k := range events.Kinds {
		examples = append(examples, events.RegisterStream(run, k))
	}
	out := make([]family, len(examples))
	for i, s := range examples {
		key := s.Key()
		text := string(key[1:])
		f := family{key: key[:1], named: text != string(run[:])}
		if !f.named {
			text = run.String()
		}
		f.prefix, f.suffix, _ = strings.Cut(s.String(), text)
		out[i] = f
	}
	return out
}

const countNames = `SELECT (SELECT count(*) FROM event_types) + (SELECT count(*) FROM stream_families)`

// fillNames writes what is missing, and nothing if nothing is.
func fillNames(ctx context.Context, db *sql.DB) error {
	var known int
	if err := db.QueryRowContext(ctx, countNames).Scan(&known); err != nil {
		return err
	}
	types, families := events.Types(), families()
	if known >= len(types)+len(families) {
		return nil
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, t := range types {
		const insert = `INSERT OR IGNORE INTO event_types (type, name) VALUES ($1, $2)`
		if _, err := tx.ExecContext(ctx, insert, int(t), t.String()); err != nil {
			return err
		}
	}
	for _, f := range families {
		const insert = `INSERT OR IGNORE INTO stream_families (family, prefix, suffix, named) VALUES ($1, $2, $3, $4)`
		if _, err := tx.ExecContext(ctx, insert, f.key, f.prefix, f.suffix, f.named); err != nil {
			return err
		}
	}
	return tx.Commit()
}
