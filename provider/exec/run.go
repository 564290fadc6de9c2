package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	osexec "os/exec"
	"sync"

	"github.com/towline-dev/towline/internal/subprocess"
	"github.com/towline-dev/towline/provider"
)

// run starts the program, reads what it says, and judges its end.
func (a *attempt) run(ctx context.Context) (provider.Result, error) {
	at, err := a.p.places.open(a.unit)
	if err != nil {
		return provider.Result{}, fmt.Errorf("record of the attempt: %w", err)
	}
	defer at.close()
	input, err := os.Open(at.unitFile())
	if err != nil {
		return provider.Result{}, err
	}
	defer input.Close()
	a.protocol, a.log.Limit = a.p.o.Protocol, keptLog
	before := outOfMemoryKills()
	if ctx.Err() != nil {
		return provider.Result{}, context.Cause(ctx)
	}
	proc, err := start(a.command(at), input, a.heard)
	if err != nil {
		return provider.Result{}, startError(err)
	}
	if err := at.started(proc.pid); err != nil {
		a.logger.Warn("the process group of a program is not on record", "group", proc.pid, "error", err)
	}
	e := ending{stderr: &subprocess.Tail{Limit: keptStderr}}
	unwatch := context.AfterFunc(ctx, func() { proc.stop(a.p.grace(a.unit)) })
	defer unwatch()
	heard := a.listen(ctx, proc, e.stderr)
	e.state = proc.wait()
	e.outOfMemory = killed(e.state) && !proc.stopped() && outOfMemoryKills() > before
	err = a.judge(ctx, proc, e, heard)
	result := provider.Result{Detail: a.detail(e, err != nil)}
	if err != nil {
		return result, err
	}
	if len(a.said.state) > 0 {
		a.sink.State(a.said.state)
	}
	result.Fingerprint = a.said.fingerprint
	if a.total == 0 && a.said.rows != nil {
		result.Rows = *a.said.rows // it has written by itself
	}
	return result, nil
}

func (a *attempt) command(at *attemptPlace) *osexec.Cmd {
	args := make([]string, len(a.p.args))
	for i, t := range a.p.args {
		args[i] = t.fill(a.unit)
	}
	cmd := osexec.Command(a.p.o.Command[0], args...) //nolint:gosec // it is the operator's configuration
	cmd.Dir, cmd.Env = a.p.o.Dir, a.p.environment(a.unit, at)
	return cmd
}

// startError is that of a program that did not start. What the configuration names and is not there, or is no program, no
// repetition cures.
func startError(err error) error {
	var of *fs.PathError
	if errors.Is(err, osexec.ErrNotFound) || errors.Is(err, osexec.ErrDot) || errors.As(err, &of) && notRunnable(of.Err) {
		return provider.Fail(provider.Configuration, fmt.Errorf("it cannot be started: %w", err))
	}
	return fmt.Errorf("it cannot be started: %w", err)
}

// heardOf is what the reading of a program's output has come to.
type heardOf struct {
	last    []byte // the line that its output ended within
	output  error  // of standard output
	control error  // of descriptor 3
	alive   bool   // ctx had not ended when output or control went wrong
}

// listen reads all that the program says until it has ended, and ends it with ctx and with the first thing that is wrong.
func (a *attempt) listen(ctx context.Context, proc *process, stderr *subprocess.Tail) heardOf {
	grace := a.p.grace(a.unit)
	var heard heardOf
	var readers sync.WaitGroup
	readers.Go(func() { _, _ = io.Copy(stderr, proc.stderr) })
	if proc.control != nil {
		readers.Go(func() { heard.control = a.readControl(proc.control, func() { proc.stop(grace) }) })
	}
	heard.last, heard.output = a.readOutput(ctx, proc.stdout)
	heard.alive = ctx.Err() == nil
	if heard.output != nil && !errors.Is(heard.output, errHeld) {
		proc.stop(grace)
		_, _ = io.Copy(io.Discard, proc.stdout) // or it could not go on to its end
	}
	readers.Wait()
	return heard
}

// judge says how the attempt has ended; nil: well.
func (a *attempt) judge(ctx context.Context, proc *process, e ending, heard heardOf) error {
	for _, wrong := range []error{heard.output, heard.control} {
		if wrong != nil && heard.alive && !errors.Is(wrong, errHeld) {
			return wrong
		}
	}
	if ctx.Err() != nil && proc.stopped() { // also if it has then ended well: it may have left things out
		return fmt.Errorf("stopped: %w", context.Cause(ctx))
	}
	if err := a.failure(e); err != nil {
		return err
	}
	if heard.output != nil {
		return heard.output
	}
	if heard.last != nil {
		if err := a.outputLine(ctx, line{text: heard.last}); err != nil {
			return a.at(a.lines+1, err)
		}
	}
	if rows := a.said.rows; rows != nil && a.total > 0 && *rows != a.total {
		return fmt.Errorf("its result says %d rows, and %d have arrived: nothing is stored", *rows, a.total)
	}
	return nil
}
