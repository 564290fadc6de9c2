// Package script plays scenario files: commands that people can read, on a world of package sim, and what has happened as
// text. Each command has a Go form, which prints itself as its line and is read back from it, so that a program can write a
// scenario as well as a person: a schedule that was found to fail is a file that reproduces it.
//
// docs/SCENARIO_FILES.md explains the language. A Player plays the commands of one file, one after the other.
package script

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Command is a line of a scenario file.
type Command interface {
	String() string // the line, which Parse reads back
	play(ctx context.Context, p *Player) error
}

// Setting is a value of the configuration, by its key of docs/SPEC.md section 20.
type Setting struct{ Key, Value string }

// commands are all of them, by the words with which their lines begin. What a field of a command is, its tag says:
//
//	arg        a word, in this order; "arg,optional" may be missing, and all args behind it
//	key=NAME   NAME=VALUE, between the words
//	settings   all other NAME=VALUE
//	rest=WORD  what stands behind WORD, to the end of the line
//	rest       what stands behind everything else, to the end of the line
var commands = map[string]Command{
	"world": World{}, "configure": Configure{}, "sync": Sync{}, "dataset": Dataset{}, "provider": Provider{}, "effect": Effect{},
	"consume": Consume{}, "schedule": Schedule{}, "unschedule": Unschedule{},

	"plan": Plan{}, "request": Request{}, "cancel run": CancelRun{}, "cancel unit": CancelUnit{}, "release": Release{},
	"retry": Retry{}, "pause": Pause{}, "resume": Resume{}, "park": Park{}, "redrive": Redrive{}, "resolve": Resolve{},
	"pause schedule": PauseSchedule{}, "resume schedule": ResumeSchedule{}, "run schedule": RunSchedule{},
	"confirm clock": ConfirmClock{}, "release hold": ReleaseHold{}, "submit": Submit{}, "post": Post{}, "worker": Worker{},

	"run": Run{}, "advance": Advance{}, "steps": Steps{}, "step": Step{}, "until": Until{}, "crash": Crash{}, "kill": Kill{},
	"boot": Boot{}, "stop": Stop{}, "hold": Hold{}, "wake": Wake{}, "clock": Clock{}, "fault": Fault{}, "fault off": FaultOff{},
	"backup": Backup{}, "restore": Restore{},
	"purge": Purge{}, "calm": Calm{}, "pass": Pass{}, "rebuild": Rebuild{}, "archive": Archive{}, "quietly": Quietly{},

	"show": Show{}, "check": Check{},
}

// Parse reads a line. What can make no sense, whatever the world is, is refused, and the error says which word was meant, if one
// is near.
func Parse(text string) (Command, error) {
	c, err := read(text)
	if err == nil {
		err = sense(c)
	}
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return c, nil
}

// read takes a line apart.
func read(text string) (Command, error) {
	words, err := scan(text)
	if err != nil {
		return nil, err
	}
	for n := min(2, len(words)); n > 0; n-- {
		c, known := commands[strings.Join(words[:n], " ")]
		if !known {
			continue
		}
		v := reflect.New(reflect.TypeOf(c)).Elem()
		if err := parseFields(v, words[n:]); err != nil {
			return nil, err
		}
		return v.Interface().(Command), nil
	}
	if len(words) > 0 {
		if near := nearest(words[0], Words()); near != "" {
			return nil, fmt.Errorf("this is no command: did you mean %s?", near)
		}
	}
	return nil, errors.New("this is no command")
}

// checked is a command that can make no sense by itself, whatever the world is.
type checked interface{ check() error }

func sense(c Command) error {
	if c, ok := c.(checked); ok {
		return c.check()
	}
	return nil
}

// scan cuts a line into words. Quotes, as in Go, keep what is between them together, and stay.
func scan(line string) (words []string, err error) {
	for line = strings.TrimLeft(line, " "); line != ""; line = strings.TrimLeft(line, " ") {
		end := 0
		for end < len(line) && line[end] != ' ' {
			if line[end] != '"' || end > 0 && line[end-1] != '=' {
				end++
				continue
			}
			quoted, err := strconv.QuotedPrefix(line[end:])
			if err != nil {
				return nil, fmt.Errorf("a quote does not end: %s", line[end:])
			}
			end += len(quoted)
		}
		words = append(words, line[:end])
		line = line[end:]
	}
	return words, nil
}

// shape is how the fields of a command stand in its line. -1: there is none.
type shape struct {
	args     []int
	needed   int // of the args
	keys     map[string]int
	order    []string // of the keys
	settings int
	rest     int
	restWord string
}

func shapeOf(t reflect.Type) shape {
	s := shape{keys: map[string]int{}, settings: -1, rest: -1}
	for i := range t.NumField() {
		tag, option, _ := strings.Cut(t.Field(i).Tag.Get("line"), ",")
		what, name, _ := strings.Cut(tag, "=")
		switch what {
		case "arg":
			s.args = append(s.args, i)
			if option != "optional" {
				s.needed = len(s.args)
			}
		case "key":
			s.keys[name] = i
			s.order = append(s.order, name)
		case "settings":
			s.settings = i
		case "rest":
			s.rest, s.restWord = i, name
		default:
			panic(fmt.Sprintf("script: field %s of %s has the tag %q", t.Field(i).Name, t, tag))
		}
	}
	return s
}

var errIncomplete = errors.New("words are missing")

