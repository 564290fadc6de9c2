package sim_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/sim"
)

// verdict is what a check of one window came to. It is a require.TestingT, so a check reads like a test, and may end at
// its first contradiction without ending the enumeration.
type verdict struct {
	n        int    // number of the window
	name     string // of the window, and how to see it alone
	dir      string // of its files
	problems []string
	stranded bool     // its world has not come to an end
	left     bool     // it was left out
	log      []string // around the crash
	worlds   []*sim.World
}

func (v *verdict) Errorf(format string, args ...any) {
	v.problems = append(v.problems, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (v *verdict) FailNow() { runtime.Goexit() }

// ended requires that a world has come to its end.
func (v *verdict) ended(err error, args ...any) {
	v.stranded = v.stranded || errors.Is(err, sim.ErrStranded)
	require.NoError(v, err, args...)
}

// bury closes a world when the check has ended, however it ends.
func (v *verdict) bury(w *sim.World) { v.worlds = append(v.worlds, w) }

func (v *verdict) String() string {
	return v.name + "\n" + strings.Join(v.problems, "\n") + "\nthe log:\n  " + strings.Join(v.log, "\n  ")
}

// A world waits for its file now and then, so there is one more of them than processors. More than that take each other's turns
// at the allocator of SQLite, which all connections of the process share.
var worldsAtOnce = runtime.GOMAXPROCS(0) + 1

// tooMany failed windows end an enumeration: more of them tell no more.
const tooMany = 3

// enumerate checks windows 0 to n-1, of which it takes every so many, several at once, each with a folder of its own. It
// logs how many, and of how many a run has not ended or something else was wrong, and prints the first of those.
func enumerate(t *testing.T, what string, n, every int, check func(v *verdict, i int)) {
	t.Helper()
	if *all || *window != 0 || *second != 0 { // a window that is asked for may be one that the usual run leaves out
		every = 1
	}
	root := t.TempDir()
	var mu sync.Mutex
	next, ran, stranded := 0, 0, 0
	failed := map[int]*verdict{}
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next >= n || len(failed) >= tooMany {
			return 0, false
		}
		next += every
		return next - every, true
	}
	var workers sync.WaitGroup
	for range worldsAtOnce {
		workers.Go(func() {
			for i, more := take(); more; i, more = take() {
				dir := filepath.Join(root, fmt.Sprint(i))
				v := judge(dir, func(v *verdict) {
					v.n = i
					check(v, i)
				})
				mu.Lock()
				if !v.left {
					ran++
				}
				if v.stranded && !v.left {
					stranded++
				}
				if len(v.problems) > 0 {
					failed[i] = v
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("%s: %d of %d, %d stranded, %d wrong otherwise", what, ran, n, stranded, len(failed)-stranded)
	if ran == 0 {
		t.Errorf("%s: there is no such window", what)
	}
	var numbers []int
	for i := range failed {
		numbers = append(numbers, i)
	}
	slices.Sort(numbers)
	for _, i := range numbers {
		t.Errorf("%s", failed[i])
	}
	if len(failed) >= tooMany {
		t.Errorf("the enumeration has ended before window %d of %d", min(next, n), n)
	}
}

// judge runs one check in a goroutine of its own, which FailNow may end.
func judge(dir string, check func(*verdict)) *verdict {
	v := &verdict{dir: dir}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer os.RemoveAll(dir)
		defer func() {
			for _, w := range v.worlds {
				if err := w.Bury(); err != nil {
					v.Errorf("bury: %v", err)
				}
			}
		}()
		defer func() {
			if p := recover(); p != nil {
				stack := make([]byte, 1<<14)
				v.Errorf("panic: %v\n%s", p, stack[:runtime.Stack(stack, false)])
			}
		}()
		require.NoError(v, os.MkdirAll(dir, 0o755))
		check(v)
	}()
	<-done
	return v
}
