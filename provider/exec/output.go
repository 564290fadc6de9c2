package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/subprocess"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// attempt is one run of the program. What it says comes from two sides: standard output, which one goroutine reads and which
// alone has rows, and descriptor 3.
type attempt struct {
	p      *Provider
	unit   provider.Unit
	sink   sink.Sink
	logger *slog.Logger

	protocol Protocol       // empty: not known yet
	records  map[string]int // by surface; nil: no line of the protocol has come yet
	total    int            // of records
	lines    int            // of standard output that were read

	mu     sync.Mutex // of all below
	said   said
	log    subprocess.Tail
	logged int
	beat   atomic.Int64 // when the sink was last told of a sign of life, in nanoseconds; not under mu
}

// said is what a program has said beside its rows. Of each the last counts.
type said struct {
	state       json.RawMessage
	rows        *int
	fingerprint string
	limited     bool
	after       time.Duration
	account     string
	done, most  int64
}

// maxLogged bounds the lines of one attempt that reach the log of the process, and maxLogLine what is kept of each line.
const (
	maxLogged  = 200
	maxLogLine = 2000
)

// readOutput reads standard output to its end. It returns the line that the output ended within, if it did: that may be half a
// row of a program that was killed, so it counts only if the program has ended well.
func (a *attempt) readOutput(ctx context.Context, r io.Reader) (last []byte, err error) {
	lines := newLineReader(r, maxLine)
	for {
		l, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return nil, err
		case !l.closed && !l.cut:
			return bytes.Clone(l.text), nil
		}
		if err := a.outputLine(ctx, l); err != nil {
			return nil, a.at(lines.n, err)
		}
		a.lines = lines.n
	}
}

// at says in which line of the output something is wrong. What the sink has said has its category already.
func (a *attempt) at(n int, err error) error {
	var ofSink *sinkError
	if errors.As(err, &ofSink) {
		return ofSink.err
	}
	return fmt.Errorf("line %d of its output: %w", n, err)
}

// sinkError is an error of the sink, which is not about the line.
type sinkError struct{ err error }

func (e *sinkError) Error() string { return e.err.Error() }

func (a *attempt) outputLine(ctx context.Context, l line) error {
	text := bytes.TrimSpace(l.text)
	if len(text) == 0 {
		return nil
	}
	if l.cut && (a.protocol == Native || text[0] == '{') {
		return fmt.Errorf("it has more than %d bytes: %s", maxLine, a.p.excerpt(text))
	}
	if a.protocol == "" {
		if !isObject(text) {
			a.logLine(slog.LevelInfo, string(text))
			return nil
		}
		protocol, err := detect(text)
		if err != nil {
			return provider.Fail(provider.Configuration, err)
		}
		a.protocol = protocol
	}
	if a.protocol == Native && (text[0] == '{' || a.records != nil) { // behind the first, each must be one
		w, err := parseWord(text)
		if err != nil {
			return fmt.Errorf("%w: %s", err, a.p.excerpt(text))
		}
		return a.obey(ctx, w)
	}
	switch {
	case !isObject(text) && text[0] == '{': // it may have been meant as a row, and the protocol says that it is none
		a.logLine(slog.LevelWarn, string(text))
		return nil
	case !isObject(text):
		a.logLine(slog.LevelInfo, string(text))
		return nil
	case !utf8.Valid(text):
		return errNotUTF8
	}
	return a.put(ctx, "", nil, bytes.Clone(text))
}

// obey does what a line of the native protocol asks for.
func (a *attempt) obey(ctx context.Context, w word) error {
	if a.records == nil {
		a.records = map[string]int{}
	}
	if w.Kind == kindRecord {
		return a.put(ctx, w.Stream, w.Key, w.Data)
	}
	return a.note(w)
}

// put gives a row to the sink.
func (a *attempt) put(ctx context.Context, surface string, key, data json.RawMessage) error {
	if surface == "" {
		if len(a.unit.Surfaces) != 1 {
			return provider.Fail(provider.Configuration, fmt.Errorf(
				"a row names no stream, and the unit has the surfaces %q: write rows of the native protocol, with a stream", a.unit.Surfaces))
		}
		surface = a.unit.Surfaces[0]
	}
	if a.records == nil {
		a.records = map[string]int{}
	}
	a.records[surface]++
	a.total++
	text, err := a.key(a.records[surface], key, data)
	if errors.Is(err, errKey) {
		err = fmt.Errorf("%w: %s", err, a.p.excerpt(key))
	}
	if err != nil {
		return err
	}
	if err := a.sink.Put(ctx, surface, text, data); err != nil {
		return &sinkError{err}
	}
	return nil
}

