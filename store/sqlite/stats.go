package sqlite

import (
	"sync/atomic"
	"time"
)

// Stats are what the writer has done since the store was opened.
type Stats struct {
	Commits      int64 // that wrote something, one sync of the disk each
	Transactions int64 // kept by them: Writes that appended or changed something, and the hook before a commit
	Events       int64 // kept by them
	Statements   int64 // that SQLite was given, from BEGIN to COMMIT, also by commits of which nothing was kept

	Seconds Distribution // how long each of Commits held the write lock, the sync of the disk included
	Group   Distribution // how many transactions each of Commits has kept
}

// Distribution is how the values of something lie: how many are at most as large as each bound, and not as the one before it.
type Distribution struct {
	Bounds []float64
	Counts []int64 // one more than Bounds: the last are above all of them
	Sum    float64
}

var (
	secondBounds = [...]float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
	groupBounds  = [...]float64{1, 2, 4, 8, 16, 32, 64, 128, 256}
)

// Stats may be called at any time; the numbers are those of the newest commit.
func (s *Store) Stats() Stats {
	c := &s.writer.stats
	return Stats{
		Commits: c.commits.Load(), Transactions: c.transactions.Load(), Events: c.events.Load(), Statements: c.statements.Load(),
		Seconds: distribution(secondBounds[:], c.seconds[:], time.Duration(c.took.Load()).Seconds()),
		Group:   distribution(groupBounds[:], c.groups[:], float64(c.transactions.Load())),
	}
}

func distribution(bounds []float64, counts []atomic.Int64, sum float64) Distribution {
	d := Distribution{Bounds: bounds, Counts: make([]int64, len(counts)), Sum: sum}
	for i := range counts {
		d.Counts[i] = counts[i].Load()
	}
	return d
}

// counters are written by the writer, and by it alone.
type counters struct {
	commits, transactions, events, statements atomic.Int64

	seconds [len(secondBounds) + 1]atomic.Int64
	took    atomic.Int64 // nanoseconds
	groups  [len(groupBounds) + 1]atomic.Int64

	kept  int64     // transactions of the commit that is open
	begun int64     // the position before it
	since time.Time // when it got the write lock
}

// committed counts the commit that has ended at a position of the log.
func (c *counters) committed(head int64) {
	took := time.Since(c.since)
	c.commits.Add(1)
	c.transactions.Add(c.kept)
	c.events.Add(head - c.begun)
	c.took.Add(int64(took))
	fallsInto(secondBounds[:], c.seconds[:], took.Seconds())
	fallsInto(groupBounds[:], c.groups[:], float64(c.kept))
}

func fallsInto(bounds []float64, counts []atomic.Int64, value float64) {
	i := 0
	for i < len(bounds) && value > bounds[i] {
		i++
	}
	counts[i].Add(1)
}
