//go:build unix

package exec_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/provider/exec"
	"github.com/towline-dev/towline/provider/providertest"
)

// begun is an attempt under way in a folder of its own.
type begun struct {
	t      *testing.T
	dir    string
	cancel context.CancelCauseFunc
	done   chan error
	sink   *providertest.Sink
	log    interface{ String() string }
}

// begin starts an attempt whose program works in a new folder, and waits for the file "ready" there.
func begin(t *testing.T, o exec.Options, u provider.Unit) *begun {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	p, log := newProvider(t, o)
	ctx, cancel := context.WithCancelCause(context.Background())
	b := &begun{t: t, dir: o.Dir, cancel: cancel, done: make(chan error, 1), sink: providertest.NewSink(u), log: log}
	go func() {
		_, err := p.Sync(ctx, u, b.sink)
		b.done <- err
	}()
	t.Cleanup(func() { cancel(nil) })
	eventually(t, "the program is ready", exists(filepath.Join(o.Dir, "ready")))
	return b
}

func (b *begun) file(name string) string { return filepath.Join(b.dir, name) }

// end stops the attempt and returns how long that took, and its error.
func (b *begun) end(cause error) (took time.Duration, err error) {
	b.t.Helper()
	began := time.Now()
	b.cancel(cause)
	err = <-b.done
	return time.Since(began), err
}

// EX-6, U-16: a program that is told to stop may end in order, within its grace. Whatever its exit code then says, the attempt has
// ended for the cause of the stop; it does not say that nothing has happened, for nobody knows what the program has done.
func TestAStopIsTold(t *testing.T) {
	b := begin(t, sh(`trap 'echo told >told; exit 0' TERM; echo '{"a":1}'; sleep 60 & : >ready; wait`), unit())
	_, err := b.end(provider.ErrStopping)
	require.ErrorIs(t, err, provider.ErrStopping)
	require.NotErrorIs(t, err, provider.ErrStopped)
	require.FileExists(t, b.file("told"))

	lost := errors.New("the lease was lost")
	b = begin(t, sh(`: >ready; exec sleep 60`), unit())
	_, err = b.end(lost)
	require.ErrorIs(t, err, lost)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	runUnit(ctx, t, sh(`exec sleep 60`), unit()).requireFailed(provider.Timeout, "deadline exceeded")

	ctx, stop := context.WithCancelCause(t.Context())
	stop(lost)
	require.ErrorIs(t, runUnit(ctx, t, sh(`: >started`), unit()).err, lost)
}

