// Command demo shows what Towline promises, on the history of a git repository:
//
//	go run ./cmd/demo
//
// It copies the history into one SQLite file, kills the process that does it with SIGKILL at seven named windows, and
// asks git in the end whether anything was lost or doubled. Nothing of it is simulated: child processes, signals, files
// and the repository are real, and what is printed of the engine is read from its log.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

func main() {
	if text, ok := os.LookupEnv(childVariable); ok {
		os.Exit(childMain(text))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// Exit codes, as those of the towline command.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

const usage = `Usage: demo [-repo PATH] [-keep DIR] [-seed N] [-v] [-json]

Copies the history of a git repository into one SQLite file, month by month, and
kills the process that does it seven times with SIGKILL. Each time the next process
goes on from the log. In the end git itself says whether a commit is missing or
doubled, and the log is folded anew and compared with every view.

  -repo PATH  the repository; without it the one that you stand in, and if there is
              none that can be read, a small one is made
  -keep DIR   keep the files in DIR, made if missing: towline.db is the log,
              history.db the commits. What an earlier demo has left in DIR is removed
              first. Without it the files are removed in the end
  -seed N     which unit loses its worker, after how many rows, and which months are
              read again; without it a number is drawn and printed. Ids and tokens
              are random all the same
  -v          show the events that each crash has left in the log, and what followed
  -json       print one JSON document and nothing else

  demo                                       this repository
  demo -repo ~/src/git -keep /tmp/towline    another one, and look at the files
  demo -json -seed 7 | jq .cases             for a program

A terminal gets colours and a bar, unless NO_COLOR is set or TERM is dumb; anything
else gets plain lines, as wide as COLUMNS says.

Exit code 0: every crash recovered as docs/GUARANTEES.md says, nothing is lost,
doubled or stranded, and the log agrees with the views. 1: it is not so. 2: wrong
arguments, or the demo cannot begin here. 130: interrupted.
`

// options are the arguments.
type options struct {
	repo string // empty: the one we stand in
	keep string // empty: a temporary folder
	seed uint64
	long bool // -v
	json bool
}

func run(args []string, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	out := &printer{to: stdout, failed: cancel}
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, usage)
		err = nil
	case err == nil:
		defer untilSignal(ctx, cancel)()
		err = show(ctx, o, out, stderr)
	}
	var wrong *argumentError
	switch {
	case err == nil && out.err == nil:
		return exitOK
	case errors.Is(out.err, syscall.EPIPE), errors.Is(context.Cause(ctx), errPipe):
		return exitInterrupted
	case out.err != nil:
		fmt.Fprintf(stderr, "demo: %v: nothing more can be printed there, name another place\n", out.err)
		return exitFailed
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "demo: interrupted, and the child is killed")
		return exitInterrupted
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "demo: %v\n", err)
		return exitUsage
	case errors.Is(err, errReported):
		return exitFailed
	}
	fmt.Fprintf(stderr, "demo: %v\n", err)
	return exitFailed
}

// printer is standard output. The first error of a write ends the demo: what it shows is all that it is for.
type printer struct {
	to     io.Writer
	failed func(error)
	err    error
}

func (p *printer) Write(text []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.to.Write(text)
	if err != nil {
		p.err = err
		p.failed(err)
	}
	return n, err
}

// errPipe says that nobody reads any more what is printed: there is nobody to tell.
var errPipe = errors.New("the reader of the output has gone")

// untilSignal cancels with the first signal to stop. SIGHUP is one, and so is SIGPIPE, so that the files and the child
// do not stay behind with a terminal or a reader that is gone. What was ignored at the start, as by nohup, still is.
func untilSignal(ctx context.Context, cancel context.CancelCauseFunc) (stop func()) {
	signals := make(chan os.Signal, 1)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go func() {
		select {
		case s := <-signals:
			if s == syscall.SIGPIPE {
				cancel(errPipe)
			}
			cancel(fmt.Errorf("stopped by %s", s))
		case <-ctx.Done():
		}
	}()
	return func() { signal.Stop(signals) }
}

// argumentError is the fault of an argument, or of what the demo finds around it. Its text names the fix.
type argumentError struct{ text string }

func (e *argumentError) Error() string { return e.text }

// errReported says that the reason is printed already.
var errReported = errors.New("the demo did not end as it should")

// parse reads the arguments. Errors: flag.ErrHelp, *argumentError.
func parse(args []string) (options, error) {
	o := options{seed: rand.Uint64N(seeds)}
	seed := strconv.FormatUint(o.seed, 10)
	f := flag.NewFlagSet("demo", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&o.repo, "repo", "", "")
	f.StringVar(&o.keep, "keep", "", "")
	f.StringVar(&seed, "seed", seed, "")
	f.BoolVar(&o.long, "v", false, "")
	f.BoolVar(&o.json, "json", false, "")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return o, err
	} else if err != nil {
		return o, &argumentError{fmt.Sprintf("%v: see demo -h", err)}
	}
	if f.NArg() > 0 {
		return o, &argumentError{fmt.Sprintf("%q is no flag: a repository is named with -repo %s", f.Arg(0), quoted(f.Arg(0)))}
	}
	var err error
	f.Visit(func(given *flag.Flag) {
		// Empty is a variable of a shell that is not set, most likely: it must not do what no flag does.
		if given.Value.String() == "" && given.Name != "seed" {
			err = &argumentError{fmt.Sprintf("-%s is empty: name a folder, or leave the flag out", given.Name)}
		}
	})
	if err != nil {
		return o, err
	}
	if o.seed, err = strconv.ParseUint(seed, 10, 64); err != nil {
		return o, &argumentError{fmt.Sprintf("-seed: %q is no whole number from 0 to %d: name one, as in -seed 7", seed, uint64(math.MaxUint64))}
	}
	return o, nil
}

// seeds bounds a drawn seed, so that it is short to type.
const seeds = 100_000
