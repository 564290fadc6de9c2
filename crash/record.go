package crash

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// answer is what a provider has said to one attempt, as the log has it.
type answer struct {
	Attempt     int             `json:"attempt"`
	Took        events.Span     `json:"took_us"`
	Rows        int             `json:"rows,omitzero"`
	Fingerprint string          `json:"fingerprint,omitzero"`
	Fails       events.Category `json:"fails,omitzero"`    // empty: it succeeds
	After       events.Span     `json:"after_us,omitzero"` // of a rate limit, and whose it is
	Account     string          `json:"account,omitzero"`
	Waits       events.Span     `json:"waits_us,omitzero"` // until the next attempt, by policy or because it was asked to
}

// usualWork is how long an attempt takes of which the log says nothing.
const usualWork = events.Span(time.Second / time.Microsecond)

// recording is what providers have said, by unit, in the order of the attempts. An attempt whose worker was lost said
// nothing, and neither did one that was handed back or cancelled.
type recording map[events.UnitID][]answer

func record(log []events.Envelope) recording {
	r := recording{}
	claimed := map[events.UnitID]events.Micros{}
	providers := map[events.UnitID]string{}
	for _, env := range log {
		id, ok := env.Stream.Unit()
		if !ok {
			continue
		}
		a := answer{Took: env.At.Sub(claimed[id])}
		switch e := env.Event.(type) {
		case events.UnitPlanned:
			providers[id] = e.Provider
			continue
		case events.UnitClaimed:
			claimed[id] = env.At
			continue
		case events.UnitSucceeded:
			a.Attempt, a.Rows, a.Fingerprint = e.Attempt, e.Result.Rows, e.Result.Fingerprint
		case events.UnitFailed:
			if e.By != events.ByWorker {
				continue
			}
			a.Attempt, a.Fails = e.Attempt, e.Category
		case events.UnitRetryScheduled:
			if e.Cause == events.ExpiredLease || e.Cause == events.HandedBack {
				continue
			}
			a.Attempt, a.Fails, a.Waits = e.Attempt, e.Cause, e.AvailableAt.Sub(env.At)
			if e.Cause == events.RateLimit {
				a.After = a.Waits
				a.Account = strings.TrimPrefix(e.CooldownKey, providers[id]+"/")
			}
		default:
			continue
		}
		r[id] = append(r[id], a)
	}
	return r
}

// to is what the provider says to an attempt: what it has said to this one, and to one that the log does not have, or that
// was lost there, what it has said at last.
func (r recording) to(unit events.UnitID, attempt int) answer {
	answers := r[unit]
	if i := slices.IndexFunc(answers, func(a answer) bool { return a.Attempt == attempt }); i >= 0 {
		return answers[i]
	}
	if n := len(answers); n > 0 {
		return answers[n-1]
	}
	return answer{Took: usualWork}
}

// waits are what the provider will make a unit wait from an attempt on, together.
func (r recording) waits(unit events.UnitID, from int) (sum events.Span) {
	for _, a := range r[unit] {
		if a.Attempt >= from {
			sum += a.Waits
		}
	}
	return sum
}

// fails reports that the provider is going to end the unit badly.
func (r recording) fails(unit events.UnitID) bool {
	answers := r[unit]
	return len(answers) > 0 && answers[len(answers)-1].Fails != ""
}

func (r recording) takes(u provider.Unit) time.Duration {
	return max(0, r.to(u.ID, u.Attempt).Took).Std()
}

// Sync is the provider that says again what was said.
func (r recording) Sync(ctx context.Context, u provider.Unit, s sink.Sink) (provider.Result, error) {
	a := r.to(u.ID, u.Attempt)
	switch {
	case a.Fails == events.RateLimit, a.Fails == events.RateLimitExhausted:
		return provider.Result{}, &provider.Error{Category: provider.RateLimit, After: a.After.Std(), Account: a.Account, Err: errRecorded}
	case a.Fails != "":
		return provider.Result{}, provider.Fail(a.Fails, errRecorded)
	}
	if err := putRows(ctx, s, u.Surfaces, u.Dataset, a.Rows); err != nil {
		return provider.Result{}, err
	}
	return provider.Result{Rows: a.Rows, Fingerprint: a.Fingerprint}, nil
}

var errRecorded = errors.New("as the log says")

// putRows stands for the rows of an attempt: how many there were is known, not what was in them.
func putRows(ctx context.Context, s sink.Sink, surfaces []string, dataset string, rows int) error {
	if rows == 0 || len(surfaces) == 0 {
		return nil
	}
	return s.Put(ctx, surfaces[0], "rows", map[string]any{"dataset": dataset, "rows": rows})
}
