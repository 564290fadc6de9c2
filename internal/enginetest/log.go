package enginetest

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// Head is the position of the newest event.
func Head(t T, e *towline.Engine) (p events.Position) {
	t.Helper()
	require.NoError(t, e.View(context.Background(), func(v projections.View) (err error) {
		p, _, err = v.Head()
		return err
	}))
	return p
}

// Since is the log behind a position; 0: all of it.
func Since(t T, e *towline.Engine, p events.Position) (out []events.Envelope) {
	t.Helper()
	require.NoError(t, e.Log(context.Background(), p, func(env events.Envelope) error {
		out = append(out, env)
		return nil
	}))
	return out
}

// Types are the names of events, in order.
func Types(envs []events.Envelope) []string {
	out := make([]string, len(envs))
	for i, env := range envs {
		out[i] = env.Event.EventType().String()
	}
	return out
}

// Only are the events of one type, in order.
func Only[E events.Event](envs []events.Envelope) (out []E) {
	for _, env := range envs {
		if e, ok := env.Event.(E); ok {
			out = append(out, e)
		}
	}
	return out
}
