package towline

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// CFG-2: what NodeStarted keeps is what the engine ran with, so another one can go on with the same.
func TestRecordedKnobsAreThoseInForce(t *testing.T) {
	for _, k := range []Knobs{
		{},
		{
			Lease: 7 * time.Second, CapRun: 3, CapBuckets: map[events.Bucket]int{"git/heavy": 2}, NeverStartedAfter: -1,
			ExpiredLeaseMaxRetries: -1, ExpiredLeaseRetryBackoff: -1, RateLimitMaxDeferrals: -1, RateLimitMaxWait: -1, ShutdownGrace: -1, Countdown: time.Second,
		},
	} {
		in := k.withDefaults()
		got, err := RecordedKnobs(in.recorded())
		require.NoError(t, err)
		require.Equal(t, in, got.withDefaults())
		require.Equal(t, string(in.recorded()), string(got.withDefaults().recorded()))

		var keys map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(in.recorded(), &keys))
		delete(keys, "cap.buckets")
		require.Len(t, keys, len(got.recordedDurations())+len(got.recordedNumbers()), "a knob is recorded, and not read again")
	}
}

func TestRecordedKnobsThatNoEngineStartsWith(t *testing.T) {
	for config, says := range map[string]string{
		`[]`:                  "recorded configuration",
		`{"cap.run":"many"}`:  "cap.run",
		`{"cap.run":-3}`:      "cap.run is -3: want at least 1",
		`{"unit.lease_us":1}`: "unit.lease is",
		`{"cap.buckets":[1]}`: "cap.buckets",
	} {
		_, err := RecordedKnobs(json.RawMessage(config))
		require.ErrorContains(t, err, says)
	}
	k, err := RecordedKnobs(nil)
	require.NoError(t, err)
	require.Zero(t, k)
}
