package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/client"
	"github.com/towline-dev/towline/config"
	"github.com/towline-dev/towline/httpapi"
	"github.com/towline-dev/towline/store"
)

// exitCode is what the process ends with. The numbers are a contract, and the same for text and JSON.
type exitCode int

const (
	exitOK          exitCode = 0
	exitFailed      exitCode = 1
	exitUsage       exitCode = 2
	exitNotFound    exitCode = 3
	exitConflict    exitCode = 4
	exitUnreachable exitCode = 5
	exitRunFailed   exitCode = 6
	exitRunPartial  exitCode = 7
	exitRunCanceled exitCode = 8
	exitTimeout     exitCode = 9
	exitFormat      exitCode = 10
	exitInterrupted exitCode = 130
)

// exitCodes is the table of the surfaces, 4.2; help exit-codes prints it, and a test holds the documents to it.
var exitCodes = []struct {
	Code    exitCode `json:"code"`
	Meaning string   `json:"meaning"`
}{
	{exitOK, "ok; awaited run succeeded"},
	{exitFailed, "a check failed (verify, doctor, check), or an error of no other kind"},
	{exitUsage, "usage or invalid configuration"},
	{exitNotFound, "not found"},
	{exitConflict, "conflict: not in a state for it, held, already ended"},
	{exitUnreachable, "engine or store unreachable"},
	{exitRunFailed, "awaited run failed"},
	{exitRunPartial, "awaited run partial_failed"},
	{exitRunCanceled, "awaited run cancelled"},
	{exitTimeout, "wait timed out, run goes on"},
	{exitFormat, "store has a format level that this binary cannot read, or lies on a refused filesystem"},
	{exitInterrupted, "interrupted"},
}

// exitError ends the program with a code of its own.
type exitError struct {
	code exitCode
	err  error // nil: all was said already
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError is a command line that was not understood.
type usageError struct {
	err     error
	command string
}

func (e *usageError) Error() string { return fmt.Sprintf("%v\nsee %s --help", e.err, e.command) }
func (e *usageError) Unwrap() error { return e.err }

// configError is a configuration that was not understood.
type configError struct{ err error }

func (e *configError) Error() string { return e.err.Error() }
func (e *configError) Unwrap() error { return e.err }

// codes says which error has which code; the first that fits decides. What fits none is 1.
var codes = []struct {
	is   func(error) bool
	code exitCode
}{
	{as[*usageError], exitUsage},
	{as[*configError], exitUsage},
	{is(config.ErrNoFile), exitUsage},
	{is(store.ErrFormat), exitFormat},
	{is(store.ErrNetworkFS), exitFormat},
	{is(store.ErrLocked), exitConflict},
	{is(httpapi.ErrTaken), exitConflict},
	{is(towline.ErrNotFound), exitNotFound},
	{is(towline.ErrConflict), exitConflict},
	{is(towline.ErrSourcePaused), exitConflict},
	{as[*towline.DiskBudgetError], exitConflict},
	{is(towline.ErrKeyReused), exitConflict},
	{is(towline.ErrInvalid), exitUsage},
	{as[*towline.PlanTooLargeError], exitUsage},
	{refusedWith(exitUsage), exitUsage},
	{refusedWith(exitNotFound), exitNotFound},
	{refusedWith(exitConflict), exitConflict},
	{refusedWith(exitUnreachable), exitUnreachable},
	{is(client.ErrUnreachable), exitUnreachable},
	{is(errInterrupted), exitInterrupted},
	{is(towline.ErrUnavailable), exitUnreachable},
	{is(towline.ErrMoved), exitUnreachable},
	{is(syscall.EPIPE), exitInterrupted},
	{is(context.Canceled), exitInterrupted},
}

func is(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }

func as[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}

func codeOf(err error) exitCode {
	if err == nil {
		return exitOK
	}
	var own *exitError
	if errors.As(err, &own) {
		return own.code
	}
	for _, c := range codes {
		if c.is(err) {
			return c.code
		}
	}
	return exitFailed
}

// exitCodesTopic is a page of help; it runs nothing.
func exitCodesTopic() *cobra.Command {
	var text strings.Builder
	text.WriteString("The exit code is the same with every form of output.\n\n")
	for _, c := range exitCodes {
		fmt.Fprintf(&text, "  %3d  %s\n", c.Code, c.Meaning)
	}
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: strings.TrimRight(text.String(), "\n")}
}
