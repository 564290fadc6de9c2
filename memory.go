package towline

import (
	"encoding/base64"
	"fmt"
	"io"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/oklog/ulid/v2"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// memory is what the writer keeps between transactions: the hot view, the folds of streams in use, and the sources of
// ids. All of it is a cache of the log. A transaction that is rolled back undoes its part; a commit that fails voids
// the whole of it, and the next transaction reads it anew (L-3).
type memory struct {
	knobs func() projections.HotKnobs
	hot   *projections.Hot                      // nil: to be loaded
	folds *simplelru.LRU[events.StreamID, fold] // as far as hot

	// views is how far the tables hold the log, with what the commit in progress has appended; zero: their checkpoint,
	// which is written with the commit, says it. A transaction that is rolled back takes back what it caught up.
	views events.Position

	entropy io.Reader
	ulids   *ulid.MonotonicEntropy

	pace pace // of the wall clock against the monotonic one

	reloads reloads // of the commit in progress

	queue []reaction // of Execute, empty, kept for its capacity

	stopped bool // NodeStopped was appended: this incarnation writes nothing more (I-24)
}

// fold is the state of a stream at a version.
type fold struct {
	state   decider.State
	version events.Version
}

const defaultFoldCache = 16_384

func newMemory(k func() projections.HotKnobs, size int, entropy io.Reader) memory {
	if size <= 0 {
		size = defaultFoldCache
	}
	folds, err := simplelru.NewLRU[events.StreamID, fold](size, nil)
	if err != nil {
		panic(fmt.Sprintf("towline: fold cache of %d: %v", size, err)) // only a size below 1 is refused
	}
	return memory{knobs: k, folds: folds, entropy: entropy, ulids: ulid.Monotonic(entropy, 0)}
}

func (m *memory) void() {
	m.forget()
	m.views = 0
	m.pace.void()
	m.reloads = reloads{}
	m.stopped = false
}

// forget drops what is folded from the log; the next transaction reads it anew.
func (m *memory) forget() {
	m.hot = nil
	m.folds.Purge()
}

// checkpoint is the last write of every commit. Every transaction of it has brought the tables to the head first.
func (m *memory) checkpoint(tx store.Tx) error {
	m.reloads.whole = true
	head, _, err := tx.Head()
	if err != nil {
		return err
	}
	return projections.Checkpoint(tx, head)
}

// refresh brings tables and memory to the head of the log, by what others have appended since the last transaction: in
// shared mode another process, and in any mode an application's own transaction, which knows no tables.
func (m *memory) refresh(tx store.Tx) error {
	head, _, err := tx.Head()
	if err != nil {
		return err
	}
	before := m.views
	if err := m.refreshTo(tx, head); err != nil {
		m.forget() // it may be between two states
		m.views = before
		return err
	}
	return nil
}

func (m *memory) refreshTo(tx store.Tx, head events.Position) error {
	if m.views != head {
		if err := m.catchUp(tx, head); err != nil {
			return err
		}
	}
	switch {
	case m.hot == nil || m.isLong(head-m.hot.Position()):
		return m.load(tx)
	case m.hot.Position() != head:
		return m.follow(tx, head)
	}
	return nil
}

// catchUp applies to the tables what nobody has applied to them.
func (m *memory) catchUp(tx store.Tx, head events.Position) error {
	applied, err := projections.Position(tx)
	if err != nil {
		return err
	}
	if applied < head {
		if err := projections.CatchUp(tx); err != nil {
			return err
		}
	}
	m.views = head
	return nil
}

// load reads the hot view from the tables. The folds go, because nobody has kept them up with the log.
func (m *memory) load(tx store.Tx) error {
	m.folds.Purge()
	hot, err := projections.LoadHot(tx, m.knobs())
	m.hot = hot
	return err
}

// isLong reports a backlog that is faster read from the tables than folded. A fold costs what the reading of some eight
// units costs, about 60 µs; and a reading drops the folds of streams in use, so it does not pay for a few events.
func (m *memory) isLong(backlog events.Position) bool {
	const few, unitsPerFold = 500, 8
	return int(backlog) > few+m.hot.Units()/unitsPerFold
}

// followPage bounds how many foreign events are held at once.
const followPage = 1000

// follow folds foreign events as if they were this process's own, so its cost is theirs: not that of the runs they
// belong to.
func (m *memory) follow(tx store.Tx, head events.Position) error {
	for m.hot.Position() < head {
		page, err := tx.After(m.hot.Position(), followPage)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return fmt.Errorf("log ends at %d, its head is %d", m.hot.Position(), head)
		}
		for _, env := range page {
			before, err := m.before(tx, env)
			if err != nil {
				return err
			}
			after := decider.Evolve(before, env)
			m.hot.Apply(env, before, after)
			m.keep(env.Stream, fold{state: after, version: env.Version})
		}
		m.hot.Forget() // they are committed
	}
	return nil
}

// before is the state to which an event was appended: kept, or read and folded.
func (m *memory) before(tx store.Tx, env events.Envelope) (decider.State, error) {
	zero, version := decider.Zero(env.Stream), env.Version-1
	if decider.IsPartial(zero) || version == 0 {
		return zero, nil
	}
	if f, ok := m.folds.Get(env.Stream); ok && f.version == version {
		return f.state, nil
	}
	history, err := tx.Stream(env.Stream)
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", env.Stream, err)
	}
	if len(history) < int(version) {
		return nil, fmt.Errorf("stream %s has %d events, want %d", env.Stream, len(history), version)
	}
	return decider.Fold(env.Stream, history[:version]), nil
}

// keep remembers a fold while its stream is in use. What has ended is forgotten at once: a late message for it costs
// a read, and a plan of many units does not fill the memory with the dead.
func (m *memory) keep(id events.StreamID, f fold) {
	if projections.Ended(f.state) {
		m.folds.Remove(id)
		return
	}
	m.folds.Add(id, f)
}

// keptReactions bounds the queue that is kept: a plan or a fan-out may have made it long.
const keptReactions = 1024

// takeQueue and giveQueue lend the queue of Execute. Nearly every transaction has one of a few places.
func (m *memory) takeQueue() []reaction {
	q := m.queue
	m.queue = nil
	return q
}

func (m *memory) giveQueue(q []reaction) {
	if cap(q) <= keptReactions {
		clear(q)
		m.queue = q[:0]
	}
}

// newULID makes an id out of the frozen time of a transaction; ids of one millisecond rise.
func (m *memory) newULID(now events.Micros) [16]byte {
	id, err := ulid.New(ulid.Timestamp(now.Time()), m.ulids)
	if err != nil {
		panic(fmt.Sprintf("towline: entropy: %v", err)) // without randomness nothing is safe
	}
	return id
}

// newToken makes the secret of a lease or a claim: 128 random bits.
func (m *memory) newToken() events.Token {
	var b [16]byte
	if _, err := io.ReadFull(m.entropy, b[:]); err != nil {
		panic(fmt.Sprintf("towline: entropy: %v", err))
	}
	return events.Token(base64.RawURLEncoding.EncodeToString(b[:]))
}
