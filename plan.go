package towline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// RunSpec is a request for a run (P-1).
type RunSpec struct {
	Sync     string
	Mode     events.Mode // Incremental (zero), Backfill or FullResync
	Sources  []string    // nil: all that are enabled; empty but not nil: none
	Datasets []string    // the same
	// Since (inclusive) and Before (exclusive) are the range of a Backfill, which needs both; zero: not given. A dataset with
	// calendar windows is planned in whole UTC periods that touch the range.
	Since, Before time.Time
	Key           string // idempotency key, its scope is the sync; empty: none
	By            Actor  // zero: the node itself
}

// Planned is an accepted request.
type Planned struct {
	Job      events.JobID
	Run      events.RunID
	Units    int
	LeftOut  []events.LeftOut // sources that could not be listed, or are paused, and why (P-12, X-4)
	Replayed bool             // the key was known: this is the first job and run, and nothing was written
}

// Unavailable is the reason of a source that is left out because it is gone (P-12).
const Unavailable = "unavailable"

// Plan accepts a request: its job, its run, all its units and the first wakeup are committed together or not at all
// (R-1, P-6). It publishes nothing; the commit nudges the relay.
//
// The same key with the same request returns the first run, for api.idempotency_ttl. A request that selects nothing is
// accepted, too: its run has no units and ends as failed, with the reason no_sync_units_planned (P-5). Errors, each of which has written nothing: *RequestError
// (which is ErrInvalid, ErrNotFound, or ErrSourcePaused if every source that was asked for is paused), *PlanTooLargeError, *RunExistsError, ErrKeyReused, *DiskBudgetError, ErrUnavailable.
func (e *Engine) Plan(ctx context.Context, spec RunSpec) (Planned, error) {
	req, listed, known, err := e.asked(ctx, spec)
	if err != nil || known.Replayed {
		return known, err
	}
	var planned Planned
	err = e.Transact(ctx, spec.By.Name, func(tx *Tx) (err error) {
		planned, err = tx.plan(req, listed)
		return err
	})
	return planned, err
}

// asked is what comes before the transaction that decides a request: it is checked, and its sources are listed (P-12). A key that
// is known needs no listing.
func (e *Engine) asked(ctx context.Context, spec RunSpec) (req request, listed listing, known Planned, err error) {
	if req, err = e.request(spec); err != nil {
		return req, listed, known, err
	}
	if spec.Key != "" {
		known, _, err = e.replay(ctx, req)
		if err != nil || known.Replayed {
			return req, listed, known, err
		}
	}
	if req, err = e.withoutPaused(ctx, req); err != nil { // what is paused is not listed either
		return req, listed, known, err
	}
	listed, err = e.list(ctx, req)
	return req, listed, known, err
}

// request is a RunSpec that has been checked against the catalogue.
type request struct {
	spec        RunSpec
	sync        Sync
	sources     []string
	datasets    []Dataset
	fingerprint string
	leftOut     []events.LeftOut // paused sources, of a request that names none
	retryOf     events.RunID     // zero: it is no retry
	occurrence  string           // of a schedule (events.OccurrenceName); empty: somebody has asked
}

func (r request) trigger() events.Trigger {
	switch {
	case !r.retryOf.IsZero():
		return events.TriggerRetry
	case r.occurrence != "":
		return events.TriggerSchedule
	}
	return r.spec.trigger()
}

func (e *Engine) request(spec RunSpec) (request, error) {
	sync, ok := e.syncs.syncs[spec.Sync]
	if !ok {
		return request{}, &RequestError{Field: "sync", Problem: fmt.Sprintf("there is no sync %q", spec.Sync), Fix: oneOf(slices.Sorted(maps.Keys(e.syncs.syncs))), Kind: ErrNotFound}
	}
	if spec.Mode == "" {
		spec.Mode = Incremental
	}
	if err := spec.check(); err != nil {
		return request{}, err
	}
	var err error
	if spec.By, err = e.asker(spec.By); err != nil {
		return request{}, err
	}
	req := request{spec: spec, sync: sync, sources: sync.Sources, datasets: sync.Datasets}
	if spec.Sources != nil {
		req.sources = spec.Sources
		for i, s := range spec.Sources {
			if !slices.Contains(sync.Sources, s) {
				return req, &RequestError{Field: "sources", Problem: fmt.Sprintf("sync %q has no source %q", spec.Sync, s), Fix: oneOf(sync.Sources), Kind: ErrNotFound}
			}
			if slices.Contains(spec.Sources[:i], s) {
				return req, invalid("sources", fmt.Sprintf("%q stands twice", s), "name it once")
			}
		}
	}
	if spec.Datasets != nil {
		req.datasets = nil
		for i, name := range spec.Datasets {
			j := slices.IndexFunc(sync.Datasets, func(d Dataset) bool { return d.Name == name })
			if j < 0 {
				return req, invalid("datasets", fmt.Sprintf("sync %q has no dataset %q", spec.Sync, name), oneOf(datasetNames(sync.Datasets)))
			}
			if slices.Contains(spec.Datasets[:i], name) {
				return req, invalid("datasets", fmt.Sprintf("%q stands twice", name), "name it once")
			}
			req.datasets = append(req.datasets, sync.Datasets[j])
		}
	}
	req.fingerprint = spec.fingerprint()
	return req, nil
}

