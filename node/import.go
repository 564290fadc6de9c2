package node

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/towline-dev/towline"
)

// OldTable says where an older outbox keeps its messages (M-7). Every field but Name and States is a column, or any SQL
// expression over the row; an empty one that is not required is as if it were NULL. A time is what SQLite's datetime
// returns, RFC 3339, or a number of seconds since 1970, in UTC.
type OldTable struct {
	Name        string // of the table, which has rowids; also the name of the import
	ID          string // required: the stable name of a row
	Topic       string // required
	Payload     string // required: text or bytes
	Metadata    string // a JSON object of texts
	State       string // required; its values are the keys of States
	AvailableAt string
	ClaimedAt   string
	Attempts    string
	LastError   string

	States map[string]towline.OldState // what the values of State mean; another value is an error of its row
	// MaxAttempts parks what is pending or in progress with so many attempts; zero: State alone says what is over its limit.
	MaxAttempts int
}

// Import takes over the messages of an older outbox table, in the node's own file (DB) or any other SQLite database. It may
// be repeated, and goes on where a killed one has stopped; see towline.Engine.Import, whose errors it returns. by is who
// imports.
func (n *Node) Import(ctx context.Context, db *sql.DB, t OldTable, by towline.Actor) (towline.Imported, error) {
	if t.Name == "" || t.ID == "" || t.Topic == "" || t.Payload == "" || t.State == "" {
		return towline.Imported{}, fmt.Errorf("import: %w: name, id, topic, payload and state of the old table are required", towline.ErrInvalid)
	}
	return n.engine.Import(ctx, t.Name, t.rows(ctx, db), by)
}

// oldPage bounds what is held of the old table. Between two pages nothing of it is open.
const oldPage = 500

// rows reads the table by rowid.
func (t OldTable) rows(ctx context.Context, db *sql.DB) iter.Seq2[towline.OldMessage, error] {
	return func(yield func(towline.OldMessage, error) bool) {
		for after := int64(-1 << 63); ; {
			page, err := t.page(ctx, db, after, oldPage)
			if err != nil && ctx.Err() == nil {
				page, err = t.oneByOne(ctx, db, after, err)
			}
			if err != nil {
				yield(towline.OldMessage{}, fmt.Errorf("read table %s: %w", t.Name, err))
				return
			}
			for _, r := range page {
				if after = r.rowid; !yield(t.message(r), nil) {
					return
				}
			}
			if len(page) < oldPage {
				return
			}
		}
	}
}

// rawRow is a row as the old table has it.
type rawRow struct {
	rowid                                         int64
	id, topic, state, metadata, available, claims sql.NullString
	payload                                       []byte
	attempts                                      sql.NullInt64
	lastError                                     sql.NullString
	err                                           error // why it cannot be read
}

// page reads so many rows behind one; none: it says whether the columns are there at all.
func (t OldTable) page(ctx context.Context, db *sql.DB, after int64, limit int) (out []rawRow, err error) {
	asText := func(expression string) string { return "CAST(" + orNull(expression) + " AS TEXT)" }
	columns := []string{
		"rowid", asText(t.ID), asText(t.Topic), "CAST(" + t.Payload + " AS BLOB)", asText(t.State), asText(t.Metadata), asText(t.AvailableAt),
		asText(t.ClaimedAt), "CAST(" + orNull(t.Attempts) + " AS INTEGER)", asText(t.LastError),
	}
	query := `SELECT ` + strings.Join(columns, ", ") + t.from() + ` WHERE rowid > $1 ORDER BY rowid LIMIT $2`
	rows, err := db.QueryContext(ctx, query, after, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r rawRow
		err := rows.Scan(&r.rowid, &r.id, &r.topic, &r.payload, &r.state, &r.metadata, &r.available, &r.claims, &r.attempts, &r.lastError)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

func (t OldTable) from() string { return ` FROM "` + strings.ReplaceAll(t.Name, `"`, `""`) + `"` }

// oneByOne reads the rows of a page of which one has failed, so that it is named and the others go on. What fails without
// any row is no fault of one.
func (t OldTable) oneByOne(ctx context.Context, db *sql.DB, after int64, cause error) (out []rawRow, err error) {
	if _, err := t.page(ctx, db, after, 0); err != nil {
		return nil, cause
	}
	for len(out) < oldPage {
		var rowid sql.NullInt64
		err := db.QueryRowContext(ctx, `SELECT min(rowid)`+t.from()+` WHERE rowid > $1`, after).Scan(&rowid)
		if err != nil || !rowid.Valid {
			return out, err
		}
		row, err := t.page(ctx, db, rowid.Int64-1, 1)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			row = []rawRow{{rowid: rowid.Int64, id: t.nameOf(ctx, db, rowid.Int64), err: err}}
		}
		out, after = append(out, row...), rowid.Int64
	}
	return out, nil
}

// nameOf is the id of a row that cannot be read, or its rowid.
func (t OldTable) nameOf(ctx context.Context, db *sql.DB, rowid int64) (id sql.NullString) {
	err := db.QueryRowContext(ctx, `SELECT CAST(`+t.ID+` AS TEXT)`+t.from()+` WHERE rowid = $1`, rowid).Scan(&id)
	if err != nil || id.String == "" {
		id = sql.NullString{String: fmt.Sprintf("rowid %d", rowid), Valid: true}
	}
	return id
}

func orNull(expression string) string {
	if expression == "" {
		return "NULL"
	}
	return expression
}

func (t OldTable) message(r rawRow) towline.OldMessage {
	if r.err != nil {
		return towline.OldMessage{ID: r.id.String, Err: r.err}
	}
	m := towline.OldMessage{
		ID: r.id.String, Topic: r.topic.String, Payload: r.payload, Attempts: int(r.attempts.Int64), LastError: r.lastError.String,
	}
	state, known := t.States[r.state.String]
	if !known {
		m.Err = fmt.Errorf("state %.64q is not in States", r.state.String)
	}
	m.State = state
	open := state == towline.OldPending || state == towline.OldInProgress
	if open && t.MaxAttempts > 0 && m.Attempts >= t.MaxAttempts {
		m.State = towline.OldSpent
	}
	var errs [3]error
	m.AvailableAt, errs[0] = oldTime(r.available)
	m.ClaimedAt, errs[1] = oldTime(r.claims)
	if r.metadata.String != "" {
		errs[2] = json.Unmarshal([]byte(r.metadata.String), &m.Metadata)
	}
	m.Err = errors.Join(m.Err, errors.Join(errs[:]...))
	return m
}

const maxSeconds = 253402300800 // the year 10000

// oldTime reads a time; NULL and an empty text are the zero time.
func oldTime(s sql.NullString) (time.Time, error) {
	if s.String == "" {
		return time.Time{}, nil
	}
	if seconds, err := strconv.ParseFloat(s.String, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		if !(math.Abs(seconds) < maxSeconds) { // also what is not a number
			return time.Time{}, fmt.Errorf("%.64q is no number of seconds since 1970 before the year 10000: divide it, if it counts smaller units", s.String)
		}
		return time.UnixMicro(int64(seconds * 1e6)).UTC(), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s.String, time.UTC); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%.64q is no time", s.String)
}
