package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/httpapi"
	"github.com/towline-dev/towline/internal/enginetest"
)

// item is one server-sent event.
type item struct{ id, event, data string }

// listener reads one stream.
type listener struct {
	t      *testing.T
	answer *http.Response
	lines  *bufio.Scanner
	cancel context.CancelFunc
}

func (w *world) listen(query string, headers ...string) *listener {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "GET", "http://towline/v1/events/stream"+query, nil)
	require.NoError(w.t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := w.client.Do(r) //nolint:bodyclose // close does
	require.NoError(w.t, err)
	require.Equal(w.t, http.StatusOK, answer.StatusCode)
	require.Equal(w.t, "text/event-stream", answer.Header.Get("Content-Type"))
	l := &listener{w.t, answer, bufio.NewScanner(answer.Body), cancel}
	l.lines.Buffer(nil, 1<<20)
	w.t.Cleanup(l.close)
	return l
}

func (l *listener) close() {
	l.cancel()
	_ = l.answer.Body.Close()
}

// next is the next item, and false behind the end of the stream. Comments are read over.
func (l *listener) next() (got item, ok bool) {
	for l.lines.Scan() {
		name, value, _ := strings.Cut(l.lines.Text(), ": ")
		switch name {
		case "id":
			got.id = value
		case "event":
			got.event = value
		case "data":
			got.data = value
		case "":
			if got.event != "" {
				return got, true
			}
		}
	}
	return got, false
}

// append writes so many events into the log: pauses of the engine and their ends.
func (w *world) append(n int) {
	w.t.Helper()
	by := map[string]any{"reason": "to write an event"}
	for i := range n {
		path := "/v1/pause"
		if i%2 == 1 {
			path = "/v1/resume"
		}
		body, err := json.Marshal(by)
		require.NoError(w.t, err)
		answer, err := w.client.Post("http://towline"+path, "application/json", strings.NewReader(string(body)))
		require.NoError(w.t, err)
		_, err = io.Copy(io.Discard, answer.Body)
		require.NoError(w.t, err)
		require.NoError(w.t, answer.Body.Close())
		require.Equal(w.t, http.StatusOK, answer.StatusCode)
	}
}

// What the issue must show: 10,000 events over SSE with reconnects, none missed, none doubled. The reader hangs up at a
// random place again and again, while the log grows.
func TestTenThousandEventsWithReconnectsNoneMissedNoneDoubled(t *testing.T) {
	total := events.Position(10_000)
	if testing.Short() { // under the race detector
		total = 2_000
	}
	w := start(t, oneDay, func(c *setup) { c.node.Knobs.MaxUnits = 2000 })
	seed := rand.Uint64()
	t.Log("seed", seed)
	dice := rand.New(rand.NewPCG(seed, 1))
	grown := make(chan struct{})
	go func() {
		defer close(grown)
		for enginetest.Head(t, w.node.Engine()) < total {
			w.plan(200)
		}
	}()
	var got []events.Position
	last, connects := "0", 0
	for events.Position(len(got)) < total {
		l := w.listen("", "Last-Event-ID", last)
		connects++
		for range 1 + dice.IntN(400) {
			i, ok := l.next()
			require.True(t, ok)
			var e httpapi.Event
			require.NoError(t, json.Unmarshal([]byte(i.data), &e))
			require.Equal(t, e.Seq.String(), i.id)
			require.Equal(t, e.Type, i.event)
			got, last = append(got, e.Seq), i.id
		}
		l.close()
	}
	<-grown
	require.Greater(t, connects, 4)
	for i, seq := range got {
		require.Equal(t, events.Position(i+1), seq, "behind %d reconnects", connects)
	}
}

