package crash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/events"
)

// Options say which crashes a matrix has.
type Options struct {
	// Store is the file of a store. It is only read, and a process may have it open.
	Store string
	// Run keeps the boundaries of one run: the transactions that have to do with it. Zero: those of the whole log. Whatever
	// is open then is recovered and judged in either case.
	Run events.RunID
	// Most bounds the crashes; zero: none is left out. Of more, so many are taken in equal distances, the last among them.
	Most int
	// Scratch is the folder for the copies of the log; empty: a temporary one. Each world needs a little more than the log.
	Scratch string
	// Kills[i] is the boundary of its own at which incarnation i+1 of each recovery dies, too: a crash during the recovery
	// (C-37), counted as in sim.Config. What it may cost is not judged then, only that it ends, and that no promise is broken.
	Kills []int
	// Seed is that of the worlds: of ids, and of who moves next where more than one could.
	Seed uint64
	// AtOnce are the worlds that are played side by side; zero: GOMAXPROCS.
	AtOnce int
	// Progress is told how many of the crashes were played. It is called by one goroutine at a time. nil: nobody is told.
	Progress func(played, of int)
	// damage changes each world before it is played, for the tests that must see a matrix fail.
	damage func(*moment)
}

// Verdict is what became of a crash.
type Verdict string

const (
	// Recovered: all that was open has ended, and nothing was done twice.
	Recovered Verdict = "recovered"
	// Absorbed: a message was published twice or a unit worked on twice, to one effect, thanks to ids, fences and the ledger.
	Absorbed Verdict = "duplicate absorbed"
	// Lost: an at-most-once post_sync is not sent again. The log shows it, and a person decides (C-22, C-23, C-24, C-46).
	Lost Verdict = "lost by contract"
	// Violated: all has ended, and a promise is broken: an invariant, an effect that has happened twice, a bound.
	Violated Verdict = "violated"
	// Stranded: something does not end, or waits and nothing shows why.
	Stranded Verdict = "stranded"
)

// Verdicts are all of them, the best first.
var Verdicts = []Verdict{Recovered, Absorbed, Lost, Violated, Stranded}

func (v Verdict) rank() int { return slices.Index(Verdicts, v) }

// Good reports a verdict that the guarantees allow.
func (v Verdict) Good() bool { return v == Recovered || v == Absorbed || v == Lost }

// Row is one crash.
type Row struct {
	Position events.Position // of the newest event on disk
	Since    time.Duration   // the first event of the log
	What     string          // the transaction that was committed last
	Window   string          // W0 to W8; empty: no piece of work stood there
	Called   string          // the calls of ports that were made since, and are not on record; empty: none
	Verdict  Verdict
	Rows     []string      // of the crash table that apply
	Bound    time.Duration // the time without work that they allow, with what providers ask for
	Waited   time.Duration // the time without work that passed
	Took     time.Duration // from the crash to the last event, work included
	Events   int           // that the recovery has appended
	Notes    []string      // what was lost, repeated or ended by the crash
	Problems []string      // of what is violated or stranded
	// Violations are the invariants among the Problems.
	Violations []check.Violation

	crash int    // number of its boundary in the log
	calls []call // of ports

	compared bool // its views with its log
	differs  bool
}

// comparedOf is the share of crashes whose recovery is followed by a comparison of the views with the log (I-26): the first of
// so many. It folds the whole log twice, and for all of them it took a third of the time of a matrix: 273 crashes of the
// newspaper of the tests took 22.0 s without, 25.3 s in this way, and 32.4 s with all. A case always does it.
const comparedOf = 3

// Matrix is what becomes of a run that dies everywhere.
type Matrix struct {
	Store      string
	Events     int // of the log
	Boundaries int // of the log, or of the run
	Rows       []Row
	Left       int // crashes that Options.Most has left out
	// Log are the contradictions that the log itself holds: they are no fault of a recovery.
	Log []check.Violation
}

// Count counts the rows of a verdict.
func (m Matrix) Count(v Verdict) (n int) {
	for _, r := range m.Rows {
		if r.Verdict == v {
			n++
		}
	}
	return n
}

// Violations counts the invariants that recoveries have violated.
func (m Matrix) Violations() (n int) {
	for _, r := range m.Rows {
		n += len(r.Violations)
	}
	return n
}

// Good reports that every crash ended as the guarantees allow.
func (m Matrix) Good() bool {
	return !slices.ContainsFunc(m.Rows, func(r Row) bool { return !r.Verdict.Good() })
}

// crash is a row that is to be played.
type crash struct {
	boundary int
	calls    []call
}

// plan is the log of a store, and every crash of it.
type plan struct {
	log        []events.Envelope
	boundaries []boundary
	says       recording
	replies    replies
	failures   []failure
	crashes    []crash
	of         int // boundaries that have a crash
}

// MakeMatrix plays every crash of the log of a store.
//
// Errors: that the store cannot be read, or holds no such run; ctx's; those of the scratch folder. What a recovery comes to
// is never an error.
func MakeMatrix(ctx context.Context, o Options) (m Matrix, err error) {
	dir, remove, err := scratch(o.Scratch)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	p, err := load(ctx, o, dir)
	if err != nil {
		return m, err
	}
	m = Matrix{Store: o.Store, Events: len(p.log), Boundaries: p.of}
	chosen := sample(p.crashes, o.Most)
	m.Left = len(p.crashes) - len(chosen)
	if m.Log, err = judged(p.log); err != nil {
		return m, err
	}
	m.Rows, err = p.play(ctx, o, dir, chosen)
	return m, err
}

