package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
)

// errInterrupted is why the context of a command ends with Ctrl-C.
var errInterrupted = errors.New("interrupted")

// interruptible ends ctx with the first signal. The second ends the process, as if nobody had asked for the first.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, stopSignals...)
	go func() {
		select {
		case <-signals:
			signal.Stop(signals)
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// quietLogger says what is wrong, and nothing else, on standard error.
func (p *program) quietLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
