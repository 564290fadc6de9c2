package model

import (
	"hash/maphash"
	"unsafe"
)

// bytes are those of a state. It holds nothing but single bytes, so there is no padding between them.
func (s *state) bytes() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s)) }
func (u *unit) bytes() []byte  { return unsafe.Slice((*byte)(unsafe.Pointer(u)), unsafe.Sizeof(*u)) }
func (r *relay) bytes() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r)) }

// visited is the set of the states that were found, in the order in which they were. It compares whole states: no two share
// a place because their hashes do. Pages keep it from ever being copied.
type visited struct {
	seed  maphash.Seed
	pages [][]node
	n     int
	table []entry
}

// node is a state and the one from which it was found first, so that a trace is as short as it can be.
type node struct {
	state
	from int32 // -1: the first
}

// entry is 1 + the place of a state, and a part of its hash, which spares most looks at the state. Zero: free.
type entry struct{ place, tag uint32 }

const pageSize = 1 << 14

func newVisited() *visited {
	return &visited{seed: maphash.MakeSeed(), table: make([]entry, 1<<16)}
}

func (v *visited) at(n int) *node { return &v.pages[n/pageSize][n%pageSize] }

// add puts a state behind the others, unless it is there.
func (v *visited) add(s *state, from int32) {
	hash := maphash.Bytes(v.seed, s.bytes())
	slot := v.slot(s, hash)
	if v.table[slot].place != 0 {
		return
	}
	if v.n%pageSize == 0 {
		v.pages = append(v.pages, make([]node, pageSize))
	}
	*v.at(v.n) = node{*s, from}
	v.n++
	v.table[slot] = entry{uint32(v.n), tagOf(hash)}
	if 2*v.n > len(v.table) {
		v.grow()
	}
}

func tagOf(hash uint64) uint32 { return uint32(hash >> 32) }

// slot is where a state is in the table, or would be.
func (v *visited) slot(s *state, hash uint64) int {
	mask := len(v.table) - 1
	slot := int(hash) & mask
	for e := v.table[slot]; e.place != 0 && (e.tag != tagOf(hash) || v.at(int(e.place-1)).state != *s); e = v.table[slot] {
		slot = (slot + 1) & mask
	}
	return slot
}

func (v *visited) grow() {
	v.table = make([]entry, 2*len(v.table))
	for n := range v.n {
		s := &v.at(n).state
		hash := maphash.Bytes(v.seed, s.bytes())
		v.table[v.slot(s, hash)] = entry{uint32(n + 1), tagOf(hash)}
	}
}

// hashes are sets of bits by the hash of a state.
type hashes struct {
	n     int
	table []hashed
}

type hashed struct {
	hash uint64 // 0: free
	set  uint8
}

func newHashes() hashes { return hashes{table: make([]hashed, 1<<16)} }

func (h *hashes) slot(hash uint64) *hashed {
	mask := uint64(len(h.table) - 1)
	slot := hash & mask
	for h.table[slot].hash != 0 && h.table[slot].hash != hash {
		slot = (slot + 1) & mask
	}
	return &h.table[slot]
}

func (h *hashes) bits(hash uint64) uint8 { return h.slot(hash).set }

func (h *hashes) add(hash uint64, bits uint8) {
	x := h.slot(hash)
	if x.hash == 0 {
		h.n++
	}
	x.hash, x.set = hash, x.set|bits
	if 2*h.n < len(h.table) {
		return
	}
	was := h.table
	h.table = make([]hashed, 2*len(was))
	for _, x := range was {
		if x.hash != 0 {
			*h.slot(x.hash) = x
		}
	}
}
