package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/redact"
	"github.com/towline-dev/towline/internal/subprocess"
	"github.com/towline-dev/towline/provider"
)

// command runs a program. result is the end of what it has written to its standard output.
func (h *Handlers) command(ctx context.Context, p towline.Post) (result string, err error) {
	input, err := json.Marshal(p.Input())
	if err != nil {
		return "", &effectError{events.HandlerFailed, fmt.Errorf("encode the input: %w", err)}
	}
	t := p.Target
	ctx, cancel := context.WithTimeoutCause(ctx, t.Timeout, errTimeout)
	defer cancel()
	limit := h.e.Knobs().ErrorMaxBytes
	stdout, stderr := &subprocess.Tail{Limit: limit}, &subprocess.Tail{Limit: limit}
	cmd := exec.CommandContext(ctx, t.Exec[0], t.Exec[1:]...) //nolint:gosec // it is the operator's configuration
	cmd.Dir, cmd.Env = t.Dir, slices.Concat(os.Environ(), t.Env, t.Secrets, variables(p))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(append(input, '\n')), stdout, stderr
	cmd.WaitDelay = subprocess.WaitDelay
	subprocess.OwnGroup(cmd)
	masks := redact.Values(valuesOf(t.Secrets)...)
	kept := func(t *subprocess.Tail) string { // masked before it becomes one line: a secret may have several
		return strings.Join(strings.Fields(masks.Replace(t.Text())), " ")
	}
	err = cmd.Run()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) { // it has succeeded, and left something behind that holds its output
		return kept(stdout), nil
	}
	return "", commandError(ctx, cmd, t, err, kept(stderr))
}

// valuesOf are those of variables.
func valuesOf(variables []string) (values []string) {
	for _, v := range variables {
		_, value, _ := strings.Cut(v, "=")
		values = append(values, value)
	}
	return values
}

var errTimeout = errors.New("its timeout is over")

// commandError says why a command has not succeeded, with the end of its standard error.
func commandError(ctx context.Context, cmd *exec.Cmd, t towline.Target, err error, stderr string) error {
	category := events.HandlerFailed
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTimeout):
		category, err = events.Timeout, fmt.Errorf("killed after %s: %w", t.Timeout, cause)
	case errors.Is(cause, provider.ErrStopping):
		err = fmt.Errorf("killed: %w", cause)
	case cmd.Process == nil: // it did not start
		category = events.Configuration
	}
	if stderr != "" {
		err = fmt.Errorf("%w: %s", err, stderr)
	}
	return &effectError{category, fmt.Errorf("%s: %w", t.Exec[0], err)}
}

// variables are those that a command finds in its environment. What is a list it reads on its standard input.
func variables(p towline.Post) []string {
	from := "" // an open start, whatever this process has been started with
	if !p.Payload.From.IsZero() {
		from = p.Payload.From.Format(time.RFC3339Nano)
	}
	return []string{
		"TOWLINE_RUN_ID=" + p.Run.String(), "TOWLINE_GENERATION=" + p.Generation, "TOWLINE_SYNC=" + p.Sync,
		"TOWLINE_TARGET=" + p.Target.Name, "TOWLINE_PROVIDER=" + p.Payload.Provider,
		"TOWLINE_FROM=" + from, "TOWLINE_TO=" + p.Payload.To.Format(time.RFC3339Nano),
	}
}
