package events

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// E-4: one stable line per event, the same in logs, traces and pages, without its token. One event of each family.
func TestDescriptionsAreStable(t *testing.T) {
	var lines strings.Builder
	for _, typ := range []Type{
		TypeRunPlanned, TypeRunDispatchStarted, TypeUnitPlanned, TypeUnitSucceeded, TypeOutboxReleased, TypeJobClosed,
		TypeScheduleDefined, TypeOccurrenceTriggered, TypeEnginePaused, TypeNodeStarted, TypeMessageSubmitted,
	} {
		lines.WriteString(Describe(sampleOf(t, typ)) + "\n")
	}
	held := golden(t, "describe.txt", lines.String())
	if !*rewrite {
		require.Equal(t, held, lines.String())
	}
}

// E-3, E-4: whatever people and providers wrote into an event, its description is one line of printable text.
func TestADescriptionIsOneLine(t *testing.T) {
	for name, tt := range map[string]struct {
		event Event
		want  string
	}{
		"newline in text":    {UnitFailed{Text: "a\nb"}, `UnitFailed {text: "a\nb"}`},
		"tab in text":        {UnitFailed{Text: "a\tb"}, `UnitFailed {text: "a\tb"}`},
		"terminal control":   {UnitFailed{Text: "\x1b[2J"}, `UnitFailed {text: "\x1b[2J"}`},
		"invalid bytes":      {UnitFailed{Text: "a\xff"}, `UnitFailed {text: "a\xff"}`},
		"line separator":     {UnitFailed{Text: "a\u2028b"}, `UnitFailed {text: "a\u2028b"}`},
		"plain word":         {UnitFailed{Text: "größe"}, `UnitFailed {text: größe}`},
		"looks like a field": {UnitFailed{Text: "x, by: operator"}, `UnitFailed {text: "x, by: operator"}`},
		"empty in a list":    {RunPlanned{Selection: Selection{Sources: []string{"", "a"}}}, `RunPlanned {selection: {sources: ["" a]}}`},
		"empty list":         {RunPlanned{Selection: Selection{Sources: []string{}}}, `RunPlanned {selection: {sources: []}}`},
		"pretty payload":     {MessageSubmitted{Payload: json.RawMessage("{\n  \"a\": 1\n}")}, `MessageSubmitted {payload: {"a":1}}`},
		"broken payload":     {MessageSubmitted{Payload: json.RawMessage("{\n")}, `MessageSubmitted {payload: "{\n"}`},
		"metadata":           {MessageSubmitted{Metadata: map[string]string{"b": "x\ny", "a": "z"}}, `MessageSubmitted {metadata: {a: z, b: "x\ny"}}`},
		"open window":        {UnitPlanned{Window: NewWindow(time.Time{}, utc("2026-03-02T00:00:00Z"))}, `UnitPlanned {window: -}`},
		"nothing set":        {NodeStopped{}, `NodeStopped`},
		"nothing to set":     {RunDispatchStarted{}, `RunDispatchStarted`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, Describe(tt.event))
		})
	}
}
