package towlinetest

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sim"
	"github.com/towline-dev/towline/sink"
)

// record is what has happened in one window, in its order.
type record struct {
	mu      sync.Mutex // a provider may put from several goroutines
	steps   []string   // events, calls of ports, and what was put: the same in every world in which the same has happened
	works   []*work
	crashes []sim.Boundary // where the node has died
}

// work is one call of the provider.
type work struct {
	place       string // source/dataset/window
	attempt     int
	incarnation int
	puts        int
	ended       string
}

func (w *work) String() string {
	return fmt.Sprintf("attempt %d, by incarnation %d: put %s, %s", w.attempt, w.incarnation, count(w.puts, "row"), w.ended)
}

func count(n int, what string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(what, "s"):
		what += "es"
	default:
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func (r *record) step(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, fmt.Sprintf(format, args...))
}

// trace is that of the world.
func (r *record) trace(e sim.Entry) {
	switch {
	case e.Event != nil:
		r.step("%s %s %s", e.Event.At, e.Event.Stream, events.Describe(e.Event.Event))
	case e.Crash != nil:
		r.step("killed %s", e.Crash.Label())
		r.mu.Lock()
		r.crashes = append(r.crashes, *e.Crash)
		r.mu.Unlock()
	case e.Call != nil:
		r.step("%s", e.Call.Label())
	}
}

// recorded is a provider whose work is recorded.
type recorded struct {
	provider.Provider
	into *record
}

func (p recorded) Sync(ctx context.Context, u provider.Unit, s sink.Sink) (result provider.Result, err error) {
	w := &work{place: u.Source + "/" + u.Dataset + "/" + u.Window.Name(), attempt: u.Attempt, ended: "and never returned"}
	r := p.into
	r.mu.Lock()
	w.incarnation = len(r.crashes) + 1
	r.works = append(r.works, w)
	r.mu.Unlock()
	returned := false
	defer func() {
		how := "and returned nil"
		v := recover() // nil: it has returned, or ended its goroutine
		switch {
		case v != nil:
			how = fmt.Sprintf("and panicked at %s: %s", panickedAt(), line(fmt.Sprint(v)))
			defer panic(v)
		case !returned:
			how = "and ended its goroutine"
		case err != nil:
			how = "and returned: " + line(err.Error())
		}
		r.mu.Lock()
		w.ended = how
		r.mu.Unlock()
		r.step("the provider of %s %s", w.place, how)
	}()
	result, err = p.Provider.Sync(ctx, u, &recordedSink{s, r, w})
	returned = true
	return result, err
}

// panickedAt is the line that has panicked; for a deferred function that has recovered from it.
func panickedAt() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	panicking := false
	for {
		f, more := frames.Next()
		if panicking && !strings.HasPrefix(f.Function, "runtime.") {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		panicking = panicking || f.Function == "runtime.gopanic"
		if !more {
			return "an unknown place"
		}
	}
}

type recordedSink struct {
	sink.Sink
	r *record
	w *work
}

func (s *recordedSink) Put(ctx context.Context, surface, key string, row any) error {
	data, err := json.Marshal(row)
	if err != nil {
		data = []byte(err.Error())
	}
	s.r.step("put %s: %s/%s %s", s.w.place, surface, key, line(string(data)))
	err = s.Sink.Put(ctx, surface, key, row)
	if err == nil {
		s.r.mu.Lock()
		s.w.puts++
		s.r.mu.Unlock()
	}
	return err
}

const maxText = 200 // bytes of a text in a report

// line is a text as one line that is not too long.
func line(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

// differ is the first step in which two records differ; empty: there is none.
func differ(a, b []string) string {
	step := func(steps []string, i int) string {
		if i < len(steps) {
			return steps[i]
		}
		return "nothing: it has ended"
	}
	for i := range max(len(a), len(b)) {
		if one, two := step(a, i), step(b, i); one != two {
			return fmt.Sprintf("step %d was, the first time:\n    %s\nand the second time, with the same seed:\n    %s", i+1, one, two)
		}
	}
	return ""
}
