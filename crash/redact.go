package crash

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/towline-dev/towline/events"
)

// redactor takes out of a case what is nobody else's business: what users, operators, providers and applications have
// written, and secrets (E-4). Each text gets a stand-in, numbered by where it comes first, so that two that were equal still
// are, and an empty one stays empty: that much a rule may look at. Names of what is configured stay, for whoever reads a
// case must know what it is about, and so do words of the vocabulary and ids.
type redactor struct {
	given     map[string]map[string]string // stand-ins, by what they stand for
	providers map[events.UnitID]string
	sources   map[string]bool
}

func newRedactor(log []events.Envelope) *redactor {
	r := &redactor{given: map[string]map[string]string{}, providers: map[events.UnitID]string{}, sources: map[string]bool{}}
	for _, env := range log {
		if e, ok := env.Event.(events.UnitPlanned); ok {
			id, _ := env.Stream.Unit()
			r.providers[id], r.sources[e.Source] = e.Provider, true
		}
	}
	return r
}

func (r *redactor) hide(what, text string) string {
	if text == "" {
		return ""
	}
	of := r.given[what]
	if of == nil {
		of = map[string]string{}
		r.given[what] = of
	}
	if of[text] == "" {
		of[text] = fmt.Sprintf("%s-%d", what, len(of)+1)
	}
	return of[text]
}

func (r *redactor) token(t events.Token) events.Token {
	return events.Token(r.hide("token", string(t)))
}
func (r *redactor) actor(name string) string  { return r.hide("operator", name) }
func (r *redactor) reason(text string) string { return r.hide("reason", text) }
func (r *redactor) text(text string) string   { return r.hide("text", text) }

// account of a rate limit: a source that names no other has its own name, which stays, for another may share it (RL-4).
func (r *redactor) account(name string) string {
	if r.sources[name] {
		return name
	}
	return r.hide("account", name)
}

func (r *redactor) cooldown(unit events.UnitID, key string) string {
	if key == "" {
		return ""
	}
	provider := r.providers[unit] + "/"
	return provider + r.account(strings.TrimPrefix(key, provider))
}

// result of an attempt: what the provider has left for itself and for people is gone, nothing of it decides a recovery.
func (r *redactor) result(e events.Result) events.Result {
	return events.Result{Rows: e.Rows, Fingerprint: r.hide("fingerprint", e.Fingerprint)}
}

// outcome: beside the words, the cause is what a transport has said.
func (r *redactor) outcome(cause string) string {
	switch cause {
	case events.OutcomeRelayDied, events.OutcomeNotSent, events.OutcomeProcessDied:
		return cause
	}
	return r.text(cause)
}

func (r *redactor) log(log []events.Envelope) []events.Envelope {
	out := slices.Clone(log)
	for i, env := range out {
		out[i].Actor = r.actor(env.Actor)
		unit, _ := env.Stream.Unit()
		e := r.work(env.Event, unit)
		e = r.outbox(e)
		e = r.operator(e)
		out[i].Event = r.rest(e)
	}
	return out
}

// says is what providers answer in the recovery. It is redacted behind the log, in the order of the units.
func (r *redactor) says(says recording) recording {
	out := recording{}
	for _, id := range slices.SortedFunc(maps.Keys(says), events.UnitID.Compare) {
		for _, a := range says[id] {
			a.Account, a.Fingerprint = r.account(a.Account), r.hide("fingerprint", a.Fingerprint)
			out[id] = append(out[id], a)
		}
	}
	return out
}

func (r *redactor) work(e events.Event, unit events.UnitID) events.Event {
	switch e := e.(type) {
	case events.UnitPlanned:
		e.Fingerprint = r.hide("fingerprint", e.Fingerprint)
		return e
	case events.UnitClaimed:
		e.Token, e.Worker = r.token(e.Token), r.hide("worker", e.Worker)
		return e
	case events.UnitLeaseRenewed:
		e.Token = r.token(e.Token)
		return e
	case events.UnitLeaseExpired:
		e.Reason = r.reason(e.Reason)
		return e
	case events.UnitSucceeded:
		e.Token, e.Result = r.token(e.Token), r.result(e.Result)
		return e
	case events.UnitFailed:
		e.Token, e.Text, e.Result = r.token(e.Token), r.text(e.Text), r.result(e.Result)
		return e
	case events.UnitRetryScheduled:
		e.Token, e.Text, e.Result = r.token(e.Token), r.text(e.Text), r.result(e.Result)
		e.CooldownKey = r.cooldown(unit, e.CooldownKey)
		return e
	case events.UnitLateResult:
		if e.Text != events.LateResultText { // the only text that this release writes
			e.Text = r.text(e.Text)
		}
		return e
	case events.PostSyncCompleted:
		e.Result = r.hide("result", e.Result)
		return e
	case events.PostSyncFailed:
		e.Text = r.text(e.Text)
		return e
	}
	return e
}