// oneOf is the fix of a name that is not configured. It lists what is, unless that would be no help.
func oneOf(names []string) string {
	const most = 10
	if len(names) == 0 || len(names) > most {
		return ""
	}
	return "use one of " + strings.Join(names, ", ")
}

func datasetNames(datasets []Dataset) []string {
	names := make([]string, len(datasets))
	for i, d := range datasets {
		names[i] = d.Name
	}
	return names
}

func invalid(field, problem, fix string) error {
	return &RequestError{Field: field, Problem: problem, Fix: fix, Kind: ErrInvalid}
}

// Bounds of what a caller writes into the log.
const (
	maxKeyBytes   = 200 // of an idempotency key
	maxActorBytes = 200
)

func (s RunSpec) check() error {
	farthest := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	for _, b := range []struct {
		field string
		t     time.Time
	}{{"since", s.Since}, {"before", s.Before}} {
		if !b.t.IsZero() && (b.t.Before(time.Unix(0, 0)) || b.t.After(farthest)) {
			return invalid(b.field, b.t.UTC().Format(time.RFC3339)+" is out of range", "give a time from 1970 to 9999")
		}
	}
	switch s.Mode {
	case Incremental, FullResync:
		if !s.Since.IsZero() {
			return invalid("since", "only a backfill has a start", "leave it out, or use mode backfill")
		}
	case Backfill:
		if s.Since.IsZero() || s.Before.IsZero() {
			return invalid("since", "a backfill needs both ends of its range", "give since and before")
		}
		if !s.Since.Before(s.Before) {
			return invalid("since", "it is not earlier than before", "swap the two, or widen the range")
		}
	default:
		return invalid("mode", fmt.Sprintf("%q is no mode", s.Mode), "use incremental, backfill or full_resync")
	}
	return checkText("key", s.Key, maxKeyBytes)
}

// checkText refuses a text that the log would not give back as it was: JSON replaces what is no UTF-8, so a view and
// its rebuild would differ (I-26).
func checkText(field, text string, most int) error {
	switch {
	case len(text) > most:
		return invalid(field, fmt.Sprintf("%d bytes are too many", len(text)), fmt.Sprintf("use at most %d", most))
	case !utf8.ValidString(text):
		return invalid(field, "it is not valid UTF-8", "give text in UTF-8")
	}
	return nil
}

