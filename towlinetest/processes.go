package towlinetest

import (
	"cmp"
	"context"
	"testing"
	"time"
)

// CrashProcesses runs a function in another process and kills that process with SIGKILL, starts it again and kills it again,
// behind delays that are random and grow, until it ends by itself. Then it calls the oracle. It fails if run returns an
// error, or if it does not end.
//
// The other process is the test binary itself, which runs the same test up to this call, so what stands before it happens
// there, too. Both must look at the same files: those in Dir. In the other process run is all that happens, and behind it the
// process ends: neither the oracle nor what follows in the test. A test may call this more than once; in the process of
// another call it returns at once. A run that finds its work done must return nil, so give its RunSpec a Key:
//
//	func TestMine(t *testing.T) {
//		dir := towlinetest.Dir(t)
//		towlinetest.CrashProcesses(t, func(ctx context.Context) error {
//			return copyAll(ctx, dir) // what main does
//		}, func(t testing.TB) {
//			requireAll(t, dir)
//		})
//	}
//
// When a process dies is chance, so this finds by luck what CrashMatrix finds by counting. What it adds is a real death: no
// deferred function runs, and files, locks and connections are left as they are. Places that are named by Point are visited:
// every second process is killed at one of the first that it comes to.
//
// The flag -towline.seed repeats the delays, and no more. Where there is no SIGKILL the test is skipped.
func CrashProcesses(t testing.TB, run func(context.Context) error, oracle func(testing.TB)) {
	t.Helper()
	Processes{Work: run, Oracle: oracle}.Run(t)
}

// Processes is CrashProcesses with settings. Its zero fields are those of CrashProcesses.
type Processes struct {
	Work   func(context.Context) error
	Oracle func(testing.TB)
	Kills  int           // processes that are killed at most; the next may end. Zero: 20, and 5 with -short
	Limit  time.Duration // for all of them together; zero: two minutes
	// First is the time from its begin within which the first process is killed, at random; each has a quarter more than the
	// one before it. Zero: 20 ms.
	First time.Duration
	Seed  uint64 // of the delays; zero: a new one
}

func (p Processes) withDefaults() Processes {
	kills := 20
	if testing.Short() {
		kills = 5
	}
	p.Kills = cmp.Or(p.Kills, kills)
	p.Limit = cmp.Or(p.Limit, 2*time.Minute)
	p.First = cmp.Or(p.First, 20*time.Millisecond)
	return p
}

// The environment of a process that is to be killed.
const (
	callVariable  = "TOWLINETEST_CALL"  // which call of CrashProcesses it is for: "TestMine 1"
	dirVariable   = "TOWLINETEST_DIR"   // Dir
	afterVariable = "TOWLINETEST_AFTER" // it dies so long after its begin
	pointVariable = "TOWLINETEST_POINT" // and it dies at so many-th Point that it comes to; empty: at none
)
