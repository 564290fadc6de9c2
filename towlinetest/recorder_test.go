package towlinetest_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// recorder is a testing.TB that keeps what it is told, and fails nothing.
type recorder struct {
	testing.TB // nil: what is not below is not called
	name       string
	failed     bool
	report     []string
	logs       []string
	cleanups   []func()
	within     *testing.T // not nil: what ends with the test ends with this one
}

// try calls f with a recorder, to its end or to its FailNow.
func try(name string, f func(testing.TB)) *recorder { return (&recorder{name: name}).try(f) }

func (r *recorder) try(f func(testing.TB)) *recorder {
	do := func(f func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			f()
		}()
		<-done
	}
	do(func() { f(r) })
	for len(r.cleanups) > 0 {
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		do(last)
	}
	return r
}

func (r *recorder) Helper()                         {}
func (r *recorder) Name() string                    { return r.name }
func (r *recorder) Context() context.Context        { return context.Background() }
func (r *recorder) Failed() bool                    { return r.failed }
func (r *recorder) Log(args ...any)                 { r.logs = append(r.logs, fmt.Sprint(args...)) }
func (r *recorder) Logf(format string, args ...any) { r.Log(fmt.Sprintf(format, args...)) }

func (r *recorder) Cleanup(f func()) {
	if r.within != nil {
		r.within.Cleanup(f)
		return
	}
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) Error(args ...any) {
	r.failed = true
	r.report = append(r.report, fmt.Sprint(args...))
}

func (r *recorder) Errorf(format string, args ...any) { r.Error(fmt.Sprintf(format, args...)) }

func (r *recorder) FailNow() {
	r.failed = true
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }

func (r *recorder) TempDir() string {
	dir, err := os.MkdirTemp("", "recorder-")
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// said is the whole report.
func (r *recorder) said() string { return strings.Join(r.report, "\n") }

// draw checks a property as often as is told. rapid.Check has a flag for that, and this must be quick.
func draw(t testing.TB, times int, property func(*rapid.T)) {
	checks := flag.Lookup("rapid.checks")
	was := checks.Value.String()
	_ = checks.Value.Set(fmt.Sprint(times))
	defer func() { _ = checks.Value.Set(was) }()
	rapid.Check(t, property)
}
