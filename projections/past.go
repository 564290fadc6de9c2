package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// Log is what a Past reads: a store, of which nothing but its log is asked.
type Log interface {
	// Read runs fn on one snapshot, for a bounded time.
	Read(ctx context.Context, fn func(store.Reader) error) error
}

// Past is the state of a log at one of its positions. It answers every query of View, by the very code that answers it for
// the present: the production projections fold the log up to the position into tables of a scratch store, and the query
// runs on those (AS-1).
//
// What a query folds (AS-2):
//   - Head, Stream, After, StreamsOf and PositionAt nothing: they read the log;
//   - Unit the stream of the unit, and for a running attempt the log behind its claim, where the clock may have stepped;
//     Job the stream of the job and what Run needs, Run that of the run and, while it is open, those of its units, which it
//     counts; Units and Brought those of the units, RegistersOf those of the registers: some ten events a stream, whatever
//     the length of the log;
//   - every other query the log from its beginning. It is kept: the next query of any kind costs nothing more.
//
// Nothing is written to the log's own store, no snapshot of it is held longer than it takes to read a page (DUR-4), and
// nothing fires (AS-4): a fold reaches no port. A Past may be used by several goroutines, which take turns.
type Past struct {
	log      Log
	scratch  store.Store
	position events.Position
	at       events.Micros

	mu      sync.Mutex
	report  func(folded, of events.Position)
	tables  *Scratch                 // nil: none yet
	whole   bool                     // they hold the log up to through; else the streams in folded
	through events.Position          // how far the log was folded
	folded  map[events.StreamID]bool // what was folded besides
	known   map[extent]bool          // the same, so that the log is not asked again what an extent is
	tracing bool
}

// BeyondHeadError says that a position is not in the log yet.
type BeyondHeadError struct{ Position, Head events.Position }

func (e *BeyondHeadError) Error() string {
	return fmt.Sprintf("position %d is beyond the head of the log, which is %d", e.Position, e.Head)
}

