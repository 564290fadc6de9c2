package git

import (
	"encoding/hex"
	"fmt"
)

// Digest is the fingerprint of a set of commits: how many there are, and the XOR of their ids. It does not depend on
// their order, so it is made in one pass over any listing. It is stored: a file format.
type Digest struct {
	n    int
	size int // bytes of an id: 20, or 32 in a repository with SHA-256
	xor  [32]byte
}

// Add puts a commit in. id is the full id in hexadecimal.
func (d *Digest) Add(id string) error {
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != 20 && len(raw) != 32 || d.n > 0 && len(raw) != d.size {
		return fmt.Errorf("%.80q is no commit id", id)
	}
	d.add(raw)
	return nil
}

func (d *Digest) add(raw []byte) {
	for i, b := range raw {
		d.xor[i] ^= b
	}
	d.n, d.size = d.n+1, len(raw)
}

// Commits is how many were put in.
func (d *Digest) Commits() int { return d.n }

// String is COUNT:XOR, and empty for no commits, so that a month that has lost them all equals one that is not listed.
func (d *Digest) String() string {
	if d.n == 0 {
		return ""
	}
	return fmt.Sprintf("%d:%x", d.n, d.xor[:d.size])
}
