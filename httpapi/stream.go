package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/query"
)

// A stream reads the log in short pages and writes each of them before it reads the next, so that it holds no snapshot while
// a reader takes its time (DUR-4, HC-24). Its place is a position: whoever comes back with the last one that it has had
// misses nothing and gets nothing twice. The id goes out with each comment, too: a reader for whom nothing was chosen yet has
// no item to take it from, and would begin anew behind whatever happened while it was away.

const (
	pageOfStream     = 256 // events of one read
	defaultKeepAlive = 15 * time.Second
	defaultPatience  = 10 * time.Second
	defaultMaxLag    = 10_000
	pollShared       = time.Second // for what other processes of the store append
)

func (s *Server) streamOperation() {
	op := huma.Operation{
		OperationID: "GET /v1/events/stream", Method: http.MethodGet, Path: "/v1/events/stream", Summary: "The log as it grows: server-sent events",
		Description: "Each item has id: SEQ, event: TYPE and data: an event; a comment has an id, too, up to which nothing else was chosen. Last-Event-ID, or after_seq, goes on behind that event; without either it begins behind the newest. " +
			"event: bye ends it when the node stops, event: lagging when the reader is too slow: connect again with the last id.",
		Parameters: []*huma.Param{
			{Name: "where", In: "query", Schema: &huma.Schema{Type: "string"}, Description: "a query, such as run:7Q4ZKD"},
			{Name: "after_seq", In: "query", Schema: &huma.Schema{Type: "integer", Format: "int64"}, Description: "behind this event; 0: from the first"},
			{Name: "Last-Event-ID", In: "header", Schema: &huma.Schema{Type: "integer", Format: "int64"}, Description: "the same, and it counts more"},
		},
		Responses: map[string]*huma.Response{
			"200": {Description: "the stream", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}},
			"default": {Description: "A problem, with one of the codes " + CodeBadRequest + ", " + CodeUnauthenticated + ", " + CodeForbidden + ", " + CodeNotFound + ", " + CodeInvalidRequest,
				Content: map[string]*huma.MediaType{problemType: {Schema: s.problemSchema()}}},
		},
	}
	s.document.AddOperation(&op)
	s.mux.HandleFunc("GET /v1/events/stream", s.stream)
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	t := tail{s: s, out: http.NewResponseController(w), w: w}
	if err := t.begin(r); err != nil {
		s.refuse(w, r, s.fault(r.Context(), err))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	w.Header().Set("Connection", "close") // its deadlines are those of the stream
	w.Header().Set(seqHeader, t.place.String())
	w.WriteHeader(http.StatusOK)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	// A reader that does not read must not hold up a stop: what is being written has this long.
	unhook := context.AfterFunc(s.stopping, func() {
		_ = t.out.SetWriteDeadline(time.Now().Add(byeTime))
		cancel()
	})
	defer unhook()
	t.run(ctx)
}

// tail is one stream.
type tail struct {
	s      *Server
	w      http.ResponseWriter
	out    *http.ResponseController
	filter query.Filter
	place  events.Position // all up to it was sent, or is not chosen
	live   bool            // it has been at the end of the log
	goal   events.Position // the end of the log when it last came to the end of what it had found
}

// begin finds out from where to where.
func (t *tail) begin(r *http.Request) error {
	for name := range r.URL.Query() {
		if name != "where" && name != "after_seq" {
			return newProblem(CodeInvalidRequest, fmt.Sprintf("there is no parameter %q", name)).withField(name)
		}
	}
	from := r.URL.Query().Get("after_seq")
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		if from = last; !isSeq(last) {
			return newProblem(CodeBadRequest, "Last-Event-ID is no number from 0 to 9223372036854775807").withField("Last-Event-ID")
		}
	}
	return t.s.engine().View(r.Context(), func(v projections.View) (err error) {
		head, _, err := v.Head()
		if err != nil {
			return err
		}
		if t.place = head; from != "" {
			n, _ := strconv.ParseInt(from, 10, 64) // it was looked at
			t.place = events.Position(n)
		}
		if t.place > head {
			return newProblem(CodeNotFound, fmt.Sprintf("position %d has not happened yet, the newest event is at %d", t.place, head)).withField("after_seq").
				withFix("leave it out to begin behind the newest; an id of another store means nothing here")
		}
		t.filter, err = t.s.eventFilter(v, r.URL.Query().Get("where"))
		return err
	})
}

