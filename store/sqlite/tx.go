package sqlite

import (
	"context"
	"fmt"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// tx is one transaction of a commit.
//
// Query and Exec do not see the events that this commit has appended, and a Query on the events table is not a
// supported use: Stream, After and Head see all of them.
type tx struct {
	w         *writer
	first     int // index in the buffer of its first event
	now       events.Micros
	savepoint bool                 // Exec was called
	scanning  bool                 // the rows of a Query are open
	over      bool                 // fn has returned
	conflict  *store.ConflictError // met by Append: nothing of this transaction may be kept
}

// Now is the time of the transaction.
func (t *tx) Now() events.Micros { return t.now }

// Append adds to the buffer. It returns a *store.ConflictError at once unless the stream was believed to be new and is
// not known to this writer; then the commit does.
func (t *tx) Append(id events.StreamID, expected events.Version, m events.Meta, evs ...events.Event) ([]events.Envelope, error) {
	if err := t.usable(); err != nil || len(evs) == 0 {
		return nil, err
	}
	actual, err := t.w.version(id, expected)
	if err != nil {
		return nil, t.fault(err, "read the version of %s", id)
	}
	if actual != expected {
		t.conflict = &store.ConflictError{Stream: id, Expected: expected, Actual: actual}
		return nil, t.conflict
	}
	head := t.w.head()
	node, err := t.node(id, expected, m.Node, head)
	if err != nil {
		return nil, err
	}
	key := id.Key()
	if err := t.check(id, key, m, head); err != nil {
		return nil, err
	}
	records := make([]events.Record, len(evs))
	for i, e := range evs {
		if records[i], err = events.Encode(e); err != nil {
			return nil, fmt.Errorf("append to %s: %w", id, err)
		}
	}
	first := head.position + 1 // of this transaction
	if t.w.buf.len() > t.first {
		first = t.w.buf.rows[t.first].Position
	}
	out := make([]events.Envelope, len(evs))
	for i, e := range evs {
		n := i + 1
		out[i] = events.Envelope{
			Position: head.position + events.Position(n), Tx: first, Stream: id, Version: expected + events.Version(n), At: t.now, Meta: m, Event: e,
		}
		t.w.buf.add(pending{Envelope: out[i], key: key, record: records[i], node: node})
	}
	return out, nil
}

// check refuses here what a CHECK of the table would refuse at the flush, where it would hit the whole group.
func (t *tx) check(id events.StreamID, key []byte, m events.Meta, head head) error {
	switch {
	case id.IsZero() || len(key) < 2:
		return fmt.Errorf("append: %q names no stream", id)
	case m.Cause < 0 || m.Cause > head.position:
		return fmt.Errorf("append to %s: cause %d is not in the log, which ends at %d", id, m.Cause, head.position)
	case t.now <= 0:
		return fmt.Errorf("append to %s: the clock stands at %d microseconds, before 1970", id, t.now)
	}
	return nil
}

// node is the position that stands for an incarnation in the log: that of its NodeStarted, which may be the very
// event that is being appended.
func (t *tx) node(id events.StreamID, expected events.Version, node events.NodeID, head head) (events.Position, error) {
	if node.IsZero() {
		return 0, nil
	}
	if self, ok := id.Node(); ok && self == node && expected == 0 {
		return head.position + 1, nil
	}
	p, err := t.w.started(node)
	if err != nil {
		return 0, t.fault(err, "read the start of node %s", node)
	}
	if p == 0 {
		return 0, fmt.Errorf("append to %s: node %s has not started (N-1)", id, node)
	}
	return p, nil
}

// Exec opens the savepoint of the transaction if it is its first.
func (t *tx) Exec(query string, args ...any) error { return t.exec(t.w.s.execLent, query, args) }

// execOwn is Exec for a table of this package.
func (t *tx) execOwn(query string, args ...any) error { return t.exec(t.w.s.exec, query, args) }

func (t *tx) exec(run func(string, ...any) error, query string, args []any) error {
	if err := t.usable(); err != nil {
		return err
	}
	if !t.savepoint {
		if err := t.w.s.exec("SAVEPOINT tx"); err != nil {
			return t.fault(err, "begin a transaction")
		}
		t.savepoint = true
	}
	return t.fault(run(query, args...), "exec")
}

// Query reads only; a statement that changes something is refused.
func (t *tx) Query(scan func(store.Row) error, query string, args ...any) error {
	if err := t.usable(); err != nil {
		return err
	}
	t.scanning = true
	defer func() { t.scanning = false }()
	return t.fault(t.w.s.queryLent(context.Background(), scan, query, args...), "query")
}

// Stream is what is stored of a stream, and what is buffered of it.
func (t *tx) Stream(id events.StreamID) ([]events.Envelope, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	buffered := t.w.buf.stream(id)
	if len(buffered) > 0 && buffered[0].Version == 1 {
		return buffered, nil
	}
	q := querier(t.w.query)
	rows, err := q.stream(&t.w.archive, id.Key())
	var stored []events.Envelope
	if err == nil {
		stored, err = q.decode(rows, &t.w.nodes)
	}
	if err != nil {
		return nil, t.fault(err, "read stream %s", id)
	}
	if n := len(stored); n > 0 {
		t.w.versions.put(id, stored[n-1].Version)
	}
	return append(stored, buffered...), nil
}

// Version is that of the buffer, or the stored one.
func (t *tx) Version(id events.StreamID) (events.Version, error) {
	if err := t.usable(); err != nil {
		return 0, err
	}
	v, err := t.w.version(id, -1) // no belief that would spare the look-up
	return v, t.fault(err, "read the version of %s", id)
}

// After is one page of what is stored, or the buffered part where the page goes beyond it.
func (t *tx) After(p events.Position, limit int) ([]events.Envelope, error) {
	if err := t.usable(); err != nil || limit <= 0 {
		return nil, err
	}
	p = max(p, 0)
	var out []events.Envelope
	if last := t.w.stored.position; p < last {
		want := min(limit, int(last-p))
		q := querier(t.w.query)
		rows, err := q.after(&t.w.archive, p, want)
		if err == nil {
			out, err = q.decode(rows, &t.w.nodes)
		}
		if err != nil {
			return nil, t.fault(err, "read the log")
		}
		p = last
	}
	rows := t.w.buf.rows
	for i := int(p - t.w.stored.position); i < len(rows) && len(out) < limit; i++ {
		out = append(out, rows[i].Envelope)
	}
	return out, nil
}

// Head is the newest event, buffered or stored.
func (t *tx) Head() (events.Position, events.Micros, error) {
	err := t.usable()
	h := t.w.head()
	return h.position, h.at, err
}

// usable returns why nothing can be done any more. It panics at what is never right.
func (t *tx) usable() error {
	if t.over {
		panic("sqlite: a transaction is used after its function returned")
	}
	if t.scanning {
		panic("sqlite: a transaction is used while the rows of its query are open")
	}
	return t.w.lost
}

// fault says what was being done. After some errors SQLite may have rolled back, and INSERT OR ROLLBACK and
// RAISE(ROLLBACK) make it do so at an error that looks harmless: they end the whole commit.
func (t *tx) fault(err error, format string, args ...any) error {
	err = doing(err, format, args...)
	switch {
	case err == nil:
	case !isHarmless(err):
		t.w.lose(err)
	case t.w.s.rolledBack:
		err = fmt.Errorf("%w: %w", store.ErrRolledBack, err)
		t.w.lose(err)
	}
	return err
}
