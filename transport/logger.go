package transport

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
)

// Logger gives Watermill's parts a logger. What they call information (a router that starts, a subscription that ends)
// is detail to us; warnings and errors stay what they are. nil: slog.Default().
func Logger(l *slog.Logger) watermill.LoggerAdapter {
	return lowered(l, map[slog.Level]slog.Level{slog.LevelInfo: slog.LevelDebug, slog.LevelDebug: watermill.LevelTrace})
}

// QuietLogger is Logger for a part whose errors its caller gets back and reports: here they are detail too.
func QuietLogger(l *slog.Logger) watermill.LoggerAdapter {
	return lowered(l, map[slog.Level]slog.Level{
		slog.LevelError: slog.LevelDebug, slog.LevelInfo: slog.LevelDebug, slog.LevelDebug: watermill.LevelTrace,
	})
}

func lowered(l *slog.Logger, levels map[slog.Level]slog.Level) watermill.LoggerAdapter {
	l = cmp.Or(l, slog.Default())
	return sparing{l, watermill.NewSlogLoggerWithLevelMapping(l, levels)}
}

// sparing does not put a line together that nobody reads: Watermill's parts write several of them for each message.
type sparing struct {
	to *slog.Logger
	watermill.LoggerAdapter
}

func (s sparing) Debug(msg string, fields watermill.LogFields) {
	if s.traces() {
		s.LoggerAdapter.Debug(msg, fields)
	}
}

func (s sparing) Trace(msg string, fields watermill.LogFields) {
	if s.traces() {
		s.LoggerAdapter.Trace(msg, fields)
	}
}

// traces: what Watermill calls debugging is a trace to us.
func (s sparing) traces() bool { return s.to.Enabled(context.Background(), watermill.LevelTrace) }

func (s sparing) With(fields watermill.LogFields) watermill.LoggerAdapter {
	return sparing{s.to, s.LoggerAdapter.With(fields)}
}