// Surfaces 5.5: a stream begins behind the newest event, unless it is told where; events are chosen by the query grammar; and
// tokens are masked (E-4).
func TestAStreamBeginsWhereItIsTold(t *testing.T) {
	w := start(t, oneDay)
	w.append(1)
	live := w.listen("")
	w.append(2)
	i, ok := live.next()
	require.True(t, ok)
	require.Equal(t, "EngineResumed", i.event, "the first pause lies before the stream, and the second changes nothing")
	run := w.plan(1)
	w.append(2)

	chosen := w.listen("?after_seq=0&where=" + url.QueryEscape("type:NodeStarted,JobOpened"))
	i, _ = chosen.next()
	require.Equal(t, "NodeStarted", i.event)
	i, _ = chosen.next()
	require.Equal(t, "JobOpened", i.event)

	w.wait(run.ID)
	claimed := w.listen("?after_seq=0&where=" + url.QueryEscape("type:UnitClaimed run:"+run.Alias))
	i, _ = claimed.next()
	require.Contains(t, i.data, `"token":"***"`)

	for path, code := range map[string]string{
		"?after_seq=x":                    "bad_request",
		"?after_seq=9223372036854775807":  "not_found",
		"?where=colour:red":               "invalid_request",
		"?where=run:000000":               "not_found",
		"?colour=red":                     "invalid_request",
		"?after_seq=99999999999999999999": "bad_request",
	} {
		w.send("GET", "/v1/events/stream"+path, nil).problem(code)
	}
	w.send("GET", "/v1/events/stream", nil, "Last-Event-ID", "abc").problem("bad_request")
}

// Surfaces 5.5: a quiet stream says that it lives.
func TestAQuietStreamIsKeptAlive(t *testing.T) {
	w := start(t, func(c *setup) { c.idle = true; c.api.KeepAlive = 5 * time.Millisecond })
	l := w.listen("")
	comments := 0
	for comments < 3 && l.lines.Scan() {
		if l.lines.Text() == ": alive" {
			comments++
		}
	}
	require.Equal(t, 3, comments)
}

// Surfaces 5.5: who was sent nothing yet has a place to resume from all the same, and misses nothing of what happens while it
// is away; what was looked at and not chosen is not looked at again.
func TestAStreamOfNothingResumesWithoutAGap(t *testing.T) {
	w := start(t, func(c *setup) { c.idle = true; c.api.KeepAlive = 5 * time.Millisecond })
	l := w.listen("")
	require.Equal(t, enginetest.Head(t, w.node.Engine()).String(), l.place(": towline"))
	from := l.place(": alive")
	l.close()
	w.append(1)
	i, ok := w.listen("", "Last-Event-ID", from).next()
	require.True(t, ok)
	require.Equal(t, "EnginePaused", i.event)
	require.Equal(t, enginetest.Head(t, w.node.Engine()).String(), i.id)
	none := w.listen("?where=type:RunFinalized&after_seq=0")
	for none.place(": alive") != i.id {
	}
}

// place is the id behind the next such comment.
func (l *listener) place(comment string) string {
	l.t.Helper()
	for l.lines.Scan() {
		if l.lines.Text() != comment {
			continue
		}
		require.True(l.t, l.lines.Scan())
		id, ok := strings.CutPrefix(l.lines.Text(), "id: ")
		require.True(l.t, ok, "%q", l.lines.Text())
		return id
	}
	l.t.Fatal("the stream has ended")
	return ""
}

