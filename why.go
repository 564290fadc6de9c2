package towline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// Why is the answer to why a thing is no further (spec 11.1).
type Why struct {
	Of     string         `json:"of"`     // run, unit, job, message or register
	ID     string         `json:"id"`     // of a unit its alias
	Status string         `json:"status"` // of a job that of its run; of a message its own (J-3)
	Reason decider.Reason `json:"reason"` // zero: it waits for nothing
	// Counts says of a run how many of its open units wait for what, the leading reason first.
	Counts []decider.ReasonCount `json:"counts,omitempty"`
	// Evidence is the newest event of what is waited for; zero if nothing is.
	Evidence Evidence `json:"evidence,omitzero"`
	// Remark is what the process that was asked knows beside the reason, without the log: stalled, of a running unit whose
	// provider is silent. Empty: nothing.
	Remark string `json:"remark,omitempty"`
}

// Evidence is an event that shows a reason.
type Evidence struct {
	Position events.Position `json:"position"`
	Stream   string          `json:"stream"`
	At       time.Time       `json:"at"`
	Text     string          `json:"text"` // without tokens
}

// whyJSON is Why as it is written: its times are UTC text, that of Reason too, which counts microseconds.
type whyJSON struct {
	Of       string                `json:"of"`
	ID       string                `json:"id"`
	Status   string                `json:"status"`
	Reason   reasonJSON            `json:"reason"`
	Counts   []decider.ReasonCount `json:"counts,omitempty"`
	Evidence Evidence              `json:"evidence,omitzero"`
	Remark   string                `json:"remark,omitempty"`
}

type reasonJSON struct {
	decider.Reason
	Since time.Time `json:"since,omitzero"` // these two stand for those of Reason
	Next  time.Time `json:"next,omitzero"`
}

// MarshalJSON writes times as UTC text.
func (w Why) MarshalJSON() ([]byte, error) {
	return json.Marshal(whyJSON{
		Of: w.Of, ID: w.ID, Status: w.Status, Counts: w.Counts, Evidence: w.Evidence, Remark: w.Remark,
		Reason: reasonJSON{Reason: w.Reason, Since: w.Reason.Since.Time(), Next: w.Reason.Next.Time()},
	})
}

// UnmarshalJSON reads what MarshalJSON has written.
func (w *Why) UnmarshalJSON(b []byte) error {
	var j whyJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*w = Why{Of: j.Of, ID: j.ID, Status: j.Status, Reason: j.Reason.Reason, Counts: j.Counts, Evidence: j.Evidence, Remark: j.Remark}
	w.Reason.Since, w.Reason.Next = events.MicrosOf(j.Reason.Since), events.MicrosOf(j.Reason.Next)
	return nil
}

// Why says why a run, a unit, a job, a message or a register is no further: exactly one reason, what shows it, and by when
// the answer will be another one. Of an open run the reason of its units that leads, and how many wait for each; of one
// that has ended, and of a job, what its post_sync waits for. A message that is handled or rejected, or that a broker has,
// waits for nothing.
//
// id is a ULID, the alias of a unit of an open run as views show it, or outbox/OWNER/KIND, which is what RegisterKey.String
// prints. The answer is that of this node, whose configuration and caps it knows. It is asked in the writer, behind what is
// being decided, and writes nothing. Errors: *RequestError (ErrNotFound or ErrInvalid), ErrUnavailable, ErrStopped.
func (e *Engine) Why(ctx context.Context, id string) (Why, error) {
	var why Why
	err := e.ask(ctx, func(tx *Tx) (err error) {
		why, err = tx.why(id)
		return err
	})
	return why, err
}

func (t *Tx) why(id string) (Why, error) {
	if key, ok, err := registerNamed(id); ok || err != nil {
		if err != nil {
			return Why{}, err
		}
		return t.whyRegister(key)
	}
	if strings.Contains(id, ":") {
		unit, err := t.unitCalled(id)
		if err != nil {
			return Why{}, err
		}
		return t.whyUnit(unit)
	}
	ulid, err := events.ParseRunID(id)
	if err != nil {
		return Why{}, invalid("id", fmt.Sprintf("%q is no id", id), "give a ULID, the alias of a unit of an open run, or outbox/OWNER/KIND")
	}
	return t.whyULID(ulid)
}

// whyULID finds out what has the id.
func (t *Tx) whyULID(id events.RunID) (Why, error) {
	run, err := t.Run(id)
	if err != nil {
		return Why{}, err
	}
	if run.Exists() {
		return t.whyRun(run)
	}
	unit, err := t.Unit(events.UnitID(id))
	if err != nil {
		return Why{}, err
	}
	if unit.Exists() {
		return t.whyUnit(unit)
	}
	job, ok, err := t.View().Job(events.JobID(id))
	if err != nil {
		return Why{}, err
	}
	if ok {
		why, err := t.whyULID(job.Result.Run)
		why.Of, why.ID = "job", id.String()
		return why, err
	}
	message, ok, err := t.View().MessageRow(events.MessageID(id))
	if err != nil {
		return Why{}, err
	}
	if ok {
		return t.whyMessage(message)
	}
	return Why{}, &RequestError{Field: "id", Problem: "there is no run, unit, job or message " + id.String(), Kind: ErrNotFound}
}

