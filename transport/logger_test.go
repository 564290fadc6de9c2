package transport_test

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/transport"
)

// What Watermill's parts say comes out one level lower, and an error of a part whose caller reports it is detail.
func TestWatermillSpeaksLower(t *testing.T) {
	say := func(l watermill.LoggerAdapter) {
		l = l.With(watermill.LogFields{"part": "router"})
		l.Error("e", errors.New("no route"), nil)
		l.Info("i", nil)
		l.Debug("d", nil)
		l.Trace("t", nil)
	}
	lines := func(level slog.Level, adapter func(*slog.Logger) watermill.LoggerAdapter) string {
		var out bytes.Buffer
		without := func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
		say(adapter(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level, ReplaceAttr: without}))))
		return out.String()
	}
	require.Equal(t, "level=ERROR msg=e part=router error=\"no route\"\n", lines(slog.LevelInfo, transport.Logger))
	require.Empty(t, lines(slog.LevelInfo, transport.QuietLogger))
	require.Equal(t, `level=ERROR msg=e part=router error="no route"
level=DEBUG msg=i part=router
level=DEBUG-4 msg=d part=router
level=DEBUG-4 msg=t part=router
`, lines(watermill.LevelTrace, transport.Logger))
	require.Equal(t, `level=DEBUG msg=e part=router error="no route"
level=DEBUG msg=i part=router
`, lines(slog.LevelDebug, transport.QuietLogger))
	require.NotPanics(t, func() { transport.Logger(nil).Trace("nobody reads it", nil) })
}
