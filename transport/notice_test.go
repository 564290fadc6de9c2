package transport_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/transport"
)

// K-3, SC-170: a notice is read as it was written; fields that this release does not know are ignored.
func TestANoticeIsReadAsItWasWritten(t *testing.T) {
	for _, n := range []transport.Notice{
		{Kind: events.KindDispatch, Run: events.RunID{1}, Wakeup: 3},
		{Kind: events.KindUnit, Run: events.RunID{1}, Wakeup: 3, Unit: events.UnitID{2}, Attempt: 4},
		{Kind: events.KindPostSync, Run: events.RunID{1}, Wakeup: 1, Target: "mail", Post: &transport.PostNotice{
			Generation: "g", Provider: "p", Sources: []string{"a"}, Datasets: []string{"b"}, From: time.Unix(7,
				0).UTC(), To: time.Unix(9, 0).UTC(),
		}},
		{Kind: events.KindPostSync, Run: events.RunID{1}, Target: "mail", Post: &transport.PostNotice{To: time.Unix(9,
			0).UTC()}},
	} {
		m, err := n.Message("id-1")
		require.NoError(t, err)
		require.Equal(t, "id-1", m.UUID)
		require.Equal(t, string(n.Kind), m.Metadata.Get("kind"))
		m.Payload = append([]byte(`{"added_later":{"x":[1]},`), m.Payload[1:]...)
		got, err := transport.ParseNotice(m)
		require.NoError(t, err)
		require.Equal(t, n, got)
	}
}

// Section 10, HC-48, M-8: ids are parsed once, at the door, by one rule: 26 characters of a ULID in either case.
// Anything else is an error that no redelivery helps, and that is short whatever was sent.
func TestABadNoticeIsAnError(t *testing.T) {
	good := "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	payload := func(run, unit string) string {
		return `{"kind":"run_sync_unit","run_id":` + run + `,"unit_id":` + unit + `}`
	}
	quote := func(s string) string { return `"` + s + `"` }
	for _, ok := range []string{good, strings.ToLower(good)} {
		n, err := transport.ParseNotice(message.NewMessage("m", []byte(payload(quote(ok), quote(ok)))))
		require.NoError(t, err)
		require.Equal(t, good, n.Unit.String())
	}
	for name, p := range map[string]string{
		"no JSON":        "kind",
		"empty":          "",
		"null":           "null",
		"array":          "[]",
		"string":         `"x"`,
		"no kind":        `{"run_id":"` + good + `"}`,
		"no run":         `{"kind":"dispatch_sync_run"}`,
		"no unit":        `{"kind":"run_sync_unit","run_id":"` + good + `"}`,
		"braces":         payload(quote("{"+good+"}"), quote(good)),
		"dashes":         payload(quote("01ARZ3ND-EKTS-V4RR-FFQ6-9G5FAV"), quote(good)),
		"empty id":       payload(quote(""), quote(good)),
		"the word null":  payload(quote("null"), quote(good)),
		"JSON null":      payload("null", quote(good)),
		"number":         payload("12345", quote(good)),
		"UUID":           payload(quote("123e4567-e89b-12d3-a456-426614174000"), quote(good)),
		"10 KB":          payload(quote(strings.Repeat("A", 10_000)), quote(good)),
		"too large":      payload(quote("8ZZZZZZZZZZZZZZZZZZZZZZZZZ"), quote(good)),
		"bad letter":     payload(quote("01ARZ3NDEKTSV4RRFFQ69G5FAU"), quote(good)),
		"space around":   payload(quote(" "+good), quote(good)),
		"bad unit":       payload(quote(good), quote("x")),
		"unit is zero":   payload(quote(good), quote(strings.Repeat("0", 26))),
		"run is zero":    payload(quote(strings.Repeat("0", 26)), quote(good)),
		"wakeup is text": `{"kind":"dispatch_sync_run","run_id":"` + good + `","wakeup":"1"}`,
	} {
		_, err := transport.ParseNotice(message.NewMessage("m", []byte(p)))
		require.Error(t, err, name)
		require.Less(t, len(err.Error()), 300, name)
	}
	_, err := transport.ParseNotice(message.NewMessage(strings.Repeat("m", 10_000), nil))
	require.Less(t, len(err.Error()), 500)
}