func scratch(parent string) (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp(parent, "towline-crash-")
	return dir, func() error { return os.RemoveAll(dir) }, err
}

// load reads a log, and finds what there is to be played.
func load(ctx context.Context, o Options, dir string) (p plan, err error) {
	if p.log, err = readLog(ctx, o.Store, dir); err != nil {
		return p, err
	}
	p.boundaries, p.says, p.replies, p.failures = boundariesOf(p.log), record(p.log), recordReplies(p.log), recordFailures(p.log)
	units := map[events.UnitID]events.RunID{}
	known := false
	for _, env := range p.log {
		switch e := env.Event.(type) {
		case events.UnitPlanned:
			id, _ := env.Stream.Unit()
			units[id] = e.Run
		case events.RunPlanned:
			id, _ := env.Stream.Run()
			known = known || id == o.Run
		}
	}
	if !o.Run.IsZero() && !known {
		return p, fmt.Errorf("%s: it holds no run %s", o.Store, o.Run)
	}
	for i, b := range p.boundaries {
		if !o.Run.IsZero() && !touches(b.tx, o.Run, units) {
			continue
		}
		p.of++
		p.crashes = append(p.crashes, crash{boundary: i})
		if calls := callsBefore(b.next); len(calls) > 0 {
			p.crashes = append(p.crashes, crash{boundary: i, calls: calls})
		}
	}
	return p, nil
}

// sample takes at most so many, in equal distances, the last among them.
func sample(all []crash, most int) []crash {
	if most <= 0 || len(all) <= most {
		return all
	}
	out := make([]crash, most)
	for i := range out {
		out[i] = all[(i+1)*len(all)/most-1]
	}
	return out
}

// judged are the contradictions of a log.
func judged(log []events.Envelope) ([]check.Violation, error) {
	fold := check.New(check.Options{})
	err := guarded(func() error {
		for _, env := range log {
			fold.Apply(env)
		}
		return nil
	})
	return fold.Finish(), err
}

// job is a crash whose store is ready.
type job struct {
	row    int
	path   string
	crash  crash
	moment moment
}

// play plays crashes side by side, each on a copy of one store that grows.
func (p plan) play(ctx context.Context, o Options, dir string, chosen []crash) ([]Row, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	rows := make([]Row, len(chosen))
	jobs := make(chan job)
	var mu sync.Mutex
	played := 0
	var workers sync.WaitGroup
	for range cmp.Or(max(o.AtOnce, 0), runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for j := range jobs {
				row, err := p.one(ctx, j)
				if err != nil {
					cancel(err)
					continue
				}
				mu.Lock()
				rows[j.row] = row
				if played++; o.Progress != nil {
					o.Progress(played, len(chosen))
				}
				mu.Unlock()
			}
		})
	}
	err := p.feed(ctx, o, dir, chosen, jobs)
	close(jobs)
	workers.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// feed grows the store, and hands out a copy for each crash.
func (p plan) feed(ctx context.Context, o Options, dir string, chosen []crash, jobs chan<- job) (err error) {
	g, err := newGrower(ctx, filepath.Join(dir, "grown.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	h := newHistory()
	grown := 0
	for i, c := range chosen {
		for ; grown <= c.boundary; grown++ {
			if err := g.add(ctx, p.boundaries[grown].tx); err != nil {
				return err
			}
			if err := guarded(func() error { h.add(p.boundaries[grown].tx); return nil }); err != nil {
				return fmt.Errorf("fold the log up to %d: %w", p.boundaries[grown].position(), err)
			}
		}
		path := filepath.Join(dir, fmt.Sprintf("crash-%d.db", i))
		if err := g.copyTo(ctx, path); err != nil {
			return err
		}
		m := p.moment(h, c, o)
		m.compares = i%comparedOf == 0
		if o.damage != nil {
			o.damage(&m)
		}
		select {
		case jobs <- job{i, path, c, m}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// moment is a crash, with the world around it.
func (p plan) moment(h *history, c crash, o Options) moment {
	s := scene{seed: o.Seed, kills: o.Kills, knobs: h.config, syncs: h.setups(), says: recording{}, calls: c.calls}
	for _, run := range h.fold.Runs() {
		for _, u := range h.fold.Units(run.ID) {
			if answers := p.says[u.ID]; !u.Status.Terminal() && answers != nil {
				s.says[u.ID] = answers
			}
		}
	}
	s.replies, s.failures = p.replies.open(h.fold.Messages()), h.ahead(p.failures)
	return h.moment(s, p.boundaries[c.boundary].next)
}

// one plays one crash, and removes its files.
func (p plan) one(ctx context.Context, j job) (Row, error) {
	e, err := play(ctx, j.path, j.moment)
	if err == nil {
		row := j.moment.judge(e)
		b := p.boundaries[j.crash.boundary]
		row.Since = b.at().Sub(p.log[0].At).Std()
		row.What, row.Window, row.crash, row.calls = b.what, b.window, j.crash.boundary, j.crash.calls
		if len(j.crash.calls) > 0 {
			row.Called = callNames(j.crash.calls, namesOf(p.boundaries[:j.crash.boundary+1]))
			row.Window = ""
			for _, c := range j.crash.calls {
				row.Window = max(row.Window, c.window())
			}
		}
		return row, removeStore(j.path)
	}
	return Row{}, errors.Join(err, removeStore(j.path))
}

// removeStore removes the file of a store, and what lies beside it.
func removeStore(path string) error {
	files, err := filepath.Glob(path + "*")
	for _, f := range files {
		err = errors.Join(err, os.Remove(f))
	}
	return err
}
