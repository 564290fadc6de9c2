package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/wire"
)

// TailOptions say what is followed, and how.
type TailOptions struct {
	Where string
	// After is the event behind which it begins; negative: behind the newest. Zero: from the first.
	After events.Position
	// Lost is told each time that a stream has ended, and it is tried again; nil: nobody is.
	Lost func(error)
}

// Newest is TailOptions.After of a tail that begins with what happens next.
const Newest events.Position = -1

const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second // between two tries
	maxItem    = 8 << 20         // bytes of one line of a stream
)

// Tail follows the log until ctx ends: every event that the query chooses, in order, once. A stream that is cut off, that the
// node ends, or for which this reader is too slow is taken up again behind the last event; a node that restarts is waited for.
// It ends with the error of ctx, with what the node refuses, and with ErrUnreachable if the first try fails.
func (c *Client) Tail(ctx context.Context, o TailOptions) iter.Seq2[wire.Event, error] {
	return func(yield func(wire.Event, error) bool) {
		t := tail{c: c, o: o, place: o.After, wait: firstRetry}
		for {
			err := t.follow(ctx, yield)
			var refused *Error
			switch {
			case errors.Is(err, errEnough):
				return
			case ctx.Err() != nil:
				yield(wire.Event{}, context.Cause(ctx))
				return
			case errors.As(err, &refused) && !t.mayPass(refused), !t.begun:
				yield(wire.Event{}, err)
				return
			}
			if o.Lost != nil {
				o.Lost(err)
			}
			if !t.rest(ctx) {
				yield(wire.Event{}, context.Cause(ctx))
				return
			}
		}
	}
}

// tail is the place of one reader.
type tail struct {
	c     *Client
	o     TailOptions
	place events.Position // all up to it was had, or was not chosen
	begun bool            // a stream has been open
	wait  time.Duration   // before the next try
}

var (
	errEnough = errors.New("the reader has had enough")
	errEnded  = errors.New("the stream has ended")
)

// mayPass: a node that starts or stops refuses for a while.
func (t *tail) mayPass(e *Error) bool {
	return t.begun && (e.Status >= http.StatusInternalServerError || e.Status == http.StatusTooManyRequests)
}

// rest waits before the next try, longer each time that nothing came.
func (t *tail) rest(ctx context.Context) bool {
	timer := time.NewTimer(t.wait)
	defer timer.Stop()
	t.wait = min(2*t.wait, lastRetry)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// follow reads one stream to its end.
func (t *tail) follow(ctx context.Context, yield func(wire.Event, error) bool) error {
	of := call{method: http.MethodGet, path: under("events", "stream"), query: url.Values{}, header: http.Header{"Accept": {"text/event-stream"}}}
	if t.o.Where != "" {
		of.query.Set("where", t.o.Where)
	}
	if t.place >= 0 {
		of.header.Set("Last-Event-ID", strconv.FormatInt(int64(t.place), 10))
	}
	frame, err := t.c.send(ctx, of)
	if err != nil {
		return err
	}
	defer frame.Body.Close()
	if t.place < 0 {
		t.place = seqOf(frame.Header) // else what happens before the first item would be lost with the stream
	}
	t.begun = true
	err = t.read(frame.Body, yield)
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errEnded
	}
	return err
}

// read reads items as the specification of server-sent events has them: lines of fields, and an empty line behind each item.
func (t *tail) read(body io.Reader, yield func(wire.Event, error) bool) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 64<<10), maxItem)
	var it item
	for lines.Scan() {
		line := lines.Bytes()
		if len(line) > 0 {
			it.add(line)
			continue
		}
		if err := t.take(it, yield); err != nil {
			return err
		}
		it = item{}
	}
	return lines.Err() // an item without its empty line is not whole
}

// item is one of a stream.
type item struct {
	id, event string
	data      []byte
}

func (i *item) add(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "id":
		i.id = string(value)
	case "event":
		i.event = string(value)
	case "data":
		if i.data != nil {
			i.data = append(i.data, '\n')
		}
		i.data = append(i.data, value...)
	}
}

// take hands an event on, and moves the place.
func (t *tail) take(i item, yield func(wire.Event, error) bool) error {
	place, err := strconv.ParseInt(i.id, 10, 64)
	if err != nil {
		return nil //nolint:nilerr // an item without a place says nothing that could be lost
	}
	switch i.event {
	case "bye", "lagging":
		t.place = max(t.place, events.Position(place))
		return fmt.Errorf("%w: %s", errEnded, i.event)
	}
	if i.data != nil && events.Position(place) > t.place {
		var e wire.Event
		if err := json.Unmarshal(i.data, &e); err != nil {
			return &Error{Title: "an event is not understood", Detail: fmt.Sprintf("event %d: %v", place, err), Fix: "use a client of the same release"}
		}
		t.place = events.Position(place) // before it is handed on: whoever stops there has had it
		if !yield(e, nil) {
			return errEnough
		}
	}
	t.place = max(t.place, events.Position(place))
	t.wait = firstRetry
	return nil
}
