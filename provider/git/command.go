package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/towline-dev/towline/internal/subprocess"
	"github.com/towline-dev/towline/provider"
)

// program is a git with the environment that all its commands share.
type program struct {
	path string
	env  []string
}

// kept are the variables of git that say where git and its configuration are. Every other GIT_ variable could make a
// command read another repository than the one that was asked for, as in a hook.
var kept = []string{"GIT_EXEC_PATH=", "GIT_CONFIG_GLOBAL=", "GIT_CONFIG_SYSTEM=", "GIT_CONFIG_NOSYSTEM="}

// Environment is that of this process, made safe: no words in the user's language, no lock, no question, no fetch, and no
// other object or parent than the one that an id names. It is exported for those who ask git beside the provider, and
// want an answer that can be compared. It names no repository: -C or the working folder does.
func Environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "GIT_") && !hasAnyPrefix(v, kept) {
			continue
		}
		env = append(env, v)
	}
	return append(env,
		"LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0",
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_GRAFT_FILE=",         // none; with the null device a hint would stand in every error
		"GIT_NO_LAZY_FETCH=1",     // from git 2.44 on
		"GIT_ALLOW_PROTOCOL=none") // for all: there is no such protocol, so a fetch fails
}

func hasAnyPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// exitError is a git that ended badly.
type exitError struct {
	command string
	cause   error
	stderr  string
}

func (e *exitError) Error() string {
	if e.stderr == "" {
		return fmt.Sprintf("git %s: %v", e.command, e.cause)
	}
	return fmt.Sprintf("git %s: %v: %s", e.command, e.cause, e.stderr)
}

func (e *exitError) Unwrap() error { return e.cause }

// code is the exit status; -1: ended by a signal, or not started.
func (e *exitError) code() int {
	var exit *exec.ExitError
	if errors.As(e.cause, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// exitCode is that of a git that ended by itself; -1 for any other error, and for none.
func exitCode(err error) int {
	var exit *exitError
	if errors.As(err, &exit) {
		return exit.code()
	}
	return -1
}

// errCutOff is an output that ended inside a record.
var errCutOff = errors.New("git ended in the middle of a record")

// command is one call of git.
type command struct {
	global []string // what stands before the command's name
	args   []string // the name first
	stdin  io.Reader
}

// run starts git and gives its output to read. The end of ctx kills git and what it started. It returns the error of
// ctx only if nothing else went wrong: not if all was read before, and not if read failed by itself.
func (g program) run(ctx context.Context, c command, read func(io.Reader) error) error {
	ours, kill := context.WithCancel(ctx)
	defer kill()
	cmd := exec.CommandContext(ours, g.path, slices.Concat(c.global, c.args)...)
	cmd.Env = g.env
	cmd.Stdin = c.stdin
	cmd.WaitDelay = subprocess.WaitDelay
	subprocess.OwnGroup(cmd) // SIGKILL is no risk to a program that only reads and takes no lock
	stderr := &subprocess.Tail{Limit: 2000}
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("git %s: %w", c.args[0], err)
	}
	if err := cmd.Start(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return provider.Fail(provider.Configuration, fmt.Errorf("%s was not found: install git %s or newer: %w", g.path, oldest, err))
		}
		return fmt.Errorf("git %s: %w", c.args[0], err)
	}
	readErr := read(out)
	cutOff := errors.Is(readErr, errCutOff) // perhaps because git failed, or was killed: that says more
	if readErr != nil && !cutOff {
		kill() // it may have much more to say
	}
	waitErr := cmd.Wait()
	switch {
	case readErr != nil && !cutOff:
		return readErr
	case waitErr == nil:
		return readErr
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return &exitError{command: c.args[0], cause: waitErr, stderr: stderr.String()}
}

// output is all that a command says; it must be short.
func (g program) output(ctx context.Context, c command) (string, error) {
	var out []byte
	err := g.run(ctx, c, func(r io.Reader) (err error) {
		out, err = io.ReadAll(r)
		return err
	})
	return string(out), err
}

// maxRecord bounds one record: a subject or a path of this length is a broken repository.
const maxRecord = 16 << 20

// eachRecord calls f for every record; each is closed by end, the last one too, so that one of which a part is missing
// is seen. The bytes are valid until f returns.
func eachRecord(r io.Reader, end byte, f func(record []byte) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), maxRecord)
	s.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, end); i >= 0 {
			return i + 1, data[:i], nil
		}
		if atEOF && len(data) > 0 {
			return 0, nil, errCutOff
		}
		return 0, nil, nil
	})
	for s.Scan() {
		if err := f(s.Bytes()); err != nil {
			return err
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("git wrote a record of more than %d bytes", maxRecord)
	}
	return s.Err()
}
