package exec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/redact"
	"github.com/towline-dev/towline/internal/subprocess"
	"github.com/towline-dev/towline/provider"
)

// The exit codes that mean more than that something went wrong, as sysexits.h numbers them.
const (
	exitUnavailable   = 69
	exitTryAgain      = 75
	exitAuth          = 77
	exitConfiguration = 78
)

// Detail is what is kept of a program for people, in the result of its attempt.
type Detail struct {
	Exit        *int   `json:"exit,omitempty"`          // missing: it was ended by a signal, or did not start
	Signal      string `json:"signal,omitempty"`        // that has ended it
	OutOfMemory bool   `json:"out_of_memory,omitempty"` // it was killed while the kernel killed for want of memory
	Stderr      string `json:"stderr,omitempty"`        // the end of it
	Log         string `json:"log,omitempty"`           // the end of its log lines
	Cut         bool   `json:"cut,omitempty"`           // there was more of one of them
}

// Bounds of a Detail as JSON, and of the log lines in it. A success keeps less: nobody may ever look at it, and there are many.
const (
	failureDetail = events.MaxResultBytes
	successDetail = 4 << 10
	failureLog    = 8 << 10
	successLog    = 1 << 10
)

// keptStderr and keptLog are more than a detail holds, so that a secret which begins before is known as one.
const (
	keptStderr = 2 * failureDetail
	keptLog    = 2 * failureLog
)

// ending is how a process has ended.
type ending struct {
	state       *os.ProcessState
	outOfMemory bool
	stderr      *subprocess.Tail
}

// clean makes a text of the program fit to be kept: our secrets and what looks like one are masked, then it is made valid
// UTF-8 (E-3).
func (p *Provider) clean(text string, most int) string {
	return redact.Clean(p.masked.Replace(text), most)
}

func (p *Provider) cleanTail(t *subprocess.Tail) string {
	return strings.ToValidUTF8(redact.Secrets(p.masked.Replace(t.Text())), "\uFFFD")
}

// excerpt is a little of what a program has written, for an error. Masked before it is cut: half a secret is not known as one.
func (p *Provider) excerpt(b []byte) string {
	const most, longestSecret = 80, 64 << 10
	text := p.masked.Replace(string(b[:min(len(b), most+longestSecret)]))
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// maskedError is an error whose text may quote the program.
type maskedError struct {
	error
	p *Provider
}

func (e maskedError) Error() string { return e.p.masked.Replace(e.error.Error()) }
func (e maskedError) Unwrap() error { return e.error }

// detail is what is kept of the attempt; nil: there is nothing to say.
func (a *attempt) detail(e ending, failed bool) json.RawMessage {
	a.mu.Lock()
	defer a.mu.Unlock()
	bound, ofLog := successDetail, successLog
	if failed {
		bound, ofLog = failureDetail, failureLog
	}
	d := Detail{OutOfMemory: e.outOfMemory, Stderr: a.p.cleanTail(e.stderr), Log: a.p.cleanTail(&a.log)}
	if e.state != nil {
		if d.Signal = signalName(e.state); d.Signal == "" {
			code := e.state.ExitCode()
			d.Exit = &code
		}
	}
	if d.Stderr == "" && d.Log == "" && !failed {
		return nil
	}
	d.Cut = e.stderr.Cut() || a.log.Cut()
	var cut bool
	d.Log, cut = endOf(d.Log, ofLog)
	d.Cut = d.Cut || cut
	stderr := d.Stderr
	d.Stderr = ""
	const quotes = len(`,"stderr":"","cut":true`)
	d.Stderr, cut = endOf(stderr, bound-len(encode(d))-quotes)
	d.Cut = d.Cut || cut
	return encode(d)
}

func encode(d Detail) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(d); err != nil {
		panic(fmt.Sprintf("encode %+v: %v", d, err)) // texts, numbers and truth values always encode
	}
	return bytes.TrimSpace(b.Bytes())
}

// endOf is the end of a text that needs at most so many bytes in JSON, from the beginning of a line or a word on if there is
// one near. text is valid UTF-8.
func endOf(text string, most int) (end string, cut bool) {
	size, from := 0, len(text)
	for from > 0 {
		r, n := utf8.DecodeLastRuneInString(text[:from])
		if size += encodedLen(r, n); size > most {
			break
		}
		from -= n
	}
	if from == 0 {
		return text, false
	}
	end = text[from:]
	const near = 1000
	if i := strings.IndexFunc(end[:min(near, len(end))], unicode.IsSpace); i >= 0 {
		end = end[i+1:]
	}
	return end, true
}

// encodedLen is how long a rune of n bytes is in a JSON text, at most.
func encodedLen(r rune, n int) int {
	const escaped = len(`\u0000`)
	switch {
	case r == '"', r == '\\', r == '\n', r == '\r', r == '\t':
		return 2
	case r < ' ', r == 0x7f, r == '\u2028', r == '\u2029':
		return escaped
	}
	return n
}

// failure is what the end of a program means; nil: success.
func (a *attempt) failure(e ending) error {
	said := a.said
	if e.state.Success() {
		return nil
	}
	text := a.howEnded(e)
	switch e.state.ExitCode() {
	case exitUnavailable:
		return provider.Fail(provider.Network, errors.New(text))
	case exitTryAgain:
		if said.limited {
			return &provider.Error{Category: provider.RateLimit, After: said.after, Account: said.account, Err: errors.New(text)}
		}
	case exitAuth:
		return provider.Fail(provider.Auth, errors.New(text))
	case exitConfiguration:
		return provider.Fail(provider.Configuration, errors.New(text))
	}
	return provider.Fail(provider.OtherError, errors.New(text))
}

// shellSignal is what a shell adds to the number of the signal that has ended its command.
const shellSignal = 128

// howEnded is the end of a program in words, with the end of its standard error.
func (a *attempt) howEnded(e ending) string {
	var b strings.Builder
	signal := signalName(e.state)
	switch code := e.state.ExitCode(); {
	case signal != "":
		fmt.Fprintf(&b, "ended by signal %s", signal)
	case code > shellSignal && code < 2*shellSignal && numbered(code-shellSignal) != "":
		fmt.Fprintf(&b, "exit status %d, which a shell has of a command that was ended by signal %s", code, numbered(code-shellSignal))
	default:
		fmt.Fprintf(&b, "exit status %d", code)
	}
	if e.outOfMemory {
		b.WriteString("; the kernel has killed for want of memory meanwhile")
	}
	const most = 1000
	stderr := strings.Join(strings.Fields(a.p.cleanTail(e.stderr)), " ")
	if end, cut := endOf(stderr, most); cut {
		fmt.Fprintf(&b, ": …%s", end)
	} else if end != "" {
		fmt.Fprintf(&b, ": %s", end)
	}
	return b.String()
}
