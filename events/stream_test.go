package events

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// streams holds one stream of every family and kind, with its readable form.
var streams = map[string]StreamID{
	"run/01KJPJ9D80V6C3Q8WYKX0ZB4RM":                      RunStream(runID),
	"unit/01KJPJ9D80V6C3Q8WYKX0ZB4RM":                     UnitStream(UnitID(runID)),
	"job/01KJPJ9D80JE2M5R7S9TVX1Z3B":                      JobStream(jobID),
	"node/01KJPHYYF0N0DE4A6C8E0G2J4K":                     NodeStream(nodeID),
	"outbox/01KJPJ9D80V6C3Q8WYKX0ZB4RM/dispatch_sync_run": RegisterStream(runID, KindDispatch),
	"outbox/01KJPJ9D80V6C3Q8WYKX0ZB4RM/run_sync_unit":     RegisterStream(runID, KindUnit),
	"outbox/01KJPJ9D80V6C3Q8WYKX0ZB4RM/finalize_sync_run": RegisterStream(runID, KindFinalize),
	"outbox/01KJPJ9D80V6C3Q8WYKX0ZB4RM/post_sync":         RegisterStream(runID, KindPostSync),
	"outbox/01KJPJCHZ0M5G7J9K1N3Q5S7V9/message":           MessageStream(msgID),
	"schedule/nightly":                                    ScheduleStream("nightly"),
	"schedule/nightly/2026-10-25T02:30+01:00":             OccurrenceStream("nightly", "2026-10-25T02:30+01:00"),
	"control/engine":                                      EngineControlStream(),
	"control/source/harbour":                              SourceControlStream("harbour"),
	"app/readings":                                        AppStream("readings"),
}

// L-12: a key holds all of the stream, and reads back as it.
func TestStreamKeysReadBackAsTheirStream(t *testing.T) {
	for text, id := range streams {
		require.Equal(t, text, id.String())
		require.False(t, id.IsZero())
		back, err := ParseStreamKey(id.Key())
		require.NoError(t, err, text)
		require.Equal(t, id, back, text)
	}
}

// D-22: a key is 17 bytes; text follows the byte only where there is no ULID.
func TestAKeyIsAFamilyByteAndTheUlidOrTheText(t *testing.T) {
	require.Equal(t, append([]byte{1}, runID[:]...), RunStream(runID).Key())
	require.Equal(t, append([]byte{19}, runID[:]...), RegisterStream(runID, KindPostSync).Key())
	require.Equal(t, []byte("\x20nightly"), ScheduleStream("nightly").Key())
}

// L-12: each family, and each kind of register, has a byte of its own, and no number ever moves.
func TestFamilyBytesAreDistinctAndFrozen(t *testing.T) {
	frozen := map[string]byte{
		"run": 1, "unit": 2, "job": 3, "node": 4,
		string(KindDispatch): 16, string(KindUnit): 17, string(KindFinalize): 18, string(KindPostSync): 19, string(KindMessage): 20,
		"schedule": 32, "occurrence": 33, "control": 48, "app": 64,
	}
	got := map[string]byte{
		"run": byte(FamilyRun), "unit": byte(FamilyUnit), "job": byte(FamilyJob), "node": byte(FamilyNode),
		"schedule": byte(FamilySchedule), "occurrence": byte(FamilyOccurrence), "control": byte(FamilyControl), "app": byte(FamilyApp),
	}
	for _, k := range Kinds {
		got[string(k)] = byte(k.family())
	}
	require.Equal(t, frozen, got)

	owners := map[byte]string{}
	for name, b := range got {
		require.Empty(t, owners[b], "%s shares byte %d", name, b)
		owners[b] = name
	}
	for b := range 256 {
		require.Equal(t, owners[byte(b)] != "", Family(b).known(), "byte %d", b)
	}
}

// K-7: a register is told from everything else, and gives its owner and kind back.
func TestOnlyARegisterHasAnOwnerAndAKind(t *testing.T) {
	for _, k := range Kinds[:4] {
		owner, kind, ok := RegisterStream(runID, k).Register()
		require.True(t, ok)
		require.Equal(t, k, kind)
		require.Equal(t, [16]byte(runID), owner)
	}
	for _, id := range []StreamID{{}, {family: 15}, {family: 21}, RunStream(runID), NodeStream(nodeID), ScheduleStream("x"), AppStream("x")} {
		_, _, ok := id.Register()
		require.False(t, ok, id.String())
	}
	require.PanicsWithValue(t, `events: unknown kind "polish"`, func() { RegisterStream(runID, "polish") })
}

