package sqlite

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// Rows of the log and segments are read as one log (L-1). The rows are asked first: whoever reads the end of the log, or a
// stream of a run that is at work, meets no gap and looks at no segment. What a segment has taken since is found in it.

// segmentPage is how many positions a row of segment_pages stands for. It is in the file, so it is never another.
const segmentPage = 1000

// keptSegments bounds the memory for segments that were read: with some thousand events each, some MiB.
const keptSegments = 16

// archive is what a reader of the log remembers of the segments of its file.
type archive struct {
	made atomic.Bool // the tables are there

	mu   sync.Mutex
	kept []keptSegment // the newest last
}

type keptSegment struct {
	id   int64
	hash string
	rows []stored
}

// there reports that the file has tables for segments: one that is only read may come from an older release.
func (a *archive) there(q querier) (bool, error) {
	if a.made.Load() {
		return true, nil
	}
	found := false
	err := q(func(store.Row) error { found = true; return nil }, `SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'segment_pages'`)
	if found && err == nil {
		a.made.Store(true)
	}
	return found, err
}

// stream are all rows of a stream by version.
func (q querier) stream(a *archive, key []byte) ([]stored, error) {
	rows, err := q.events(usualStream, selectStream, key)
	if err != nil || len(rows) > 0 && rows[0].version == 1 {
		return rows, err
	}
	if ok, err := a.there(q); !ok || err != nil {
		return rows, err
	}
	ids, err := q.numbers(`SELECT segment FROM archived_streams WHERE stream = $1 ORDER BY version`, key)
	if err != nil || len(ids) == 0 {
		return rows, err
	}
	var whole []stored
	for _, id := range ids {
		of, err := q.segment(a, id)
		if err != nil {
			return nil, err
		}
		for i := range of {
			if string(of[i].stream) == string(key) {
				whole = append(whole, of[i])
			}
		}
	}
	last := whole[len(whole)-1].version
	rows = slices.DeleteFunc(rows, func(e stored) bool { return e.version <= last }) // sealed between the two looks
	return append(whole, rows...), nil
}

// after are at most limit rows behind a position. Fewer are the end of the log.
func (q querier) after(a *archive, p events.Position, limit int) (out []stored, err error) {
	for len(out) < limit {
		want := limit - len(out)
		rows, err := q.liveAfter(p, want)
		if err != nil || len(rows) == 0 { // the newest row of a log is always there, so no row is no event
			return out, err
		}
		newest := rows[len(rows)-1].position
		if newest-p == events.Position(len(rows)) {
			return append(out, rows...), nil
		}
		if ok, err := a.there(q); !ok || err != nil {
			return append(out, rows...), err
		}
		end := min(p+events.Position(want), newest)
		page, err := q.between(a, p, end)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if rows[i].position <= end {
				page = append(page, rows[i])
			}
		}
		if out, p = append(out, inOrder(page)...), end; len(page) > 0 {
			continue
		}
		if p, err = q.nextAfter(end, rows[0].position); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (q querier) liveAfter(p events.Position, limit int) ([]stored, error) {
	return q.events(min(limit, logPage), selectAfter, p, limit)
}

// nextAfter is behind which position the log goes on, where a stretch of it is missing; live is the next row.
func (q querier) nextAfter(p, live events.Position) (events.Position, error) {
	pages, err := q.numbers(`SELECT page FROM segment_pages WHERE page > $1 ORDER BY page LIMIT 1`, int64(p)/segmentPage)
	next := live - 1
	if len(pages) > 0 {
		next = min(next, events.Position(pages[0]*segmentPage)-1)
	}
	return max(p, next), err
}

// between are the rows in segments behind a position and up to another, in no order.
func (q querier) between(a *archive, p, end events.Position) ([]stored, error) {
	if ok, err := a.there(q); !ok || err != nil {
		return nil, err
	}
	ids, err := q.numbers(`SELECT DISTINCT segment FROM segment_pages WHERE page BETWEEN $1 AND $2`, int64(p+1)/segmentPage, int64(end)/segmentPage)
	if err != nil {
		return nil, err
	}
	var out []stored
	for _, id := range ids {
		rows, err := q.segment(a, id)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if rows[i].position > p && rows[i].position <= end {
				out = append(out, rows[i])
			}
		}
	}
	return out, nil
}

// inOrder sorts by position; one that was sealed between two looks is there once.
func inOrder(rows []stored) []stored {
	slices.SortFunc(rows, func(a, b stored) int { return cmp.Compare(a.position, b.position) })
	return slices.CompactFunc(rows, func(a, b stored) bool { return a.position == b.position })
}

// selectSegment is the hash of a segment, and the one that the log says. In the transaction that seals it the log is silent yet.
const selectSegment = `
	SELECT s.hash, coalesce(e.data ->> '$.hash', '')
	FROM segments AS s
	LEFT JOIN events AS e ON e.position = s.id AND e.type = $2
	WHERE s.id = $1`

// segment reads a sealed segment, or remembers it. One that is not what was sealed is an error that names it.
func (q querier) segment(a *archive, id int64) ([]stored, error) {
	var hash, data []byte
	var said string
	err := q(func(row store.Row) error { return row.Scan(&hash, &said) }, selectSegment, id, int(events.TypeRunsArchived))
	if err != nil {
		return nil, err
	}
	if hash == nil {
		return nil, fmt.Errorf("segment %d: %w: it is missing", id, errSegment)
	}
	if found := hex.EncodeToString(hash); said != "" && said != found {
		return nil, fmt.Errorf("segment %d: %w: its hash is %s, and the log says that it was sealed with %s", id, errSegment, found, said)
	}
	if rows := a.remembered(id, string(hash)); rows != nil {
		return rows, nil
	}
	err = q(func(row store.Row) error { return row.Scan(&data) }, `SELECT data FROM segments WHERE id = $1`, id)
	if err != nil {
		return nil, err
	}
	rows, err := unseal(data, hash)
	if err != nil {
		return nil, fmt.Errorf("segment %d: %w", id, err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("segment %d: %w: it is empty", id, errSegment)
	}
	a.remember(keptSegment{id, string(hash), rows})
	return rows, nil
}

func (a *archive) remembered(id int64, hash string) []stored {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.kept, func(k keptSegment) bool { return k.id == id && k.hash == hash })
	if i < 0 {
		return nil
	}
	k := a.kept[i]
	a.kept = append(slices.Delete(a.kept, i, i+1), k)
	return k.rows
}

func (a *archive) remember(k keptSegment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.kept) >= keptSegments {
		a.kept = slices.Delete(a.kept, 0, 1)
	}
	a.kept = append(a.kept, k)
}

func (q querier) numbers(query string, args ...any) (out []int64, err error) {
	err = q(func(row store.Row) error {
		var n int64
		err := row.Scan(&n)
		out = append(out, n)
		return err
	}, query, args...)
	return out, err
}
