package sqlite

import "os"

// walBound keeps the WAL file below a size (HC-24). SQLite starts a WAL over when everything in it was copied to the
// database and nobody reads from it. Readers that come and go without a pause never leave it such a moment; then the
// writer makes one, by waiting for those who read now. Their age is bounded, and so is the wait.
type walBound struct {
	path    string // of the WAL; empty: there is none
	bytes   int64
	commits int // since the last look
}

const (
	walBytes     = 64 << 20
	walLookEvery = 64  // commits; a look costs a system call
	walWait      = 250 // milliseconds for readers, while all writers wait
)

// check is called after a commit. That it does not succeed is no error: it is tried again.
func (b *walBound) check(s *session) {
	if b.commits++; b.path == "" || b.commits < walLookEvery {
		return
	}
	b.commits = 0
	if info, err := os.Stat(b.path); err != nil || info.Size() <= b.bytes {
		return
	}
	_ = s.truncateWAL(walWait)
}
