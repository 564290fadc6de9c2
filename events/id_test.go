package events

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// HC-48: one stated rule everywhere: 26 characters in either case, stored and shown in upper case.
func TestAnIdIsAUlidInEitherCase(t *testing.T) {
	const text = "01KJPJ9D80V6C3Q8WYKX0ZB4RM"
	for _, given := range []string{text, strings.ToLower(text), "01kjPJ9d80V6c3q8wykX0zb4Rm"} {
		id, err := ParseRunID(given)
		require.NoError(t, err)
		require.Equal(t, text, id.String())
		stored, err := json.Marshal(id)
		require.NoError(t, err)
		require.Equal(t, `"`+text+`"`, string(stored))

		var back RunID
		require.NoError(t, json.Unmarshal([]byte(`"`+given+`"`), &back))
		require.Equal(t, id, back)
	}
}

// HC-48, M-8: anything else is refused before any look-up, and the error shows a bounded part of it.
func TestWhatIsNoUlidIsAnIDError(t *testing.T) {
	const text = "01KJPJ9D80V6C3Q8WYKX0ZB4RM"
	for name, given := range map[string]string{
		"empty":             "",
		"braces":            "{" + text + "}",
		"dashes":            "01KJPJ9D-80V6-C3Q8-WYKX-0ZB4RM",
		"uuid":              "0195b52e-9a08-7ce3-b27b-ce4ec1f592c4",
		"space before":      " " + text,
		"space behind":      text + " ",
		"newline behind":    text + "\n",
		"null":              "null",
		"number":            "42",
		"one short":         text[1:],
		"one long":          text + "0",
		"letter outside":    "01KJPJ9D80V6C3Q8WYKX0ZB4RU",
		"too large":         "8" + text[1:],
		"10 KB":             strings.Repeat("A", 10<<10),
		"zero byte":         text[:25] + "\x00",
		"full-width digits": strings.Repeat("０", 26),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseUnitID(given)
			var idErr *IDError
			require.ErrorAs(t, err, &idErr)
			require.Equal(t, "unit", idErr.Noun)
			require.LessOrEqual(t, len(idErr.Text), 64)
			require.True(t, strings.HasPrefix(given, idErr.Text))
			require.Error(t, idErr.Unwrap())
			require.Contains(t, err.Error(), fmt.Sprintf("unit id %q: want a ULID of 26 characters", idErr.Text))

			var id UnitID
			require.ErrorAs(t, id.UnmarshalText([]byte(given)), &idErr)
			require.True(t, id.IsZero())
		})
	}
}

// HC-48: each kind of id says its own name.
func TestAnIDErrorNamesWhatWasWanted(t *testing.T) {
	for noun, parse := range map[string]func() error{
		"run":     func() error { _, err := ParseRunID("x"); return err },
		"unit":    func() error { _, err := ParseUnitID("x"); return err },
		"job":     func() error { _, err := ParseJobID("x"); return err },
		"node":    func() error { _, err := ParseNodeID("x"); return err },
		"message": func() error { _, err := ParseMessageID("x"); return err },
	} {
		var idErr *IDError
		require.ErrorAs(t, parse(), &idErr)
		require.Equal(t, noun, idErr.Noun)
	}
}

// HC-46: ids sort as their text does, which is the order of creation.
func TestIdsSortAsTheirText(t *testing.T) {
	a, b := mustParse(ParseRunID, "01KJPJ9D80000000000000000Z"), mustParse(ParseRunID, "01KJPJ9D800000000000000010")
	require.Negative(t, a.Compare(b))
	require.Positive(t, b.Compare(a))
	require.Zero(t, a.Compare(a))
	require.Less(t, a.String(), b.String())
	require.Equal(t, "00000Z", a.Short())
}

// D-22: the zero id names nothing.
func TestTheZeroIdNamesNothing(t *testing.T) {
	require.True(t, RunID{}.IsZero())
	require.False(t, runID.IsZero())
}
