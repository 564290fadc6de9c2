package towlinetest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/towline-dev/towline/sim"
)

// judge is the testing.TB of one window: what fails there fails the window, and the matrix goes on with the next.
type judge struct {
	testing.TB  // of the matrix
	dir         string
	destination *sim.Destination

	mu       sync.Mutex
	problems []string
	notes    []string // what was logged since the last problem
	failed   bool
	skipped  bool
	cleanups []func()
	folders  int
}

// do calls f in a goroutine of its own, which FailNow ends, and then what it has asked for by Cleanup.
func (j *judge) do(f func()) {
	j.alone(f)
	for {
		j.mu.Lock()
		n := len(j.cleanups)
		if n == 0 {
			j.mu.Unlock()
			return
		}
		last := j.cleanups[n-1]
		j.cleanups = j.cleanups[:n-1]
		j.mu.Unlock()
		j.alone(last)
	}
}

func (j *judge) alone(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				j.Errorf("panic: %v\n%s", v, debug.Stack())
			}
		}()
		f()
	}()
	<-done
}

func (j *judge) problem(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failed = true
	if text = strings.TrimSpace(text); text != "" {
		j.problems = append(append(j.problems, j.notes...), text)
		j.notes = nil
	}
}

func (j *judge) note(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.notes = append(j.notes, strings.TrimSpace(text))
}

func (j *judge) Error(args ...any)            { j.problem(fmt.Sprintln(args...)) }
func (j *judge) Errorf(f string, args ...any) { j.problem(fmt.Sprintf(f, args...)) }
func (j *judge) Fail()                        { j.problem("") }
func (j *judge) Log(args ...any)              { j.note(fmt.Sprintln(args...)) }
func (j *judge) Logf(f string, args ...any)   { j.note(fmt.Sprintf(f, args...)) }

func (j *judge) FailNow() {
	j.problem("")
	runtime.Goexit()
}

func (j *judge) Fatal(args ...any) {
	j.Error(args...)
	runtime.Goexit()
}

func (j *judge) Fatalf(f string, args ...any) {
	j.Errorf(f, args...)
	runtime.Goexit()
}

func (j *judge) Failed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed
}

func (j *judge) SkipNow() {
	j.mu.Lock()
	j.skipped = true
	j.mu.Unlock()
	runtime.Goexit()
}

func (j *judge) Skip(args ...any) {
	j.Log(args...)
	j.SkipNow()
}

func (j *judge) Skipf(f string, args ...any) {
	j.Logf(f, args...)
	j.SkipNow()
}

func (j *judge) Skipped() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.skipped
}

// Cleanup is called at the end of the window.
func (j *judge) Cleanup(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cleanups = append(j.cleanups, f)
}

// TempDir is gone at the end of the window.
func (j *judge) TempDir() string {
	j.mu.Lock()
	j.folders++
	dir := filepath.Join(j.dir, fmt.Sprintf("temp%d", j.folders))
	j.mu.Unlock()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		j.Fatalf("make a folder: %v", err)
	}
	return dir
}

func (j *judge) found() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed && len(j.problems) == 0 {
		return append(slices.Clone(j.notes), "it has failed without a word")
	}
	return slices.Clone(j.problems)
}
