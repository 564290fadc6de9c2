package httpapi

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

// checkJSON refuses a body that would not come out as it went in: what is no JSON or no UTF-8, a number that does not fit
// into 64 bits, a key that stands twice in an object, and nesting without bound (HC-49).
func checkJSON(body []byte) error {
	if !utf8.Valid(body) {
		return errors.New("the body is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if err := checkValue(dec, "body", 0); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("behind the JSON value stands something else")
	}
	return nil
}

const maxNesting = 64

func checkValue(dec *json.Decoder, at string, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("%s is nested deeper than %d", shortened(at), maxNesting)
	}
	token, err := dec.Token()
	if err != nil {
		return notJSON(err)
	}
	switch t := token.(type) {
	case json.Number:
		return checkNumber(at, t.String())
	case json.Delim:
		if t == '[' {
			for i := 0; dec.More(); i++ {
				if err := checkValue(dec, under(at, "["+strconv.Itoa(i)+"]"), depth+1); err != nil {
					return err
				}
			}
		} else if err := checkObject(dec, at, depth); err != nil {
			return err
		}
		_, err := dec.Token() // its end
		return notJSON(err)
	}
	return nil
}

func checkObject(dec *json.Decoder, at string, depth int) error {
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return notJSON(err)
		}
		key, _ := token.(string)
		if seen[key] {
			return fmt.Errorf("%s stands twice", shortened(under(at, "."+key)))
		}
		seen[key] = true
		if err := checkValue(dec, under(at, "."+key), depth+1); err != nil {
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

func notJSON(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the body is no JSON: it ends too early")
	}
	return fmt.Errorf("the body is no JSON: %w", err)
}
