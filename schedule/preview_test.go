package schedule_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/schedule"
)

// S-3: the preview says what a change of the clock does.
func TestThePreviewNamesClockChanges(t *testing.T) {
	berlin := parse(t, "30 2 * * *", "Europe/Berlin")
	require.Equal(t, []schedule.Fire{
		{At: utc("2026-03-28T01:30:00"), Local: "2026-03-28 02:30:00 CET", Key: "2026-03-28T02:30+01:00"},
		{
			At: utc("2026-03-29T01:00:00"), Local: "2026-03-29 03:00:00 CEST", Key: "2026-03-29T02:30+01:00",
			Remark: "the clock goes forward over 02:30: it is due at the first instant behind the gap",
		},
		{At: utc("2026-03-30T00:30:00"), Local: "2026-03-30 02:30:00 CEST", Key: "2026-03-30T02:30+02:00"},
	}, berlin.Preview(schedule.Cursor{Instant: utc("2026-03-28T00:00:00")}, 3))
	autumn := berlin.Preview(schedule.Cursor{Instant: utc("2026-10-24T12:00:00")}, 2)
	require.Equal(t, "the clock goes back and shows 02:30 twice: it is due at the first", autumn[0].Remark)
	require.Equal(t, "the clock has gone back since the time before", autumn[1].Remark)

	hourly := parse(t, "0 * * * *", "Europe/Berlin").Preview(schedule.Cursor{Instant: utc("2026-10-24T23:30:00")}, 3)
	require.Equal(t, "the clock goes back and shows 02:00 twice: it is due at both", hourly[0].Remark)
	require.Equal(t, "2026-10-25T02:00+02:00", hourly[0].Key)
	require.Equal(t, "2026-10-25T02:00+01:00", hourly[1].Key)
	require.Equal(t, "2026-10-25 03:00:00 CET", hourly[2].Local)
}

func BenchmarkWalk(b *testing.B) {
	s := parse(b, "* * * * * *", "Europe/Berlin")
	at := schedule.Cursor{Instant: utc("2026-03-01T00:00:00")}
	for b.Loop() {
		n := 0
		for range s.Between(at, utc("2027-03-01T00:00:00")) {
			if n++; n == 10_000 {
				break
			}
		}
	}
}
