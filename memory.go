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
	knobs projections.HotKnobs
	hot   *projections.Hot // nil: to be loaded
	folds *simplelru.LRU[events.StreamID, fold]

	entropy io.Reader
	ulids   *ulid.MonotonicEntropy

	stopped bool // NodeStopped was appended: this incarnation writes nothing more (I-24)
}

// fold is the state of a stream at a version.
type fold struct {
	state   decider.State
	version events.Version
}

const defaultFoldCache = 16_384

func newMemory(k projections.HotKnobs, size int, entropy io.Reader) memory {
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
	m.hot = nil
	m.folds.Purge()
	m.stopped = false
}

// checkpoint is the last write of every commit.
func (m *memory) checkpoint(tx store.Tx) error {
	head, _, err := tx.Head()
	if err != nil {
		return err
	}
	return projections.Checkpoint(tx, head)
}

// refresh brings the memory to the head of the log: from the tables at first, and after that by what others have
// appended since, which in exclusive mode only an application's own transaction can.
func (m *memory) refresh(tx store.Tx) error {
	head, _, err := tx.Head()
	if err != nil {
		return err
	}
	switch {
	case m.hot == nil:
		hot, err := projections.LoadHot(tx, m.knobs)
		if err != nil {
			return err
		}
		m.hot = hot
	case m.hot.Position() != head:
		if err := m.follow(tx, head); err != nil {
			m.void() // it may be between two states
			return err
		}
	}
	return nil
}

// followPage bounds how many foreign events are held at once.
const followPage = 1000

func (m *memory) follow(tx store.Tx, head events.Position) error {
	applied, err := projections.Position(tx)
	if err != nil {
		return err
	}
	if applied < head {
		if err := projections.CatchUp(tx); err != nil {
			return err
		}
	}
	touched := newRunSet()
	for from := m.hot.Position(); from < head; {
		page, err := tx.After(from, followPage)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return fmt.Errorf("log ends at %d, its head is %d", from, head)
		}
		for _, env := range page {
			m.folds.Remove(env.Stream)
			if err := touched.add(tx, env.Stream); err != nil {
				return err
			}
			from = env.Position
		}
	}
	return m.hot.Reload(tx, touched.list)
}

// runSet collects the runs to which streams belong, each once, in order.
type runSet struct {
	list []events.RunID
	seen map[events.RunID]bool
}

func newRunSet() *runSet { return &runSet{seen: map[events.RunID]bool{}} }

func (s *runSet) add(tx store.Tx, id events.StreamID) error {
	run, ok := id.Run()
	if owner, kind, isRegister := id.Register(); isRegister && kind != events.KindMessage {
		run, ok = events.RunID(owner), true
	}
	if unit, isUnit := id.Unit(); isUnit {
		row, found, err := projections.NewView(tx).Unit(unit)
		if err != nil {
			return err
		}
		run, ok = row.Run, found
	}
	if ok && !s.seen[run] {
		s.seen[run] = true
		s.list = append(s.list, run)
	}
	return nil
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
