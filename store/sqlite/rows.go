package sqlite

import (
	"errors"
	"fmt"
	"sync"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// columns of the events table, in the order in which scanEvent reads them.
const columns = `position, tx, stream, version, at, type, schema, coalesce(actor, ''), coalesce(command, ''), coalesce(cause, 0), coalesce(node, 0), data`

const (
	selectStream = `SELECT ` + columns + ` FROM events WHERE stream = $1 ORDER BY version`
	selectAfter  = `SELECT ` + columns + ` FROM events WHERE position > $1 ORDER BY position LIMIT $2`
	selectHead   = `SELECT position, at FROM events ORDER BY position DESC LIMIT 1`
	selectName   = `SELECT stream FROM events WHERE position = $1`
)

// usualStream is how many events most streams have at most.
const usualStream = 8

// querier runs a query on a connection of the writer or of a reader.
type querier func(scan func(store.Row) error, query string, args ...any) error

// stored is one row of the events table. It is decoded when its query has ended: decoding may have to look up a node.
type stored struct {
	position, tx events.Position
	stream       []byte
	version      events.Version
	at           events.Micros
	kind         events.Type
	schema       events.Schema
	meta         events.Meta
	node         events.Position
	data         string
}

// events collects the rows of a query over columns. want is how many are expected; a wrong guess costs a copy.
func (q querier) events(want int, query string, args ...any) ([]stored, error) {
	var e stored
	fields := []any{&e.position, &e.tx, &e.stream, &e.version, &e.at, &e.kind, &e.schema,
		&e.meta.Actor, &e.meta.Command, &e.meta.Cause, &e.node, &e.data}
	out := make([]stored, 0, want)
	err := q(func(row store.Row) error {
		err := row.Scan(fields...)
		out = append(out, e)
		return err
	}, query, args...)
	return out, err
}

func (q querier) head() (h head, err error) {
	err = q(func(row store.Row) error { return row.Scan(&h.position, &h.at) }, selectHead)
	return h, err
}

// read is events, decoded.
func (q querier) read(nodes *nodeNames, want int, query string, args ...any) ([]events.Envelope, error) {
	rows, err := q.events(want, query, args...)
	if err != nil {
		return nil, err
	}
	return q.decode(rows, nodes)
}

// decode turns rows into envelopes, all of them or none.
func (q querier) decode(rows []stored, nodes *nodeNames) ([]events.Envelope, error) {
	out := make([]events.Envelope, len(rows))
	for i := range rows {
		if err := q.decodeOne(&out[i], &rows[i], nodes); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// decodeOne fills e. For an event that this release cannot read the error is an *events.DecodeError with its
// position (L-7).
func (q querier) decodeOne(e *events.Envelope, s *stored, nodes *nodeNames) (err error) {
	*e = events.Envelope{Position: s.position, Tx: s.tx, Version: s.version, At: s.at, Meta: s.meta}
	if e.Stream, err = events.ParseStreamKey(s.stream); err != nil {
		return s.undecodable(err)
	}
	if e.Event, err = events.Decode(events.Record{Type: s.kind, Schema: s.schema, Data: []byte(s.data)}); err != nil {
		return s.undecodable(err)
	}
	if s.node == 0 {
		return nil
	}
	var ok bool
	if e.Node, ok, err = nodes.name(q, s.node); err == nil && !ok {
		err = s.undecodable(fmt.Errorf("node at position %d: no incarnation started there", s.node))
	}
	return err
}

// undecodable adds what only the store knows.
func (s *stored) undecodable(err error) error {
	if e, ok := errors.AsType[*events.DecodeError](err); ok {
		err = e.Err
	}
	return &events.DecodeError{Position: s.position, Stream: s.stream, Type: s.kind, Schema: s.schema, Err: err}
}

// nodeNames remembers which incarnation started at a position, so that an event costs no look-up for its node.
type nodeNames struct {
	mu    sync.Mutex
	names map[events.Position]events.NodeID
}

// maxNodes bounds the memory for names: a log has one incarnation per start of a process.
const maxNodes = 4096

// name is false when no incarnation started at a position.
func (n *nodeNames) name(q querier, started events.Position) (events.NodeID, bool, error) {
	n.mu.Lock()
	id, ok := n.names[started]
	n.mu.Unlock()
	if ok {
		return id, true, nil
	}
	var key []byte
	if err := q(func(row store.Row) error { return row.Scan(&key) }, selectName, started); err != nil {
		return events.NodeID{}, false, err
	}
	stream, err := events.ParseStreamKey(key)
	if id, ok = stream.Node(); err != nil || !ok {
		return events.NodeID{}, false, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.names == nil || len(n.names) >= maxNodes {
		n.names = map[events.Position]events.NodeID{}
	}
	n.names[started] = id
	return id, true, nil
}

func (n *nodeNames) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names = nil
}
