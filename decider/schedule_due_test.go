package decider

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// dueTimes are those of every hour: n of them, of which the last is so long ago.
func dueTimes(n int, ago events.Span) (out []DueTime) {
	for i := range n {
		out = append(out, DueTime{fmt.Sprint("h", i), t0.Add(-ago - events.Span(n-1-i)*hour)})
	}
	return out
}

func due(d events.ScheduleDefined, n int, ago events.Span) DueFacts {
	f := DueFacts{Schedule: givenSchedule(at(-24*hour, d)), Now: t0, Late: minute, Count: n, Newest: dueTimes(n, ago)}
	if n > 0 {
		f.First = f.Newest[0]
	}
	return f
}

func policy(c events.CatchUp, most int, o events.Overlap) events.ScheduleDefined {
	d := nightly()
	d.CatchUp, d.Max, d.Overlap = c, most, o
	return d
}

func civils(ts []DueTime) (out []string) {
	for _, t := range ts {
		out = append(out, t.Civil)
	}
	return out
}

func skips(ts []SkippedTime) (out []string) {
	for _, t := range ts {
		out = append(out, t.Civil+" "+string(t.Reason))
	}
	return out
}

// S-5, HC-35: what was missed follows catch-up, and what is left out is one event.
func TestMissedTimesFollowCatchUp(t *testing.T) {
	for name, tt := range map[string]struct {
		policy  events.ScheduleDefined
		trigger string
		queue   []string
		missed  int
	}{
		"skip":          {policy: policy(events.CatchUpSkip, 0, events.OverlapSkip), missed: 24},
		"once":          {policy: policy(events.CatchUpOnce, 0, events.OverlapSkip), trigger: "h23", missed: 23},
		"all":           {policy: policy(events.CatchUpAll, 3, events.OverlapSkip), trigger: "h21", queue: []string{"h22", "h23"}, missed: 21},
		"all, of fewer": {policy: policy(events.CatchUpAll, 50, events.OverlapQueue), trigger: "h0", queue: civils(dueTimes(24, 0)[1:])},
	} {
		d := DecideDue(due(tt.policy, 24, 10*minute))
		require.Equal(t, tt.trigger, d.Trigger.Civil, name)
		require.Equal(t, tt.queue, civils(d.Queue), name)
		require.Empty(t, d.Skip, name)
		require.Equal(t, tt.missed, d.Missed.Count, name)
		if tt.missed > 0 {
			require.Equal(t, [2]string{"h0", fmt.Sprint("h", tt.missed-1)}, [2]string{d.Missed.FromCivil, d.Missed.ToCivil}, name)
			require.Equal(t, t0.Add(-10*minute-events.Span(24-tt.missed)*hour), d.Missed.ToInstant, name)
			require.Equal(t, events.MissedCatchUp, d.Missed.Reason)
		}
	}
}

// S-5, S-6: the newest due time is on time if somebody looks soon enough, whatever was missed before it.
func TestADueTimeIsOnTimeOrMissed(t *testing.T) {
	skip := policy(events.CatchUpSkip, 0, events.OverlapSkip)
	require.Equal(t, "h0", DecideDue(due(skip, 1, 0)).Trigger.Civil)
	require.Equal(t, "h0", DecideDue(due(skip, 1, minute)).Trigger.Civil)
	late := DecideDue(due(skip, 1, minute+1))
	require.Zero(t, late.Trigger)
	require.Equal(t, 1, late.Missed.Count)
	behind := DecideDue(due(skip, 3, second))
	require.Equal(t, "h2", behind.Trigger.Civil)
	require.Equal(t, 2, behind.Missed.Count)
	f := due(skip, 1, second)
	f.Watched = t0
	require.Equal(t, 1, DecideDue(f).Missed.Count, "it was due before this process began to look, and no other is there")
	f.Watched = t0.Add(-second)
	require.Equal(t, "h0", DecideDue(f).Trigger.Civil)
}

// S-6: a due time beside an open run is skipped, or one waits.
func TestADueTimeBesideAnOpenRun(t *testing.T) {
	busy := due(policy(events.CatchUpOnce, 0, events.OverlapSkip), 1, 0)
	busy.RunOpen = true
	require.Equal(t, []string{"h0 overlap"}, skips(DecideDue(busy).Skip))

	busy.Schedule = givenSchedule(at(-24*hour, policy(events.CatchUpOnce, 0, events.OverlapQueue)))
	require.Equal(t, []string{"h0"}, civils(DecideDue(busy).Queue))
	busy.Queued = []DueTime{{"q", t0.Add(-hour)}}
	require.Equal(t, []string{"h0 queue_full"}, skips(DecideDue(busy).Skip))
	busy.RunOpen = false
	d := DecideDue(busy)
	require.Equal(t, "q", d.Trigger.Civil, "what waits goes first")
	require.Equal(t, []string{"h0"}, civils(d.Queue))
}

// S-3, S-6: the times of day of one gap are due together, and none of them is missed.
func TestTimesOfOneInstantAreOnTimeTogether(t *testing.T) {
	f := due(policy(events.CatchUpOnce, 0, events.OverlapQueue), 3, 0)
	for i := range f.Newest {
		f.Newest[i].Instant = t0
	}
	f.First = f.Newest[0]
	d := DecideDue(f)
	require.Zero(t, d.Missed.Count)
	require.Equal(t, "h0", d.Trigger.Civil)
	require.Equal(t, []string{"h1"}, civils(d.Queue))
	require.Equal(t, []string{"h2 queue_full"}, skips(d.Skip))
}

// S-5: those of a catch-up wait whatever the overlap policy, and no more of them than max.
func TestACatchUpWaitsForTheOpenRun(t *testing.T) {
	f := due(policy(events.CatchUpAll, 2, events.OverlapSkip), 5, 10*minute)
	f.RunOpen = true
	d := DecideDue(f)
	require.Zero(t, d.Trigger)
	require.Equal(t, []string{"h3", "h4"}, civils(d.Queue))
	f.Queued = []DueTime{{"q", t0.Add(-9 * hour)}}
	d = DecideDue(f)
	require.Equal(t, []string{"h3"}, civils(d.Queue))
	require.Equal(t, []string{"h4 queue_full"}, skips(d.Skip))
}

// S-7: a paused or removed schedule mints nothing, not what waits either.
func TestAPausedScheduleMintsNothing(t *testing.T) {
	f := due(policy(events.CatchUpAll, 5, events.OverlapSkip), 5, 0)
	f.Queued = []DueTime{{"q", t0}}
	for _, hs := range [][]happening{
		{}, defined(at(minute, events.SchedulePaused{Actor: "ada"})), defined(at(minute, events.ScheduleRemoved{})),
	} {
		f.Schedule = givenSchedule(hs...)
		require.True(t, DecideDue(f).Nothing())
	}
	require.True(t, DecideDue(due(nightly(), 0, 0)).Nothing())
}

// S-9: straight failures pause, unless that is off or done.
func TestStraightFailuresPause(t *testing.T) {
	d := nightly()
	require.False(t, AutoPauses(givenSchedule(at(0, d)), 100), "by default never")
	d.AutoPause = 3
	require.False(t, AutoPauses(givenSchedule(at(0, d)), 2))
	require.True(t, AutoPauses(givenSchedule(at(0, d)), 3))
	require.False(t, AutoPauses(givenSchedule(at(0, d), at(minute, events.SchedulePaused{Actor: "ada"})), 3))
}
