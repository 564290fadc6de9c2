package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// givenControl is the state of the engine's pause, or of a source's.
func givenControl(id events.StreamID, hs ...happening) Control {
	return Fold(id, history(id, hs...)).(Control)
}

// a pause names who and why, and since when; what is so already appends nothing, so the first reason stays.
func TestAPauseIsOnRecordOnce(t *testing.T) {
	engine, source := events.EngineControlStream(), events.SourceControlStream("team")
	for name, tt := range map[string]struct {
		stream               events.StreamID
		pause, again, resume Command
		paused, resumed      events.Event
		source               string
	}{
		"engine": {
			stream: engine, pause: PauseEngine{"ada", "upgrade"}, again: PauseEngine{"bob", "me too"}, resume: ResumeEngine{"bob", "done"},
			paused: events.EnginePaused{Actor: "ada", Reason: "upgrade"}, resumed: events.EngineResumed{Actor: "bob", Reason: "done"},
		},
		"source": {
			stream: source, pause: PauseSource{"team", "ada", "upgrade"}, again: PauseSource{"team", "bob", "me too"},
			resume: ResumeSource{"team", "bob", "done"}, paused: events.SourcePaused{Actor: "ada", Reason: "upgrade"},
			resumed: events.SourceResumed{Actor: "bob", Reason: "done"}, source: "team",
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.stream, tt.pause.Stream())
			open := givenControl(tt.stream)
			requireNothing(t, open, tt.resume)
			require.Equal(t, []events.Event{tt.paused}, decide(t, open, tt.pause))

			paused := givenControl(tt.stream, at(minute, tt.paused))
			require.Equal(t, Control{Source: tt.source, Paused: true, By: "ada", Reason: "upgrade", Since: t0.Add(minute)}, paused)
			requireNothing(t, paused, tt.again)
			require.Equal(t, []events.Event{tt.resumed}, decide(t, paused, tt.resume))

			resumed := givenControl(tt.stream, at(minute, tt.paused), at(hour, tt.resumed))
			require.Equal(t, Control{Source: tt.source, By: "bob", Reason: "done", Since: t0.Add(hour)}, resumed)
			require.Len(t, decide(t, resumed, tt.again), 1, "it can be paused again")
		})
	}
}

// DUR-5: the end of a restored hold shares the stream of the engine's pause, and is none.
func TestTheEndOfARestoredHoldIsNoResume(t *testing.T) {
	id := events.EngineControlStream()
	released := at(hour, events.RestoreHoldReleased{Actor: "ada"})
	require.True(t, givenControl(id, at(0, events.EnginePaused{Actor: "ada"}), released).Paused)
	require.Equal(t, Control{Releases: 1}, givenControl(id, released))
}