func isSeq(text string) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	return err == nil && n >= 0
}

// run sends until the client goes, the server stops or the reader is too slow.
func (t *tail) run(ctx context.Context) {
	alive := time.NewTicker(cmp.Or(t.s.c.KeepAlive, defaultKeepAlive))
	defer alive.Stop()
	poll := make(<-chan time.Time)
	if t.s.engine().Shared() {
		ticker := time.NewTicker(pollShared)
		defer ticker.Stop()
		poll = ticker.C
	}
	if t.send(fmt.Appendf(nil, ": towline\nid: %d\n\n", t.place)) != nil {
		return
	}
	for {
		heard := t.s.c.Node.Committed() // before the look, so that nothing falls between
		more, err := t.page(ctx)
		switch {
		case ctx.Err() != nil:
			t.bye()
			return
		case err != nil:
			return // the reader is gone, or the store is: it comes back with the last id
		case more:
			continue
		}
		select {
		case <-heard:
		case <-poll:
		case <-alive.C:
			if t.send(fmt.Appendf(nil, ": alive\nid: %d\n\n", t.place)) != nil {
				return
			}
		case <-ctx.Done():
			t.bye()
			return
		}
	}
}

// page sends the next page; false: there is none.
func (t *tail) page(ctx context.Context) (more bool, err error) {
	var page []events.Envelope
	var head events.Position
	err = t.s.engine().View(ctx, func(v projections.View) (err error) {
		if head, _, err = v.Head(); err != nil || head <= t.place {
			return err
		}
		page, err = v.After(t.place, pageOfStream)
		return err
	})
	if err != nil {
		return false, err
	}
	if t.place >= t.goal {
		t.goal = head // what came in one commit, however large, is no fault of its reader
	}
	if t.live && int(head-t.goal) > cmp.Or(t.s.c.MaxLag, defaultMaxLag) {
		_ = t.send(fmt.Appendf(nil, "id: %d\nevent: lagging\ndata: {\"seq\":%d,\"head\":%d}\n\n", t.place, t.place, head))
		return false, fmt.Errorf("the reader is %d events behind", head-t.place)
	}
	if len(page) == 0 {
		t.live = true
		return false, nil
	}
	var out bytes.Buffer
	for _, env := range page {
		if err := t.write(&out, env); err != nil {
			return false, err
		}
	}
	if err := t.send(out.Bytes()); err != nil {
		return false, err
	}
	t.place = page[len(page)-1].Position
	return true, nil
}

func (t *tail) write(out *bytes.Buffer, env events.Envelope) error {
	if !t.filter.Match(env) {
		return nil
	}
	e, err := eventOf(env)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "id: %d\nevent: %s\ndata: ", e.Seq, e.Type)
	enc := json.NewEncoder(out) // which ends the line
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return err
	}
	out.WriteByte('\n')
	return nil
}

// send writes at once, or gives the reader up.
func (t *tail) send(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if t.s.stopping.Err() == nil {
		if err := t.out.SetWriteDeadline(time.Now().Add(cmp.Or(t.s.c.Patience, defaultPatience))); err != nil {
			return err
		}
		if t.s.stopping.Err() != nil { // just now, and its deadline was overwritten
			_ = t.out.SetWriteDeadline(time.Now().Add(byeTime))
		}
	}
	if _, err := t.w.Write(b); err != nil {
		return err
	}
	return t.out.Flush()
}

// bye is the last word of a server that stops.
func (t *tail) bye() {
	if t.s.stopping.Err() == nil {
		return // it is the client who has gone
	}
	_ = t.out.SetWriteDeadline(time.Now().Add(byeTime))
	_ = t.send(fmt.Appendf(nil, "id: %d\nevent: bye\ndata: {\"seq\":%d}\n\n", t.place, t.place))
}
