package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/replay"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/store/sqlite"
)

// world is a copy of the store of a run of four units that share one slot, one of which takes long and one of which fails
// at first. The kills are numbers of boundaries.
func world(t *testing.T, kills ...int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "towline.db")
	name := fmt.Sprint(kills)
	if worlds[name] == nil {
		play(t, path, kills)
		var err error
		worlds[name], err = os.ReadFile(path)
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile(path, worlds[name], 0o644))
	return path
}

// worlds are the stores that were made before, by their kills: the same are always alike.
var worlds = map[string][]byte{}

func play(t *testing.T, path string, kills []int) {
	t.Helper()
	sync := sim.Sync{
		Sync: towline.Sync{
			Name: "weather", Provider: "stations", Sources: []string{"harbour", "ridge"},
			Datasets: []towline.Dataset{
				{Name: "places", Tier: towline.Reference, Snapshot: true},
				{Name: "readings", Window: towline.Day, Retry: towline.Retry{Max: 2, Backoff: 30 * time.Second, On: []provider.Category{provider.Network}}},
			},
			PostSync: towline.PostSync{Targets: []towline.Target{{Name: "mart", SQL: "refresh mart"}}},
		},
		Provider: provider.Func(func(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
			if u.Source == "ridge" && u.Dataset == "readings" && u.Attempt == 1 {
				return provider.Result{}, provider.Fail(provider.Network, errors.New("the line, of \"ridge\", is down"))
			}
			return provider.Result{Rows: 1}, s.Put(ctx, u.Dataset, "noon", map[string]int{"celsius": 21})
		}),
		Takes: func(u provider.Unit) time.Duration {
			if u.Source == "harbour" && u.Dataset == "readings" {
				return 2 * time.Minute
			}
			return time.Second
		},
	}
	w := sim.New(sim.Config{Store: path, Seed: 1, Kills: kills, Knobs: towline.Knobs{CapBucket: 1}, Syncs: []sim.Sync{sync}})
	day := func(d int) time.Time { return sim.DefaultStart.Truncate(24*time.Hour).AddDate(0, 0, d) }
	w.Request(towline.RunSpec{Sync: "weather", Mode: towline.Backfill, Since: day(-2), Before: day(-1), Key: "february", By: towline.Actor{Name: "ada"}})
	require.NoError(t, w.Run(context.Background()))
	require.NoError(t, w.Bury())
}