// NewPast is the state of a log at a position: behind that event, before the next. 0 is the empty log. A position between
// two events of one transaction is a state that nobody has ever seen; View.PositionAt gives none of those.
//
// scratch is a store in which nothing has happened. It belongs to the Past from here on, unless there is an error. Errors:
// a *BeyondHeadError; those of the two stores.
func NewPast(ctx context.Context, log Log, scratch store.Store, p events.Position) (*Past, error) {
	if p < 0 {
		return nil, fmt.Errorf("position %d: the log begins at 1", p)
	}
	if err := requireEmpty(ctx, scratch); err != nil {
		return nil, err
	}
	past := &Past{log: log, scratch: scratch, position: p}
	err := log.Read(ctx, func(r store.Reader) error {
		head, _, err := r.Head()
		if err != nil || p == 0 {
			return err
		}
		if p > head {
			return &BeyondHeadError{p, head}
		}
		last, err := r.After(p-1, 1)
		if err == nil && len(last) == 1 {
			past.at = last[0].At
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return past, nil
}

// requireEmpty refuses a scratch store that has a log: its tables belong to somebody.
func requireEmpty(ctx context.Context, scratch store.Store) error {
	return scratch.Read(ctx, func(r store.Reader) error {
		head, _, err := r.Head()
		if err == nil && head > 0 {
			err = fmt.Errorf("the scratch store has a log of %d events: give an empty store", head)
		}
		return err
	})
}

// Position is where the Past stands, and At the time of the event there; zero for the empty log.
func (p *Past) Position() events.Position { return p.position }
func (p *Past) At() events.Micros         { return p.at }

// Report sets a function that is told how far the log is folded, after each page of a long fold. It must not use the Past.
func (p *Past) Report(each func(folded, of events.Position)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report = each
}

// Close closes the scratch store. Every later query gets store.ErrClosed.
func (p *Past) Close() error { return p.scratch.Close() }

// View runs fn on the past state. Unlike the view of an engine it is no snapshot that gets old: fn may take its time, and
// two calls see the same.
//
// Errors: what fn returned; ctx's, in the middle of a fold, which a later call goes on with; an *events.DecodeError for an
// event that this release cannot read.
func (p *Past) View(ctx context.Context, fn func(View) error) error {
	return fn(View{pastTx{p: p, ctx: ctx}})
}

// Read is View for those who query by themselves, in the form in which a store is read. A query that is none of View's folds
// the whole log.
func (p *Past) Read(ctx context.Context, fn func(store.Reader) error) error {
	return fn(pastTx{p: p, ctx: ctx})
}

// Log reads the log behind a position up to the past one, page by page.
func (p *Past) Log(ctx context.Context, after events.Position, each func(events.Envelope) error) error {
	end := errors.New("end")
	err := p.log.Read(ctx, func(r store.Reader) error {
		if after >= p.position {
			return nil
		}
		for env, err := range r.Log(ctx, after) {
			if err != nil {
				return err
			}
			if env.Position > p.position {
				return nil
			}
			if err := each(env); err != nil {
				return err
			}
			if env.Position == p.position {
				return end // without a look at the page behind
			}
		}
		return nil
	})
	if errors.Is(err, end) {
		return nil
	}
	return err
}

// pastTx reads the log up to the position, and tables that hold what was folded of it. Each query of them is a snapshot of
// its own, for the next may have something folded first; they agree because the position stands still.
type pastTx struct {
	p     *Past
	ctx   context.Context
	needs extent
}

func (t pastTx) narrow(x extent) store.ReadTx { t.needs = x; return t }

// Stream is the history of a stream up to the position.
func (t pastTx) Stream(id events.StreamID) (history []events.Envelope, err error) {
	err = t.p.log.Read(t.ctx, func(r store.Reader) error {
		history, err = pastReader{r, t.p.position}.Stream(id)
		return err
	})
	return history, err
}

// After is one page of the log up to the position.
func (t pastTx) After(p events.Position, limit int) (page []events.Envelope, err error) {
	err = t.p.log.Read(t.ctx, func(r store.Reader) error {
		page, err = pastReader{r, t.p.position}.After(p, limit)
		return err
	})
	return page, err
}

// Log is the log behind a position up to the past one.
func (t pastTx) Log(ctx context.Context, after events.Position) iter.Seq2[events.Envelope, error] {
	return func(yield func(events.Envelope, error) bool) {
		enough := errors.New("enough")
		err := t.p.Log(ctx, after, func(e events.Envelope) error {
			if !yield(e, nil) {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			yield(events.Envelope{}, err)
		}
	}
}

// Head is the position, and the time of the event there.
func (t pastTx) Head() (events.Position, events.Micros, error) { return t.p.position, t.p.at, nil }

// Query folds what the query needs, and runs it.
func (t pastTx) Query(scan func(store.Row) error, query string, args ...any) error {
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	if err := t.p.fold(t.ctx, t.needs); err != nil {
		return err
	}
	return t.p.scratch.Read(t.ctx, func(r store.Reader) error { return r.Query(scan, query, args...) })
}

// pastReader is a snapshot of the log without what lies behind a position.
type pastReader struct {
	store.Reader
	until events.Position
}

func (r pastReader) Stream(id events.StreamID) ([]events.Envelope, error) {
	history, err := r.Reader.Stream(id)
	return upTo(history, r.until), err
}

func (r pastReader) After(p events.Position, limit int) ([]events.Envelope, error) {
	if p = max(p, 0); p >= r.until {
		return nil, nil
	}
	page, err := r.Reader.After(p, min(limit, int(r.until-p)))
	return upTo(page, r.until), err
}

func upTo(list []events.Envelope, until events.Position) []events.Envelope {
	n, _ := slices.BinarySearchFunc(list, until+1, func(e events.Envelope, p events.Position) int { return cmp.Compare(e.Position, p) })
	return list[:n]
}

var errTraced = errors.New("the past is being traced, step by step: ask when that is over, or ask another past")

// fold brings the tables to where a query of an extent finds what it would find in those of a log that ends here.
func (p *Past) fold(ctx context.Context, x extent) error {
	switch {
	case p.tracing:
		return errTraced
	case x.of == wholeLog:
		return p.foldLog(ctx)
	case p.whole && p.through == p.position:
		return nil
	}
	return p.foldStreams(ctx, x)
}

// empty makes the tables, or makes them anew where they hold something else than what follows.
func (p *Past) empty(ctx context.Context) (err error) {
	p.whole, p.through = false, 0
	p.folded, p.known = map[events.StreamID]bool{}, map[extent]bool{}
	p.tables, err = NewScratch(ctx, p.scratch, pastTx{p: p, ctx: ctx}.Stream)
	return err
}

// foldLog folds the whole log up to the position, from where it was left the last time.
func (p *Past) foldLog(ctx context.Context) error {
	if !p.whole {
		if err := p.empty(ctx); err != nil {
			return err
		}
		p.whole = true
	}
	// Anew each time: after an error the old one may be ahead of the tables. It reads the streams that it has not folded.
	p.tables.folds = newFolder(pastTx{p: p, ctx: ctx}.Stream)
	for p.through < p.position {
		page, err := pastTx{p: p, ctx: ctx}.After(p.through, followPage)
		if err == nil && len(page) == 0 {
			err = fmt.Errorf("the log ends at %d", p.through)
		}
		if err == nil {
			err = p.tables.Apply(ctx, page)
		}
		if err != nil {
			return fmt.Errorf("fold the log up to %d: %w", p.position, err)
		}
		p.through = page[len(page)-1].Position
		if p.report != nil {
			p.report(p.through, p.position)
		}
	}
	return nil
}

// streamsPerRead bounds how many streams are read in one snapshot, and folded in one write.
const streamsPerRead = 64

// foldStreams folds the streams of an extent that are not in the tables yet.
func (p *Past) foldStreams(ctx context.Context, x extent) error {
	if p.tables == nil || p.whole {
		if err := p.empty(ctx); err != nil {
			return err
		}
	}
	if p.known[x] {
		return nil
	}
	groups, err := x.groups(pastTx{p: p, ctx: ctx})
	if err != nil {
		return err
	}
	groups = slices.DeleteFunc(groups, func(g []events.StreamID) bool { return p.folded[g[0]] })
	for some := range slices.Chunk(groups, streamsPerRead) {
		steps, err := p.readSteps(ctx, some)
		if err == nil {
			steps, err = p.withClockSteps(ctx, steps)
		}
		if err != nil {
			return err
		}
		if err := p.tables.apply(ctx, steps); err != nil {
			return fmt.Errorf("fold the streams of a query up to %d: %w", p.position, err)
		}
		for _, g := range some {
			for _, id := range g {
				p.folded[id] = true
			}
		}
	}
	p.known[x] = true
	return nil
}

// readSteps reads streams in one snapshot, and folds each group in the order of the log.
func (p *Past) readSteps(ctx context.Context, groups [][]events.StreamID) (steps []step, err error) {
	err = p.log.Read(ctx, func(r store.Reader) error {
		steps = nil
		for _, g := range groups {
			from := len(steps)
			for _, id := range g {
				history, err := pastReader{r, p.position}.Stream(id)
				if err != nil {
					return err
				}
				state := decider.Zero(id)
				for _, env := range history {
					after := decider.Evolve(state, env)
					steps = append(steps, step{env: env, before: state, after: after})
					state = after
				}
			}
			slices.SortFunc(steps[from:], func(a, b step) int { return cmp.Compare(a.env.Position, b.env.Position) })
		}
		return nil
	})
	return steps, err
}