func (r *redactor) outbox(e events.Event) events.Event {
	switch e := e.(type) {
	case events.OutboxArmed:
		e.Reason = r.reason(e.Reason)
		return e
	case events.OutboxClaimed:
		e.Token = r.token(e.Token)
		return e
	case events.OutboxDispatched:
		e.Token = r.token(e.Token)
		return e
	case events.OutboxReleased:
		e.Token, e.Text = r.token(e.Token), r.text(e.Text)
		return e
	case events.OutboxDropped:
		e.Token = r.token(e.Token)
		return e
	case events.OutboxParked:
		e.Text = r.text(e.Text)
		return e
	case events.OutboxOutcome:
		e.Cause = r.outcome(e.Cause)
		return e
	case events.OutboxResolved:
		e.Actor, e.Reason = r.actor(e.Actor), r.reason(e.Reason)
		return e
	}
	return e
}

// operator: who has acted, and why.
func (r *redactor) operator(e events.Event) events.Event {
	switch e := e.(type) {
	case events.RunCancelled:
		e.Actor, e.Reason = r.actor(e.Actor), r.reason(e.Reason)
		return e
	case events.UnitCancelled:
		e.Actor, e.Text = r.actor(e.Actor), r.reason(e.Text)
		return e
	case events.JobOpened:
		e.Actor, e.Reason = r.actor(e.Actor), r.reason(e.Reason)
		e.IdempotencyKey, e.RequestFingerprint = r.hide("key", e.IdempotencyKey), r.hide("request", e.RequestFingerprint)
		return e
	case events.SchedulePaused:
		return events.SchedulePaused{Actor: r.actor(e.Actor), Reason: r.reason(e.Reason)}
	case events.ScheduleResumed:
		return events.ScheduleResumed{Actor: r.actor(e.Actor), Reason: r.reason(e.Reason)}
	case events.ScheduleRemoved:
		return events.ScheduleRemoved{Actor: r.actor(e.Actor), Reason: r.reason(e.Reason)}
	case events.EnginePaused:
		return events.EnginePaused{Actor: r.actor(e.Actor), Reason: r.reason(e.Reason)}
	case events.EngineResumed:
		return events.EngineResumed{Actor: r.actor(e.Actor), Reason: r.reason(e.Reason)}
	case events.RestoreHoldReleased:
		return events.RestoreHoldReleased{Actor: r.actor(e.Actor), Reason: r.reason(e.Reason)}
	case events.SourcePaused:
		return events.SourcePaused{Actor: r.actor(e.Actor), Reason: r.reason(e.Reason)}
	case events.SourceResumed:
		return events.SourceResumed{Actor: r.actor(e.Actor), Reason: r.reason(e.Reason)}
	case events.ClockStepped:
		e.Actor, e.Reason = r.actor(e.Actor), r.reason(e.Reason)
		return e
	case events.NodeConfigChanged:
		e.Actor = r.actor(e.Actor)
		return e
	}
	return e
}

// rest is what machines and applications have said.
func (r *redactor) rest(e events.Event) events.Event {
	switch e := e.(type) {
	case events.NodeStarted:
		e.Host, e.PID = "", 0
		return e
	case events.NodeStopped:
		e.Reason = r.reason(e.Reason)
		return e
	case events.BreakerOpened:
		e.Cause = r.text(e.Cause)
		return e
	case events.BreakerClosed:
		e.Cause = r.text(e.Cause)
		return e
	case events.ScheduleDefined:
		e.Template = []byte(`{}`)
		return e
	case events.OccurrenceRejected:
		e.Text = r.text(e.Text)
		return e
	case events.SegmentPurged:
		e.Summaries = []byte(`[]`)
		return e
	case events.MessageSubmitted:
		e.Payload, e.Encoding, e.Metadata, e.Key = []byte(`{}`), "", nil, r.hide("key", e.Key)
		return e
	case events.MessageHandled:
		e.Result = nil
		return e
	case events.MessageRejected:
		e.Text = r.text(e.Text)
		return e
	}
	return e
}