// key is that of the nth row of a surface. A number alone would be the key of a row of every window.
func (a *attempt) key(n int, key, data json.RawMessage) (string, error) {
	switch {
	case len(key) > 0 && string(key) != "null":
		return keyText(key)
	case len(a.p.o.Key) > 0:
		return fieldsKey(data, a.p.o.Key)
	case a.unit.Window.From.IsZero():
		return fmt.Sprintf("%09d", n), nil
	}
	return fmt.Sprintf("%s %09d", a.unit.Window.Name(), n), nil
}

// note keeps what is no row.
func (a *attempt) note(w word) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch w.Kind {
	case kindProgress:
		a.said.done, a.said.most = w.Done, w.Total
		a.sink.Progress(w.Done, w.Total)
	case kindState:
		if len(w.State) > events.MaxResultBytes-successDetail {
			return fmt.Errorf("the state has %d bytes: keep it to %d", len(w.State), events.MaxResultBytes-successDetail)
		}
		a.said.state = w.State
	case kindLog:
		a.logText(levelOf(w.Level), w.Text)
	case kindResult:
		a.said.rows, a.said.fingerprint = w.Rows, w.Fingerprint
	case kindRetryAfter:
		const longest = 100 * 24 * time.Hour // the budget of a rate limit is hours
		seconds := min(*w.Seconds, longest.Seconds())
		a.said.limited, a.said.account = true, w.Account
		a.said.after = time.Duration(math.Ceil(seconds * float64(time.Second)))
	}
	return nil
}

// readControl reads descriptor 3 to its end. What is no line of the native protocol is a sign of life only, but a row, which
// must not be lost: stop is called with the first thing that is wrong, and the rest is read for nobody.
func (a *attempt) readControl(r io.Reader, stop func()) error {
	lines := newLineReader(r, maxControlLine)
	var fault error
	for {
		l, err := lines.next()
		if err != nil {
			return fault // an end of any kind: nothing depends on it
		}
		if w, err := parseWord(bytes.TrimSpace(l.text)); err == nil && !l.cut && fault == nil {
			if w.Kind == kindRecord {
				fault = errors.New("a row was written to descriptor 3: rows go to standard output")
			} else {
				fault = a.note(w)
			}
			if fault != nil {
				stop()
			}
		}
	}
}

// heard tells the sink of a sign of life, once a second at most.
func (a *attempt) heard() {
	now := time.Now().UnixNano()
	last := a.beat.Load()
	if now-last < int64(time.Second) || !a.beat.CompareAndSwap(last, now) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sink.Progress(a.said.done, a.said.most)
}

func (a *attempt) logLine(level slog.Level, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.logText(level, text)
}

// logText keeps a line for people, and passes it on. mu is held.
func (a *attempt) logText(level slog.Level, text string) {
	if len(text) > maxLogLine { // cleaned before it is cut: half a secret is not known as one
		text = a.p.clean(text[:min(len(text), 2*maxLogLine)], maxLogLine)
	}
	_, _ = a.log.Write(append([]byte(text), '\n')) // it cannot fail
	a.logged++
	switch {
	case a.logged < maxLogged:
		a.logger.Log(context.Background(), level, "program", "text", a.p.clean(text, maxLogLine))
	case a.logged == maxLogged:
		a.logger.Warn("program: it says much, and no more of it is logged", "lines", maxLogged)
	}
}

// levelOf reads the names that programs use; any other is info.
func levelOf(name string) slog.Level {
	for level, names := range map[slog.Level][]string{
		slog.LevelDebug: {"debug", "trace", "DEBUG", "TRACE"}, slog.LevelWarn: {"warn", "warning", "WARN", "WARNING"},
		slog.LevelError: {"error", "fatal", "critical", "ERROR", "FATAL", "CRITICAL"},
	} {
		if slices.Contains(names, name) {
			return level
		}
	}
	return slog.LevelInfo
}
