package towline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// Verification is the result of Verify. It is good if both lists are empty.
type Verification struct {
	Position    events.Position // of the last comparison: the log was folded up to here
	Violations  []check.Violation
	Differences []string // between the views and the folds of the log, one sentence each
	// NoViews: the store has no views of this release, and an engine that only reads makes none. So only the log was proved.
	NoViews bool
}

// OK reports that nothing was found.
func (v Verification) OK() bool { return len(v.Violations) == 0 && len(v.Differences) == 0 }

// verifyPage bounds what Verify holds and what it does in one snapshot or one write: rows of a table, things of a fold,
// events of the log.
const verifyPage = 1000

// Verify proves the views and the log (I-26): it folds the whole log twice, once by the projections into scratch, which
// must be an empty store, and once by package check, which shares no code with the rules. It compares the tables with
// both, what the engine keeps in memory with the tables, and the slots that it counts with those of package check.
//
// What stands still is not found (I-27): in a store that is used, work that is due and work that nobody will do look alike.
//
// The store is used meanwhile, so each page of a table is compared at a position of its own: that of the snapshot in
// which it was read, to which the folds are brought forward first. No snapshot is older than it takes to read a page
// (DUR-4). Time and scratch grow with the log; memory grows with what is open, and a little with each unit that has ended,
// which the checker remembers. Nothing is written to the log. After an error what was found until then is in the
// Verification.
//
// An engine that only reads keeps nothing in memory: there the slots are those that its views give.
func (e *Engine) Verify(ctx context.Context, scratch store.Store) (Verification, error) {
	return e.verify(ctx, scratch, verifyPage, func(events.Position) {})
}

// VerifyTelling is Verify, which tells how far it has come: up to which event the log was folded. That is most of the work.
func (e *Engine) VerifyTelling(ctx context.Context, scratch store.Store, tell func(at events.Position)) (Verification, error) {
	return e.verify(ctx, scratch, verifyPage, tell)
}

func (e *Engine) verify(ctx context.Context, scratch store.Store, page int, tell func(events.Position)) (Verification, error) {
	v := Verification{NoViews: e.reads != nil && e.reads.past != nil}
	checker := check.New(check.Options{Settings: e.checkSettings()})
	f, err := e.newFolds(ctx, scratch, checker)
	if err != nil {
		return v, err
	}
	f.tell = tell
	if !v.NoViews {
		v.Differences, err = f.compareTables(ctx, page)
	}
	if err == nil {
		err = f.toHead(ctx)
	}
	var memory inMemory
	if err == nil && !v.NoViews {
		memory, err = e.verifyHot(ctx)
	}
	if err == nil {
		err = f.forward(ctx, memory.position) // what was committed since
	}
	v.Position, v.Violations = f.at, checker.Finish()
	if err != nil {
		return v, err
	}
	differences, err := compareFolds(ctx, scratch, checker, page)
	v.Differences = append(v.Differences, differences...)
	if err != nil {
		return v, fmt.Errorf("compare the folds: %w", err)
	}
	if v.NoViews {
		return v, nil
	}
	v.Differences = append(v.Differences, memory.differences...)
	v.Differences = append(v.Differences, compareSlots(memory, checker, events.SpanOf(e.inForce.Load().Stale))...)
	return v, nil
}

// Rebuild makes every view anew from the log, in one transaction; until it commits the old ones serve (L-8). It publishes
// nothing and calls no provider. Its cost grows with the log, and nothing else is written meanwhile.
func (e *Engine) Rebuild(ctx context.Context) error {
	err := e.store.Write(ctx, func(tx store.Tx) error { return projections.Rebuild(tx) })
	if err != nil {
		return fmt.Errorf("rebuild the views: %w", err)
	}
	return nil
}

func (e *Engine) checkSettings() check.Settings {
	return check.Settings{
		CapBucket: e.inForce.Load().CapBucket, CapBuckets: e.inForce.Load().CapBuckets, CapEngine: e.inForce.Load().CapEngine,
		Stale: events.SpanOf(e.inForce.Load().Stale), NeverStartedAfter: events.SpanOf(e.inForce.Load().NeverStartedAfter),
		MaxAttempts: e.inForce.Load().MaxAttempts, BackoffBase: events.SpanOf(e.inForce.Load().BackoffBase), BackoffCap: events.SpanOf(e.inForce.Load().BackoffCap),
		MaxDeferrals: e.inForce.Load().RateLimitMaxDeferrals, MaxWait: events.SpanOf(e.inForce.Load().RateLimitMaxWait),
		PostRedriveAfter: events.SpanOf(e.inForce.Load().PostSyncRedriveAfter),
		IdempotencyTTL:   events.SpanOf(e.inForce.Load().IdempotencyTTL), MaxUnits: e.inForce.Load().MaxUnits, StepBound: e.inForce.Load().clockBound(),
	}
}

