package towlinetest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/towlinetest"
)

// In a test of yours, t is its *testing.T. An example has none, so these have a recorder in its place.

// A provider that writes through its sink alone may be killed wherever it is.
func ExampleCrashMatrix() {
	readings := func(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
		key := u.Window.Name() + " 08:00"
		return provider.Result{}, s.Put(ctx, u.Dataset, key, map[string]any{"celsius": 7.5})
	}
	example("TestReadings", func(t testing.TB) {
		towlinetest.CrashMatrix(t, provider.Func(readings), func(t testing.TB) {
			// The sink holds what it holds without a kill: that is judged already. More can be asked of it here.
			if n := len(towlinetest.Destination(t).Places()); n != 6 {
				t.Errorf("%d of 6 windows have rows", n)
			}
		})
	})
	// Output:
	// TestReadings has passed
}

// One that sends mail beside its sink sends it again, if it was killed behind that and before its work was on record.
func ExampleCrashMatrix_notIdempotent() {
	var outbox []string
	report := func(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
		if err := s.Put(ctx, u.Dataset, u.Window.Name(), map[string]any{"done": true}); err != nil {
			return provider.Result{}, err
		}
		outbox = append(outbox, "report of "+u.Dataset+", "+u.Window.Name())
		return provider.Result{}, nil
	}
	example("TestReports", func(t testing.TB) {
		towlinetest.CrashMatrix(t, provider.Func(report), func(t testing.TB) {
			t.Cleanup(func() { outbox = nil }) // for the next window
			sent := map[string]int{}
			for _, mail := range outbox {
				if sent[mail]++; sent[mail] == 2 {
					t.Errorf("the %s was sent twice", mail)
				}
			}
		})
	}, "killed", "sent twice", "worked on", "attempt")
	// Output:
	// TestReports has failed
	// killed after provider sync 1 one/first, attempt 1
	// the report of first, 2026-02-27 was sent twice
	// the provider has worked on one/first/2026-02-27 twice:
	// attempt 1, by incarnation 1: put 1 row, and returned nil
	// attempt 2, by incarnation 2: put 1 row, and returned nil
}

// The test binary is started as another process, which runs the same test up to the call, and is killed again and again.
func ExampleCrashProcesses() {
	example("ExampleCrashProcesses", func(t testing.TB) {
		dir := towlinetest.Dir(t) // the same in all processes
		days := []string{"2026-02-27", "2026-02-28", "2026-03-01"}
		towlinetest.CrashProcesses(t, func(context.Context) error { // usually what main does: it opens a node, and waits for a run
			for _, day := range days {
				part := filepath.Join(dir, day+".part")
				if err := os.WriteFile(part, []byte("7.5\n"), 0o600); err != nil {
					return err
				}
				if err := os.Rename(part, filepath.Join(dir, day+".csv")); err != nil {
					return err
				}
				time.Sleep(50 * time.Millisecond) // a real process is killed in real time, so the next download takes some
			}
			return nil
		}, func(t testing.TB) {
			for _, day := range days {
				if got, err := os.ReadFile(filepath.Join(dir, day+".csv")); err != nil || string(got) != "7.5\n" {
					t.Errorf("%s: %q, %v", day, got, err)
				}
			}
		})
	})
	// Output:
	// ExampleCrashProcesses has passed
}

// A property test draws what goes wrong: which incarnation dies where, how many publishes get lost, and who moves next. The
// invariant is the test's own, and Finish adds those of Towline.
func ExampleNewWorld() {
	readings := func(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
		return provider.Result{}, s.Put(ctx, "readings", u.Window.Name(), map[string]any{"celsius": 7.5})
	}
	property := func(t *rapid.T) {
		lost := towlinetest.AtMost(rapid.IntRange(0, 3).Draw(t, "lost"), func(c sim.Call) sim.Fault {
			if c.Port != sim.PortPublish {
				return sim.Fault{}
			}
			return sim.Fault{How: rapid.SampledFrom([]sim.FaultKind{sim.Drop, sim.Unsent, sim.Duplicate}).Draw(t, "how")}
		})
		w := towlinetest.NewWorld(t, sim.Config{
			Seed:   rapid.Uint64Min(1).Draw(t, "seed"),
			Kills:  rapid.SliceOfN(rapid.IntRange(1, 60), 0, 3).Draw(t, "kills"),
			Puts:   true,
			Faults: lost,
			Syncs: []sim.Sync{{
				Sync: towline.Sync{
					Name: "weather", Provider: "stations", Sources: []string{"harbour"},
					Datasets: []towline.Dataset{{Name: "readings", Window: towline.Day, Retry: towline.Retry{Max: 3}}},
				},
				Provider: provider.Func(readings),
			}},
		})
		today := sim.DefaultStart.Truncate(24 * time.Hour)
		w.Request(towline.RunSpec{Sync: "weather", Mode: towline.Backfill, Since: today.AddDate(0, 0, -3), Before: today, Key: "1"})

		for _, u := range towlinetest.Finish(t, w).Units {
			if rows := w.Outside().Destination.Rows(u.Place()); u.Status != events.UnitHasSucceeded || len(rows) != 1 {
				t.Fatalf("unit %s is %s, and has %d rows", u.Name, u.Status, len(rows))
			}
		}
	}
	example("TestWeather", func(t testing.TB) {
		draw(t, 10, property) // in a test of yours: rapid.Check(t, property)
	})
	// Output:
	// TestWeather has passed
}

// example prints how a test has ended, and those lines of its report that hold one of the words, up to the other windows.
func example(name string, test func(testing.TB), words ...string) {
	r := try(name, test)
	if !r.failed {
		fmt.Println(name, "has passed")
		return
	}
	fmt.Println(name, "has failed")
	first, _, _ := strings.Cut(r.said(), "before the kill:")
	for line := range strings.Lines(first) {
		for _, word := range words {
			if strings.Contains(line, word) {
				if _, window, ok := strings.Cut(line, ": killed"); ok {
					line = "killed" + window
				}
				fmt.Println(strings.TrimSpace(line))
				break
			}
		}
	}
}
