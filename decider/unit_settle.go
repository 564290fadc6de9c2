package decider

import "github.com/towline-dev/towline/events"

// CompleteUnit settles a unit well (U-7). Its watermark is the planned end of the window, not what the provider says
// and not the time of completion (WM-2); it moves in the same event (WM-1).
type CompleteUnit struct {
	Unit       events.UnitID
	At         events.Micros
	RunOpen    bool
	Attempt    int
	Token      events.Token
	Grace      Grace
	Result     events.Result
	Watermarks []events.Watermark // in force for the unit's source, read in the same transaction
}

func (CompleteUnit) Name() string              { return "complete_unit" }
func (c CompleteUnit) Stream() events.StreamID { return events.UnitStream(c.Unit) }
func (CompleteUnit) Fresh() bool               { return false }

func (c CompleteUnit) decide(s State) ([]events.Event, *Rejection) {
	u := s.(Unit)
	if reason, held := u.holds(c.Attempt, c.Token, c.At, c.RunOpen, c.Grace); !held {
		return u.late(c.Name(), c.Attempt, c.Token, OutcomeSucceeded, reason)
	}
	return []events.Event{events.UnitSucceeded{
		Attempt: c.Attempt, Token: c.Token, Result: c.Result, Duration: c.At.Sub(u.ClaimedAt),
		Watermarks: u.watermarks(c.At, c.Watermarks),
	}}, nil
}

// watermarks are those that rise: one per member of a family, none for backfill (WM-3 to WM-5).
func (u Unit) watermarks(now events.Micros, current []events.Watermark) []events.Watermark {
	if !u.Plan.Watermark {
		return nil
	}
	at := min(events.MicrosOf(u.Plan.Window.To), now)
	var out []events.Watermark
	for _, dataset := range u.Plan.Datasets() {
		w := events.Watermark{Source: u.Plan.Source, Dataset: dataset, At: at}
		rises := true
		for _, c := range current {
			if c.Source == w.Source && c.Dataset == w.Dataset && c.At >= at {
				rises = false
			}
		}
		if rises {
			out = append(out, w)
		}
	}
	return out
}

// FailUnit settles a unit badly (U-8), or schedules its next attempt if the run's frozen policy lists the category and
// has a retry left (U-10). A rate limit is no matter of a policy: its retry is a deferral, which has a budget of its own
// (U-9, deferred).
type FailUnit struct {
	Unit     events.UnitID
	At       events.Micros
	RunOpen  bool
	Attempt  int
	Token    events.Token
	Grace    Grace
	Category events.Category
	Text     string // redacted, valid UTF-8 and bounded already (E-3)
	Result   events.Result
	Policies []events.RetryPolicy // frozen in the run
	Limit    RateLimit            // of category rate_limit
}

func (FailUnit) Name() string              { return "fail_unit" }
func (c FailUnit) Stream() events.StreamID { return events.UnitStream(c.Unit) }
func (FailUnit) Fresh() bool               { return false }

func (c FailUnit) decide(s State) ([]events.Event, *Rejection) {
	u := s.(Unit)
	if reason, held := u.holds(c.Attempt, c.Token, c.At, c.RunOpen, c.Grace); !held {
		return u.late(c.Name(), c.Attempt, c.Token, OutcomeFailed, reason)
	}
	c.Category = reported(c.Category)
	if c.Category == events.RateLimit {
		return c.deferred(u), nil
	}
	p, ok := PolicyFor(c.Policies, u.Plan, c.Category)
	if ok && u.categoryRetries(c.Category) < p.MaxRetries {
		return []events.Event{events.UnitRetryScheduled{
			Attempt: c.Attempt, Token: c.Token, Cause: c.Category, Text: c.Text, AvailableAt: c.At.Add(p.Backoff),
			ExpiredLeaseRetries: u.ExpiredLeaseRetries, CategoryRetries: u.categoryRetries(c.Category) + 1, Result: c.Result,
		}}, nil
	}
	return []events.Event{events.UnitFailed{
		Attempt: c.Attempt, Token: c.Token, Category: c.Category, Text: c.Text, By: events.ByWorker,
		Retries: u.Retries(), Result: c.Result,
	}}, nil
}

// reported is the category of a worker's failure. What a reconciler, a cascade or a consumer finds is not a worker's to
// report: an expired_lease that no lease had would win the retries of a lost worker (I-19).
func reported(c events.Category) events.Category {
	switch c {
	case "", events.ExpiredLease, events.HandedBack, events.RateLimitExhausted, events.WorkerLost, events.WorkerLostExhausted,
		events.ReferenceFailed, events.NeverStarted, events.InvalidPayload, events.HandlerFailed:
		return events.ProviderError
	}
	return c
}