func parseFields(v reflect.Value, words []string) error {
	s := shapeOf(v.Type())
	args := 0
	said := map[string]bool{}
	for i, w := range words {
		key, value, isKey := strings.Cut(w, "=")
		field, known := s.keys[key]
		if isKey && (known || s.settings >= 0) {
			if said[key] {
				return fmt.Errorf("%s is said twice", key)
			}
			said[key] = true
		}
		switch {
		case s.restWord != "" && w == s.restWord:
			v.Field(s.rest).SetString(strings.Join(words[i+1:], " "))
			return s.complete(args)
		case isKey && known:
			if err := setField(v.Field(field), value); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		case isKey && s.settings >= 0:
			to := v.Field(s.settings)
			to.Set(reflect.Append(to, reflect.ValueOf(Setting{key, value})))
		case args < len(s.args):
			if err := setField(v.Field(s.args[args]), w); err != nil {
				return fmt.Errorf("%s: %w", w, err)
			}
			args++
		case s.rest >= 0 && s.restWord == "":
			v.Field(s.rest).SetString(strings.Join(words[i:], " "))
			return s.complete(args)
		default:
			return s.what(w, key, isKey)
		}
	}
	return s.complete(args)
}

// what asks for a word that has no place in a command.
func (s shape) what(word, key string, isKey bool) error {
	known := slices.Clone(s.order)
	if s.restWord != "" {
		known = append(known, s.restWord)
	}
	if near := nearest(key, known); near != "" {
		if isKey {
			near += "="
		}
		return fmt.Errorf("what is %s? did you mean %s", word, near)
	}
	return fmt.Errorf("what is %s?", word)
}

func (s shape) complete(args int) error {
	if args < s.needed {
		return errIncomplete
	}
	return nil
}

func setField(f reflect.Value, text string) error {
	if _, ok := f.Interface().(time.Duration); ok {
		d, err := parseDuration(text)
		if d < 0 {
			return fmt.Errorf("%s is less than nothing", text)
		}
		f.SetInt(int64(d))
		return err
	}
	switch f.Kind() {
	case reflect.String:
		if strings.HasPrefix(text, `"`) {
			unquoted, err := strconv.Unquote(text)
			if err != nil {
				return err
			}
			text = unquoted
		}
		f.SetString(text)
		return inVocabulary(f.Type(), text)
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if n < 0 {
			return fmt.Errorf("%d is less than nothing", n)
		}
		f.SetInt(int64(n))
		return err
	case reflect.Uint64:
		n, err := strconv.ParseUint(text, 10, 64)
		f.SetUint(n)
		return err
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		f.SetBool(b)
		return err
	case reflect.Slice:
		list := reflect.MakeSlice(f.Type(), 0, 0) // not nil, also if it is empty: sources= selects none (P-1)
		if text != "" {
			for _, part := range strings.Split(text, ",") {
				if part == "" {
					return errors.New("a word is missing beside a comma")
				}
				if err := inVocabulary(f.Type().Elem(), part); err != nil {
					return err
				}
				list = reflect.Append(list, reflect.ValueOf(part).Convert(f.Type().Elem()))
			}
		}
		f.Set(list)
		return nil
	}
	panic(fmt.Sprintf("script: a field of type %s", f.Type()))
}

// line prints a command. What is zero is left out, but an empty list.
func line(c Command) string {
	v := reflect.ValueOf(c)
	var words []string
	for name, of := range commands {
		if reflect.TypeOf(of) == v.Type() {
			words = append(words, name)
		}
	}
	s := shapeOf(v.Type())
	for i, field := range s.args {
		if i < s.needed || !v.Field(field).IsZero() {
			text := fieldText(v.Field(field))
			if text == s.restWord || strings.Contains(text, "=") && !strings.HasPrefix(text, `"`) {
				text = strconv.Quote(text)
			}
			words = append(words, text)
		}
	}
	for _, key := range s.order {
		if f := v.Field(s.keys[key]); !f.IsZero() {
			words = append(words, key+"="+fieldText(f))
		}
	}
	if s.settings >= 0 {
		for i := range v.Field(s.settings).Len() {
			x := v.Field(s.settings).Index(i).Interface().(Setting)
			words = append(words, x.Key+"="+x.Value)
		}
	}
	if s.rest >= 0 && !v.Field(s.rest).IsZero() {
		if s.restWord != "" {
			words = append(words, s.restWord)
		}
		words = append(words, v.Field(s.rest).String())
	}
	return strings.Join(words, " ")
}

func fieldText(f reflect.Value) string {
	if d, ok := f.Interface().(time.Duration); ok {
		return durationText(d)
	}
	switch f.Kind() {
	case reflect.String:
		s := f.String()
		if s == "" || s[0] == '"' || strings.Contains(s, " ") || strings.Contains(s, `="`) || !strconv.CanBackquote(s) {
			return strconv.Quote(s)
		}
		return s
	case reflect.Slice:
		var parts []string
		for i := range f.Len() {
			parts = append(parts, f.Index(i).String())
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(f.Interface())
}

const day = 24 * time.Hour

// parseDuration knows days, too.
func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		return time.Duration(n) * day, err
	}
	return time.ParseDuration(text)
}

// durationText is 1h30m and not 1h30m0s.
func durationText(d time.Duration) string {
	if d != 0 && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	s := d.String()
	for _, nothing := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, nothing) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// Words are those with which lines begin, in order.
func Words() (words []string) {
	for name := range commands {
		words = append(words, name)
	}
	slices.Sort(words)
	return words
}
