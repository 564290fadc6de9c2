package towlinetest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/towlinetest"
)

func ofFew(c sim.Config) sim.Config {
	c.Syncs = []sim.Sync{{
		Sync:     towline.Sync{Name: "s", Provider: "p", Sources: []string{"one"}, Datasets: few.Datasets},
		Provider: provider.Func(fenced),
	}}
	return c
}

// G-1, design 10.1: a world that is killed is brought to its end, and held against all that must be true of any.
func TestAWorldIsBroughtToItsEnd(t *testing.T) {
	refused := 0
	w := towlinetest.NewWorld(t, ofFew(sim.Config{Kills: []int{9, 12}, Puts: true, Faults: towlinetest.AtMost(3, func(c sim.Call) sim.Fault {
		if c.Port != sim.PortPublish {
			return sim.Fault{}
		}
		refused++
		return sim.Fault{How: sim.Refuse}
	})}))
	w.Request(towline.RunSpec{Sync: "s", Key: "1"})
	found := towlinetest.Finish(t, w)
	require.Len(t, w.Crashes(), 2)
	require.Len(t, found.Units, 1)
	require.Equal(t, events.UnitHasSucceeded, found.Units[0].Status)
	require.NotEmpty(t, found.Log)
	require.Len(t, w.Outside().Destination.Rows(found.Units[0].Place()), 3)
	require.Equal(t, 3, refused)
}

// House style 31: a seed that nobody has given is told when the test fails, and taken back.
func TestASeedIsToldAndTakenBack(t *testing.T) {
	log := func(t testing.TB) (log []string) {
		w := towlinetest.NewWorld(t, ofFew(sim.Config{}))
		w.Request(towline.RunSpec{Sync: "s", Key: "1"})
		for _, env := range towlinetest.Finish(t, w).Log {
			log = append(log, fmt.Sprint(env))
		}
		return log
	}
	var first []string
	r := try("TestMine", func(t testing.TB) {
		first = log(t)
		t.Error("something else")
	})
	_, seed, found := strings.Cut(strings.Join(r.logs, "\n"), "again: go test github.com/towline-dev/towline/towlinetest -run '^TestMine$' -towline.seed=")
	require.True(t, found, "%q", r.logs)
	require.NotEqual(t, first, log(t))
	setFlag(t, "towline.seed", seed)
	require.Equal(t, first, log(t))
}

// L-4, I-26: what Finish finds fails the test, with the end of the log.
func TestAWorldThatIsNotAsItMustBe(t *testing.T) {
	r := try("TestMine", func(t testing.TB) {
		w := towlinetest.NewWorld(t, ofFew(sim.Config{Seed: 1}))
		w.Request(towline.RunSpec{Sync: "s", Key: "1"})
		require.NoError(t, w.Run(context.Background()))
		out := w.Outside()
		out.Called = append(out.Called, out.Called[0]) // a provider was called again for the same attempt
		towlinetest.Finish(t, w)
	})
	require.Contains(t, r.said(), "this must not be:\n    I-29 at ")
	require.Contains(t, r.said(), "the end of the log:\n")

	r = try("TestMine", func(t testing.TB) {
		w := towlinetest.NewWorld(t, ofFew(sim.Config{Seed: 1}))
		w.Request(towline.RunSpec{Sync: "another", Key: "1"})
		towlinetest.Finish(t, w)
	})
	require.Contains(t, r.said(), `the world does not come to its end: plan a run of another`)
}