// only opens the store of a world without an engine, as a copy would be opened, and returns its run.
func only(t testing.TB, path string) (*sqlite.Store, events.RunID) {
	t.Helper()
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{Inline: true, Synchronous: "normal"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	var run events.RunID
	require.NoError(t, s.Read(context.Background(), func(r store.Reader) error {
		runs, err := projections.NewView(r).Runs(events.RunID{}, 2)
		require.Len(t, runs, 1)
		run = runs[0].Run
		return err
	}))
	return s, run
}

// The boundaries of a life at which a test kills it.
const (
	behindStart = 2  // NodeStarted is on disk
	behindSink  = 66 // the rows of the second unit are with their sink, its result is not with the store (W6)
)

// AS-6, AS-7, C-15: the text of a run whose process died when its sink had committed, and again at once when it came back.
// It is read by people in the night, so every word of it is on record.
func TestTheTextOfACrash(t *testing.T) {
	s, run := only(t, world(t, behindSink, behindStart))
	golden(t, "crash.txt", text(t, history(t, s, 0, run), replay.TextOptions{}))
}

// AS-6: the steps are the events of the run's streams, and no others; each with its rows as they were before and after.
func TestAHistoryIsAllOfARun(t *testing.T) {
	s, run := only(t, world(t, behindSink))
	var log []events.Envelope
	require.NoError(t, s.Read(t.Context(), func(r store.Reader) error {
		for env, err := range r.Log(t.Context(), 0) {
			require.NoError(t, err)
			if family := env.Stream.Family(); family != events.FamilyNode {
				log = append(log, env)
			}
		}
		return nil
	}))
	h := history(t, s, 0, run)
	require.Equal(t, "weather", h.Sync)
	require.Equal(t, 4, h.Units)
	all := steps(t, h)
	require.Len(t, all, len(log), "there is one run in this store")
	rows := map[string]any{} // status of every row
	for i, step := range all {
		require.Equal(t, log[i], step.Event)
		require.Equal(t, step.Event.At.Sub(h.PlannedAt), step.Since)
		for _, c := range step.Changes {
			for _, column := range c.Columns {
				if column.Name == "status" && !c.Shared {
					key := c.Table + string(c.Key[0].([]byte))
					if len(c.Key) > 1 {
						key += c.Key[1].(string)
					}
					require.Equal(t, rows[key], column.Before, "%d", step.Event.Position)
					rows[key] = column.After
				}
			}
		}
	}
	outcome, err := h.Outcome(t.Context())
	require.NoError(t, err)
	require.Equal(t, rows["runs"+string(run[:])], string(outcome.Status))
}

// AS-6: a step leads back to what a caller asked for, through its transaction.
func TestAStepKnowsItsCause(t *testing.T) {
	s, run := only(t, world(t))
	chained := 0
	for _, step := range steps(t, history(t, s, 0, run)) {
		require.Equal(t, step.Event.Cause == 0, len(step.Because) == 0)
		if len(step.Because) == 0 {
			continue
		}
		chained++
		require.Equal(t, step.Event.Cause, step.Because[0].Position)
		require.GreaterOrEqual(t, step.Because[len(step.Because)-1].Position, step.Event.Tx)
		require.True(t, slices.IsSortedFunc(step.Because, func(a, b replay.Link) int { return int(b.Position - a.Position) }))
	}
	require.Positive(t, chained)
}

// AS-6, B-6: where a settle of another run gave a unit its slot, the step names it.
func TestAStepNamesAnOpenerOfAnotherRun(t *testing.T) {
	st := newStage(t)
	a := st.start()
	defer a.kill()
	first, second := a.plan(25), a.plan(25) // fifty units each, and fifty slots
	a.dispatch(first)
	a.dispatch(second)
	l := a.claim(first, 1)
	a.complete(l)
	opened := map[events.Position]replay.Link{}
	for _, step := range steps(t, history(t, a.file, 0, second)) {
		if !step.Opener.IsZero() {
			opened[step.Event.Position] = step.Opener
		}
	}
	require.NotEmpty(t, opened)
	for p, opener := range opened {
		require.Less(t, opener.Position, p)
		require.Equal(t, events.TypeUnitSucceeded, opener.Type)
		require.Equal(t, events.UnitStream(l.Unit.Unit).String(), opener.Subject.Name, "it has no name in this run")
	}
	require.Contains(t, text(t, history(t, a.file, 0, second), replay.TextOptions{Width: 200}),
		"in the transaction of "+slices.Collect(maps.Values(opened))[0].String())
}

// AS-7, N-3, N-6: a death, a clean stop, and a process that came and died without a step of the run between two others are
// told apart, with the last sign of life and the gap.
func TestRestartsAreToldApart(t *testing.T) {
	st := newStage(t)
	a := st.start()
	run := a.plan(0)
	a.dispatch(run)
	st.now.Step(time.Second)
	a.claim(run, 1)
	died := head(t, a)
	st.now.Step(time.Second)
	a.kill()

	b := st.start() // its recovery ends the lease: a step
	st.now.Step(1200 * time.Millisecond)
	b.stop()
	st.now.Step(time.Minute)
	c := st.start()
	c.kill() // nobody of the run has noticed it
	st.now.Step(time.Minute)
	d := st.start()
	defer d.kill()
	d.dispatch(run)
	d.complete(d.claim(run, 2))

	var restarts [][]replay.Restart
	for _, step := range steps(t, history(t, d.file, 0, run)) {
		if len(step.Restarts) > 0 {
			restarts = append(restarts, step.Restarts)
		}
	}
	require.Len(t, restarts, 2)
	require.Len(t, restarts[0], 1)
	first := restarts[0][0]
	require.Equal(t, replay.Died, first.How)
	require.Equal(t, died, first.Last.Position)
	require.Equal(t, a.e.Node(), first.From.Node)
	require.Equal(t, b.e.Node(), first.To.Node)
	require.Equal(t, 102, first.To.PID)
	require.Equal(t, events.SpanOf(time.Second), first.Gap())

	require.Len(t, restarts[1], 2)
	stopped, silent := restarts[1][0], restarts[1][1]
	require.Equal(t, []replay.Change{replay.Stopped, replay.Died}, []replay.Change{stopped.How, silent.How})
	require.Equal(t, "the machine restarts", stopped.Reason)
	require.Equal(t, []events.NodeID{b.e.Node(), c.e.Node(), d.e.Node()}, []events.NodeID{stopped.From.Node, stopped.To.Node, silent.To.Node})
	require.Equal(t, events.SpanOf(time.Minute), stopped.Gap())
	require.Equal(t, events.SpanOf(time.Minute), silent.Gap())
	golden(t, "restarts.txt", text(t, history(t, d.file, 0, run), replay.TextOptions{Width: 80}))
}

func head(t *testing.T, a *actor) events.Position { return enginetest.Head(t, a.e) }

// AS-7: a process that died and left a run behind is told at the end, though no step has followed.
func TestADeathBehindTheLastStep(t *testing.T) {
	st := newStage(t)
	a := st.start()
	run := a.plan(0)
	a.kill()
	st.now.Step(time.Hour)
	b := st.start()
	defer b.kill()
	h := history(t, b.file, 0, run)
	all := steps(t, h)
	restarts, err := h.RestartsAfter(t.Context(), all[len(all)-1])
	require.NoError(t, err)
	require.Len(t, restarts, 1)
	require.Equal(t, replay.Died, restarts[0].How)
	require.Equal(t, events.SpanOf(time.Hour), restarts[0].Gap())
	require.Contains(t, text(t, h, replay.TextOptions{}), "started 1h0m0s later, +1h0m0s\n\nrun is planned")
	none, err := h.RestartsAfter(t.Context(), replay.Step{})
	require.NoError(t, err)
	require.Empty(t, none)

	b.dispatch(run)
	b.complete(b.claim(run, 1))
	b.complete(b.claim(run, 2))
	b.finalize(run)
	b.kill()
	c := st.start()
	defer c.kill()
	over := text(t, history(t, c.file, 0, run), replay.TextOptions{})
	require.Contains(t, over, "run ended +1h0m0s: succeeded")
	require.Equal(t, 1, strings.Count(over, "died"), "what dies behind the end of a run does not matter to it")
}

// AS-7: what an application appends by itself is no sign of life of a process.
func TestAnApplicationIsNoSignOfLife(t *testing.T) {
	st := newStage(t)
	a := st.start()
	run := a.plan(0)
	alive := head(t, a)
	st.now.Step(time.Minute)
	data, err := json.Marshal(events.MessageSubmitted{Message: events.MessageID{1}, Payload: json.RawMessage(`{}`), AvailableAt: events.MicrosOf(st.now.Now())})
	require.NoError(t, err)
	_, err = a.file.DB().Exec(`INSERT INTO events (position, tx, stream, version, at, type, schema, data)
		VALUES ($1, $1, $2, 1, $3, $4, 1, $5)`, alive+1, events.AppStream("topic").Key(), st.now.Now().UnixMicro(), events.TypeMessageSubmitted, string(data))
	require.NoError(t, err)
	a.kill()
	b := st.start()
	defer b.kill()
	b.dispatch(run)
	var told []replay.Restart
	for _, step := range steps(t, history(t, b.file, 0, run)) {
		told = append(told, step.Restarts...)
	}
	require.Len(t, told, 1)
	require.Equal(t, replay.Died, told[0].How)
	require.Equal(t, a.e.Node(), told[0].From.Node)
	require.Equal(t, alive, told[0].Last.Position)
}

// AS-7: what an application has appended last does not hide who died before it.
func TestADeathBehindTheLastStepAndAMessage(t *testing.T) {
	st := newStage(t)
	a := st.start()
	run := a.plan(0)
	a.kill()
	st.now.Step(time.Hour)
	b := st.start()
	defer b.kill()
	tx, err := b.file.DB().Begin()
	require.NoError(t, err)
	m := message.NewMessage(events.MessageID{1}.String(), []byte(`{}`))
	require.NoError(t, sqlite.OutboxAt(tx, func() events.Micros { return events.MicrosOf(st.now.Now()) }).Publish("topic", m))
	require.NoError(t, tx.Commit())
	h := history(t, b.file, 0, run)
	all := steps(t, h)
	restarts, err := h.RestartsAfter(t.Context(), all[len(all)-1])
	require.NoError(t, err)
	require.Len(t, restarts, 1)
	require.Equal(t, replay.Died, restarts[0].How)
}

// AS-7, N-3: processes that share a store take turns. The first step of each says that it takes part; nobody is called
// dead but for a clean stop.
func TestProcessesThatShareAStore(t *testing.T) {
	st := newStage(t)
	st.shared = true
	a, b := st.start(), st.start()
	defer b.kill()
	run := a.plan(2)
	b.dispatch(run)
	a.claim(run, 1)
	b.claim(run, 2)
	a.claim(run, 3)
	a.stop()
	st.now.Step(time.Second)
	c := st.start()
	defer c.kill()
	c.claim(run, 4)
	var told []replay.Change
	h := history(t, c.file, 0, run)
	for _, step := range steps(t, h) {
		for _, r := range step.Restarts {
			told = append(told, r.How)
			if r.How == replay.Joined {
				require.Zero(t, r.Gap())
			}
		}
	}
	require.Equal(t, []replay.Change{replay.Joined, replay.Stopped}, told)
	require.Contains(t, text(t, h, replay.TextOptions{}), "claim_unit, by process "+a.e.Node().Short())
}

// AS-6: a history ends where its past does, in the middle of a transaction too.
func TestAHistoryEndsWithItsPast(t *testing.T) {
	s, run := only(t, world(t, behindSink))
	all := steps(t, history(t, s, 0, run))
	for n, step := range all {
		if n == 0 || n%9 > 1 {
			continue // at the first, which opens the job, there is no run yet
		}
		h := history(t, s, step.Event.Position, run)
		until := steps(t, h)
		require.Equal(t, all[:n+1], until)
	}
	_, err := replay.Open(t.Context(), past(t, s, all[0].Event.Position), run)
	var refused *towline.RequestError
	require.ErrorAs(t, err, &refused)
	require.ErrorIs(t, err, towline.ErrNotFound)
	require.Equal(t, "run", refused.Field)
	_, err = replay.Open(t.Context(), past(t, s, 0), events.RunID{1})
	require.ErrorIs(t, err, towline.ErrNotFound)
}

// AS-6: what is left out takes no death with it.
func TestKeepLosesNoRestart(t *testing.T) {
	s, run := only(t, world(t, behindSink, behindStart))
	want, got := 0, 0
	h := history(t, s, 0, run)
	for _, step := range steps(t, h) {
		want += len(step.Restarts)
	}
	require.Positive(t, want)
	for step, err := range replay.Keep(h.Steps(t.Context()), replay.OfUnits(4)) {
		require.NoError(t, err)
		got += len(step.Restarts)
		if step.Subject.Stream.Family() == events.FamilyUnit {
			require.Equal(t, 4, step.Subject.Ordinal)
			require.Contains(t, step.Subject.Name, "unit 4 ridge/readings")
		}
		_, _, register := step.Subject.Stream.Register()
		require.False(t, register)
	}
	require.Equal(t, want, got)
	golden(t, "unit.txt", text(t, h, replay.TextOptions{Keep: replay.OfUnits(3), Renewals: true}))
}

// E-4: no token is in a text, nor in a step but for its event.
func TestATextHoldsNoSecret(t *testing.T) {
	s, run := only(t, world(t, behindSink))
	h := history(t, s, 0, run)
	var tokens []string
	for _, step := range steps(t, h) {
		switch e := step.Event.Event.(type) {
		case events.UnitClaimed:
			tokens = append(tokens, string(e.Token))
		case events.OutboxClaimed:
			tokens = append(tokens, string(e.Token))
		}
		for _, c := range step.Changes {
			for _, column := range c.Columns {
				for _, token := range tokens {
					require.NotEqual(t, token, column.After)
				}
			}
		}
	}
	require.Greater(t, len(tokens), 5)
	out := text(t, h, replay.TextOptions{})
	for _, token := range tokens {
		require.NotContains(t, out, token)
	}
	require.Contains(t, out, "token: ***")
}

// AS-6, HC-46: the widest run replays whole and in order, and its text holds every unit once.
func TestAWideRun(t *testing.T) {
	st := newStage(t)
	a := st.start()
	defer a.kill()
	days := enginetest.Fewer(500)
	run := a.plan(days) // two sources
	a.dispatch(run)
	for n := 1; n <= 40; n++ {
		a.complete(a.claim(run, n))
	}
	h := history(t, a.file, 0, run)
	require.Equal(t, 2*days, h.Units)
	planned, at := map[int]int{}, events.Position(0)
	for _, step := range steps(t, h) {
		require.Greater(t, step.Event.Position, at)
		at = step.Event.Position
		if _, ok := step.Event.Event.(events.UnitPlanned); ok {
			planned[step.Subject.Ordinal]++
		}
	}
	require.Len(t, planned, 2*days)
	for n, times := range planned {
		require.Equal(t, 1, times, n)
	}
	broken := 0
	for _, err := range h.Steps(t.Context()) { // whoever has seen enough goes
		require.NoError(t, err)
		if broken++; broken == 3 {
			break
		}
	}
	_, err := h.Outcome(t.Context())
	require.NoError(t, err)
}

// AS-6: a line is no wider than it may be, but for a single word.
func TestATextKeepsItsWidth(t *testing.T) {
	s, run := only(t, world(t, behindSink))
	h := history(t, s, 0, run)
	for _, width := range []int{40, 72, 120} {
		for _, line := range strings.Split(text(t, h, replay.TextOptions{Width: width}), "\n") {
			if n := utf8.RuneCountInString(line); n > width {
				require.NotContains(t, strings.TrimLeft(line, " "), " ", "%d columns: %s", n, line)
			}
		}
	}
	require.Equal(t, text(t, h, replay.TextOptions{}), text(t, h, replay.TextOptions{Width: 100}))
	require.Equal(t, text(t, h, replay.TextOptions{Width: 1}), text(t, h, replay.TextOptions{Width: 40}))
}

// Errors of the reader and of the writer come back.
func TestATextMeetsErrors(t *testing.T) {
	s, run := only(t, world(t))
	h := history(t, s, 0, run)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, replay.Text(ctx, io.Discard, h, replay.TextOptions{}), context.Canceled)
	require.ErrorIs(t, replay.Text(t.Context(), broken{}, h, replay.TextOptions{}), errPlanted)
}

var errPlanted = errors.New("planted")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errPlanted }

// AS-6, S-2: the replay of a scheduled run begins in the transaction of its due time, and says so.
func TestAScheduledRunNamesItsDueTime(t *testing.T) {
	s := newStage(t)
	s.schedules = []towline.Schedule{{Name: "hourly", Sync: "reports", Cron: "0 * * * *"}}
	a := s.start()
	defer a.kill()
	s.now.Step(time.Hour)
	ticked, err := a.e.Tick(t.Context(), "hourly")
	require.NoError(t, err)
	require.Len(t, ticked.Planned, 1)
	head, err := a.e.Head(t.Context())
	require.NoError(t, err)
	h := history(t, a.file, head, ticked.Planned[0].Run)
	told := strings.Join(strings.Fields(text(t, h, replay.TextOptions{})), " ")
	require.Contains(t, told, "open_job, in the transaction of 4 OccurrenceTriggered of schedule/hourly/2026-03-14T10:00+00:00")
}
