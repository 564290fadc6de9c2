package towlinetest

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/sink"
)

// CrashMatrix kills a node that works with the provider before and behind each call of a port, one kill a time. Each time it
// is started again, driven to the end of the run, and judged: every invariant of Towline holds, every unit has succeeded,
// the destination holds what it holds without a kill, and the oracle finds things as they must be.
//
// The oracle is called at the end of every window, and of the run without a kill; what fails at its testing.TB fails that
// window. It says what must be true of what the provider has written beside its sink: each thing is there, and once. It must
// leave everything as it was before, for the next window: empty what it has looked at, best in a t.Cleanup, which is called
// also if it fails. So it is called, too, if the run does not come to its end, or anything else is wrong already: what it
// finds then stands behind that. A window that has failed is played again, and judged again. See Destination for the rows in
// the sink.
//
// The run is a backfill of three days with two datasets, named first and second, of one source, named one: six units, so
// that the provider is called for one while others wait, run, or are done. A provider that knows its own sources and
// datasets is tested by a Matrix, which has settings:
//
//	towlinetest.Matrix{Provider: p, Oracle: oracle, Sync: towline.Sync{…}}.Run(t)
//
// The report names the window of the first failure, says on which units the provider has worked more than once, and gives
// the command that plays this window alone, which sets the flags -towline.seed and -towline.window. Ten windows that have
// failed end the matrix.
func CrashMatrix(t testing.TB, p provider.Provider, oracle func(testing.TB)) {
	t.Helper()
	Matrix{Provider: p, Oracle: oracle}.Run(t)
}

// Matrix is CrashMatrix with settings. Its zero fields are those of CrashMatrix.
type Matrix struct {
	Provider provider.Provider
	Oracle   func(testing.TB) // nil: the sink alone is judged

	// Reset brings back what the provider writes to, as it was before the first run: it empties a map, or makes a new
	// database. It is called before each window. nil: the oracle does so, or there is nothing. Fences are part of it: a
	// database of your own that is guarded by sink.Guard is emptied with its table towline_fences.
	Reset func(testing.TB)
	// Sink makes an empty destination for each window; close it in a t.Cleanup. nil: a fenced one in memory.
	Sink func(testing.TB) sink.Opener
	// Sync is what is configured. Zero fields: its name is sync, its provider provider, its source one, and its datasets
	// are first and second, a unit a day, which may lose its worker three times. A dataset without a Retry loses units to
	// kills; they fail as worker_lost, and the oracle is to expect it. What is logged at the end says in how many windows.
	Sync towline.Sync
	// Runs are what is asked for, each with a Key of its own. nil: a backfill of the three days before sim.DefaultStart.
	Runs []towline.RunSpec
	// Knobs are the settings of the engine. A zero BackfillChunk is a day here.
	Knobs towline.Knobs
	// Takes is how much virtual time an attempt takes; nil: a second. With more than half a lease (Knobs.Lease), it renews.
	Takes func(provider.Unit) time.Duration
	// Seed of all windows; zero: 1. The flag -towline.seed takes its place.
	Seed uint64
	// AnyRows lets the destination hold other rows than without a kill: a row tells which attempt has written it, say.
	AnyRows bool
}

// manyFailed windows end a matrix: more of them tell no more.
const manyFailed = 10

// Run plays the matrix.
func (m Matrix) Run(t testing.TB) {
	t.Helper()
	if m.Provider == nil {
		t.Fatal("towlinetest: the matrix has no Provider")
	}
	m = m.withDefaults()
	p, err := newPlayer(t, m)
	if err != nil {
		t.Fatalf("towlinetest: %v", err)
	}
	began := time.Now()
	whole := p.play(0)
	if len(whole.problems) > 0 {
		t.Fatal(p.unkilled(whole))
	}
	p.whole = whole
	failed, played := []*window{}, 0
	lost := losses{}
	for i, at := range whole.boundaries {
		if *windowFlag != 0 && at.N != *windowFlag {
			continue
		}
		if len(failed) == manyFailed {
			p.endedEarly = i
			break
		}
		played++
		w := p.judged(at)
		if len(w.problems) > 0 {
			failed = append(failed, w)
		}
		lost.add(w)
	}
	switch {
	case played == 0:
		t.Fatalf("towlinetest: there is no window %d: they are numbered from 1 to %d", *windowFlag, len(whole.boundaries))
	case len(failed) > 0:
		t.Error(p.report(played, failed))
	default:
		t.Logf("towlinetest: %s, none failed; seed %d, %s%s", count(played, "window"), m.Seed, time.Since(began).Round(time.Millisecond), lost)
	}
}

func (m Matrix) withDefaults() Matrix {
	s := &m.Sync
	s.Name, s.Provider = cmp.Or(s.Name, "sync"), cmp.Or(s.Provider, "provider")
	if len(s.Sources) == 0 {
		s.Sources = []string{"one"}
	}
	if len(s.Datasets) == 0 {
		retry := towline.Retry{Max: 3, Backoff: time.Second}
		s.Datasets = []towline.Dataset{{Name: "first", Window: towline.Day, Retry: retry}, {Name: "second", Window: towline.Day, Retry: retry}}
	}
	if len(m.Runs) == 0 {
		before := sim.DefaultStart.Truncate(day)
		m.Runs = []towline.RunSpec{{Sync: s.Name, Mode: towline.Backfill, Since: before.Add(-3 * day), Before: before, Key: "towlinetest"}}
	}
	m.Knobs.BackfillChunk = cmp.Or(m.Knobs.BackfillChunk, day)
	m.Seed = seedOf(cmp.Or(m.Seed, 1))
	return m
}

const day = 24 * time.Hour

// retries reports that a lost worker does not end a unit of the dataset.
func (m Matrix) retries(dataset string) bool {
	return slices.ContainsFunc(m.Sync.Datasets, func(d towline.Dataset) bool { return d.Name == dataset && d.Retry.Max > 0 })
}
