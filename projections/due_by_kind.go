package projections

import (
	"fmt"
	"strings"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// Wakeups are those of some kinds: what goes through one transport. A query for them walks none of the others, however
// many wait behind a transport that is away (O-16).
type Wakeups struct {
	Kinds []events.Kind
	// Repeatable: only those that may be published a second time, so that a failed publish loses nothing.
	Repeatable bool
	Suspects   Suspects
}

// Suspects says whether messages are among them with which processes have died (M-16).
type Suspects int

const (
	NoSuspects Suspects = iota
	AlsoSuspects
	OnlySuspects
)

// DueOf are the pending ones whose time has come, in the order in which they are claimed (REC-14).
func (v View) DueOf(w Wakeups, now events.Micros, after DueCursor, limit int) ([]DueCursor, error) {
	query := w.each(`SELECT available_at, owner, kind FROM outbox`,
		` AND available_at <= $1 AND (available_at, owner) >= ($2, $3) AND (available_at, owner, kind) > ($2, $3, $4)`)
	return v.due(query+` ORDER BY available_at, owner, kind LIMIT $5`,
		int64(now), int64(after.AvailableAt), after.Key.Owner[:], string(after.Key.Kind), limit)
}

// NextDueOf is the earliest time at which one of them comes due; zero: none is pending.
func (v View) NextDueOf(w Wakeups) (events.Micros, error) {
	return v.earliest(w.each(`SELECT min(available_at) FROM outbox`, ``))
}

// CountDue counts the pending ones whose time has come.
func (v View) CountDue(w Wakeups, now events.Micros) (n int, err error) {
	err = v.tx.Query(func(r store.Row) error {
		var some int
		err := r.Scan(&some)
		n += some
		return err
	}, w.each(`SELECT count(*) FROM outbox`, ` AND available_at <= $1`), int64(now))
	if err != nil {
		return n, fmt.Errorf("count what is due: %w", err)
	}
	return n, nil
}

// InMemory reports messages that wait in the memory of a process, or have died there and are not armed again yet.
func (v View) InMemory() (some bool, err error) {
	err = v.tx.Query(func(r store.Row) error { return r.Scan(&some) },
		`SELECT EXISTS (SELECT 1 FROM messages WHERE in_process IS NOT NULL)`)
	if err != nil {
		return false, fmt.Errorf("look for messages in memory: %w", err)
	}
	return some, nil
}

// each is one SELECT for each kind, so that each is a walk along its own part of the index.
func (w Wakeups) each(selecting, where string) string {
	var parts []string
	for _, k := range w.Kinds {
		part := ` AND kind = '` + string(k) + `'` + where
		if w.Repeatable {
			part += repeatable(k)
		}
		if w.Suspects != OnlySuspects {
			parts = append(parts, selecting+` WHERE status = 'pending' AND `+trusted+part)
		}
		if w.Suspects != NoSuspects && k == events.KindMessage {
			parts = append(parts, selecting+` WHERE status = 'pending' AND `+suspected+part)
		}
	}
	return strings.Join(parts, "\nUNION ALL ")
}

// repeatable leaves out the modes of a kind that are marked before they are published.
func repeatable(k events.Kind) (sql string) {
	for _, d := range decider.Deliveries {
		switch {
		case d.Kind != k || d.Order != events.MarkFirst:
		case d.Mode == "":
			sql += ` AND 0`
		default:
			sql += ` AND (SELECT r.policy ->> 'post_sync' FROM runs r WHERE r.run_id = owner) <> '` + string(d.Mode) + `'`
		}
	}
	return sql
}
