package transport

import (
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
)

// Logger gives Watermill's parts a logger. What they call information (a router that starts, a subscription that ends)
// is detail to us; warnings and errors stay what they are.
func Logger(l *slog.Logger) watermill.LoggerAdapter {
	return watermill.NewSlogLoggerWithLevelMapping(l, map[slog.Level]slog.Level{
		slog.LevelInfo: slog.LevelDebug, slog.LevelDebug: watermill.LevelTrace,
	})
}

// QuietLogger is Logger for a part whose errors its caller gets back and reports: here they are detail too.
func QuietLogger(l *slog.Logger) watermill.LoggerAdapter {
	return watermill.NewSlogLoggerWithLevelMapping(l, map[slog.Level]slog.Level{
		slog.LevelError: slog.LevelDebug, slog.LevelInfo: slog.LevelDebug, slog.LevelDebug: watermill.LevelTrace,
	})
}
