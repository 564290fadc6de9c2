package httpapi

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/towline-dev/towline/events"
)

// answer adds what every answer has: the position of the log, and 304 for one that the client has already.
type answer struct {
	http.ResponseWriter
	s       *Server
	r       *http.Request
	written bool
	empty   bool // 304: the body is dropped
}

const seqHeader = "Towline-Seq"

func (a *answer) WriteHeader(status int) {
	if a.written {
		return
	}
	a.written = true
	a.wait()
	h := a.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if h.Get(seqHeader) == "" {
		if seq := a.s.head(a.r.Context()); seq > 0 {
			h.Set(seqHeader, seq.String())
		}
	}
	if etag := h.Get("ETag"); status == http.StatusOK && etag != "" {
		h.Set("Cache-Control", "no-cache")
		if matches(a.r.Header.Get("If-None-Match"), etag) {
			h.Del("Content-Type")
			a.empty = true
			status = http.StatusNotModified
		}
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.empty {
		return len(b), nil
	}
	return a.ResponseWriter.Write(b)
}

// answerPatience is how many times the patience of a stream an answer has, from its first byte to its last.
const answerPatience = 6

// wait gives a reader its time: one that does not read would hold the connection, and at a stop the whole grace. A stream sets
// its own behind it. A server of one's own may have no deadlines.
func (a *answer) wait() {
	patience := answerPatience * cmp.Or(a.s.c.Patience, defaultPatience)
	_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(patience))
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func matches(header, etag string) bool {
	for given := range strings.SplitSeq(header, ",") {
		given = strings.TrimPrefix(strings.TrimSpace(given), "W/")
		if given == etag || given == "*" {
			return true
		}
	}
	return false
}

func etagOf(seq events.Position) string { return `"` + seq.String() + `"` }