// L-12: the typed look into a key answers for its own family only.
func TestTheTypedIdsOfAStreamAnswerForTheirFamilyOnly(t *testing.T) {
	for text, id := range streams {
		_, run := id.Run()
		_, unit := id.Unit()
		_, job := id.Job()
		_, node := id.Node()
		require.Equal(t, id.Family() == FamilyRun, run, text)
		require.Equal(t, id.Family() == FamilyUnit, unit, text)
		require.Equal(t, id.Family() == FamilyJob, job, text)
		require.Equal(t, id.Family() == FamilyNode, node, text)
	}
	got, _ := RunStream(runID).Run()
	require.Equal(t, runID, got)
}

// S-1: a schedule may have slashes in its name, its civil times have none.
func TestAnOccurrenceSplitsAtItsLastSlash(t *testing.T) {
	schedule, civil, ok := OccurrenceStream("team/nightly", "2026-10-25T02:30+01:00").Occurrence()
	require.True(t, ok)
	require.Equal(t, "team/nightly", schedule)
	require.Equal(t, "2026-10-25T02:30+01:00", civil)

	schedule, civil, ok = OccurrenceStream("", "civil").Occurrence()
	require.True(t, ok)
	require.Empty(t, schedule)
	require.Equal(t, "civil", civil)

	_, _, ok = ScheduleStream("team/nightly").Occurrence()
	require.False(t, ok)
	bare, err := ParseStreamKey([]byte("\x21nightly"))
	require.NoError(t, err)
	_, _, ok = bare.Occurrence()
	require.False(t, ok)
	require.NotEqual(t, ScheduleStream("a/b").Key(), OccurrenceStream("a", "b").Key())
}

// L-7: a key that no release wrote is refused, and says what it is.
func TestHostileKeysAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		key  []byte
		says string
	}{
		"nil":            {nil, "empty stream key"},
		"empty":          {[]byte{}, "empty stream key"},
		"family zero":    {make([]byte, 17), "unknown family 0"},
		"unknown family": {append([]byte{99}, runID[:]...), "unknown family 99"},
		"unknown kind":   {append([]byte{21}, runID[:]...), "unknown family 21"},
		"byte alone":     {[]byte{1}, "want 17 bytes, got 1"},
		"short":          {append([]byte{2}, runID[:15]...), "want 17 bytes, got 16"},
		"long":           {append(RunStream(runID).Key(), 0), "want 17 bytes, got 18"},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := ParseStreamKey(tt.key)
			require.ErrorContains(t, err, tt.says)
			require.True(t, id.IsZero())
		})
	}
}

// L-7: a name may be empty. Whatever can be written must be readable, else one row stops the log for ever.
func TestAStreamWithoutANameIsStillReadable(t *testing.T) {
	for _, id := range []StreamID{ScheduleStream(""), AppStream(""), SourceControlStream(""), OccurrenceStream("", "")} {
		back, err := ParseStreamKey(id.Key())
		require.NoError(t, err)
		require.Equal(t, id, back)
	}
}

// L-12: the zero stream names nothing, and an unknown family still prints.
func TestTheZeroStreamPrintsAsNothing(t *testing.T) {
	require.Empty(t, StreamID{}.String())
	require.True(t, StreamID{}.IsZero())
	require.Equal(t, "unknown(99)/"+runID.String(), StreamID{family: 99, id: runID}.String())
}

// L-12: a key is refused, or it is the one key of its stream.
func FuzzParseStreamKey(f *testing.F) {
	for _, id := range streams {
		f.Add(id.Key())
	}
	f.Add([]byte{})
	f.Add([]byte{33})
	f.Add([]byte("\x30source/\xff\x00"))
	f.Fuzz(func(t *testing.T, key []byte) {
		id, err := ParseStreamKey(key)
		if err != nil {
			require.True(t, id.IsZero())
			return
		}
		require.True(t, bytes.Equal(key, id.Key()))
		require.NotEmpty(t, id.String())
	})
}
