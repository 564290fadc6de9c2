package events

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// E-4: a token is in the log, and nowhere else: not by any verb, not inside any event, not in a description.
func TestATokenIsNeverPrinted(t *testing.T) {
	const secret = Token("lease-secret")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X"} {
		hidden := fmt.Sprintf(verb, secret)
		require.NotContains(t, hidden, string(secret), verb)
		require.NotContains(t, strings.ToLower(hidden), fmt.Sprintf("%x", string(secret)), verb)
	}
	require.Equal(t, "***", secret.String())
	require.Equal(t, `events.Token("***")`, secret.GoString())
	require.Empty(t, Token("").String())

	for _, e := range samples {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			require.NotContains(t, fmt.Sprintf(verb, e), "-secret", e.EventType())
			require.NotContains(t, fmt.Sprintf(verb, Envelope{Event: e}), "-secret", e.EventType())
		}
		require.NotContains(t, Describe(e), "-secret")
	}
	stored, err := json.Marshal(secret)
	require.NoError(t, err)
	require.Equal(t, `"lease-secret"`, string(stored))
}

// CLK-5: times are whole microseconds UTC; the zero time is the zero number.
func TestTimesAreWholeMicrosecondsUtc(t *testing.T) {
	berlin := time.FixedZone("CET", 3600)
	at := time.Date(2026, 3, 2, 9, 0, 0, 123_456_789, berlin)
	m := MicrosOf(at)
	require.Equal(t, time.Date(2026, 3, 2, 8, 0, 0, 123_456_000, time.UTC), m.Time())
	require.Equal(t, "2026-03-02T08:00:00.123456Z", m.String())
	require.Zero(t, MicrosOf(time.Time{}))
	require.True(t, Micros(0).Time().IsZero())
	require.Equal(t, time.UTC, m.Time().Location())
}

// CLK-5, AS-3: a time that microseconds cannot say does not wrap to the other side of now.
func TestATimeFarAwayIsTheEndOfTime(t *testing.T) {
	require.Equal(t, Micros(math.MaxInt64), MicrosOf(time.Unix(math.MaxInt64/2, 0)))
	require.Equal(t, Micros(math.MinInt64), MicrosOf(time.Unix(math.MinInt64/2, 0)))
	last := time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
	require.True(t, MicrosOf(last).Sayable())
	require.False(t, MicrosOf(last.Add(time.Microsecond)).Sayable())
	require.False(t, Micros(-1).Sayable())
}

// CLK-5: lengths keep the unit of times.
func TestSpansAreMicroseconds(t *testing.T) {
	m := clock(8, 0, 0)
	require.Equal(t, clock(8, 1, 30), m.Add(SpanOf(90*time.Second)))
	require.Equal(t, SpanOf(90*time.Second), clock(8, 1, 30).Sub(m))
	require.Equal(t, 90*time.Second, SpanOf(90*time.Second).Std())
	require.Equal(t, "1m30s", SpanOf(90*time.Second).String())
	require.Zero(t, SpanOf(999*time.Nanosecond))
}

// CLK-1: a length that means "for ever" must not wrap into the past, where everything is due.
func TestAdditionStopsAtTheEndOfTime(t *testing.T) {
	now := clock(8, 0, 0)
	require.Equal(t, Micros(math.MaxInt64), now.Add(math.MaxInt64))
	require.Equal(t, Micros(math.MinInt64), (-now).Add(math.MinInt64))
	require.Equal(t, Micros(math.MaxInt64), Micros(math.MaxInt64).Add(1))
	require.Equal(t, Micros(math.MaxInt64-1), Micros(math.MaxInt64).Add(-1))
}

// O-4: "not set" is later than any time.
func TestEarliestPrefersATimeThatIsSet(t *testing.T) {
	for _, tt := range []struct{ a, b, want Micros }{
		{0, 0, 0}, {0, 5, 5}, {5, 0, 5}, {5, 7, 5}, {7, 5, 5}, {5, 5, 5},
	} {
		require.Equal(t, tt.want, Earliest(tt.a, tt.b))
	}
}

// D-8: a fence orders by epoch, then by position, also as text.
func TestAFenceComparesAsText(t *testing.T) {
	require.Equal(t, Fence("00000001.0000000000001187"), NewFence(1, 1187))
	rising := []Fence{
		NewFence(1, 1), NewFence(1, 9), NewFence(1, 10), NewFence(1, 1187), NewFence(1, 9_999_999_999_999_999),
		NewFence(2, 1), NewFence(10, 1),
	}
	require.True(t, slices.IsSorted(rising))
}

// R-7, U-18: terminal statuses are these and no others.
func TestTerminalStatuses(t *testing.T) {
	for s, terminal := range map[RunStatus]bool{
		"": false, RunIsPlanned: false, RunIsDispatching: false, RunIsRunning: false,
		RunSucceeded: true, RunPartialFailed: true, RunFailed: true, RunIsCancelled: true,
	} {
		require.Equal(t, terminal, s.Terminal(), s)
	}
	for s, terminal := range map[UnitStatus]bool{
		"": false, UnitIsPlanned: false, UnitIsDispatching: false, UnitIsRunning: false, UnitIsRetrying: false,
		UnitHasSucceeded: true, UnitHasFailed: true, UnitIsCancelled: true,
	} {
		require.Equal(t, terminal, s.Terminal(), s)
	}
}

// P-3: a dataset that is no family is its own only member.
func TestDatasetsAreTheMembersOrTheDataset(t *testing.T) {
	require.Equal(t, []string{"commits"}, UnitPlanned{Dataset: "commits"}.Datasets())
	require.Equal(t, []string{"a", "b"}, UnitPlanned{Dataset: "work-items", Members: []string{"a", "b"}}.Datasets())
}

// B-2: a bucket is provider and cost class.
func TestABucketIsProviderAndCost(t *testing.T) {
	require.Equal(t, Bucket("git/heavy"), NewBucket("git", CostHeavy))
}
