package ident_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/ident"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store/sqlite"
)

// sameDice gives the same bytes to every id, so that those of two runs differ in their time only, and end alike.
type sameDice struct{}

func (sameDice) Read(p []byte) (int, error) {
	copy(p, bytes.Repeat([]byte{0x5a}, len(p)))
	return len(p), nil
}

type world struct {
	t     *testing.T
	e     *towline.Engine
	clock *enginetest.Clock
}

func newWorld(t *testing.T, entropy io.Reader) world {
	t.Helper()
	clock := enginetest.NewClock(enginetest.Start)
	s, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "towline.db"), sqlite.Options{Synchronous: "normal"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	e, err := towline.Open(context.Background(), s, towline.Config{
		Syncs: []towline.Sync{{
			Name: "days", Provider: "days", Sources: []string{"north", "north/inner"}, Datasets: []towline.Dataset{{Name: "a"}, {Name: "b/c"}, {Name: "inner/a"}},
		}},
		Clock: towline.NewClock(clock.Now), Entropy: entropy, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	return world{t, e, clock}
}

// plan plans the datasets a and b/c.
func (w world) plan(sources ...string) events.RunID {
	w.t.Helper()
	return w.planOf([]string{"a", "b/c"}, sources...)
}

func (w world) planOf(datasets []string, sources ...string) events.RunID {
	w.t.Helper()
	w.clock.Step(time.Minute)
	p, err := w.e.Plan(context.Background(), towline.RunSpec{
		Sync: "days", Mode: towline.Backfill, Since: enginetest.Start.AddDate(0, 0, -2), Before: enginetest.Start.AddDate(0, 0, -1), Sources: sources, Datasets: datasets,
	})
	require.NoError(w.t, err)
	return p.Run
}

func (w world) view(fn func(v projections.View)) {
	w.t.Helper()
	require.NoError(w.t, w.e.View(context.Background(), func(v projections.View) error { fn(v); return nil }))
}

func (w world) units(run events.RunID) (us []projections.SyncRunUnit) {
	w.t.Helper()
	w.view(func(v projections.View) {
		var err error
		us, err = v.Units(run, 0, 100)
		require.NoError(w.t, err)
	})
	return us
}

// Surfaces 0: every command and URL accepts the ULID in either case, the stream name, the alias or a unique suffix.
func TestAThingIsFoundByEveryNameOfIt(t *testing.T) {
	w := newWorld(t, nil)
	run := w.plan()
	units := w.units(run)
	require.NotEmpty(t, units)
	w.view(func(v projections.View) {
		for _, name := range []string{run.String(), strings.ToLower(run.String()), "run/" + run.String(), run.Short(), strings.ToLower(run.Short()), run.String()[12:]} {
			got, err := ident.Run(v, name)
			require.NoError(t, err, name)
			require.Equal(t, run, got, name)
		}
		for _, u := range units {
			short := u.Unit.String()[14:]
			for _, name := range []string{u.Unit.String(), "unit/" + u.Unit.String(), u.Alias, strings.ToLower(u.Alias[:6]) + u.Alias[6:], run.String() + u.Alias[6:], short} {
				got, err := ident.Unit(v, name)
				require.NoError(t, err, name)
				require.Equal(t, u.Unit, got, name)
				thing, err := ident.Any(v, name)
				require.NoError(t, err, name)
				require.Equal(t, ident.Thing{Noun: ident.NounUnit, Unit: u.Unit}, thing)
			}
		}
		key := projections.Key{Owner: run, Kind: events.KindDispatch}
		require.Equal(t, run.String()+".dispatch_sync_run.1", ident.EntryID(key, 1))
		require.Equal(t, run.Short()+"/dispatch_sync_run#1", ident.EntryAlias(key, 1))
		for name, number := range map[string]int{
			ident.EntryID(key, 0): 0, ident.EntryID(key, 3): 3, ident.EntryAlias(key, 0): 0, ident.EntryAlias(key, 7): 7, key.String(): 0,
			run.Short() + ".dispatch_sync_run": 0,
		} {
			got, n, err := ident.Entry(v, name)
			require.NoError(t, err, name)
			require.Equal(t, key, got, name)
			require.Equal(t, number, n, name)
			thing, err := ident.Any(v, name)
			require.NoError(t, err, name)
			require.Equal(t, key.String(), thing.WhyID())
		}
	})
}

// Surfaces 0: an ambiguous name is an error that lists the candidates; HC-48: one rule says what is no name at all.
func TestANameOfTwoThingsListsThem(t *testing.T) {
	w := newWorld(t, sameDice{})
	first, second := w.plan("north"), w.plan()
	require.Equal(t, first.Short(), second.Short(), "the dice have not fallen alike")
	w.view(func(v projections.View) {
		_, err := ident.Run(v, first.Short())
		var e *ident.Error
		require.ErrorAs(t, err, &e)
		require.ErrorIs(t, err, ident.ErrAmbiguous)
		require.Equal(t, []string{first.String(), second.String()}, e.Candidates)
		require.EqualError(t, err, `run id "`+first.Short()+`": 2 things are called so; use one of `+first.String()+", "+second.String())

		_, _, err = ident.Entry(v, first.Short()+"/post_sync#1")
		require.ErrorIs(t, err, ident.ErrAmbiguous)

		alias := w.units(second)[len(w.units(second))-1].Alias
		unit, err := ident.Unit(v, alias)
		require.NoError(t, err, "only the second run has a unit %s", alias)
		require.Equal(t, w.units(second)[len(w.units(second))-1].Unit, unit)
		_, err = ident.Unit(v, w.units(first)[0].Alias)
		require.ErrorIs(t, err, ident.ErrAmbiguous)
	})
}

// An alias joins its parts with a slash, and so may the name of a source. What two units are called is refused, not guessed.
func TestAnAliasOfTwoUnitsListsThem(t *testing.T) {
	w := newWorld(t, nil)
	units := w.units(w.planOf([]string{"a", "inner/a"}))
	byAlias := map[string][]string{}
	for _, u := range units {
		byAlias[u.Alias] = append(byAlias[u.Alias], u.Unit.String())
	}
	w.view(func(v projections.View) {
		for _, u := range units {
			_, err := ident.Unit(v, u.Alias)
			if same := byAlias[u.Alias]; len(same) > 1 {
				var e *ident.Error
				require.ErrorAs(t, err, &e)
				require.ElementsMatch(t, same, e.Candidates)
				continue
			}
			require.NoError(t, err)
		}
	})
	require.Len(t, byAlias, len(units)-1)
}

func TestWhatIsNoNameAndWhatNothingHas(t *testing.T) {
	w := newWorld(t, nil)
	run := w.plan()
	w.view(func(v projections.View) {
		for _, name := range []string{"", "null", "12345", "{" + run.String() + "}", run.String() + "0", "ILOU00", strings.Repeat("A", 10_000), "run/" + run.Short(), "7Q4-KD", " " + run.Short()} {
			_, err := ident.Run(v, name)
			require.ErrorIs(t, err, ident.ErrMalformed, name)
			require.Less(t, len(err.Error()), 400)
		}
		for _, name := range []string{"unit/x", "ab:c", "I" + run.String()[1:] + ":north/a/-"} {
			_, err := ident.Any(v, name)
			require.ErrorIs(t, err, ident.ErrMalformed, name)
		}
		for _, name := range []string{run.Short() + "/post", run.Short() + "/post_sync#0", run.Short() + ".post_sync.x", "outbox/" + run.String(), "x/post_sync"} {
			_, _, err := ident.Entry(v, name)
			require.ErrorIs(t, err, ident.ErrMalformed, name)
		}
		_, err := ident.Run(v, "000000")
		require.ErrorIs(t, err, ident.ErrUnknown)
		_, err = ident.Unit(v, run.Short()+":north/nothing/-")
		require.ErrorIs(t, err, ident.ErrUnknown)
		require.ErrorContains(t, err, `has no unit "north/nothing/-"; give source/dataset/window`)
		_, err = ident.Any(v, "000000")
		require.True(t, errors.Is(err, ident.ErrUnknown))
		_, err = ident.Message(v, "000000")
		require.ErrorIs(t, err, ident.ErrUnknown)
		_, err = ident.Job(v, "000000")
		require.ErrorIs(t, err, ident.ErrUnknown)
	})
}
