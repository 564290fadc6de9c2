package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/towline-dev/towline/schedule"
)

func parse(t require.TestingT, expression, zone string) schedule.Schedule {
	s, err := schedule.Parse(expression, zone)
	require.NoError(t, err)
	return s
}

func utc(text string) time.Time {
	t, err := time.Parse("2006-01-02T15:04:05", text)
	if err != nil {
		panic(err)
	}
	return t
}

// lines are due times in [from, until), one a line: the instant, and the key if it names another time.
func lines(s schedule.Schedule, from, until time.Time) (out []string) {
	for d := range s.Between(schedule.Cursor{Instant: from.Add(-time.Second)}, until.Add(-time.Second)) {
		out = append(out, d.Instant.Format("15:04")+" "+d.Key()[len("2006-01-02T"):]+" "+string(d.Change))
	}
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

// S-3, HC-26, SC-294, SC-295: what the two changes of a year make of times of day and of intervals. Los Angeles goes forward
// on 2026-03-08 at 02:00, which is 10:00 UTC, and back on 2026-11-01 at 02:00, which is 09:00 UTC.
func TestAClockChangeInLosAngeles(t *testing.T) {
	const zone = "America/Los_Angeles"
	forward := [2]time.Time{utc("2026-03-08T09:00:00"), utc("2026-03-08T12:00:00")}
	back := [2]time.Time{utc("2026-11-01T07:00:00"), utc("2026-11-01T11:00:00")}
	for _, c := range []struct {
		expression string
		in         [2]time.Time
		want       []string
	}{
		{"0 2 * * *", forward, []string{"10:00 02:00-08:00 skipped"}},
		{"30 2 * * *", forward, []string{"10:00 02:30-08:00 skipped"}},
		{"0,30 2 * * *", forward, []string{"10:00 02:00-08:00 skipped", "10:00 02:30-08:00 skipped"}},
		{"0 2,3 * * *", forward, []string{"10:00 02:00-08:00 skipped", "10:00 03:00-07:00"}},
		{"0 3 * * *", forward, []string{"10:00 03:00-07:00"}},
		{"0 1-4 * * *", forward, []string{"09:00 01:00-08:00", "10:00 03:00-07:00", "11:00 04:00-07:00"}},
		{"0 */2 * * *", forward, []string{"11:00 04:00-07:00"}},
		{"30 * * * *", forward, []string{"09:30 01:30-08:00", "10:30 03:30-07:00", "11:30 04:30-07:00"}},
		{"*/30 * * * *", forward, []string{
			"09:00 01:00-08:00", "09:30 01:30-08:00", "10:00 03:00-07:00", "10:30 03:30-07:00", "11:00 04:00-07:00", "11:30 04:30-07:00",
		}},
		{"0 2,4-6 * * *", forward, []string{"10:00 02:00-08:00 skipped", "11:00 04:00-07:00"}}, // the range does not cover the hour
		{"0 1 * * *", back, []string{"08:00 01:00-07:00 repeated"}},
		{"30 1 * * *", back, []string{"08:30 01:30-07:00 repeated"}},
		{"0 1,2 * * *", back, []string{"08:00 01:00-07:00 repeated", "10:00 02:00-08:00"}},
		{"0 * * * *", back, []string{
			"07:00 00:00-07:00", "08:00 01:00-07:00 repeated", "09:00 01:00-08:00 repeated", "10:00 02:00-08:00",
		}},
		{"0 1-3 * * *", back, []string{"08:00 01:00-07:00 repeated", "09:00 01:00-08:00 repeated", "10:00 02:00-08:00"}},
		{"@every 1h", back, []string{
			"07:00 00:00-07:00", "08:00 01:00-07:00 repeated", "09:00 01:00-08:00 repeated", "10:00 02:00-08:00",
		}},
	} {
		require.Equal(t, c.want, lines(parse(t, c.expression, zone), c.in[0], c.in[1]), c.expression)
	}
}

// S-3: a day that a zone has left out, and a change of half an hour.
func TestClockChangesOfOtherKinds(t *testing.T) {
	apia := lines(parse(t, "15 8 30 12 *", "Pacific/Apia"), utc("2011-12-29T00:00:00"), utc("2012-01-02T00:00:00"))
	require.Equal(t, []string{"10:00 08:15-10:00 skipped"}, apia)
	howe := lines(parse(t, "15 2 * * *", "Australia/Lord_Howe"), utc("2026-10-03T12:00:00"), utc("2026-10-04T12:00:00"))
	require.Equal(t, []string{"15:30 02:15+10:30 skipped"}, howe)
	howe = lines(parse(t, "45 1 * * *", "Australia/Lord_Howe"), utc("2026-04-04T12:00:00"), utc("2026-04-05T12:00:00"))
	require.Equal(t, []string{"14:45 01:45+11:00 repeated"}, howe)
}

// S-1: @every follows elapsed time from its anchor, to the second.
func TestEveryFollowsElapsedTime(t *testing.T) {
	s := parse(t, "@every 90m", "UTC").Anchored(utc("2026-03-02T08:00:07").Add(300 * time.Millisecond))
	next, ok := s.Next(schedule.Cursor{Instant: utc("2026-03-02T08:00:07").Add(300 * time.Millisecond)})
	require.True(t, ok)
	require.Equal(t, "2026-03-02T09:30:07+00:00", next.Key())
	next, ok = s.Next(next.At())
	require.True(t, ok)
	require.Equal(t, utc("2026-03-02T11:00:07"), next.Instant)
}

// S-4: @every has times before its anchor too, for one that lies in the future.
func TestEveryHasTimesBeforeItsAnchor(t *testing.T) {
	s := parse(t, "@every 90m", "UTC").Anchored(utc("2026-03-02T08:00:00"))
	for after, want := range map[string]string{
		"2026-03-02T04:59:59": "2026-03-02T05:00:00", "2026-03-02T05:00:00": "2026-03-02T06:30:00",
		"2026-03-02T05:00:01": "2026-03-02T06:30:00", "2026-03-02T07:00:00": "2026-03-02T08:00:00",
		"2026-03-02T08:00:00": "2026-03-02T09:30:00", "2026-03-02T10:59:59": "2026-03-02T11:00:00",
	} {
		next, ok := s.Next(schedule.Cursor{Instant: utc(after)})
		require.True(t, ok)
		require.Equal(t, utc(want), next.Instant, after)
	}
}

// S-1: five fields, six, and how days of the month and of the week go together.
func TestExpressionsAreThoseOfCron(t *testing.T) {
	firsts := func(expression string, n int) (out []string) {
		at := schedule.Cursor{Instant: utc("2026-03-02T08:00:00")} // a Monday
		for range n {
			d, ok := parse(t, expression, "UTC").Next(at)
			require.True(t, ok)
			out, at = append(out, strings.TrimSuffix(d.Key(), "+00:00")), d.At()
		}
		return out
	}
	require.Equal(t, []string{"2026-03-02T08:00:20", "2026-03-02T08:00:40", "2026-03-02T08:01"}, firsts("*/20 * * * * *", 3))
	require.Equal(t, []string{"2026-03-08T03:00", "2026-03-13T03:00", "2026-03-15T03:00"}, firsts("0 3 13 * 7", 3))
	require.Equal(t, []string{"2026-03-15T03:00", "2026-03-29T03:00"}, firsts("0 3 */2 * SUN", 2), "a * and a weekday must both match")
	require.Equal(t, []string{"2028-02-29T00:00", "2032-02-29T00:00"}, firsts("0 0 29 2 *", 2))
	require.Equal(t, []string{"2026-03-02T22:00", "2026-03-02T23:00", "2026-03-03T00:00", "2026-03-03T01:00", "2026-03-03T22:00"}, firsts("0 22-1 * * *", 5))
}

// S-1: what is refused, and what the error says.
func TestWhatIsNoScheduleIsRefused(t *testing.T) {
	for _, c := range []struct{ expression, zone, says string }{
		{"", "UTC", "cron is empty"},
		{"* * * *", "UTC", "has 4 fields"},
		{"* * * * * * *", "UTC", "has 7 fields"},
		{"61 * * * *", "UTC", "61"},
		{"0 0 30 2 *", "UTC", "is never due"},
		{"@daily", "UTC", "only @every is known"},
		{"@every 1500ms", "UTC", "whole seconds"},
		{"@every soon", "UTC", "no length of time"},
		{"@every -1h", "UTC", "whole seconds"},
		{"TZ=UTC 0 0 * * *", "UTC", "a field of its own"},
		{"0 0 * * *", "", "time zone is empty"},
		{"0 0 * * *", "Local", "another one on each machine"},
		{"0 0 * * *", "Europe/Atlantis", `"Europe/Atlantis" is not known`},
		{"0 0 L * *", "UTC", "0 0 L * *"},
		{"H 0 * * *", "UTC", "hash"},
	} {
		_, err := schedule.Parse(c.expression, c.zone)
		require.ErrorContains(t, err, c.says, "%q in %q", c.expression, c.zone)
	}
}

// SC-295: a restart between the two does not find a repeated time of day again, whatever it remembers of the first.
func TestAWalkGoesOnFromAnyOfItsPlaces(t *testing.T) {
	for _, expression := range []string{"0,30 1,2 * * *", "*/15 * * * *", "0,20,40 2 * * *", "@every 25m"} {
		s := parse(t, expression, "America/Los_Angeles")
		for _, day := range []string{"2026-03-08", "2026-11-01"} {
			until := utc(day + "T20:00:00")
			all := slices.Collect(s.Between(schedule.Cursor{Instant: utc(day + "T00:00:00")}, until))
			for i, d := range all {
				rest := slices.Collect(s.Between(d.At(), until))
				require.Len(t, rest, len(all)-i-1, "%s behind %s", expression, d.Key())
				if len(rest) > 0 {
					require.Equal(t, all[i+1], rest[0])
				}
			}
		}
	}
}

var zones = []string{
	"UTC", "America/Los_Angeles", "America/New_York", "Europe/Berlin", "Europe/London", "Europe/Dublin", "Australia/Lord_Howe",
	"Pacific/Apia", "Pacific/Kwajalein", "Pacific/Chatham", "Pacific/Kiritimati", "Asia/Kathmandu", "Asia/Tehran", "Asia/Gaza",
	"Africa/Cairo", "Africa/Casablanca", "America/Sao_Paulo", "America/Santiago", "America/Caracas", "America/St_Johns",
	"America/Havana", "Asia/Pyongyang", "Asia/Amman", "Antarctica/Troll", "Antarctica/Casey", "Atlantic/Azores", "Europe/Moscow",
	"Europe/Istanbul", "Asia/Ulaanbaatar", "America/Godthab", "America/Asuncion", "Africa/Juba",
}

// plain is an expression without the parser: sets of hours and minutes, and whether the hours are an interval.
type plain struct {
	hours    map[int]bool
	minutes  map[int]bool
	interval map[int]bool
}

func (p plain) names(t time.Time) bool { return p.hours[t.Hour()] && p.minutes[t.Minute()] }

// brute walks minute by minute through [from, until) and says by the words of S-3 what is due. seen is used for the first
// instant of each civil minute: there are thousands, so it is made once for all checks.
func (p plain) brute(seen map[time.Time]time.Time, location *time.Location, from, until time.Time) (out []string) {
	const margin = 3 * 24 * time.Hour
	clear(seen)
	naive := func(t time.Time) time.Time {
		l := t.In(location)
		return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC)
	}
	const layout = "2006-01-02T15:04"
	for t := from.Add(-margin); t.Before(until.Add(margin)); t = t.Add(time.Minute) {
		if c := naive(t); seen[c].IsZero() {
			seen[c] = t
		}
	}
	type due struct {
		at    time.Time
		civil string
		text  string
	}
	var all []due
	offset := func(t time.Time) string { return t.In(location).Format("-07:00") }
	for t := from; t.Before(until); t = t.Add(time.Minute) {
		c, before := naive(t), naive(t.Add(-time.Minute))
		for gone := before.Add(time.Minute); gone.Before(c); gone = gone.Add(time.Minute) {
			if name := gone.Format(layout); p.names(gone) && !p.interval[gone.Hour()] && seen[gone].IsZero() {
				all = append(all, due{t, name, fmt.Sprintf("%s %s%s", t.Format(layout), name, offset(t.Add(-time.Minute)))})
			}
		}
		if p.names(c) && (p.interval[c.Hour()] || seen[c].Equal(t)) {
			name := c.Format(layout)
			all = append(all, due{t, name, fmt.Sprintf("%s %s%s", t.Format(layout), name, offset(t))})
		}
	}
	slices.SortStableFunc(all, func(a, b due) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return strings.Compare(a.civil, b.civil)
	})
	for _, d := range all {
		out = append(out, d.text)
	}
	return out
}

