// Package enginetest is what tests of an engine share: a clock that stands still, a log that several goroutines write,
// and the proof that ends a test.
package enginetest

import (
	"bytes"
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/store/sqlite"
)

// Start is when tests begin: a Saturday morning, far from month ends and leap days.
var Start = time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)

// Clock is a wall clock, and a monotonic one beside it, that stand still until they are told.
type Clock struct {
	mu  sync.Mutex
	t   time.Time
	ran time.Duration
}

// NewClock returns a clock that shows t.
func NewClock(t time.Time) *Clock { return &Clock{t: t} }

func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

// Ran is what the monotonic clock shows.
func (c *Clock) Ran() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ran
}

// Step lets time pass. A negative d sets the wall clock back, and no time passes.
func (c *Clock) Step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t, c.ran = c.t.Add(d), c.ran+max(d, 0)
}

// Jump sets the wall clock forward or back, and no time passes.
func (c *Clock) Jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// Log is the text of a logger. Its zero value is empty, and several goroutines may use it.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// T is what a proof needs of a test: a testing.TB, or a rapid.T.
type T interface {
	require.TestingT
	Helper()
}

// Verify folds the log of e a second time, in a store beside its own in dir.
func Verify(t T, e *towline.Engine, dir string) towline.Verification {
	t.Helper()
	scratch, err := sqlite.Open(context.Background(), filepath.Join(dir, "scratch.db"),
		sqlite.Options{Inline: true, Synchronous: "normal"})
	require.NoError(t, err)
	defer func() { _ = scratch.Close() }()
	v, err := e.Verify(context.Background(), scratch)
	require.NoError(t, err)
	return v
}

// RequireVerified fails the test unless views and log agree, and the log breaks no invariant (I-26).
func RequireVerified(t T, e *towline.Engine, dir string) {
	t.Helper()
	v := Verify(t, e, dir)
	require.Empty(t, v.Violations)
	require.Empty(t, v.Differences)
}
