package events

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func utc(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t
}

// W-8, W-1: an open start and a start in 1970 are different windows, in the log too.
func TestWindowsSurviveTheLog(t *testing.T) {
	for name, tt := range map[string]struct {
		window Window
		stored string
	}{
		"closed":       {NewWindow(utc("2026-02-01T00:00:00Z"), utc("2026-03-01T00:00:00Z")), `{"from":1769904000000000,"to":1772323200000000}`},
		"open start":   {NewWindow(time.Time{}, utc("2026-03-01T00:00:00Z")), `{"to":1772323200000000}`},
		"from 1970":    {NewWindow(utc("1970-01-01T00:00:00Z"), utc("1970-02-01T00:00:00Z")), `{"from":0,"to":2678400000000}`},
		"ends in 1970": {NewWindow(utc("1969-12-01T00:00:00Z"), utc("1970-01-01T00:00:00Z")), `{"from":-2678400000000,"to":0}`},
		"2038":         {NewWindow(utc("2038-01-01T00:00:00Z"), utc("2038-02-01T00:00:00Z")), `{"from":2145916800000000,"to":2148595200000000}`},
		"no ends":      {Window{}, `{"to":-62135596800000000}`},
	} {
		t.Run(name, func(t *testing.T) {
			stored, err := json.Marshal(tt.window)
			require.NoError(t, err)
			require.JSONEq(t, tt.stored, string(stored))
			var back Window
			require.NoError(t, json.Unmarshal(stored, &back))
			require.Equal(t, tt.window, back)
			require.True(t, tt.window == back, "a window is a key of maps")
			require.Equal(t, tt.window.IsZero(), back.IsZero())
		})
	}
	var w Window
	require.Error(t, json.Unmarshal([]byte(`{"from":"1970"}`), &w))
}

// W-5: equal windows are equal values, whatever zone and precision they were made with.
func TestEqualWindowsAreEqualValues(t *testing.T) {
	berlin := time.FixedZone("CET", 3600)
	a := NewWindow(time.Date(2026, 2, 1, 1, 0, 0, 999, berlin), time.Date(2026, 3, 1, 1, 0, 0, 0, berlin))
	b := NewWindow(utc("2026-02-01T00:00:00Z"), utc("2026-03-01T00:00:00Z"))
	require.True(t, a == b)
}

// W-5: half-open, so a window whose start is its end holds nothing; an open start always holds something.
func TestAnEmptyWindowHoldsNoInstant(t *testing.T) {
	noon := utc("2026-03-02T12:00:00Z")
	require.True(t, NewWindow(noon, noon).Empty())
	require.True(t, NewWindow(noon, noon.Add(-time.Microsecond)).Empty())
	require.True(t, NewWindow(noon, noon.Add(999*time.Nanosecond)).Empty(), "less than a microsecond is nothing")
	require.False(t, NewWindow(noon, noon.Add(time.Microsecond)).Empty())
	require.False(t, NewWindow(time.Time{}, noon).Empty())
	require.False(t, Window{}.Empty())

	require.True(t, Window{}.IsZero())
	require.False(t, NewWindow(time.Time{}, noon).IsZero())
	require.False(t, NewWindow(noon, time.Time{}).IsZero())
}

// W-8, glossary of alias: whole UTC periods have short names, any other window its two ends.
func TestWindowNames(t *testing.T) {
	for _, tt := range []struct{ from, to, name string }{
		{"2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "2026"},
		{"2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z", "2024-02"},
		{"2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z", "2026-12"},
		{"2026-03-02T00:00:00Z", "2026-03-09T00:00:00Z", "w2026-03-02"},
		{"2026-03-03T00:00:00Z", "2026-03-10T00:00:00Z", "2026-03-03..2026-03-10"}, // from a Tuesday
		{"2026-03-02T00:00:00Z", "2026-03-03T00:00:00Z", "2026-03-02"},
		{"1970-01-01T00:00:00Z", "1970-02-01T00:00:00Z", "1970-01"},
		{"2038-01-01T00:00:00Z", "2038-02-01T00:00:00Z", "2038-01"},
		{"2026-03-02T00:00:00Z", "2026-03-04T00:00:00Z", "2026-03-02..2026-03-04"},
		{"2026-03-01T00:00:00Z", "2027-03-01T00:00:00Z", "2026-03-01..2027-03-01"}, // a year, but not from its start
		{"2026-01-01T06:00:00Z", "2027-01-01T06:00:00Z", "2026-01-01T06:00:00Z..2027-01-01T06:00:00Z"},
		{"2026-01-01T00:00:00Z", "2026-12-31T00:00:00Z", "2026-01-01..2026-12-31"},
		{"2026-03-15T00:00:00Z", "2026-04-15T00:00:00Z", "2026-03-15..2026-04-15"}, // a month, the same
		{"2026-03-01T06:00:00Z", "2026-04-01T06:00:00Z", "2026-03-01T06:00:00Z..2026-04-01T06:00:00Z"},
		{"2026-03-02T06:00:00Z", "2026-03-09T06:00:00Z", "2026-03-02T06:00:00Z..2026-03-09T06:00:00Z"},
		{"2026-03-02T00:00:01Z", "2026-03-03T00:00:01Z", "2026-03-02T00:00:01Z..2026-03-03T00:00:01Z"},
		{"2026-03-02T00:00:00Z", "2026-03-02T08:00:00.5Z", "2026-03-02..2026-03-02T08:00:00.5Z"},
		{"2026-02-01T00:00:00.000001Z", "2026-03-01T00:00:00Z", "2026-02-01T00:00:00.000001Z..2026-03-01"},
	} {
		require.Equal(t, tt.name, NewWindow(utc(tt.from), utc(tt.to)).Name())
	}
	require.Equal(t, "-", NewWindow(time.Time{}, utc("2026-03-02T00:00:00Z")).Name())
}

// W-8, glossary of alias: RUN:source/dataset/window, with the last six characters of the run.
func TestTheAliasOfAUnit(t *testing.T) {
	require.Equal(t, "0ZB4RM:harbour/commits/2026-02", Alias(runID, "harbour", "commits", month(2026, time.February)))
}