// registerNamed reads outbox/OWNER/KIND; false: id is no such name.
func registerNamed(id string) (key RegisterKey, ok bool, err error) {
	owner, named := strings.CutPrefix(id, "outbox/")
	if !named {
		return key, false, nil
	}
	owner, kind, _ := strings.Cut(owner, "/")
	key.Kind = events.Kind(kind)
	if key.Owner, err = events.ParseRunID(owner); err != nil || !slices.Contains(events.Kinds[:], key.Kind) {
		return key, false, invalid("id", fmt.Sprintf("%q names no register", id), "give outbox/OWNER/KIND, with a kind of "+kinds())
	}
	return key, true, nil
}

// unitCalled is the unit of an open run with an alias. Aliases are short: they hold the end of the run's id only, so they
// are looked for among the open runs; and nobody can write meanwhile, so only the units of a run that has that end are read.
func (t *Tx) unitCalled(alias string) (decider.Unit, error) {
	short, _, _ := strings.Cut(alias, ":")
	for _, run := range t.hot.OpenRuns() {
		if run.Short() != short {
			continue
		}
		units, err := t.View().Units(run, 0, math.MaxInt32) // a plan has bounded them
		if err != nil {
			return decider.Unit{}, err
		}
		for _, u := range units {
			if u.Alias == alias {
				return t.Unit(u.Unit)
			}
		}
	}
	return decider.Unit{}, &RequestError{
		Field: "id", Problem: fmt.Sprintf("no open run has a unit %q", alias), Fix: "of a run that has ended, give the ULID of the unit", Kind: ErrNotFound,
	}
}

func aliasOf(u decider.Unit) string {
	return events.Alias(u.Plan.Run, u.Plan.Source, u.Plan.Dataset, u.Plan.Window)
}

func (t *Tx) whyRegister(key RegisterKey) (Why, error) {
	r, err := t.Register(key.Owner, key.Kind)
	if err != nil {
		return Why{}, err
	}
	if r.Status == "" {
		return Why{}, &RequestError{Field: "id", Problem: "there is no register " + key.String(), Kind: ErrNotFound}
	}
	h, _, err := t.horizon()
	if err != nil {
		return Why{}, err
	}
	stream := events.RegisterStream(key.Owner, key.Kind)
	why := Why{Of: "register", ID: stream.String(), Status: string(r.Status), Reason: h.WhyRegister(r)}
	return why, t.show(&why, key.Owner, stream)
}

// whyMessage is about the message itself: what it waits for, wherever it is.
func (t *Tx) whyMessage(m projections.MessageRow) (Why, error) {
	why := Why{Of: "message", ID: m.Message.String(), Status: string(m.Status)}
	if m.Status != decider.MessageOpen {
		return why, nil
	}
	r, err := t.Register(events.RunID(m.Message), events.KindMessage)
	if err != nil {
		return Why{}, err
	}
	h, _, err := t.horizon()
	if err != nil {
		return Why{}, err
	}
	why.Status, why.Reason = string(projections.MessageStateOf(r)), h.WhyMessage(r, t.Gone(r.ClosedBy), t.hot.Shared(r.ClosedBy))
	stream := events.MessageStream(m.Message)
	if r.Status == "" { // its topic is as long as the life of the store
		why.Evidence, err = t.submitted(m)
		return why, err
	}
	return why, t.show(&why, events.RunID(m.Message), stream)
}

// submitted shows a message that has no wakeup yet.
func (t *Tx) submitted(m projections.MessageRow) (Evidence, error) {
	page, err := t.tx.After(m.Position-1, 1)
	if err != nil || len(page) == 0 {
		return Evidence{}, err
	}
	return evidenceOf(page[0]), nil
}

func (t *Tx) whyUnit(u decider.Unit) (Why, error) {
	h, fault, err := t.horizon()
	if err != nil {
		return Why{}, err
	}
	why := Why{
		Of: "unit", ID: aliasOf(u), Status: string(u.Status),
	}
	if u.Open() {
		why.Reason = h.Unit(u.ID)
	}
	return why, errors.Join(fault(), t.show(&why, u.Plan.Run, events.UnitStream(u.ID)))
}

