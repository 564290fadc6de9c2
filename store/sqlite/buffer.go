package sqlite

import "github.com/towline-dev/towline/events"

// buffer holds the events of the commit in the making that are not in the file yet. They are inserted many at a time,
// which is most of the speed of an append, and undoing them costs no SQL.
type buffer struct {
	rows []pending
	last map[events.StreamID]int // index of the newest row of a stream
}

type pending struct {
	events.Envelope
	key    []byte // of the stream
	record events.Record
	node   events.Position // where its node started; 0: none
	before int             // index of the row before it in the same stream; -1: none
}

// keptStreams bounds the map that is emptied and used again: emptying one costs its size.
const keptStreams = 4096

func (b *buffer) len() int { return len(b.rows) }

func (b *buffer) add(p pending) {
	var ok bool
	if p.before, ok = b.last[p.Stream]; !ok {
		p.before = -1
	}
	if b.last == nil {
		b.last = map[events.StreamID]int{}
	}
	b.last[p.Stream] = len(b.rows)
	b.rows = append(b.rows, p)
}

// cut takes back all rows from index n on.
func (b *buffer) cut(n int) {
	for i := len(b.rows) - 1; i >= n; i-- {
		if p := &b.rows[i]; p.before < 0 {
			delete(b.last, p.Stream)
		} else {
			b.last[p.Stream] = p.before
		}
	}
	clear(b.rows[n:])
	b.rows = b.rows[:n]
}

// reset empties the buffer for the next commit.
func (b *buffer) reset() {
	clear(b.rows)
	b.rows = b.rows[:0]
	if cap(b.rows) > 2*flushAt { // after a fan-out
		b.rows = nil
	}
	if len(b.last) > keptStreams {
		b.last = nil
	}
	clear(b.last)
}

// version is the newest buffered version of a stream; false: none is buffered.
func (b *buffer) version(id events.StreamID) (events.Version, bool) {
	i, ok := b.last[id]
	if !ok {
		return 0, false
	}
	return b.rows[i].Version, true
}

// stream is the buffered part of a stream, oldest first.
func (b *buffer) stream(id events.StreamID) []events.Envelope {
	i, ok := b.last[id]
	if !ok {
		return nil
	}
	n := 0
	for j := i; j >= 0; j = b.rows[j].before {
		n++
	}
	out := make([]events.Envelope, n)
	for ; i >= 0; i = b.rows[i].before {
		n--
		out[n] = b.rows[i].Envelope
	}
	return out
}
