package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Form is how the value of a key is written.
type Form string

const (
	Duration Form = "duration" // 90s, 5m, 24h, 30d, 1d12h; days and weeks have 24 and 168 hours
	Bytes    Form = "size"     // 512MiB, 64KiB, 1GB
	Count    Form = "count"    // a bare number, the only form that is one
	Rate     Form = "rate"     // 40/s
	Bool     Form = "bool"     // true or false
	Text     Form = "text"
	Choice   Form = "choice"  // one of a few words
	Path     Form = "path"    // a relative one starts at the configuration file; ~ is the home folder
	Listing  Form = "list"    // of texts; in a variable separated by commas
	Ref      Form = "secret"  // a reference: file:/path, env:NAME or cred:NAME
	Any      Form = "json"    // handed on as it is
	Section  Form = "section" // a mapping with keys of its own
)

// unit is one of a form's, with what it is worth in the base of the form.
type unit struct {
	name  string
	worth int64
}

var (
	durationUnits = []unit{
		{"w", int64(7 * 24 * time.Hour)}, {"d", int64(24 * time.Hour)}, {"h", int64(time.Hour)}, {"ms", int64(time.Millisecond)},
		{"m", int64(time.Minute)}, {"s", int64(time.Second)},
	}
	sizeUnits = []unit{
		{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
	}
)

var errRange = errors.New("is too large")

// parseDuration reads a sum of numbers with units. 0 alone needs none.
func parseDuration(text string) (time.Duration, error) {
	n, err := parseSum(text, durationUnits)
	if errors.Is(err, errRange) {
		return 0, fmt.Errorf("%q %w", text, err)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is no duration: write a number with a unit, as 30s, 5m, 24h or 30d", text)
	}
	return time.Duration(n), nil
}

// ParseSize reads a size: a whole number with a unit, as 512MiB or 64KiB, or 0.
func ParseSize(text string) (Size, error) {
	n, err := parseSum(text, sizeUnits)
	if errors.Is(err, errRange) {
		return 0, fmt.Errorf("%q %w", text, err)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is no size: write a number with a unit, as 512MiB or 64KiB", text)
	}
	return Size(n), nil
}

// parseSum reads NUMBER UNIT, once or more, without blanks. Numbers are whole.
func parseSum(text string, units []unit) (int64, error) {
	if text == "0" {
		return 0, nil
	}
	wrong := errors.New("it is none")
	if text == "" {
		return 0, wrong
	}
	var sum int64
	for text != "" {
		digits := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
		if digits < 1 {
			return 0, wrong
		}
		n, err := strconv.ParseInt(text[:digits], 10, 64)
		if err != nil {
			return 0, errRange
		}
		text = text[digits:]
		i := slices.IndexFunc(units, func(u unit) bool {
			rest, ok := strings.CutPrefix(text, u.name)
			return ok && (rest == "" || rest[0] >= '0' && rest[0] <= '9')
		})
		if i < 0 {
			return 0, wrong
		}
		if n > (math.MaxInt64-sum)/units[i].worth {
			return 0, errRange
		}
		sum, text = sum+n*units[i].worth, text[len(units[i].name):]
	}
	return sum, nil
}

// Size is a number of bytes.
type Size int64

func (s Size) String() string { return inLargest(int64(s), sizeUnits[:3], "B") }

// durationText is the form in which a duration is read: the largest unit of which it is a whole number.
func durationText(d time.Duration) string {
	if d%time.Millisecond != 0 {
		return d.String()
	}
	return inLargest(int64(d), []unit{durationUnits[1], durationUnits[2], durationUnits[4], durationUnits[5], durationUnits[3]}, "s")
}

func inLargest(n int64, units []unit, least string) string {
	for _, u := range units {
		if n != 0 && n%u.worth == 0 {
			return strconv.FormatInt(n/u.worth, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + least
}

// within holds a value to the bounds of its key.
func (k Key) within(n int64, parse func(string) int64) error {
	switch {
	case n == 0 && k.zero:
		return nil
	case k.Min != "" && n < parse(k.Min), k.Max != "" && n > parse(k.Max):
		return fmt.Errorf("is out of bounds: want %s", k.Bounds())
	}
	return nil
}

// Bounds are in words; empty: there are none.
func (k Key) Bounds() string {
	var out string
	switch {
	case k.Min != "" && k.Max != "":
		out = k.Min + " to " + k.Max
	case k.Min != "":
		out = "at least " + k.Min
	case k.Max != "":
		out = "at most " + k.Max
	}
	if k.zero && k.Min != "" && k.Min != "0" {
		out = "0, or " + out
	}
	return out
}

// hint is an example of a value.
func (k Key) hint() string {
	if k.Default != "" {
		return "for example " + k.Default
	}
	return map[Form]string{
		Duration: "for example 30s", Bytes: "for example 512MiB", Count: "a whole number without a unit", Rate: "for example 40/s",
		Bool: "true or false", Listing: "for example [a, b]", Ref: "for example env:NAME", Section: "a mapping",
	}[k.Form]
}

func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// Rounded is a size for people, down to whole units.
func (s Size) Rounded() string {
	for _, u := range sizeUnits[:3] {
		if int64(s) >= u.worth {
			return strconv.FormatInt(int64(s)/u.worth, 10) + " " + u.name
		}
	}
	return s.String()
}
