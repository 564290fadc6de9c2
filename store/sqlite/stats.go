package sqlite

import "sync/atomic"

// Stats are what the writer has done since the store was opened.
type Stats struct {
	Commits      int64 // that wrote something, one sync of the disk each
	Transactions int64 // kept by them: Writes that appended or changed something, and the hook before a commit
	Events       int64 // kept by them
	Statements   int64 // that SQLite was given, from BEGIN to COMMIT, also by commits of which nothing was kept
}

// Stats may be called at any time; the numbers are those of the newest commit.
func (s *Store) Stats() Stats {
	c := &s.writer.stats
	return Stats{
		Commits: c.commits.Load(), Transactions: c.transactions.Load(), Events: c.events.Load(), Statements: c.statements.Load(),
	}
}

// counters are written by the writer, and by it alone.
type counters struct {
	commits, transactions, events, statements atomic.Int64

	kept  int64 // transactions of the commit that is open
	begun int64 // the position before it
}