// folds are the two folds of the log, both at the same position.
type folds struct {
	e       *Engine
	scratch store.Store
	tables  *projections.Scratch
	checker *check.Checker
	at      events.Position
	tell    func(at events.Position)
}

func (e *Engine) newFolds(ctx context.Context, scratch store.Store, checker *check.Checker) (*folds, error) {
	tables, err := projections.NewScratch(ctx, scratch, func(id events.StreamID) (history []events.Envelope, err error) {
		err = e.store.Read(ctx, func(r store.Reader) error {
			history, err = r.Stream(id)
			return err
		})
		return history, err
	})
	return &folds{e: e, scratch: scratch, tables: tables, checker: checker, tell: func(events.Position) {}}, err
}

// forward brings both folds to a position, which is that of an event. It reads the log in pages without a snapshot, so
// a long log is no long read.
func (f *folds) forward(ctx context.Context, to events.Position) error {
	if f.at >= to {
		return nil
	}
	var page []events.Envelope
	var refused error // by a table, whose constraints state the invariants again; the checker says which event is wrong
	flush := func() {
		if refused == nil {
			refused = f.tables.Apply(ctx, page)
		}
		page = page[:0]
		f.tell(f.at)
	}
	enough := errors.New("enough")
	err := f.e.Log(ctx, f.at, func(env events.Envelope) error {
		f.checker.Apply(env)
		f.at = env.Position
		if page = append(page, env); len(page) == verifyPage {
			flush()
		}
		if f.at >= to {
			return enough
		}
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		return fmt.Errorf("fold the log: %w", err)
	}
	if flush(); refused != nil {
		return fmt.Errorf("fold the log into tables: %w", refused)
	}
	return nil
}

// compareTables compares every table, until one cannot be read.
func (f *folds) compareTables(ctx context.Context, page int) (differences []string, err error) {
	for _, t := range projections.Tables() {
		difference, err := f.compareTable(ctx, t, page)
		if difference != "" {
			differences = append(differences, difference)
		}
		if err != nil {
			return differences, err
		}
	}
	return differences, nil
}

// compareTable compares a table page by page, and describes the first row in which it differs; empty: none. Rows that are
// added meanwhile are compared, too: it comes to an end because folding an event is less work than deciding it was.
func (f *folds) compareTable(ctx context.Context, t projections.Table, page int) (string, error) {
	first, differing := "", 0
	var after projections.RowKey
	for {
		live, err := f.livePage(ctx, t, after, page)
		if err != nil {
			return first, err
		}
		err = f.scratch.Read(ctx, func(r store.Reader) error {
			folded, err := projections.ReadPage(r, t, after, page)
			if err != nil {
				return err
			}
			var found []projections.Difference
			found, after = projections.Compare(live, folded)
			if differing += len(found); first == "" && len(found) > 0 {
				first, err = found[0].Explain(r, t)
			}
			return err
		})
		if err != nil {
			return first, fmt.Errorf("compare with the fold: %w", err)
		}
		if after == nil {
			break
		}
	}
	if differing > 1 {
		first += fmt.Sprintf("; it is the first of %d that differ", differing)
	}
	return first, nil
}

// livePage reads a page of a table, and brings the folds to the position at which it was read.
func (f *folds) livePage(ctx context.Context, t projections.Table, after projections.RowKey, page int) (live projections.Page, err error) {
	var applied events.Position // an application's own transaction leaves the tables behind the log until the next of ours
	err = f.e.store.Read(ctx, func(r store.Reader) error {
		if applied, err = projections.Position(r); err == nil {
			live, err = projections.ReadPage(r, t, after, page)
		}
		return err
	})
	if err != nil {
		return live, fmt.Errorf("read the views: %w", err)
	}
	return live, f.forward(ctx, applied)
}

// toHead brings the folds to the end of the log, so that what the tables have not applied is proved as well.
func (f *folds) toHead(ctx context.Context) error {
	var head events.Position
	err := f.e.store.Read(ctx, func(r store.Reader) (err error) {
		head, _, err = r.Head()
		return err
	})
	if err != nil {
		return fmt.Errorf("read the head of the log: %w", err)
	}
	return f.forward(ctx, head)
}

// compareFolds holds the rows of open things, and the counts of ended ones, against the fold of check: the two folds are
// at the same position, and nobody writes to the scratch store. Each snapshot of it sees one run, all watermarks, or a page
// of something else.
func compareFolds(ctx context.Context, scratch store.Store, c *check.Checker, page int) ([]string, error) {
	var out []string
	differ := func(what string, row, fold any) {
		if row != fold {
			out = append(out, fmt.Sprintf("%s: the view has %v, the checker's fold %v", what, row, fold))
		}
	}
	view := func(fn func(projections.View) error) error {
		return scratch.Read(ctx, func(r store.Reader) error { return fn(projections.NewView(r)) })
	}
	for _, want := range c.Runs() {
		err := view(func(v projections.View) error { return compareRun(v, want, differ) })
		if err != nil {
			return out, err
		}
		if want.Status.Terminal() {
			continue
		}
		for units := range slices.Chunk(c.Units(want.ID), page) {
			err := view(func(v projections.View) error { return compareUnits(v, want.ID, units, differ) })
			if err != nil {
				return out, err
			}
		}
	}
	for registers := range slices.Chunk(c.Registers(), page) {
		err := view(func(v projections.View) error { return compareRegisters(v, registers, differ) })
		if err != nil {
			return out, err
		}
	}
	for messages := range slices.Chunk(c.Messages(), page) {
		err := view(func(v projections.View) error { return compareMessages(v, messages, differ) })
		if err != nil {
			return out, err
		}
	}
	for schedules := range slices.Chunk(c.Schedules(), page) {
		err := view(func(v projections.View) error { return compareSchedules(v, schedules, differ) })
		if err != nil {
			return out, err
		}
	}
	for occurrences := range slices.Chunk(c.Occurrences(), page) {
		err := view(func(v projections.View) error { return compareOccurrences(v, occurrences, differ) })
		if err != nil {
			return out, err
		}
	}
	for jobs := range slices.Chunk(c.Jobs(), max(page/2, 1)) { // each is read with its run
		err := view(func(v projections.View) error { return compareJobs(v, jobs, differ) })
		if err != nil {
			return out, err
		}
	}
	return out, view(func(v projections.View) error { return compareWatermarks(v, c.Watermarks(), differ) })
}

func compareRun(v projections.View, want check.Run, differ func(string, any, any)) error {
	run, ok, err := v.Run(want.ID)
	if err != nil {
		return err
	}
	name := "run " + want.ID.String()
	differ(name+" exists", ok, true)
	differ(name+" retries", run.RetryOf, want.RetryOf)
	n := want.Units
	differ(name+" counts", [4]int{run.Total, run.Succeeded, run.Failed, run.Cancelled}, [4]int{want.Total, n.Succeeded, n.Failed, n.Cancelled})
	if want.Status.Terminal() {
		differ(name+" status", run.Status, want.Status)
		differ(name+" effects", string(run.PostSync.Effects), want.Effects())
	}
	return nil
}

func compareUnits(v projections.View, run events.RunID, want []check.Unit, differ func(string, any, any)) error {
	for _, w := range want {
		u, _, err := v.Unit(w.ID)
		if err != nil {
			return err
		}
		name := "unit " + w.ID.String()
		differ(name+" run", u.Run, run)
		differ(name+" status", u.Status, w.Status)
		differ(name+" dispatch and attempt", [2]int{u.Dispatch, u.Attempt}, [2]int{w.Dispatches, w.Attempt})
		differ(name+" lease", events.MicrosOf(u.LeaseExpiresAt), max(w.LeaseExpiresAt, w.GraceUntil))
		differ(name+" available_at", events.MicrosOf(u.AvailableAt), w.AvailableAt)
	}
	return nil
}

func compareRegisters(v projections.View, want []check.Register, differ func(string, any, any)) error {
	for _, w := range want {
		rows, err := v.RegistersOf(w.Owner)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(rows, func(r projections.Register) bool { return r.Kind == w.Kind })
		name := "register " + events.RunID(w.Owner).String() + "/" + string(w.Kind)
		differ(name+" exists", i >= 0, true)
		if i < 0 {
			continue
		}
		r := rows[i]
		differ(name+" state", string(r.Status), string(w.State))
		differ(name+" numbers", [3]int{r.Current, r.Closed, r.Next}, [3]int{w.Current, w.Closed, w.Next})
		differ(name+" attempts", r.Attempts, w.Attempts)
		differ(name+" available_at", events.MicrosOf(r.AvailableAt), w.AvailableAt)
	}
	return nil
}

func compareMessages(v projections.View, want []check.Message, differ func(string, any, any)) error {
	for _, w := range want {
		row, ok, err := v.MessageRow(w.ID)
		if err != nil {
			return err
		}
		name := "message " + w.ID.String()
		differ(name+" exists", ok, true)
		differ(name+" topic", row.Topic, w.Topic)
		differ(name+" status", string(row.Status), string(w.Status))
	}
	return nil
}

func compareSchedules(v projections.View, want []check.Schedule, differ func(string, any, any)) error {
	for _, w := range want {
		row, ok, err := v.Schedule(w.Name)
		if err != nil {
			return err
		}
		name := "schedule " + w.Name
		differ(name+" exists", ok, true)
		differ(name+" is paused and removed", [2]bool{row.Paused, row.Removed}, [2]bool{w.Paused, w.Removed})
		differ(name+" last run", row.LastRun, w.LastRun)
		differ(name+" failures", row.Failures, w.Failures)
	}
	return nil
}

func compareOccurrences(v projections.View, want []check.Occurrence, differ func(string, any, any)) error {
	for _, w := range want {
		row, ok, err := v.Occurrence(w.Schedule, w.Civil)
		if err != nil {
			return err
		}
		name := "occurrence " + events.OccurrenceName(w.Schedule, w.Civil)
		differ(name+" exists", ok, true)
		differ(name+" state", string(row.Status), w.Status)
		differ(name+" instant", events.MicrosOf(row.Instant), w.Instant)
		differ(name+" run", row.Run, w.Run)
	}
	return nil
}

func compareJobs(v projections.View, want []check.Job, differ func(string, any, any)) error {
	for _, w := range want {
		j, ok, err := v.Job(w.ID)
		if err != nil {
			return err
		}
		name := "job " + w.ID.String()
		differ(name+" exists", ok, true)
		differ(name+" run", j.Result.Run, w.Run)
		differ(name+" sync and key", [2]string{j.Sync, j.Key}, [2]string{w.Sync, w.IdempotencyKey})
		differ(name+" closed_at", events.MicrosOf(j.ClosedAt), w.ClosedAt)
		if w.ClosedAt != 0 {
			differ(name+" status", j.Status, w.Status)
		}
	}
	return nil
}

func compareWatermarks(v projections.View, want []check.Watermark, differ func(string, any, any)) error {
	rows, err := v.Watermarks()
	if err != nil {
		return err
	}
	differ("watermarks", len(rows), len(want))
	for i := range min(len(rows), len(want)) {
		r := rows[i]
		differ("watermark", check.Watermark{Source: r.Source, Dataset: r.Dataset, At: events.MicrosOf(r.At), Unit: r.Unit}, want[i])
	}
	return nil
}

// inMemory is what the writer keeps in memory, at one position.
type inMemory struct {
	position    events.Position
	now         events.Micros
	inUse       projections.InUse
	differences []string // from the tables
}

// verifyHot compares what the writer keeps in memory with the tables. Without a writer it is what a start would read.
func (e *Engine) verifyHot(ctx context.Context) (m inMemory, err error) {
	if e.reads != nil {
		err = e.reads.ask(ctx, e, func(tx *Tx) error {
			m = inMemory{position: tx.hot.Position(), now: tx.now, inUse: tx.hot.InUse(tx.now)}
			return nil
		})
		return m, err
	}
	err = e.Transact(ctx, "", func(tx *Tx) error {
		m = inMemory{position: tx.hot.Position(), now: tx.now, inUse: tx.hot.InUse(tx.now)}
		loaded, err := projections.LoadHot(tx.tx, e.mem.knobs())
		if err != nil {
			return err
		}
		kept, read := tx.hot.Dump(tx.now), loaded.Dump(tx.now)
		for _, line := range kept {
			if _, found := slices.BinarySearch(read, line); !found {
				m.differences = append(m.differences, "memory holds, the tables do not: "+line)
			}
		}
		for _, line := range read {
			if _, found := slices.BinarySearch(kept, line); !found {
				m.differences = append(m.differences, "the tables hold, memory does not: "+line)
			}
		}
		return nil
	})
	return m, err
}

// compareSlots holds the counts by which the writer decides (B-1) against those of check, which stands at or behind their
// position; only what applications have appended lies between.
func compareSlots(m inMemory, c *check.Checker, stale events.Span) (out []string) {
	differ := func(what any, counted, folded int) {
		if counted != folded {
			out = append(out, fmt.Sprintf("slots in use of %v: memory counts %d, the checker's fold %d", what, counted, folded))
		}
	}
	want := c.Slots(m.now, stale)
	differ("the engine", m.inUse.Engine, want.Engine)
	for _, r := range want.Runs {
		differ(r.Run, m.inUse.Runs[r.Run], r.Used)
	}
	for _, b := range want.Buckets {
		differ(b.Bucket, m.inUse.Buckets[b.Bucket], b.Used)
	}
	if len(m.inUse.Runs) != len(want.Runs) || len(m.inUse.Buckets) != len(want.Buckets) {
		out = append(out, fmt.Sprintf("slots are in use of %d runs and %d buckets in memory, and of %d and %d in the checker's fold",
			len(m.inUse.Runs), len(m.inUse.Buckets), len(want.Runs), len(want.Buckets)))
	}
	return out
}
