package crash

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
)

// A case file comes from somebody else. What is read of it is bounded.
const (
	MaxCaseBytes  = 64 << 20
	MaxCaseEvents = 50_000
	maxCaseLine   = 1 << 20
	maxCaseLines  = 2 * MaxCaseEvents
	maxKills      = 1000
)

// ReadCase reads a case file. Errors name the line.
func ReadCase(r io.Reader) (Case, error) {
	lines := bufio.NewScanner(io.LimitReader(r, MaxCaseBytes+1))
	lines.Buffer(nil, maxCaseLine)
	c := &caseReader{types: map[string]events.Type{}, versions: map[events.StreamID]events.Version{}}
	for _, t := range events.Types() {
		c.types[t.String()] = t
	}
	c.out.scene.says, c.out.scene.replies = recording{}, replies{}
	n, bytes := 0, 0
	for lines.Scan() {
		n++
		bytes += len(lines.Bytes()) + 1
		if err := c.line(n, lines.Text()); err != nil {
			return Case{}, fmt.Errorf("line %d: %w", n, err)
		}
		if n >= maxCaseLines || bytes > MaxCaseBytes {
			return Case{}, fmt.Errorf("line %d: the file is longer than any case: at most %d lines and %d bytes are read", n, maxCaseLines, MaxCaseBytes)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return Case{}, fmt.Errorf("line %d: it is longer than %d bytes", n+1, maxCaseLine)
	case err != nil:
		return Case{}, fmt.Errorf("line %d: %w", n+1, err)
	case n == 0:
		return Case{}, fmt.Errorf("line 1: the file is empty: want %q", caseHead)
	case !c.ended:
		return Case{}, fmt.Errorf("line %d: the file ends here, without its line end", n)
	}
	return c.out, nil
}

// caseReader is where a file stands.
type caseReader struct {
	out      Case
	types    map[string]events.Type
	versions map[events.StreamID]events.Version
	ended    bool
}

func (c *caseReader) line(n int, text string) error {
	if n == 1 {
		if text != caseHead {
			return fmt.Errorf("%.64q: want %q: it is no case, or one of a newer release", text, caseHead)
		}
		return nil
	}
	word, rest, _ := strings.Cut(text, " ")
	switch {
	case c.ended && text != "":
		return errors.New("there is something behind the end")
	case word == "" || strings.HasPrefix(word, "#"):
		return nil
	}
	switch word {
	case "release":
		c.out.Release = rest
	case "from":
		c.out.From = rest
	case "problem":
		c.out.Problems = append(c.out.Problems, rest)
	case "log":
		c.out.Log = rest
	case "verdict":
		if c.out.Verdict = Verdict(rest); !slices.Contains(Verdicts, c.out.Verdict) {
			return fmt.Errorf("verdict %.64q: want one of %v", rest, Verdicts)
		}
	case "seed":
		seed, err := strconv.ParseUint(rest, 10, 64)
		if err != nil {
			return fmt.Errorf("seed %.64q: want a whole number", rest)
		}
		c.out.scene.seed = seed
	case "kill":
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 || len(c.out.scene.kills) == maxKills {
			return fmt.Errorf("kill %.64q: want the number of a boundary, in at most %d lines", rest, maxKills)
		}
		c.out.scene.kills = append(c.out.scene.kills, n)
	case "config":
		c.out.scene.knobs = json.RawMessage(rest)
		_, err := towline.RecordedKnobs(c.out.scene.knobs)
		return err
	case "sync":
		return c.sync(rest)
	case "unit":
		return c.unit(rest)
	case "message":
		return c.message(rest)
	case "effect":
		var f failure
		if err := decode(rest, &f); err != nil {
			return err
		}
		c.out.scene.failures = append(c.out.scene.failures, f)
	case "call":
		var call call
		if err := decode(rest, &call); err != nil {
			return err
		}
		c.out.scene.calls = append(c.out.scene.calls, call)
	case "event":
		return c.event(rest)
	case "end":
		if c.ended = rest == strconv.Itoa(len(c.out.events)); !c.ended {
			return fmt.Errorf("end %.64q: there were %d events: something is missing", rest, len(c.out.events))
		}
		switch {
		case len(c.out.events) == 0:
			return errors.New("it has no events")
		case c.out.Verdict == "":
			return errors.New("it has no verdict")
		}
	default:
		return fmt.Errorf("%.64q is no word of a case", word)
	}
	return nil
}

// decode reads one JSON value, and refuses a field that nobody knows: it would be left out in silence.
func decode(text string, to any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if d.More() {
		return errors.New("there is something behind the JSON")
	}
	return nil
}

func (c *caseReader) sync(rest string) error {
	var s syncSetup
	if err := decode(rest, &s); err != nil {
		return err
	}
	c.out.scene.syncs = append(c.out.scene.syncs, s)
	return nil
}

func (c *caseReader) unit(rest string) error {
	text, answers, _ := strings.Cut(rest, " ")
	id, err := events.ParseUnitID(text)
	if err != nil {
		return err
	}
	var list []answer
	if err := decode(answers, &list); err != nil {
		return err
	}
	for _, a := range list {
		if a.Rows < 0 || a.Took < 0 || a.After < 0 || a.Waits < 0 {
			return errors.New("a number is negative")
		}
	}
	c.out.scene.says[id] = list
	return nil
}

func (c *caseReader) message(rest string) error {
	text, said, _ := strings.Cut(rest, " ")
	id, err := events.ParseMessageID(text)
	if err != nil {
		return err
	}
	var list []reply
	if err := decode(said, &list); err != nil {
		return err
	}
	c.out.scene.replies[id] = list
	return nil
}

func (c *caseReader) event(rest string) error {
	if len(c.out.events) == MaxCaseEvents {
		return fmt.Errorf("there are more than %d events", MaxCaseEvents)
	}
	var e storedEvent
	if err := decode(rest, &e); err != nil {
		return err
	}
	t, ok := c.types[e.Type]
	if !ok {
		return fmt.Errorf("%.64q is no type of an event, or one of a newer release", e.Type)
	}
	stream, err := parseStream(e.Stream)
	if err != nil {
		return err
	}
	event, err := events.Decode(events.Record{Type: t, Schema: e.Schema, Data: e.Data})
	if err != nil {
		return err
	}
	env := events.Envelope{
		Position: events.Position(len(c.out.events) + 1), Tx: e.Tx, Stream: stream, At: e.At, Event: event,
		Meta: events.Meta{Actor: e.Actor, Command: e.Command, Cause: e.Cause, Node: e.Node},
	}
	if problem := c.place(env); problem != "" {
		return errors.New(problem)
	}
	c.versions[stream]++
	env.Version = c.versions[stream]
	c.out.events = append(c.out.events, env)
	return nil
}

// place says why an event cannot stand where it does.
func (c *caseReader) place(env events.Envelope) string {
	var before events.Envelope
	if n := len(c.out.events); n > 0 {
		before = c.out.events[n-1]
	}
	switch {
	case env.Tx != env.Position && env.Tx != before.Tx:
		return fmt.Sprintf("tx %d: want that of the event before, or %d", env.Tx, env.Position)
	case env.At <= 0 || !env.At.Sayable():
		return fmt.Sprintf("at %d: want microseconds since 1970", env.At)
	case env.At < before.At:
		return "its time lies before that of the event before it"
	case env.Tx == before.Tx && env.At != before.At:
		return "a transaction has one time"
	case env.Cause < 0 || env.Cause >= env.Position:
		return fmt.Sprintf("cause %d: want an event before it", env.Cause)
	}
	return ""
}
