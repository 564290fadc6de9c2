package crash

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/handlers"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/sink"
)

// brokenIndex is a destination whose script index fails.
type brokenIndex struct{ *sim.Destination }

func (d brokenIndex) Script(ctx context.Context, script string, args ...any) error {
	if script == "index" {
		return errors.New("no such table")
	}
	return d.Destination.Script(ctx, script, args...)
}

// complaints is a real run whose effects and messages do not all go well: one script fails, and of four messages one is
// invalid, one fails until an operator redrives it, and one fails for ever.
func complaints(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "towline.db")
	mended, later := false, ""
	w := sim.New(sim.Config{
		Store: path, Seed: 9, Knobs: towline.Knobs{MaxDeliveries: 2},
		Syncs: []sim.Sync{{
			Sync: towline.Sync{
				Name: "paper", Provider: "press", Sources: []string{"north"}, Datasets: []towline.Dataset{{Name: "letters"}},
				PostSync: towline.PostSync{Targets: []towline.Target{{Name: "mart", SQL: "refresh"}, {Name: "search", SQL: "index"}}},
			},
			Provider: provider.Func(func(context.Context, provider.Unit, sink.Sink) (provider.Result, error) {
				return provider.Result{}, nil
			}),
			Sink: brokenIndex{sim.NewDestination()},
		}},
		Messages: map[string]sim.Handler{"mail": func(_ context.Context, m *message.Message) error {
			key := m.Metadata.Get(events.MetadataKey)
			if key == "later" {
				later = m.Metadata.Get(events.MetadataMessageID)
			}
			switch {
			case key == "invalid":
				return handlers.Invalid(errors.New("no address"))
			case key == "never", key == "later" && !mended:
				return errors.New("the line is down")
			}
			return nil
		}},
	})
	w.Request(towline.RunSpec{Sync: "paper", Key: "monday"})
	for _, key := range []string{"good", "invalid", "later", "never"} {
		w.Submit(sim.Submission{Topic: "mail", Key: key, Payload: "{}"})
	}
	w.Act(sim.Act{Name: "redrive", Standing: true, Look: func(v projections.View, _ events.Micros) (sim.Move, error) {
		held, err := v.HeldRegisters(10)
		for _, r := range held {
			if r.Kind != events.KindMessage || events.MessageID(r.Owner).String() != later {
				continue
			}
			return sim.Move{Do: func(ctx context.Context, e *towline.Engine) error {
				mended = true
				return e.Redrive(ctx, towline.RegisterKey{Owner: r.Owner, Kind: r.Kind}, towline.Actor{Name: "ada", Reason: "mended"})
			}}, err
		}
		return sim.Move{}, err
	}})
	require.NoError(t, w.Run(context.Background()))
	require.NoError(t, w.Bury())
	return path
}

// ends are what a log says of messages and effects, each once.
func ends(log []events.Envelope) (out []string) {
	seen := map[string]bool{}
	for _, env := range log {
		text := ""
		switch e := env.Event.(type) {
		case events.MessageHandled:
			text = "handled " + e.Message.String()
		case events.MessageRejected:
			text = "rejected " + e.Message.String() + " " + string(e.Category)
		case events.OutboxParked:
			text = "parked " + env.Stream.String() + " " + string(e.Cause)
		case events.PostSyncCompleted:
			text = "completed " + e.Target
		case events.PostSyncFailed:
			text = "failed " + e.Target + " " + string(e.Category)
		}
		if text != "" && !seen[text] {
			seen[text] = true
			out = append(out, text)
		}
	}
	return out
}

// G-17, M-8, M-11: consumers and effects of a recovery say what they have said in the log, so it comes to the same ends.
func TestConsumersAndEffectsSayWhatTheyHaveSaid(t *testing.T) {
	ctx := context.Background()
	path := complaints(t)
	m, err := MakeMatrix(ctx, Options{Store: path, Seed: 1})
	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, m.Text(&text))
	require.True(t, m.Good(), text.String())

	p, err := load(ctx, Options{Store: path}, t.TempDir())
	require.NoError(t, err)
	want := ends(p.log)
	require.Len(t, want, 7, want)
	store := filepath.Join(t.TempDir(), "grown.db")
	g, err := newGrower(ctx, store)
	require.NoError(t, err)
	h := newHistory()
	begun := 0
	for ; len(h.fold.Messages()) < 4; begun++ { // and nobody was called for any of them
		require.NoError(t, g.add(ctx, p.boundaries[begun].tx))
		h.add(p.boundaries[begun].tx)
	}
	require.NoError(t, g.close())
	require.Empty(t, ends(p.log[:h.events]))
	moment := p.moment(h, crash{boundary: begun - 1}, Options{})
	e, err := play(ctx, store, moment)
	require.NoError(t, err)
	require.NoError(t, e.err)
	require.ElementsMatch(t, want, ends(e.log))
}

// A reply is that to a wakeup, else the last; a consumer of which nothing is on record handles what it gets.
func TestReplies(t *testing.T) {
	id := events.MessageID{1}
	r := replies{id: {{Wakeup: 1, Says: events.HandlerFailed}, {}}}
	require.Equal(t, events.HandlerFailed, r.to(id, 1))
	require.Empty(t, r.to(id, 2))
	require.Empty(t, r.to(events.MessageID{2}, 1))
	require.False(t, r.fails(id))
	require.Equal(t, events.SpanOf(3*time.Second), r.waits(id, 3))
	r[id] = r[id][:1]
	require.Equal(t, events.HandlerFailed, r.to(id, 2))
	require.True(t, r.fails(id))
	require.Equal(t, 12, wakeupOf(decider.MessageID(events.RunID(id), events.KindMessage, 12)))
	require.Equal(t, 12, wakeupOf(decider.MessageID(events.RunID(id), events.KindMessage, 12)+".e2"))
	require.Zero(t, wakeupOf("mine"))
}

// A case holds what consumers and effects say, and reads it again.
func TestACaseHoldsReplies(t *testing.T) {
	path := complaints(t)
	c := caseOf(t, path, Options{}, func(r Row) bool { return strings.Contains(r.What, "RunPlanned") || r.Window == "W1" && r.Events > 30 })
	text := written(t, c)
	require.Contains(t, text, "\neffect {")
	read, err := ReadCase(strings.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, text, written(t, read))
	p, err := read.Play(context.Background(), t.TempDir())
	require.NoError(t, err)
	require.NoError(t, read.Reproduces(p))
}
