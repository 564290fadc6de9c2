// Package exactjson says which JSON comes out of every reader as it went in, whatever language it is written in.
package exactjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Check refuses what would not come out as it went in: what is no JSON or no UTF-8, a number that does not fit into 64 bits, a key
// that stands twice in an object, and nesting beyond 64 (HC-49). at is what the value is called, as body; an error begins with the
// place of what it refuses, as body.a[0].
func Check(value []byte, at string) error {
	if !utf8.Valid(value) {
		return fmt.Errorf("%s is not UTF-8", at)
	}
	w := walk{json.NewDecoder(bytes.NewReader(value)), at}
	w.dec.UseNumber()
	if err := w.value(at, 0); err != nil {
		return err
	}
	if _, err := w.dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("behind the JSON value of %s stands something else", at)
	}
	return nil
}

const maxNesting = 64

type walk struct {
	dec  *json.Decoder
	root string
}

func (w walk) value(at string, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("%s is nested deeper than %d", shortened(at), maxNesting)
	}
	token, err := w.dec.Token()
	if err != nil {
		return w.notJSON(err)
	}
	switch t := token.(type) {
	case json.Number:
		return checkNumber(at, t.String())
	case json.Delim:
		if t == '[' {
			for i := 0; w.dec.More(); i++ {
				if err := w.value(under(at, "["+strconv.Itoa(i)+"]"), depth+1); err != nil {
					return err
				}
			}
		} else if err := w.object(at, depth); err != nil {
			return err
		}
		_, err := w.dec.Token() // its end
		return w.notJSON(err)
	}
	return nil
}

func (w walk) object(at string, depth int) error {
	seen := map[string]bool{}
	for w.dec.More() {
		token, err := w.dec.Token()
		if err != nil {
			return w.notJSON(err)
		}
		key, _ := token.(string)
		if seen[key] {
			return fmt.Errorf("%s stands twice", shortened(under(at, "."+key)))
		}
		seen[key] = true
		if err := w.value(under(at, "."+key), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// checkNumber: a whole number must fit into 64 bits, any other into a float64.
func checkNumber(at, n string) error {
	const shown = 40
	if !strings.ContainsAny(n, ".eE") {
		if _, err := strconv.ParseInt(n, 10, 64); err == nil {
			return nil
		}
		if _, err := strconv.ParseUint(n, 10, 64); err == nil {
			return nil
		}
		return fmt.Errorf("%s: %s does not fit into 64 bits, and is not rounded", shortened(at), n[:min(len(n), shown)])
	}
	if f, err := strconv.ParseFloat(n, 64); err != nil || math.IsInf(f, 0) {
		return fmt.Errorf("%s: %s does not fit into 64 bits", shortened(at), n[:min(len(n), shown)])
	}
	return nil
}

const shownPlace = 100

// under is the place of a part of a value. No more of it is kept than an error shows: the values of an array under a long key
// would else cost that key each.
func under(at, part string) string {
	if len(at) > shownPlace {
		return at
	}
	return at + part[:min(len(part), shownPlace+1)]
}

func shortened(at string) string {
	if len(at) > shownPlace {
		return strings.ToValidUTF8(at[:shownPlace], "") + "…"
	}
	return at
}

func (w walk) notJSON(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s is no JSON: it ends too early", w.root)
	}
	return fmt.Errorf("%s is no JSON: %w", w.root, err)
}
