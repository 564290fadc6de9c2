package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/turn"
	"github.com/towline-dev/towline/store"
)

// writer is the one connection that appends, and the store.Committer of this store. One goroutine at a time uses it.
//
// A commit is a BEGIN IMMEDIATE … COMMIT. A transaction in it is a stretch of the buffer and, from its first Exec on, a
// savepoint. The head of the log is read once per commit, under the write lock: in shared mode other processes, and in
// any mode the transactions of an application, may have appended since the last one.
type writer struct {
	open  func() (*session, error)
	clock func() events.Micros
	turn  *turn.Turn // nil: no other process writes
	level int
	bell  *bell // rung behind every commit that appended

	s        *session // nil: Begin opens one
	stored   head     // the newest event in the file, as this commit sees it
	buf      buffer   // what comes behind it
	versions versions
	starts   map[events.NodeID]events.Position
	nodes    nodeNames
	archive  archive

	appended bool  // events that would be written, flushed or buffered
	changed  bool  // a table changed, by Exec
	flushed  bool  // events are in the file that no commit has confirmed yet
	lost     error // why this commit cannot end well
	args     []any // of the inserts
	wal      walBound
	place    place
	stats    counters
	fault    atomic.Pointer[Fault]
}

// head is the newest event of a log; zero in an empty one.
type head struct {
	position events.Position
	at       events.Micros
}

// flushAt bounds the buffer: with so many events the next transaction begins with a flush.
const flushAt = 1024

func (w *writer) query(scan func(store.Row) error, query string, args ...any) error {
	return w.s.query(context.Background(), scan, query, args...)
}