func drawPlain(t *rapid.T) (p plain, expression string) {
	p = plain{map[int]bool{}, map[int]bool{}, map[int]bool{}}
	var parts []string
	for range rapid.IntRange(1, 3).Draw(t, "parts of the hour") {
		switch rapid.SampledFrom([]string{"hour", "hour", "range", "step", "star"}).Draw(t, "part") {
		case "hour":
			h := rapid.IntRange(0, 23).Draw(t, "hour")
			p.hours[h] = true
			parts = append(parts, fmt.Sprint(h))
		case "range":
			from := rapid.IntRange(0, 22).Draw(t, "from")
			to := rapid.IntRange(from+1, 23).Draw(t, "to")
			for h := from; h <= to; h++ {
				p.hours[h], p.interval[h] = true, true
			}
			parts = append(parts, fmt.Sprintf("%d-%d", from, to))
		case "step":
			step := rapid.IntRange(2, 7).Draw(t, "step")
			for h := 0; h < 24; h += step {
				p.hours[h], p.interval[h] = true, true
			}
			parts = append(parts, fmt.Sprintf("*/%d", step))
		case "star":
			for h := range 24 {
				p.hours[h], p.interval[h] = true, true
			}
			parts = append(parts, "*")
		}
	}
	var minutes []string
	for _, m := range rapid.SliceOfNDistinct(rapid.IntRange(0, 59), 1, 3, rapid.ID).Draw(t, "minutes") {
		p.minutes[m] = true
		minutes = append(minutes, fmt.Sprint(m))
	}
	return p, strings.Join(minutes, ",") + " " + strings.Join(parts, ",") + " * * *"
}

