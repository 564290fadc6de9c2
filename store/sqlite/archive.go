package sqlite

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// archiveLevel is the format level from which on segments are written: an older release would read a log with gaps (DUR-7).
const archiveLevel = 2

var (
	_ store.Archiver  = (*Store)(nil)
	_ store.ArchiveTx = (*tx)(nil)
)

// CanArchive says why a store of an older level has no segments.
func (s *Store) CanArchive() error {
	return mayArchive(s.level)
}

func mayArchive(level int) error {
	if level < archiveLevel {
		return fmt.Errorf("%w: the store has level %d, and runs are archived from level %d on: stop the node and run `towline store upgrade`", store.ErrFormat, level, archiveLevel)
	}
	return nil
}

// Archive seals the rows of some streams and takes them out of the log, in the savepoint of the transaction: whatever
// happens to it, each row is in the log or in the segment.
func (t *tx) Archive(streams []events.StreamID) (store.Sealed, error) {
	if err := cmp.Or(t.usable(), mayArchive(t.w.level)); err != nil {
		return store.Sealed{}, err
	}
	var rows []stored
	for _, id := range streams {
		if v, ok := t.w.buf.version(id); ok {
			return store.Sealed{}, &store.ConflictError{Stream: id, Expected: -1, Actual: v}
		}
		of, err := querier(t.w.query).events(usualStream, selectStream, id.Key())
		if err != nil {
			return store.Sealed{}, t.fault(err, "read stream %s", id)
		}
		rows = append(rows, of...)
	}
	if len(rows) == 0 {
		return store.Sealed{}, nil
	}
	slices.SortFunc(rows, func(a, b stored) int { return cmp.Compare(a.position, b.position) })
	g, err := seal(rows)
	if err != nil {
		return store.Sealed{}, fmt.Errorf("seal a segment: %w", err)
	}
	found, err := unseal(g.data, g.hash[:])
	if err == nil && !slices.EqualFunc(found, rows, sameRow) {
		err = errSegment
	}
	if err != nil { // before anything leaves the log
		return store.Sealed{}, fmt.Errorf("prove a segment that was just sealed: %w", err)
	}
	id := int64(t.w.head().position) + 1
	if err := t.insertSegment(id, g, rows); err != nil {
		return store.Sealed{}, err
	}
	for _, s := range g.streams {
		if err := t.execOwn(`DELETE FROM events WHERE stream = $1`, s.stream); err != nil {
			return store.Sealed{}, fmt.Errorf("take a sealed stream out of the log: %w", err)
		}
	}
	return store.Sealed{Name: events.Position(id).String(), Hash: hex.EncodeToString(g.hash[:]), Events: g.events, Plain: g.plain, Bytes: len(g.data)}, nil
}

func (t *tx) insertSegment(id int64, g segment, rows []stored) error {
	if err := t.execOwn(`INSERT INTO segments (id, events, plain, hash, data) VALUES ($1, $2, $3, $4, $5)`, id, g.events, g.plain, g.hash[:], g.data); err != nil {
		return fmt.Errorf("seal a segment: %w", err)
	}
	for _, s := range g.streams {
		if err := t.execOwn(`INSERT INTO archived_streams (stream, version, segment) VALUES ($1, $2, $3)`, s.stream, int64(s.version), id); err != nil {
			return fmt.Errorf("seal a segment: %w", err)
		}
	}
	page := int64(-1)
	for i := range rows {
		if p := int64(rows[i].position) / segmentPage; p != page {
			page = p
			if err := t.execOwn(`INSERT INTO segment_pages (page, segment) VALUES ($1, $2)`, page, id); err != nil {
				return fmt.Errorf("seal a segment: %w", err)
			}
		}
	}
	return nil
}

func sameRow(a, b stored) bool {
	return a.position == b.position && a.tx == b.tx && string(a.stream) == string(b.stream) && a.version == b.version && a.at == b.at &&
		a.kind == b.kind && a.schema == b.schema && a.meta == b.meta && a.node == b.node && a.data == b.data
}
