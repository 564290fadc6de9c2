package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// setNumber and setText are places that are no variable: entries of a map.
type (
	setNumber func(int)
	setText   func(string)
)

// put reads a value into its place, and returns it as a file would have it.
func (k Key) put(to any, v raw) (shown string, err error) {
	switch place := to.(type) {
	case setNumber:
		n := new(int)
		if err := k.assign(n, v); err != nil {
			return "", err
		}
		place(*n)
		return k.text(n), nil
	case setText:
		text := new(string)
		if err := k.assign(text, v); err != nil {
			return "", err
		}
		place(*text)
		return *text, nil
	}
	if err := k.assign(to, v); err != nil {
		return "", err
	}
	return k.text(to), nil
}

// assign reads a text, or a list of them, into what to points at.
func (k Key) assign(to any, v raw) error {
	if v.list != nil && k.Form != Listing {
		return fmt.Errorf("is a list: want one value, %s", k.hint())
	}
	switch to := to.(type) {
	case *time.Duration:
		d, err := parseDuration(v.text)
		if err != nil {
			return err
		}
		if err := k.within(int64(d), func(text string) int64 { d, _ := parseDuration(text); return int64(d) }); err != nil {
			return err
		}
		if k.zeroIsNever && d == 0 {
			d = -1
		}
		*to = d
	case *Size:
		s, err := ParseSize(v.text)
		if err != nil {
			return err
		}
		*to = s
		return k.within(int64(s), func(text string) int64 { s, _ := ParseSize(text); return int64(s) })
	case *int:
		return k.assignNumber(to, v.text)
	case *bool:
		if v.text != "true" && v.text != "false" {
			return fmt.Errorf("%q: want true or false", v.text)
		}
		*to = v.text == "true"
	case *Secret:
		s, err := parseSecret(v.text)
		if err != nil {
			return err
		}
		*to = s
	case *EnvValue:
		s, err := parseSecret(v.text)
		scheme, _, _ := strings.Cut(v.text, ":")
		switch {
		case err == nil:
			*to = EnvValue{Secret: s}
		case slices.Contains(schemes, scheme): // meant as a reference, and the command would get the reference itself
			return err
		default:
			*to = EnvValue{Text: v.text}
		}
	case *string:
		return k.assignText(to, v.text)
	case *[]string:
		return k.assignList(to, v)
	case *json.RawMessage:
		*to = v.json
	default:
		panic(fmt.Sprintf("config: key %s points at a %T", k.Path, to))
	}
	return nil
}

func (k Key) assignNumber(to *int, text string) error {
	digits := text
	if k.Form == Rate {
		var ok bool
		if digits, ok = strings.CutSuffix(text, "/s"); !ok {
			return fmt.Errorf("%q is no rate: write a number a second, as 40/s", text)
		}
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return fmt.Errorf("%q is no %s: write %s", text, k.Form, k.hint())
	}
	err = k.within(int64(n), func(text string) int64 { n, _ := strconv.Atoi(strings.TrimSuffix(text, "/s")); return int64(n) })
	if err != nil {
		return err
	}
	if k.zeroIsNever && n == 0 {
		n = -1
	}
	*to = n
	return nil
}

func (k Key) assignText(to *string, text string) error {
	if text == "" {
		return errors.New("is empty: write a value, or leave the line out")
	}
	if k.Choices != nil {
		text = strings.ToLower(text)
	}
	if err := k.chosen(text); err != nil {
		return err
	}
	*to = text
	return nil
}

func (k Key) assignList(to *[]string, v raw) error {
	list := v.list
	if list == nil {
		list = []string{v.text}
	}
	for _, text := range list {
		if text == "" {
			return errors.New("holds an empty text")
		}
		if err := k.chosen(text); err != nil {
			return err
		}
	}
	*to = list
	return nil
}

func (k Key) chosen(text string) error {
	if k.Choices == nil || slices.Contains(k.Choices, text) {
		return nil
	}
	for _, c := range k.Choices { // all(N) stands for any number
		prefix, rest, open := strings.Cut(c, "(N)")
		digits, ok := strings.CutPrefix(text, prefix+"(")
		if n, err := strconv.Atoi(strings.TrimSuffix(digits, ")")); open && rest == "" && ok && err == nil && n > 0 && strings.HasSuffix(digits, ")") {
			return nil
		}
	}
	return fmt.Errorf("%q: want %s%s", text, orList(k.Choices), didYouMean(text, k.Choices))
}

// text is the value that from points at, as a file would have it.
func (k Key) text(from any) string {
	switch v := from.(type) {
	case *time.Duration:
		return durationText(k.shown(*v))
	case *Size:
		return v.String()
	case *int:
		n := *v
		if k.zeroIsNever {
			n = max(n, 0)
		}
		if k.Form == Rate {
			return strconv.Itoa(n) + "/s"
		}
		return strconv.Itoa(n)
	case *bool:
		return strconv.FormatBool(*v)
	case *Secret:
		return v.String()
	case *EnvValue:
		return v.String()
	case *string:
		return *v
	case *[]string:
		return "[" + strings.Join(*v, ", ") + "]"
	case *json.RawMessage:
		return string(*v)
	}
	panic(fmt.Sprintf("config: key %s points at a %T", k.Path, from))
}

func (k Key) shown(d time.Duration) time.Duration {
	if k.zeroIsNever {
		return max(d, 0)
	}
	return d
}
