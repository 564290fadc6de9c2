package check

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/towline-dev/towline/events"
)

// Settings are the values of section 20 by which decisions are made and which no run has frozen. Zero means not known:
// what depends on it is not checked.
//
// A node says them in NodeStarted.config and NodeConfigChanged, under their names of section 20, as one flat object or
// nested. A length of time is a text ("15m", "7d"), or a number of microseconds, as everywhere in the log (CLK-5).
type Settings struct {
	CapBucket         int                   // cap.bucket
	CapBuckets        map[events.Bucket]int // cap.bucket.<bucket>, cap.buckets.<bucket>
	CapEngine         int                   // cap.engine
	Stale             events.Span           // dispatch.stale
	NeverStartedAfter events.Span           // dispatch.never_started_after; negative: never
	MaxAttempts       int                   // relay.max_attempts
	MaxDeliveries     int                   // handler.max_deliveries
	BackoffBase       events.Span           // relay.backoff_base
	BackoffCap        events.Span           // relay.backoff_cap
	PostRedriveAfter  events.Span           // post_sync.redrive_after
	DrainRate         int                   // relay.drain_rate
	MaxDeferrals      int                   // rate_limit.max_deferrals; negative: none
	MaxWait           events.Span           // rate_limit.max_wait; negative: not at all
	IdempotencyTTL    events.Span           // api.idempotency_ttl
	MaxUnits          int                   // plan.max_units
	StepBound         events.Span           // clock.step_bound
}

// capOf is the cap of a bucket; 0: not known.
func (s Settings) capOf(b events.Bucket) int {
	if n, ok := s.CapBuckets[b]; ok {
		return n
	}
	return s.CapBucket
}

// with takes over what a configuration says. What it does not say, or not in a form that is understood, stays: a
// checker that guessed would find faults that are none.
func (s Settings) with(config json.RawMessage) Settings {
	values := map[string]json.RawMessage{}
	flatten(values, "", config)

	number := func(key string, to *int) {
		if n, err := strconv.Atoi(unquoted(values[key])); err == nil {
			*to = n
		}
	}
	span := func(key string, to *events.Span) {
		for _, k := range [...]string{key, key + "_us"} {
			if d, ok := parseSpan(unquoted(values[k])); ok {
				*to = d
			}
		}
	}
	number("cap.bucket", &s.CapBucket)
	number("cap.bucket.default", &s.CapBucket)
	number("cap.engine", &s.CapEngine)
	number("relay.max_attempts", &s.MaxAttempts)
	number("handler.max_deliveries", &s.MaxDeliveries)
	number("relay.drain_rate", &s.DrainRate)
	number("rate_limit.max_deferrals", &s.MaxDeferrals)
	number("plan.max_units", &s.MaxUnits)
	span("dispatch.stale", &s.Stale)
	span("dispatch.never_started_after", &s.NeverStartedAfter)
	span("relay.backoff_base", &s.BackoffBase)
	span("relay.backoff_cap", &s.BackoffCap)
	span("post_sync.redrive_after", &s.PostRedriveAfter)
	span("rate_limit.max_wait", &s.MaxWait)
	span("api.idempotency_ttl", &s.IdempotencyTTL)
	span("clock.step_bound", &s.StepBound)
	for _, key := range [...]string{"dispatch.never_started_after", "dispatch.never_started_after_us"} {
		if _, said := values[key]; said && s.NeverStartedAfter == 0 {
			s.NeverStartedAfter = -1 // 0 in the configuration means never, in Settings not known
		}
	}

	said := func(key string) bool {
		_, plain := values[key]
		_, us := values[key+"_us"]
		return plain || us
	}
	if said("rate_limit.max_deferrals") && s.MaxDeferrals == 0 {
		s.MaxDeferrals = -1 // as above
	}
	if said("rate_limit.max_wait") && s.MaxWait == 0 {
		s.MaxWait = -1
	}

	buckets := map[events.Bucket]int{}
	for b, n := range s.CapBuckets {
		buckets[b] = n
	}
	for key := range values {
		for _, prefix := range [...]string{"cap.bucket.", "cap.buckets."} {
			if b, ok := strings.CutPrefix(key, prefix); ok && strings.Contains(b, "/") {
				var n int
				number(key, &n)
				buckets[events.Bucket(b)] = n
			}
		}
	}
	s.CapBuckets = buckets
	return s
}

// flatten turns nested objects into dotted names. Names inside may hold dots already.
func flatten(out map[string]json.RawMessage, prefix string, raw json.RawMessage) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return
	}
	if raw[0] != '{' {
		if prefix != "" {
			out[prefix] = raw
		}
		return
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return
	}
	for name, value := range fields {
		if prefix != "" {
			name = prefix + "." + name
		}
		flatten(out, name, value)
	}
}

func unquoted(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// parseSpan reads a number of microseconds, a Go duration, or whole days.
func parseSpan(s string) (events.Span, bool) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return events.Span(n), true
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.Atoi(strings.TrimSpace(days))
		return events.SpanOf(time.Duration(n) * 24 * time.Hour), err == nil
	}
	d, err := time.ParseDuration(s)
	return events.SpanOf(d), err == nil
}
