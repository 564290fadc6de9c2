package query_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/ident"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/query"
	"github.com/towline-dev/towline/store/sqlite"
)

// Surfaces 5.5: events are chosen by the same grammar; those of a run are those of its job, its units and its entries.
func TestEventsOfARunAreAllThatIsWrittenAboutIt(t *testing.T) {
	ctx := context.Background()
	clock := enginetest.NewClock(enginetest.Start)
	s, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "towline.db"), sqlite.Options{Synchronous: "normal"})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	e, err := towline.Open(ctx, s, towline.Config{
		Syncs: []towline.Sync{{Name: "days", Provider: "days", Sources: []string{"north"}, Datasets: []towline.Dataset{{Name: "a"}, {Name: "b"}}}},
		Clock: towline.NewClock(clock.Now), Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	var runs []towline.Planned
	for range 2 {
		clock.Step(time.Hour)
		p, err := e.Plan(ctx, towline.RunSpec{Sync: "days", By: towline.Actor{Name: "ann"}})
		require.NoError(t, err)
		runs = append(runs, p)
	}
	first := runs[0]
	choose := func(text string) (got []string) {
		f, err := query.Parse(query.Events, text, clock.Now())
		require.NoError(t, err, text)
		require.NoError(t, e.View(ctx, func(v projections.View) (err error) {
			f, err = f.Bind(v)
			return err
		}), text)
		for _, env := range enginetest.Since(t, e, 0) {
			if f.Match(env) {
				got = append(got, env.Event.EventType().String())
			}
		}
		return got
	}
	planned := []string{"JobOpened", "RunPlanned", "UnitPlanned", "UnitPlanned", "OutboxArmed", "JobLinked"}
	require.Equal(t, planned, choose("run:"+first.Run.Short()))
	require.Equal(t, planned, choose("actor:ann -run:"+runs[1].Run.String()))
	require.Empty(t, choose("run:"+first.Run.Short()+" run:"+runs[1].Run.Short()), "no event is of both")
	require.Equal(t, append(planned, planned...), choose("run:"+first.Run.Short()+","+runs[1].Run.Short()))
	require.Equal(t, []string{"OutboxArmed", "OutboxArmed"}, choose("kind:dispatch_sync_run"))
	require.Equal(t, []string{"OutboxArmed"}, choose("stream:outbox/"+first.Run.String()+"/dispatch_sync_run"))
	require.Equal(t, []string{"JobOpened", "JobLinked"}, choose("job:"+first.Job.String()))
	require.Equal(t, []string{"RunPlanned", "RunPlanned"}, choose("type:RunPlanned,RunFinalized"))
	require.Equal(t, planned, choose("family:run,job,unit,outbox age>30m"))
	require.Len(t, choose(""), len(enginetest.Since(t, e, 0)))

	f, err := query.Parse(query.Events, "run:000000", clock.Now())
	require.NoError(t, err)
	require.ErrorIs(t, e.View(ctx, func(v projections.View) error { _, err := f.Bind(v); return err }), ident.ErrUnknown)
	f, err = query.Parse(query.Events, "run:"+events.RunID{1}.String(), clock.Now())
	require.NoError(t, err)
	require.ErrorIs(t, e.View(ctx, func(v projections.View) error { _, err := f.Bind(v); return err }), ident.ErrUnknown)
}
