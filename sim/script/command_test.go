package script

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A command prints itself as a line that is read back as the same command: what a program writes, a person can edit.
func TestEveryCommandIsReadBackFromItsLine(t *testing.T) {
	for _, words := range Words() {
		t.Run(words, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c := draw(t, commands[words])
				got, err := read(c.String()) // sense is another matter
				require.NoError(t, err)
				require.Equal(t, c, got, "%s", c)
				require.Equal(t, c.String(), got.String())
			})
		})
	}
}

// draw fills the fields of a command.
func draw(t *rapid.T, of Command) Command {
	word := rapid.StringMatching(`[a-z0-9/.()#,-]{1,8}`)
	v := reflect.New(reflect.TypeOf(of)).Elem()
	missing := false
	for i := range v.NumField() {
		f, tag := v.Field(i), v.Type().Field(i).Tag.Get("line")
		name := v.Type().Field(i).Name
		if missing && tag == "arg,optional" || tag != "arg" && rapid.Bool().Draw(t, "no "+name) {
			missing = missing || tag == "arg,optional"
			continue
		}
		switch {
		case tag == "settings":
			for range rapid.IntRange(1, 3).Draw(t, name) {
				key := fmt.Sprintf("x%d.%s", f.Len(), word.Draw(t, "key")) // none stands twice
				f.Set(reflect.Append(f, reflect.ValueOf(Setting{key, word.Draw(t, "value")})))
			}
		case strings.HasPrefix(tag, "rest"):
			words := rapid.SliceOfN(word, 1, 4).Draw(t, name)
			f.SetString(strings.Join(words, " "))
		case f.Type() == reflect.TypeFor[time.Duration]():
			f.SetInt(rapid.Int64Range(1, int64(100*day)).Draw(t, name))
		case vocabularies[f.Type()] != nil:
			f.SetString(rapid.SampledFrom(vocabularies[f.Type()]).Draw(t, name))
		case f.Kind() == reflect.String && tag == "arg,optional":
			f.SetString(word.Draw(t, name))
		case f.Kind() == reflect.String:
			f.SetString(rapid.OneOf(rapid.String(), word).Draw(t, name))
		case f.Kind() == reflect.Int:
			f.SetInt(int64(rapid.IntRange(1, 99).Draw(t, name)))
		case f.Kind() == reflect.Uint64:
			f.SetUint(rapid.Uint64().Draw(t, name))
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.Kind() == reflect.Slice:
			list := reflect.MakeSlice(f.Type(), 0, 3)
			for range rapid.IntRange(0, 3).Draw(t, name) {
				words := rapid.StringMatching(`[a-z0-9/.-]{1,8}`)
				if known := vocabularies[f.Type().Elem()]; known != nil {
					words = rapid.SampledFrom(known)
				}
				part := words.Draw(t, "part")
				list = reflect.Append(list, reflect.ValueOf(part).Convert(f.Type().Elem()))
			}
			f.Set(list)
		}
	}
	return v.Interface().(Command)
}

// What is no command is refused, and says what is wrong with it.
func TestALineThatIsNoCommandIsRefused(t *testing.T) {
	for line, says := range map[string]string{
		"":                       "this is no command",
		"dance":                  "this is no command",
		"advance":                "words are missing",
		"advance soon":           "invalid duration",
		"advance 1m 2m":          "what is 2m?",
		"plan weather colour=5":  "what is colour=5?",
		`plan weather key="open`: "a quote does not end",
		"kill one":               "invalid syntax",
	} {
		_, err := Parse(line)
		require.ErrorContains(t, err, says, line)
	}
}

// A number of days is a time, too, and a time is written short.
func TestDurations(t *testing.T) {
	for text, d := range map[string]time.Duration{
		"2d": 48 * time.Hour, "-3d": -72 * time.Hour, "1h30m": 90 * time.Minute, "1m1s": 61 * time.Second, "0s": 0, "1h": time.Hour,
		"10m": 10 * time.Minute, "20s": 20 * time.Second,
	} {
		got, err := parseDuration(text)
		require.NoError(t, err)
		require.Equal(t, d, got)
		require.Equal(t, text, durationText(d))
	}
}