// Begin takes the write lock of the file, for which it waits up to busyTimeout.
func (w *writer) Begin() error {
	if w.place.gone != nil {
		return w.place.gone
	}
	if w.s == nil {
		s, err := w.open()
		if err != nil {
			return fmt.Errorf("open the writing connection: %w", err)
		}
		w.s = s
	}
	w.lost, w.appended, w.changed = nil, false, false
	err := w.turn.During(func() error {
		err := w.s.exec("BEGIN IMMEDIATE")
		if err != nil && !isBusy(err) {
			w.discard()
		}
		return err
	})
	if errors.Is(err, turn.ErrTaken) {
		err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	locked := time.Now() // it is only measured
	w.s.rolledBack = false
	h, err := querier(w.query).head()
	if err != nil {
		w.Rollback()
		return fmt.Errorf("read the head of the log: %w", err)
	}
	if err := w.place.opened(); err != nil {
		w.Rollback()
		return err
	}
	if h != w.stored {
		w.versions.forget()
		w.stored = h
	}
	w.stats.kept, w.stats.begun, w.stats.since = 0, int64(h.position), locked
	return nil
}

// Transact runs fn as one transaction.
func (w *writer) Transact(fn func(store.Tx) error) (err error) {
	if w.lost != nil {
		return w.lost
	}
	if w.buf.len() >= flushAt {
		if w.lost = w.flush(); w.lost != nil {
			return w.lost
		}
	}
	t := &tx{w: w, first: w.buf.len(), now: max(w.clock(), w.head().at)}
	kept := false
	defer func() { // also when fn panics, or ends this goroutine
		t.over = true
		if !kept {
			w.undo(t)
		}
	}()
	if err := fn(t); err != nil {
		return err
	}
	if w.lost != nil { // fn did not pass it on
		return w.lost
	}
	if t.conflict != nil { // nor this
		return t.conflict
	}
	if t.savepoint {
		if err := w.s.exec("RELEASE tx"); err != nil {
			w.lose(fmt.Errorf("end a transaction: %w", err))
			return err
		}
	}
	kept = true
	if appended := w.buf.len() > t.first; appended || t.savepoint {
		w.appended = w.appended || appended
		w.changed = w.changed || t.savepoint
		w.stats.kept++
	}
	return nil
}

func (w *writer) undo(t *tx) {
	w.buf.cut(t.first)
	if !t.savepoint || w.lost != nil {
		return
	}
	err := w.s.exec("ROLLBACK TO tx")
	if err == nil {
		err = w.s.exec("RELEASE tx")
	}
	if err != nil {
		w.lose(fmt.Errorf("undo a transaction: %w", err))
	}
}

// lose says that SQLite may have ended the transaction of this commit by itself. Nothing must reach the connection
// from here on: it would run, and last, outside of any transaction.
func (w *writer) lose(err error) {
	if w.lost == nil {
		w.lost = err
	}
}

// Appended reports that this commit holds an event.
func (w *writer) Appended() bool { return w.appended }

// Commit flushes the buffer and commits. A commit in which nothing was appended or changed writes nothing.
func (w *writer) Commit() error {
	if w.lost == nil && !w.appended && !w.changed {
		w.Rollback()
		return nil
	}
	if w.lost == nil {
		w.lost = w.flush()
	}
	if w.lost == nil {
		w.lost = w.place.check()
	}
	if w.lost == nil {
		if err := w.s.exec("COMMIT"); err != nil {
			w.lost = fmt.Errorf("commit: %w", err)
		}
	}
	w.ended(w.lost)
	if err := w.lost; err != nil {
		w.Rollback()
		return err
	}
	w.flushed = false
	w.stats.committed(int64(w.stored.position))
	w.stats.statements.Add(w.s.ran)
	w.s.ran = 0
	if w.appended {
		w.bell.ring()
	}
	w.wal.check(w.s)
	return nil
}

// Rollback undoes the commit and all that was remembered of it.
func (w *writer) Rollback() {
	w.buf.reset()
	if w.flushed {
		w.flushed = false
		w.stored = head{position: -1} // is no head, so Begin forgets the versions
		w.nodes.forget()
		w.starts = nil
	}
	if w.s == nil {
		return
	}
	// After a full disk or a failed read or write SQLite may have rolled back already, and then refuses. Rather than
	// guess the state of such a connection, it is replaced.
	if err := w.s.exec("ROLLBACK"); err != nil {
		w.discard()
	}
}

// discard gives up a connection whose state is not known; Begin opens another.
func (w *writer) discard() {
	_ = w.s.close() // there is nothing more to be lost with it
	w.s = nil
	w.place.seen = false
}

// head is the newest event of the log as the current transaction sees it.
func (w *writer) head() head {
	if n := w.buf.len(); n > 0 {
		e := &w.buf.rows[n-1]
		return head{e.Position, e.At}
	}
	return w.stored
}

// version is the one at which a stream is. When the caller believes the stream to be new, that is taken for true
// without a look-up: the unique index says at the flush whether it was.
func (w *writer) version(id events.StreamID, expected events.Version) (events.Version, error) {
	if v, ok := w.buf.version(id); ok {
		return v, nil
	}
	if v, ok := w.versions.get(id); ok {
		return v, nil
	}
	if expected == 0 {
		return 0, nil
	}
	v, err := w.storedVersion(id)
	if err == nil && v > 0 {
		w.versions.put(id, v)
	}
	return v, err
}

func (w *writer) storedVersion(id events.StreamID) (v events.Version, err error) {
	const query = `
		SELECT max(coalesce((SELECT max(version) FROM events WHERE stream = $1), 0),
		           coalesce((SELECT max(version) FROM archived_streams WHERE stream = $1), 0))`
	err = w.query(func(row store.Row) error { return row.Scan(&v) }, query, id.Key())
	return v, err
}

// started is the position of the NodeStarted of an incarnation; 0 when it has none.
func (w *writer) started(id events.NodeID) (events.Position, error) {
	if p, ok := w.starts[id]; ok {
		return p, nil
	}
	stream := events.NodeStream(id)
	if i, ok := w.buf.last[stream]; ok {
		for w.buf.rows[i].before >= 0 {
			i = w.buf.rows[i].before
		}
		if e := &w.buf.rows[i]; e.Version == 1 {
			return e.Position, nil // not remembered: its transaction may still be undone
		}
	}
	var p events.Position
	const query = `SELECT position FROM events WHERE stream = $1 AND version = 1`
	err := w.query(func(row store.Row) error { return row.Scan(&p) }, query, stream.Key())
	if err != nil || p == 0 {
		return 0, err
	}
	if w.starts == nil || len(w.starts) >= maxNodes {
		w.starts = map[events.NodeID]events.Position{}
	}
	w.starts[id] = p
	return p, nil
}

// The inserts, for as many rows as one statement takes. Plain placeholders, since numbered ones are parsed each time.
var inserts = []struct {
	rows  int
	query string
}{
	{32, insertRows(32)},
	{8, insertRows(8)},
	{1, insertRows(1)},
}

func insertRows(n int) string {
	const row = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	return `INSERT INTO events (position, tx, stream, version, at, type, schema, actor, command, cause, node, data) VALUES ` +
		strings.TrimSuffix(strings.Repeat(row+", ", n), ", ")
}

// flush inserts the buffer and empties it. It runs between transactions only: inside a savepoint it would be undone
// with it, rows of other transactions and all.
func (w *writer) flush() error {
	rows := w.buf.rows
	w.flushed = w.flushed || len(rows) > 0
	for _, insert := range inserts {
		for ; len(rows) >= insert.rows; rows = rows[insert.rows:] {
			if err := w.insert(insert.query, rows[:insert.rows]); err != nil {
				return err
			}
		}
	}
	for id, i := range w.buf.last {
		w.versions.put(id, w.buf.rows[i].Version)
	}
	w.stored = w.head()
	w.buf.reset()
	return nil
}

func (w *writer) insert(query string, rows []pending) error {
	args := w.args[:0]
	for i := range rows {
		p := &rows[i]
		args = append(args, int64(p.Position), int64(p.Tx), p.key, int64(p.Version), int64(p.At),
			int64(p.record.Type), int64(p.record.Schema), textOrNull(p.Actor), textOrNull(p.Command),
			positionOrNull(p.Cause), positionOrNull(p.node), string(p.record.Data))
	}
	err := w.s.exec(query, args...)
	clear(args)
	w.args = args
	if err != nil && isTaken(err) {
		return w.taken(rows, err)
	}
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	return nil
}

// taken finds the stream that was not where it was believed to be, after the insert of some rows met the unique index.
func (w *writer) taken(rows []pending, cause error) error {
	for i := range rows {
		actual, err := w.storedVersion(rows[i].Stream)
		if err != nil {
			return fmt.Errorf("append: %w", err)
		}
		if actual >= rows[i].Version {
			return &store.ConflictError{Stream: rows[i].Stream, Expected: rows[i].Version - 1, Actual: actual}
		}
	}
	return fmt.Errorf("append: %w", cause)
}

func textOrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func positionOrNull(p events.Position) any {
	if p == 0 {
		return nil
	}
	return int64(p)
}

// close copies the WAL to the database, as far as others let it, and closes the connection.
func (w *writer) close() error {
	w.turn.Close()
	if w.s == nil {
		return nil
	}
	err := errors.Join(w.s.truncateWAL(closeWait), w.s.close())
	w.s = nil
	return err
}

// closeWait is for how many milliseconds others may keep the last checkpoint from ending.
const closeWait = 1000
