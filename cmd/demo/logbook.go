package main

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/towline-dev/towline/events"
)

// logbook is the log, read from outside while a child writes it: by a plain SQLite connection, as anybody may. The
// parent knows of the engine what stands there, and nothing else.
type logbook struct {
	db      *sql.DB
	version int64 // of the file, as SQLite counts it for this connection
	last    events.Position
	streams map[events.StreamID]trail
	runs    []events.RunID // in the order of their plans
	units   map[events.UnitID]events.UnitPlanned
	tallies map[events.RunID]*tally
}

// tally is how far a run is.
type tally struct{ total, ended, rows int }

func openLogbook(path string) (*logbook, error) {
	db, err := openReader(path)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // data_version is that of a connection
	return &logbook{
		db: db, streams: map[events.StreamID]trail{}, units: map[events.UnitID]events.UnitPlanned{},
		tallies: map[events.RunID]*tally{},
	}, nil
}

func (l *logbook) close() error { return l.db.Close() }

// catchUp reads what was committed since the last call, and reports whether there was something.
func (l *logbook) catchUp(ctx context.Context) (bool, error) {
	var version int64
	if err := l.db.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&version); err != nil {
		return false, fmt.Errorf("read the log: %w", err)
	}
	if version == l.version {
		return false, nil
	}
	fresh, err := l.read(ctx)
	if err != nil {
		return false, fmt.Errorf("read the log: %w", err)
	}
	l.version = version
	for _, env := range fresh {
		l.apply(env)
	}
	return len(fresh) > 0, nil
}

func (l *logbook) read(ctx context.Context) ([]events.Envelope, error) {
	rows, err := l.db.QueryContext(ctx, `
SELECT position, stream, version, at, type, schema, data
FROM events
WHERE position > $1
ORDER BY position`, int64(l.last))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []events.Envelope
	for rows.Next() {
		var env events.Envelope
		var stream []byte
		var record events.Record
		if err := rows.Scan(&env.Position, &stream, &env.Version, &env.At, &record.Type, &record.Schema, &record.Data); err != nil {
			return nil, err
		}
		if env.Stream, err = events.ParseStreamKey(stream); err != nil {
			return nil, err
		}
		if env.Event, err = events.Decode(record); err != nil {
			return nil, err
		}
		out = append(out, env)
	}
	return out, rows.Err()
}

func (l *logbook) apply(env events.Envelope) {
	l.last = env.Position
	l.streams[env.Stream] = append(l.streams[env.Stream], env)
	unit, _ := env.Stream.Unit()
	switch e := env.Event.(type) {
	case events.RunPlanned:
		run, _ := env.Stream.Run()
		l.runs = append(l.runs, run)
		l.tallies[run] = &tally{total: e.TotalUnits}
	case events.UnitPlanned:
		l.units[unit] = e
	case events.UnitSucceeded:
		t := l.tallies[l.units[unit].Run]
		t.ended++
		t.rows += e.Result.Rows
	case events.UnitFailed, events.UnitCancelled:
		l.tallies[l.units[unit].Run].ended++
	}
}

// run is the nth run that was planned, from 0; the zero id while there is none.
func (l *logbook) run(n int) events.RunID {
	if n >= len(l.runs) {
		return events.RunID{}
	}
	return l.runs[n]
}

// after are the events of a stream behind a position.
func (l *logbook) after(p events.Position, s events.StreamID) trail {
	all := l.streams[s]
	for i, env := range all {
		if env.Position > p {
			return all[i:]
		}
	}
	return nil
}

// newest is the last event of a stream that is an E.
func newest[E events.Event](list trail) (env events.Envelope, e E, ok bool) {
	for i := len(list) - 1; i >= 0; i-- {
		if e, ok = list[i].Event.(E); ok {
			return list[i], e, true
		}
	}
	return env, e, false
}

// upTo cuts a history behind the newest E in it; nil if there is none.
func upTo[E events.Event](list trail, fits func(E) bool) trail {
	for i := len(list) - 1; i >= 0; i-- {
		if e, ok := list[i].Event.(E); ok && fits(e) {
			return list[:i+1]
		}
	}
	return nil
}

// unitsOf are the units of a run that fit, by the events of their streams.
func (l *logbook) unitsOf(run events.RunID, fits func(trail) bool) []events.UnitID {
	var out []events.UnitID
	for id, u := range l.units {
		if u.Run == run && fits(l.streams[events.UnitStream(id)]) {
			out = append(out, id)
		}
	}
	return out
}