// HC-39: open streams do not hold up a stop: they say bye and close at once, also one whose reader does not read, and who
// comes back with the last id misses nothing. A long poll ends, too.
func TestStreamsDoNotHoldUpAStop(t *testing.T) {
	w := start(t, oneDay, byWorkers, func(c *setup) { c.api.Grace = 30 * time.Second })
	w.plan(300)
	var streams []*listener
	for range 3 {
		streams = append(streams, w.listen(""))
	}
	deaf, err := net.Dial("unix", w.socket)
	require.NoError(t, err)
	defer deaf.Close()
	_, err = fmt.Fprint(deaf, "GET /v1/events/stream?after_seq=0 HTTP/1.1\r\nHost: towline\r\n\r\n")
	require.NoError(t, err)
	polled := make(chan int, 1)
	go func() {
		body := strings.NewReader(`{"worker":"w","wait_ms":60000,"syncs":["none"]}`)
		answer, err := w.client.Post("http://towline/v1/leases/claim", "application/json", body)
		if err == nil {
			_ = answer.Body.Close()
			polled <- answer.StatusCode
		}
	}()
	w.plan(1)
	last := ""
	for _, l := range streams {
		i, ok := l.next()
		require.True(t, ok)
		last = i.id
	}
	began := time.Now()
	w.stop()
	for _, l := range streams {
		var i item
		for ok := true; ok; {
			var more item
			if more, ok = l.next(); ok {
				i = more
			}
		}
		require.Equal(t, "bye", i.event)
		require.Contains(t, i.data, `"seq":`+i.id+`}`)
	}
	require.NoError(t, <-w.ended)
	require.NoError(t, <-w.ended)
	w.stop = nil
	require.NoError(t, w.node.Close())
	require.Less(t, time.Since(began), 10*time.Second, "a stream has held up the stop for the grace")
	if len(polled) > 0 {
		require.Equal(t, http.StatusNoContent, <-polled)
	}
	require.NotEmpty(t, last)
}

// A commit that is larger than the lag which a reader may have cuts nobody off: it came at once, and its reader reads.
func TestALargeCommitCutsNobodyOff(t *testing.T) {
	w := start(t, oneDay, func(c *setup) {
		c.idle = true
		c.api.MaxLag = 100
	})
	l := w.listen("")
	want := enginetest.Head(t, w.node.Engine()) + 1
	w.plan(400)
	w.plan(1)
	for last := enginetest.Head(t, w.node.Engine()); want <= last; want++ {
		i, ok := l.next()
		require.True(t, ok)
		require.Equal(t, want.String(), i.id, i.event)
	}
}

// A reader that does not read its answers is given up, so that it holds neither memory nor a stop.
func TestADeafReaderIsGivenUp(t *testing.T) {
	w := start(t, func(c *setup) {
		c.idle = true
		c.api.Patience = 20 * time.Millisecond
	})
	deaf, err := net.Dial("unix", w.socket)
	require.NoError(t, err)
	defer deaf.Close()
	w.eventually(func() bool { // until the buffers are full, the server waits, and hangs up
		require.NoError(t, deaf.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
		_, err := fmt.Fprint(deaf, "GET /openapi.json HTTP/1.1\r\nHost: towline\r\n\r\n")
		return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
	})
	w.send("GET", "/healthz", nil).is(http.StatusOK, nil)
}

// Surfaces 5.5, HC-24: a reader that is too slow is cut off with a word, and goes on where it was.
func TestASlowReaderIsCutOffAndMissesNothing(t *testing.T) {
	behind := events.Position(8000)
	if testing.Short() {
		behind = 4000
	}
	w := start(t, oneDay, func(c *setup) {
		c.idle = true
		c.api.MaxLag = 500
		c.node.Knobs.MaxUnits = 2000
		c.api.Patience = time.Minute
	})
	l := w.listen("")
	first := enginetest.Head(t, w.node.Engine()) + 1
	w.plan(1)
	i, ok := l.next()
	require.True(t, ok)
	require.Equal(t, first.String(), i.id)
	for enginetest.Head(t, w.node.Engine()) < behind {
		w.plan(1000) // and nobody reads
	}
	want := first
	for i.event != "lagging" {
		require.Equal(t, want.String(), i.id)
		want++
		i, ok = l.next()
		require.True(t, ok, "the stream has ended without a word at %d", want)
	}
	_, ok = l.next()
	require.False(t, ok)
	again := w.listen("", "Last-Event-ID", (want - 1).String())
	for want <= behind {
		i, ok = again.next()
		require.True(t, ok)
		require.Equal(t, want.String(), i.id)
		want++
	}
}
