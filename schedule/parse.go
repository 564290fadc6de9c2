package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // for machines without zone data

	cron "github.com/netresearch/go-cron"
)

// Schedule is a cron expression in a time zone. The zero value is never due.
type Schedule struct {
	expression, zone string
	location         *time.Location

	every  time.Duration // of @every; 0: it has fields
	anchor time.Time     // from which @every counts

	second, minute, hour, dom, month, dow uint64 // bit n: value n
	anyDay                                bool   // dom or dow begins with *, so both must match; else one is enough
	interval                              uint64 // hours that a *, step or range of the hour field covers (S-3)
}

// maxEvery bounds @every: what comes less often is a cron expression.
const maxEvery = 366 * 24 * time.Hour

var fields = cron.MustNewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// Parse reads an expression of five fields, of six with a leading field of seconds, or "@every DURATION" (S-1), and the
// name of an IANA time zone. As in cron, a time must match the day of the month or the day of the week if both are given,
// and 7 is Sunday as 0 is. The errors say what is wrong and what to write.
func Parse(expression, zone string) (Schedule, error) {
	s := Schedule{expression: strings.Join(strings.Fields(expression), " "), zone: zone}
	switch zone {
	case "":
		return s, errors.New("time zone is empty: name one, for example Europe/Berlin or UTC")
	case "Local":
		return s, errors.New(`time zone "Local" is another one on each machine: name one, for example Europe/Berlin or UTC`)
	}
	var err error
	if s.location, err = time.LoadLocation(zone); err != nil {
		return s, fmt.Errorf("time zone %q is not known: use a name of the IANA database, for example Europe/Berlin or UTC", zone)
	}
	if length, ok := strings.CutPrefix(s.expression, "@every "); ok {
		return s.parseEvery(length)
	}
	return s.parseFields()
}

func (s Schedule) parseEvery(length string) (Schedule, error) {
	every, err := time.ParseDuration(length)
	switch {
	case err != nil:
		return s, fmt.Errorf("cron %q: %q is no length of time: write one like 90s, 15m or 6h", s.expression, length)
	case every < time.Second || every > maxEvery || every%time.Second != 0:
		return s, fmt.Errorf("cron %q: use whole seconds, from 1s to %s", s.expression, maxEvery)
	}
	s.every, s.anchor = every, time.Unix(0, 0).UTC()
	return s, nil
}

func (s Schedule) parseFields() (Schedule, error) {
	parts := strings.Fields(s.expression)
	const least, most = 5, 6
	switch {
	case len(parts) == 0:
		return s, errors.New("cron is empty: write five fields, for example \"15 2 * * *\"")
	case strings.HasPrefix(parts[0], "@"):
		return s, fmt.Errorf("cron %q: of the words only @every is known: write five fields, for example \"0 0 * * *\" for each midnight", s.expression)
	case strings.Contains(s.expression, "="):
		return s, fmt.Errorf("cron %q: the time zone has a field of its own: name it there", s.expression)
	case len(parts) < least, len(parts) > most:
		return s, fmt.Errorf("cron %q has %d fields: write minute, hour, day of the month, month, day of the week, with seconds before them if you need them",
			s.expression, len(parts))
	}
	spec, err := parsed(s.expression)
	if err != nil {
		return s, fmt.Errorf("cron %q: %w", s.expression, err)
	}
	s.second, s.minute, s.hour, s.dom, s.month = spec.Second, spec.Minute, spec.Hour, spec.Dom, spec.Month
	s.dow = cron.NormalizeDOW(spec.Dow)
	days := parts[len(parts)-3:]
	s.anyDay = isAny(days[0]) || isAny(days[2])
	if s.interval, err = intervalHours(parts[len(parts)-4]); err != nil {
		return s, fmt.Errorf("cron %q: %w", s.expression, err)
	}
	if _, ok := s.next(Cursor{Instant: reference}); !ok {
		return s, fmt.Errorf("cron %q is never due: look at its day and month", s.expression)
	}
	return s, nil
}

// reference is where the look for a first due time begins: a leap year comes within the search.
var reference = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func isAny(field string) bool { return strings.HasPrefix(field, "*") || field == "?" }

func parsed(expression string) (*cron.SpecSchedule, error) {
	got, err := fields.Parse(expression)
	if err != nil {
		return nil, err
	}
	spec, ok := got.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("the parser has read it as %T", got)
	}
	return spec, nil
}

// intervalHours are the hours that the field covers by a *, a step or a range. It goes by the text, for the bits do not tell
// a range from a list.
func intervalHours(field string) (hours uint64, err error) {
	for part := range strings.SplitSeq(field, ",") {
		if part == "" || strings.Trim(part, "0123456789") == "" {
			continue
		}
		spec, err := parsed("0 " + part + " * * *")
		if err != nil {
			return 0, err
		}
		hours |= spec.Hour
	}
	return hours, nil
}

// Anchored is the schedule with its @every counted from a time, to the second. A schedule with fields is itself.
func (s Schedule) Anchored(at time.Time) Schedule {
	s.anchor = at.UTC().Truncate(time.Second)
	return s
}

// Expression is what was parsed, with single spaces.
func (s Schedule) Expression() string { return s.expression }

// Zone is the name of the time zone.
func (s Schedule) Zone() string { return s.zone }