func (t *Tx) whyRun(run decider.Run) (Why, error) {
	row, _, err := t.View().Run(run.ID)
	if err != nil {
		return Why{}, err
	}
	why := Why{Of: "run", ID: run.ID.String(), Status: string(row.Status)}
	h, fault, err := t.horizon()
	if err != nil {
		return Why{}, err
	}
	if !run.Open() {
		return t.whyPost(why, h, run)
	}
	finalize, err := t.Register(run.ID, events.KindFinalize)
	if err != nil {
		return Why{}, err
	}
	units := t.hot.OpenUnitsOf(run.ID)
	reasons := make([]decider.Reason, len(units))
	for i, id := range units {
		reasons[i] = h.Unit(id)
	}
	var lead int
	why.Reason, lead, why.Counts = h.WhyRun(reasons, finalize)
	stream := events.RegisterStream(run.ID, events.KindFinalize)
	if lead >= 0 {
		stream = events.UnitStream(units[lead])
	}
	return why, errors.Join(fault(), t.show(&why, run.ID, stream))
}

// whyPost is what a run waits for that has ended: its post_sync.
func (t *Tx) whyPost(why Why, h decider.Horizon, run decider.Run) (Why, error) {
	post, err := t.Register(run.ID, events.KindPostSync)
	if err != nil {
		return Why{}, err
	}
	why.Reason = h.WhyPost(post, run)
	return why, t.show(&why, run.ID, events.RegisterStream(run.ID, events.KindPostSync))
}

// horizon is what answers depend on now. fault is what could not be read while it was asked about units.
func (t *Tx) horizon() (h decider.Horizon, fault func() error, err error) {
	breakers, err := t.View().OpenBreakers()
	k := t.e.Knobs()
	h = decider.Horizon{
		Now: t.now, Held: t.Held(), NoMessages: t.e.noMessages, StaleAfter: events.SpanOf(k.Stale), RedriveAfter: events.SpanOf(k.RedriveAfter),
		PostRedriveAfter: events.SpanOf(k.PostSyncRedriveAfter), Interval: events.SpanOf(k.ReconcileInterval),
		GivenUp: t.givesUpAt,
		Breaker: func(r decider.Register) events.Micros {
			for _, b := range breakers {
				only := b.Only == "" || b.Only == events.RegisterStream(r.Owner, r.Kind).String()
				if b.Node == t.e.node && only && slices.Contains(b.Kinds, r.Kind) { // each node has its own (O-16)
					return events.MicrosOf(b.Until)
				}
			}
			return 0
		},
	}
	var faults []error
	h.Unit = func(id events.UnitID) decider.Reason {
		run, open := t.hot.RunOf(id)
		if !open {
			return decider.Reason{}
		}
		dispatch, err := t.Register(run, events.KindDispatch)
		faults = append(faults, err)
		announcer, err := t.Register(run, events.KindUnit)
		faults = append(faults, err)
		return h.WhyUnit(t.hot.Wait(id, t.now), dispatch, announcer)
	}
	return h, func() error { return errors.Join(faults...) }, err
}

// show adds the newest event of what a reason is about. run and own are those of the thing that was asked for.
func (t *Tx) show(why *Why, run events.RunID, own events.StreamID) error {
	if why.Reason.Why == "" {
		return nil
	}
	stream := own
	switch r := why.Reason; r.Why {
	case decider.WaitUnconfigured: // the start that lacks it, however much has happened to the node since
		started, err := t.View().Started(t.e.node)
		why.Evidence = evidenceOf(started)
		return err
	case decider.WaitRestoredHold:
		return t.showRestore(why)
	case decider.WaitEnginePaused:
		stream = events.EngineControlStream()
	case decider.WaitSourcePaused:
		stream = events.SourceControlStream(r.On)
	case decider.WaitEffectFailed:
		return t.showFailure(why, run, r.On)
	case decider.WaitReference, decider.WaitCrashSuspect:
		if !r.Behind.IsZero() { // a message is behind all others
			stream = events.UnitStream(r.Behind)
		}
	default:
		if r.Kind != "" {
			stream = events.RegisterStream(run, r.Kind)
		}
	}
	history, err := t.tx.Stream(stream)
	if err != nil || len(history) == 0 {
		return err
	}
	why.Evidence = evidenceOf(history[len(history)-1])
	return nil
}

// showRestore adds what began the hold.
func (t *Tx) showRestore(why *Why) error {
	r, err := t.View().Restored()
	if err != nil {
		return err
	}
	page, err := t.tx.After(r.Position-1, 1)
	if err == nil && len(page) > 0 {
		why.Evidence = evidenceOf(page[0])
	}
	return err
}

// showFailure adds the newest failure of the effect of a target.
func (t *Tx) showFailure(why *Why, run events.RunID, target string) error {
	history, err := t.tx.Stream(events.RunStream(run))
	for _, env := range slices.Backward(history) {
		if e, ok := env.Event.(events.PostSyncFailed); ok && e.Target == target {
			why.Evidence = evidenceOf(env)
			break
		}
	}
	return err
}

func evidenceOf(e events.Envelope) Evidence {
	return Evidence{Position: e.Position, Stream: e.Stream.String(), At: e.At.Time(), Text: events.Describe(e.Event)}
}