// fingerprint is taken over a canonical form: the order of names does not matter, nil and empty do (P-11).
func (s RunSpec) fingerprint() string {
	sorted := func(l []string) []string {
		l = slices.Clone(l)
		slices.Sort(l)
		return l
	}
	b, err := json.Marshal(struct {
		Sync, Mode        string
		Sources, Datasets []string
		Since, Before     events.Micros
	}{s.Sync, string(s.Mode), sorted(s.Sources), sorted(s.Datasets), events.MicrosOf(s.Since), events.MicrosOf(s.Before)})
	if err != nil {
		panic(fmt.Sprintf("towline: encode request: %v", err))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

func (s RunSpec) selection() events.Selection {
	return events.Selection{
		Sources: s.Sources, Datasets: s.Datasets, Since: events.MicrosOf(s.Since), Before: events.MicrosOf(s.Before),
	}
}

func (s RunSpec) trigger() events.Trigger {
	if s.Mode == Backfill {
		return events.TriggerBackfill
	}
	return events.TriggerManual
}

// replay looks a key up before anything is listed. The transaction of the plan looks again.
func (e *Engine) replay(ctx context.Context, req request) (known Planned, found bool, err error) {
	err = e.View(ctx, func(v projections.View) (err error) {
		known, found, err = e.keyed(v, req, e.Now())
		return err
	})
	return known, found, err
}

func (e *Engine) keyed(v projections.View, req request, now events.Micros) (Planned, bool, error) {
	if req.spec.Key == "" {
		return Planned{}, false, nil
	}
	since := now.Add(-events.SpanOf(e.inForce.Load().IdempotencyTTL))
	job, run, fingerprint, found, err := v.KeyedJob(req.sync.Name, req.spec.Key, since)
	if err != nil || !found {
		return Planned{}, false, err
	}
	if fingerprint != req.fingerprint {
		return Planned{}, false, fmt.Errorf("key %q of sync %q: %w, run %s: use a new key, or repeat that request", req.spec.Key, req.sync.Name, ErrKeyReused, run)
	}
	row, ok, err := v.Run(run)
	if err != nil || !ok {
		return Planned{}, false, err
	}
	return Planned{Job: job, Run: run, Units: row.Total, LeftOut: row.LeftOut, Replayed: true}, true, nil
}

// listing is what providers listed before the plan (P-12).
type listing struct {
	sources []string // those that could be listed
	leftOut []events.LeftOut
	periods map[[2]string][]decider.Period
}

func (e *Engine) list(ctx context.Context, req request) (listing, error) {
	l := listing{periods: map[[2]string][]decider.Period{}, leftOut: slices.Clone(req.leftOut)}
	for _, source := range req.sources {
		reason, err := e.listSource(ctx, req, source, l.periods)
		if err != nil {
			return l, err
		}
		if reason == "" {
			l.sources = append(l.sources, source)
			continue
		}
		l.leftOut = append(l.leftOut, events.LeftOut{Source: source, Reason: reason})
	}
	if unlisted := l.leftOut[len(req.leftOut):]; len(l.sources) == 0 && len(unlisted) > 0 {
		first := unlisted[0]
		return l, invalid("sources", fmt.Sprintf("no source could be listed, %q is %s", first.Source, first.Reason), "")
	}
	return l, nil
}

// listSource lists the calendar datasets of a source. The reason says why the source must be left out; the log says more.
func (e *Engine) listSource(ctx context.Context, req request, source string, into map[[2]string][]decider.Period) (reason string, err error) {
	if e.lister == nil {
		return "", nil
	}
	for _, d := range req.datasets {
		if !d.listed() {
			continue
		}
		periods, listed, err := e.periods(ctx, req.sync.Name, source, d)
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if err != nil {
			e.logger.Warn("source left out of a plan", "sync", req.sync.Name, "source", source, "dataset", d.Name, "error", err)
			return leftOutReason(err), nil
		}
		if listed {
			into[[2]string{source, d.Name}] = periods
		}
	}
	return "", nil
}

// periods asks the lister, and believes only what can be planned. A panic in it is an error of the provider, like any
// other.
func (e *Engine) periods(ctx context.Context, sync, source string, d Dataset) (periods []decider.Period, listed bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	periods, listed, err = e.lister.Periods(ctx, sync, source, d.Name, d.Window)
	if err == nil && listed {
		err = checkPeriods(d.Window, periods)
	}
	return periods, listed, err
}

func checkPeriods(c events.Calendar, periods []decider.Period) error {
	seen := map[time.Time]bool{}
	for _, p := range periods {
		w := events.NewWindow(p.Window.From, p.Window.To)
		switch {
		case w != decider.PeriodAt(c, w.From):
			return fmt.Errorf("period %s is not a whole %s of UTC", w.Name(), c)
		case seen[w.From]:
			return fmt.Errorf("period %s is listed twice", w.Name())
		}
		seen[w.From] = true
		if err := checkText("fingerprint", p.Fingerprint, events.MaxFingerprintBytes); err != nil {
			return fmt.Errorf("period %s: %w", w.Name(), err)
		}
	}
	return nil
}

func leftOutReason(err error) string {
	var failed *ListError
	switch {
	case !errors.As(err, &failed):
		return string(events.ProviderError)
	case failed.Category == events.NotFound:
		return Unavailable
	}
	return string(failed.Category)
}

// plan decides the request in one transaction: the job first, so that a refusal of any step leaves no job either.
func (t *Tx) plan(req request, l listing) (Planned, error) {
	if known, found, err := t.admit(req); err != nil || found {
		return known, err
	}
	units, leftOut, err := t.unitsOf(req, l)
	if err != nil {
		return Planned{}, err
	}
	return t.accept(req, units, leftOut)
}

// unitsOf are those of a request that was admitted, and the sources that they leave out.
func (t *Tx) unitsOf(req request, l listing) ([]events.UnitPlanned, []events.LeftOut, error) {
	l, err := t.leavePaused(req, l)
	if err != nil {
		return nil, nil, err
	}
	units, err := t.decompose(req, l)
	return units, l.leftOut, err
}

// admit answers a request whose key is known, and refuses one whose sync has a run open and allows no second.
func (t *Tx) admit(req request) (known Planned, found bool, err error) {
	if known, found, err = t.e.keyed(t.View(), req, t.now); err != nil || found {
		return known, found, err
	}
	if req.sync.OneActiveRun {
		open, exists, err := t.View().OpenRunOf(req.sync.Name)
		if err == nil && exists {
			err = &RunExistsError{Sync: req.sync.Name, Run: open}
		}
		if err != nil {
			return Planned{}, false, err
		}
	}
	return Planned{}, false, t.hasRoom(1) // before all its units are made
}

// accept opens the job and the run with its units.
func (t *Tx) accept(req request, units []events.UnitPlanned, leftOut []events.LeftOut) (Planned, error) {
	p := Planned{
		Job: events.JobID(t.e.mem.newULID(t.now)), Run: events.RunID(t.e.mem.newULID(t.now)), Units: len(units), LeftOut: leftOut,
	}
	return t.acceptAs(p, req, units)
}

// acceptAs is accept under ids that are known already.
func (t *Tx) acceptAs(p Planned, req request, units []events.UnitPlanned) (Planned, error) {
	if err := t.hasRoom(len(units)); err != nil {
		return Planned{}, err
	}
	t.knowNew(p.Run)
	if _, err := t.Execute(t.planCommands(req, p, units)...); err != nil {
		return Planned{}, err
	}
	return p, nil
}

// knowNew keeps the registers of a run that is being planned as what they surely are: never armed. Each is asked for
// soon, and none of them needs a read.
func (t *Tx) knowNew(run events.RunID) {
	for _, d := range decider.Deliveries {
		id := events.RegisterStream(run, d.Kind)
		t.touched = append(t.touched, id)
		t.keep(id, fold{state: decider.Zero(id)})
	}
}

func (t *Tx) planCommands(req request, p Planned, units []events.UnitPlanned) []decider.Command {
	spec := req.spec
	cmds := make([]decider.Command, 0, len(units)+4)
	cmds = append(cmds,
		decider.OpenJob{Job: p.Job, Opened: events.JobOpened{
			Trigger: req.trigger(), Actor: spec.By.Name, Reason: spec.By.Reason, Sync: spec.Sync, IdempotencyKey: spec.Key,
			RequestFingerprint: req.fingerprint,
		}},
		decider.PlanRun{Run: p.Run, Plan: events.RunPlanned{
			Job: p.Job, Sync: spec.Sync, TriggeredBy: req.trigger(), Occurrence: req.occurrence, RetryOf: req.retryOf, Mode: spec.Mode, Selection: spec.selection(),
			LeftOut: p.LeftOut, TotalUnits: len(units), Policy: req.sync.policy(t.e.Knobs()),
		}})
	for _, u := range units {
		u.Run = p.Run
		cmds = append(cmds, decider.PlanUnit{Unit: events.UnitID(t.e.mem.newULID(t.now)), Plan: u})
	}
	if len(units) > 0 {
		cmds = append(cmds, decider.ArmWakeup{
			Owner: p.Run, Kind: events.KindDispatch, At: t.now, Cause: events.ArmPlanned, New: true,
		})
	}
	return append(cmds, decider.LinkJob{Job: p.Job, Run: p.Run})
}

func (t *Tx) decompose(req request, l listing) ([]events.UnitPlanned, error) {
	var fault error
	in := decider.PlanInput{
		Now: t.worldTime().Time(), Mode: req.spec.Mode, Since: req.spec.Since, Before: req.spec.Before, Provider: req.sync.Provider,
		Sources: l.sources, Knobs: t.e.inForce.Load().windows(), MaxUnits: t.e.inForce.Load().MaxUnits,
		Watermark: func(source, dataset string) time.Time {
			for _, w := range t.hot.Watermarks(source, []string{dataset}) {
				return w.At.Time()
			}
			return time.Time{}
		},
		Listed: func(source, dataset string) ([]decider.Period, bool) {
			periods, ok := l.periods[[2]string{source, dataset}]
			return periods, ok
		},
		Covered: func(source, dataset string) []decider.Period {
			periods, err := t.View().Covered(source, dataset)
			fault = errors.Join(fault, err)
			return periods
		},
	}
	for _, d := range req.datasets {
		in.Datasets = append(in.Datasets, d.forPlan())
	}
	units, err := decider.Decompose(in)
	return units, errors.Join(fault, err)
}
