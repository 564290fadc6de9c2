package decider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// failing is a release of wakeup 1 whose publish failed.
func failing(after events.Span, cause events.ReleaseCause, f Failure) ReleaseWakeup {
	c := release(after, cause)
	f.Transport = "nats"
	c.Failure = f
	return c
}

// failedOnce is wakeup 1, of which a publish failed at t0 + 1 s, claimed again at t0 + 10 s.
func failedOnce() []happening {
	first := events.OutboxReleased{
		N: 1, Token: tokenA, Cause: events.ReleaseRefused, AvailableAt: t0.Add(6 * second), Transport: "nats",
	}
	return and(claimedRegister(), at(second, first), at(10*second, taken(1, 1, tokenA, 10*second)))
}

// O-5, O-16: a failure spends an attempt only if the transport took another message meanwhile: behind this failure, or
// since the number failed before. Whatever the caller says.
func TestAFailureIsChargedToTheWakeupOrToTheTransport(t *testing.T) {
	for name, tt := range map[string]struct {
		given []happening
		f     Failure
		spent bool
	}{
		"first failure, nothing accepted ever":       {claimedRegister(), Failure{}, false},
		"first failure, the transport worked before": {claimedRegister(), Failure{Accepted: t0}, false},
		"first failure, another was accepted behind": {claimedRegister(), Failure{Accepted: t0, Overtaken: true}, true},
		"failed again, nothing accepted since":       {failedOnce(), Failure{Accepted: t0}, false},
		"failed again, accepted when it failed":      {failedOnce(), Failure{Accepted: t0.Add(second)}, false},
		"failed again, accepted a microsecond later": {failedOnce(), Failure{Accepted: t0.Add(second + micro)}, true},
		"failed again, accepted behind this, too":    {failedOnce(), Failure{Accepted: t0.Add(hour), Overtaken: true}, true},
		"a new number has not failed": {
			and(failedOnce(), at(11*second, published(1, tokenA)), at(11*second, armed(2, 0)), at(12*second, taken(2, 1, tokenA, 12*second))),
			Failure{Accepted: t0.Add(12 * second)}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := givenRegister(events.KindDispatch, tt.given...)
			for _, cause := range []events.ReleaseCause{events.ReleaseRefused, events.ReleasePublishUnknown} {
				for _, says := range []bool{true, false} {
					c := failing(15*second, cause, tt.f)
					c.N, c.Counted = r.Current, says
					got := decide(t, r, c)[0].(events.OutboxReleased)
					require.Equal(t, tt.spent, got.Counted, cause)
					require.Equal(t, cause == events.ReleasePublishUnknown, got.MaybePublished)
					require.Equal(t, "nats", got.Transport)
				}
			}
		})
	}
}

// O-16, O-5, SC-034: a failed probe never spends an attempt, and waits the first backoff; a claim that an opening breaker
// caught before its publish is due at once.
func TestABreakerGivesAttemptsBack(t *testing.T) {
	r := givenRegister(events.KindDispatch, lastAttempt()...)
	probe := failing(second, events.ReleaseBreakerOpen, Failure{Accepted: t0.Add(hour), Overtaken: true})
	probe.MaxAttempts, probe.MaybePublished = 3, true
	require.Equal(t, []events.Event{events.OutboxReleased{
		N: 1, Token: tokenA, Cause: events.ReleaseBreakerOpen, AvailableAt: t0.Add(second + wait(events.KindDispatch, 1)),
		MaybePublished: true, Transport: "nats", Text: "no route",
	}}, decide(t, r, probe))

	caught := release(second, events.ReleaseBreakerOpen)
	caught.Counted, caught.Text = false, ""
	require.Equal(t, []events.Event{events.OutboxReleased{
		N: 1, Token: tokenA, Cause: events.ReleaseBreakerOpen, AvailableAt: t0.Add(second),
	}}, decide(t, r, caught))
}

// O-15, O-16: an attempt that is given back parks nothing, and a refusal for ever does, whoever is to blame.
func TestTheTransportsFailureParksNothing(t *testing.T) {
	r := givenRegister(events.KindDispatch, lastAttempt()...)
	c := failing(second, events.ReleaseRefused, Failure{})
	c.MaxAttempts = 3
	require.Len(t, decide(t, r, c), 1)
	c.Failure.Overtaken = true
	require.Equal(t, events.ParkAttempts, decide(t, r, c)[1].(events.OutboxParked).Cause)
	c.Failure.Overtaken, c.Permanent = false, true
	require.Equal(t, events.ParkPermanent, decide(t, r, c)[1].(events.OutboxParked).Cause)
}

// O-16: a release without a failed publish says nothing of the transport, and is remembered as none.
func TestOnlyAFailedPublishIsRemembered(t *testing.T) {
	hs := and(claimedRegister(), at(second, released(1, tokenA, events.ReleaseShed, second, false)))
	require.Zero(t, givenRegister(events.KindDispatch, hs...).FailedAt)
	require.Equal(t, t0.Add(second), givenRegister(events.KindDispatch, failedOnce()...).FailedAt)
	next := and(failedOnce(), at(11*second, armed(2, hour)), at(11*second, published(1, tokenA)))
	require.Zero(t, givenRegister(events.KindDispatch, next...).FailedAt)
}