// EX-6: a program that ignores SIGTERM is killed behind its grace, with all that it has started; and so is what outlives it.
func TestWhatIgnoresAStopIsKilled(t *testing.T) {
	for name, script := range map[string]string{
		"the program":     `trap '' TERM; sleep 61 & echo $! >child; echo $$ >self; : >ready; while :; do sleep 1; done`,
		"its child":       `(trap '' TERM; : >ready; while :; do sleep 1; done) & echo $! >child; echo $$ >self; wait`,
		"while it floods": `trap '' TERM; echo $$ >child; echo $$ >self; : >ready; while :; do echo '{"a":1}'; done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := sh(script)
			o.Grace = 300 * time.Millisecond
			b := begin(t, o, unit())
			child, self := number(t, b.file("child")), number(t, b.file("self"))
			took, err := b.end(provider.ErrStopping)
			require.ErrorIs(t, err, provider.ErrStopping)
			require.GreaterOrEqual(t, took, o.Grace)
			require.Less(t, took, 4*time.Second)
			requireGone(t, self)
			requireGone(t, child)
		})
	}
}

// EX-6, HU-4: the grace is cut to what the handler allows, so that an attempt is not left behind while its program has time.
func TestTheGraceFitsTheHandler(t *testing.T) {
	o := sh(`trap '' TERM; : >ready; while :; do sleep 1; done`)
	o.Grace = time.Minute
	u := unit()
	u.Obey = time.Second
	took, _ := begin(t, o, u).end(provider.ErrStopping)
	require.Less(t, took, 5*time.Second) // the machine may be slow
}

// EX-6: a program that is suspended hears of a stop, too.
func TestASuspendedProgramIsStopped(t *testing.T) {
	b := begin(t, sh(`trap 'echo told >told; exit 0' TERM; echo $$ >self; : >ready; while :; do sleep 0.05; done`), unit())
	require.NoError(t, syscall.Kill(number(t, b.file("self")), syscall.SIGSTOP))
	_, err := b.end(provider.ErrStopping)
	require.ErrorIs(t, err, provider.ErrStopping)
	require.FileExists(t, b.file("told"))
}

// EX-6: what a program has left behind ends with its attempt. If that could still write rows, the attempt has failed.
func TestWhatAProgramLeavesBehind(t *testing.T) {
	t.Run("with its output closed", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		o := sh(`echo '{"a":1}'; sleep 62 >/dev/null 2>&1 3>&- & echo $! >child`)
		o.Dir = dir
		require.Len(t, run(t, o).rows(), 1)
		requireGone(t, number(t, filepath.Join(dir, "child")))
	})
	t.Run("with standard error", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		o := sh(`echo '{"a":1}'; sleep 63 >/dev/null & echo $! >child`)
		o.Dir = dir
		require.Len(t, run(t, o).rows(), 1)
		requireGone(t, number(t, filepath.Join(dir, "child")))
	})
	t.Run("with standard output", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		o := sh(`echo '{"a":1}'; sleep 64 2>&- 3>&- & echo $! >child`)
		o.Dir = dir
		run(t, o).requireFailed(provider.OtherError, "it has ended, and has left a process behind that holds its standard output")
		requireGone(t, number(t, filepath.Join(dir, "child")))
	})
	t.Run("which writes without end", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		o := sh(`(while :; do echo '{"a":1}'; done) & echo $! >child`)
		o.Dir = dir
		run(t, o).requireFailed(provider.OtherError, "has left a process behind")
		requireGone(t, number(t, filepath.Join(dir, "child")))
	})
	t.Run("outside of its group", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		o := sh(`echo '{"a":1}'; setsid sh -c 'echo $$ >child; exec sleep 65' >/dev/null 2>&1 3>&- & until [ -s child ]; do sleep 0.01; done`)
		o.Dir = dir
		require.Len(t, run(t, o).rows(), 1)
		child := number(t, filepath.Join(dir, "child"))
		require.True(t, lives(child), "who leaves the group has asked for it")
		require.NoError(t, syscall.Kill(child, syscall.SIGKILL))
	})
}

// EX-2, EX-6: a sink that is slower than the program loses nothing, however long ago the program has ended.
func TestASlowSink(t *testing.T) {
	t.Parallel()
	p, _ := newProvider(t, sh(`i=0; while [ $i -lt 1000 ]; do echo '{"a":1}'; i=$((i+1)); done`)) // less than a pipe holds
	s := providertest.NewSink(unit())
	var slept atomic.Bool
	s.Fail = func(providertest.Row) error {
		if slept.CompareAndSwap(false, true) {
			<-time.After(6 * time.Second) // longer than a pipe is waited for; this is about time, so it is real
		}
		return nil
	}
	_, err := p.Sync(t.Context(), unit(), s)
	require.NoError(t, err)
	require.Len(t, s.Rows(), 1000)
}

// EX-6: a program that closes its outputs is waited for all the same, and can be stopped.
func TestAProgramThatClosesItsOutputs(t *testing.T) {
	dir := t.TempDir()
	o := sh(`exec >&- 2>&- 3>&-; i=0; while [ $i -lt 20 ]; do sleep 0.02; i=$((i+1)); done; : >over`)
	o.Dir = dir
	require.Empty(t, run(t, o).rows())
	require.FileExists(t, filepath.Join(dir, "over"))
	b := begin(t, sh(`exec >&- 2>&- 3>&-; : >ready; exec sleep 60`), unit())
	_, err := b.end(provider.ErrStopping)
	require.ErrorIs(t, err, provider.ErrStopping)
}

// EX-4, EX-6: a program that is killed by somebody else fails its attempt, and what it has started ends with it.
func TestAKilledProgram(t *testing.T) {
	b := begin(t, sh(`sleep 66 & echo $! >child; echo $$ >self; echo '{"a":1}'; : >ready; wait`), unit())
	require.NoError(t, syscall.Kill(number(t, b.file("self")), syscall.SIGKILL))
	err := <-b.done
	require.ErrorContains(t, err, "ended by signal 9 (killed)")
	require.Equal(t, provider.OtherError, provider.CategoryOf(err))
	requireGone(t, number(t, b.file("child")))
}

// EX-6, HU-4: an attempt that was left behind, and whose program is still in its grace, does not meet the next one of its unit.
func TestTwoAttemptsOfAUnitDoNotMeet(t *testing.T) {
	dir := t.TempDir()
	o := sh(`echo "begin $TOWLINE_ATTEMPT" >>log
		trap 'sleep 0.3; echo "end $TOWLINE_ATTEMPT" >>log; exit' TERM; : >ready; [ "$TOWLINE_ATTEMPT" = 3 ] && exit; while :; do sleep 0.02; done`)
	o.Dir, o.Folder = dir, filepath.Join(dir, "attempts")
	p, _ := newProvider(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := p.Sync(ctx, unit(), providertest.NewSink(unit()))
		first <- err
	}()
	eventually(t, "ready", exists(filepath.Join(dir, "ready")))
	cancel()
	next := unit()
	next.Attempt = 3
	_, err := p.Sync(t.Context(), next, providertest.NewSink(next))
	require.NoError(t, err)
	require.Error(t, <-first)
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	require.NoError(t, err)
	require.Equal(t, "begin 2 end 2 begin 3", strings.Join(strings.Fields(string(log)), " "))
}
