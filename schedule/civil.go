package schedule

import (
	"fmt"
	"iter"
	"time"
)

// civil is a local date and time, as the seconds that it would be since 1970 if the zone were UTC.
type civil int64

const daySeconds = 24 * 60 * 60

func civilOf(t time.Time, offset int) civil { return civil(t.Unix() + int64(offset)) }

// instant is where the civil time lies under an offset.
func (c civil) instant(offset int) time.Time { return time.Unix(int64(c)-int64(offset), 0).UTC() }

func (c civil) hour() int { return int(mod(int64(c), daySeconds) / 3600) }

func mod(a, b int64) int64 { return ((a % b) + b) % b }

// key is the civil time with its offset: 2026-10-25T02:30+01:00. Seconds stand where there are any.
func (c civil) key(offset int) string {
	return clip(time.Unix(int64(c), 0).UTC().Format("2006-01-02T15:04:05"), 3) + offsetText(offset)
}

func offsetText(offset int) string {
	sign := '+'
	if offset < 0 {
		sign, offset = '-', -offset
	}
	return clip(fmt.Sprintf("%c%02d:%02d:%02d", sign, offset/3600, offset/60%60, offset%60), 3)
}

// clip leaves out seconds that are none.
func clip(text string, n int) string {
	if text[len(text)-n:] == ":00" {
		return text[:len(text)-n]
	}
	return text
}

// civilOfKey reads the civil time of a key, without its offset; false: it is none.
func civilOfKey(key string) (civil, bool) {
	const date, minute = len("2006-01-02T"), len("2006-01-02T15:04")
	for i := date; i < len(key); i++ {
		if key[i] != '+' && key[i] != '-' {
			continue
		}
		layout := "2006-01-02T15:04:05"
		if i == minute {
			layout = layout[:minute]
		}
		t, err := time.Parse(layout, key[:i])
		return civil(t.Unix()), err == nil
	}
	return 0, false
}

// times are the civil times in [from, to) that the fields name.
func (s Schedule) times(from, to civil) iter.Seq[civil] {
	return func(yield func(civil) bool) {
		for midnight := from - civil(mod(int64(from), daySeconds)); midnight < to; midnight += daySeconds {
			if !s.onDay(midnight) {
				continue
			}
			for hour := range 24 {
				if s.hour>>hour&1 == 0 || midnight+civil(hour+1)*3600 <= from {
					continue
				}
				if !s.inHour(midnight+civil(hour)*3600, from, to, yield) {
					return
				}
			}
		}
	}
}

func (s Schedule) inHour(begin, from, to civil, yield func(civil) bool) bool {
	for minute := range 60 {
		if s.minute>>minute&1 == 0 {
			continue
		}
		for second := range 60 {
			if s.second>>second&1 == 0 {
				continue
			}
			c := begin + civil(minute*60+second)
			if c < from {
				continue
			}
			if c >= to || !yield(c) {
				return false
			}
		}
	}
	return true
}

// onDay reports a day on which the schedule is due.
func (s Schedule) onDay(midnight civil) bool {
	t := time.Unix(int64(midnight), 0).UTC()
	_, month, day := t.Date()
	if s.month>>int(month)&1 == 0 {
		return false
	}
	dom, dow := s.dom>>day&1 == 1, s.dow>>int(t.Weekday())&1 == 1
	if s.anyDay {
		return dom && dow
	}
	return dom || dow
}
