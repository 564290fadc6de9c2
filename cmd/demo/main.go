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
	"math/rand/v2"
	"os"
	"os/signal"
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

const usage = `Usage: demo [-repo PATH] [-keep DIR] [-seed N] [-json]

Copies the history of a git repository into one SQLite file, month by month, and
kills the process that does it seven times with SIGKILL. Each time the next process
goes on from the log. In the end git itself says whether a commit is missing or
doubled, and the log is folded anew and compared with every view.

  -repo PATH  the repository; without it the one that you stand in, and if there is
              none that can be read, a small one is made
  -keep DIR   keep the files in DIR, made if missing: towline.db is the log,
              history.db the commits; without it they are removed in the end
  -seed N     which unit loses its worker, after how many rows, and which months are
              read again; without it a number is drawn and printed. Ids and tokens
              are random all the same
  -json       print one JSON document and nothing else

  demo                                       this repository
  demo -repo ~/src/git -keep /tmp/towline    another one, and look at the files
  demo -json -seed 7 | jq .cases             for a program

A terminal gets colours and a bar, unless NO_COLOR is set or TERM is dumb; anything
else gets plain lines, as wide as COLUMNS says.

Exit code 0: every crash recovered as the crash table says, nothing is lost, doubled
or stranded, and the log agrees with the views. 1: it does not. 2: wrong arguments.
`

// options are the arguments.
type options struct {
	repo string // empty: the one we stand in
	keep string // empty: a temporary folder
	seed uint64
	json bool
}

func run(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "demo: %v\n", err)
		return exitUsage
	}
	ctx, stop := untilSignal()
	defer stop()
	err = show(ctx, o, stdout, stderr)
	var wrong *argumentError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(context.Cause(ctx), errPipe):
		return exitInterrupted
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

// errPipe says that nobody reads any more what is printed: there is nobody to tell.
var errPipe = errors.New("the reader of the output has gone")

// untilSignal ends with the first signal to stop. SIGPIPE is one, so that the files and the child do not stay behind.
func untilSignal() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
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
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// argumentError is the fault of an argument. Its text names the fix.
type argumentError struct{ text string }

func (e *argumentError) Error() string { return e.text }

// errReported says that the reason is printed already.
var errReported = errors.New("the demo did not end as it should")

func parse(args []string) (options, error) {
	o := options{seed: rand.Uint64N(seeds)}
	f := flag.NewFlagSet("demo", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&o.repo, "repo", "", "")
	f.StringVar(&o.keep, "keep", "", "")
	f.Uint64Var(&o.seed, "seed", o.seed, "")
	f.BoolVar(&o.json, "json", false, "")
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return o, err
	case err != nil:
		return o, fmt.Errorf("%w: see demo -h", err)
	case f.NArg() > 0:
		return o, fmt.Errorf("%q is no flag: a repository is named with -repo %s", f.Arg(0), f.Arg(0))
	}
	return o, nil
}

// seeds bounds a drawn seed, so that it is short to type.
const seeds = 100_000