// S-3: over many zones and years, the walk gives what a walk minute by minute gives that goes by the words of the rule.
func TestTheWalkIsThatOfTheRule(t *testing.T) {
	seen := map[time.Time]time.Time{}
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom(zones).Draw(t, "zone")
		p, expression := drawPlain(t)
		s := parse(t, expression, zone)
		location, err := time.LoadLocation(zone)
		require.NoError(t, err)
		at := time.Date(rapid.IntRange(1975, 2090).Draw(t, "year"), time.Month(rapid.IntRange(1, 12).Draw(t, "month")), 1, 0, 0, 0, 0, time.UTC)
		if _, end := at.In(location).ZoneBounds(); !end.IsZero() && end.Year() < 2100 {
			at = end.UTC().Truncate(time.Hour)
		}
		from, until := at.Add(-36*time.Hour), at.Add(36*time.Hour)
		var got []string
		for d := range s.Between(schedule.Cursor{Instant: from.Add(-time.Second)}, until.Add(-time.Second)) {
			got = append(got, d.Instant.Format("2006-01-02T15:04")+" "+d.Key())
		}
		require.Equal(t, p.brute(seen, location, from, until), got, "%s in %s around %s", expression, zone, at)
	})
}

// S-1: a walk passes the ends of leap years behind the table of its zone, where time.ZoneBounds stands still.
func TestAWalkPassesFarLeapYears(t *testing.T) {
	for _, zone := range []string{"America/Los_Angeles", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe"} {
		s := parse(t, "30 12 * * *", zone)
		from := utc("2040-06-01T00:00:00")
		days := 0
		for d := range s.Between(schedule.Cursor{Instant: from}, from.AddDate(10, 0, 0)) {
			require.Equal(t, "12:30", d.Instant.In(mustLoad(t, zone)).Format("15:04"))
			days++
		}
		require.InDelta(t, 3652, days, 1, zone)
	}
}

func mustLoad(t *testing.T, zone string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(zone)
	require.NoError(t, err)
	return l
}

// S-1: keys of one schedule are never the same, and instants never go back, over five years of each zone.
func TestKeysAreUnique(t *testing.T) {
	for _, zone := range zones {
		s := parse(t, "30 0,1,2,3,12-23/4 * * *", zone)
		seen := map[string]bool{}
		var last time.Time
		for d := range s.Between(schedule.Cursor{Instant: utc("2007-01-01T00:00:00")}, utc("2012-01-01T00:00:00")) {
			if seen[d.Key()] || d.Instant.Before(last) {
				t.Fatalf("%s: %s", zone, d.Key())
			}
			seen[d.Key()], last = true, d.Instant
		}
	}
}
