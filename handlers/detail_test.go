package handlers_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// HU-6, E-3: what a provider leaves for people beside its error is kept in the event, and nothing else of its result; one that
// the log cannot take costs the failure neither its category nor its text.
func TestTheDetailOfAFailureIsKept(t *testing.T) {
	for name, c := range map[string]struct{ detail, kept string }{
		"json":     {`{"stderr":"no \u00e9"}`, `{"stderr":"no \u00e9"}`},
		"none":     {"", ""},
		"no json":  {`{"stderr"`, ""},
		"too much": {`"` + strings.Repeat("x", events.MaxResultBytes) + `"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, options{}, func(t *testing.T, s *shop) {
				s.provider.does = func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
					return provider.Result{Rows: 7, State: []byte(`1`), Detail: json.RawMessage(c.detail)}, provider.Fail(provider.Network, errPlanted)
				}
				id, messages := s.dispatched(1)
				require.NoError(t, s.h.Handle(t.Context(), messages[0]))
				u := s.unit(id)
				require.Equal(t, events.Network, u.ErrorCategory)
				require.Contains(t, u.ErrorText, errPlanted.Error())
				require.Equal(t, c.kept, string(u.Result.Detail))
				require.Empty(t, u.Result.State)
				require.Zero(t, u.Result.Rows)
			})
		})
	}
}

// HU-4: a provider knows how long it may take to hear that its context has ended, and has that time.
func TestAProviderKnowsHowLongItMayTakeToObey(t *testing.T) {
	run(t, options{}, func(t *testing.T, s *shop) {
		s.provider.does = func(ctx context.Context, u provider.Unit, _ sink.Sink) (provider.Result, error) {
			<-ctx.Done()
			<-time.After(u.Obey - time.Millisecond)
			return provider.Result{}, context.Cause(ctx)
		}
		_, messages := s.dispatched(1)
		done := s.begin(messages[0])
		s.h.Stop()
		require.NoError(t, <-done)
		require.Equal(t, 10*time.Second, s.provider.called()[0].Obey)
		require.NotContains(t, s.log.String(), "left behind")
	})
}

// watched is a provider of which silence says something.
type watched struct{ *stub }

func (watched) StallAfter() time.Duration { return time.Minute }

// WHY-1: a unit is stalled from when its provider has been silent for as long as it may be, until it puts a row or reports
// progress. One that does not say how long that is never is.
func TestASilentProviderIsStalled(t *testing.T) {
	run(t, options{watched: true}, func(t *testing.T, s *shop) {
		speak := make(chan string)
		s.provider.does = func(ctx context.Context, _ provider.Unit, w sink.Sink) (provider.Result, error) {
			for how := range speak {
				if how == "put" {
					require.NoError(t, w.Put(ctx, "rows", "k", nil))
				} else {
					w.Progress(0, 0)
				}
			}
			return provider.Result{}, nil
		}
		_, messages := s.dispatched(1)
		done := s.begin(messages[0])
		stalled := func() bool { return s.h.Progress()[0].Stalled(time.Now()) }
		for _, how := range []string{"put", "progress"} {
			wait(59 * time.Second)
			require.False(t, stalled())
			wait(time.Second)
			require.True(t, stalled())
			speak <- how
			wait(0)
			require.False(t, stalled())
		}
		close(speak)
		require.NoError(t, <-done)
	})
	run(t, options{}, func(t *testing.T, s *shop) {
		s.provider.does = func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
			<-time.After(time.Hour / 2)
			return provider.Result{}, nil
		}
		_, messages := s.dispatched(1)
		done := s.begin(messages[0])
		wait(20 * time.Minute)
		require.False(t, s.h.Progress()[0].Stalled(time.Now()))
		require.NoError(t, <-done)
	})
}
