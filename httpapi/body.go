package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/towline-dev/towline/internal/exactjson"
)

// numbers of queries. One that does not fit into 64 bits is refused as it is in a body.
var numbers = []string{"limit", "at_seq", "after_seq"}

func checkQuery(u *url.URL) *Problem {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return newProblem(CodeBadRequest, "the query of the URL cannot be read: "+err.Error())
	}
	for _, name := range numbers {
		for _, text := range q[name] {
			if n, err := strconv.ParseInt(text, 10, 64); err != nil || n < 0 {
				return newProblem(CodeBadRequest, fmt.Sprintf("%s is no number from 0 to 9223372036854775807", name)).withField(name)
			}
		}
	}
	return nil
}

// takeBody reads the body, up to its bound, and puts it back.
func (s *Server) takeBody(w http.ResponseWriter, r *http.Request) *Problem {
	if r.Method != http.MethodPost {
		return nil
	}
	reading := http.NewResponseController(w)
	_ = reading.SetReadDeadline(time.Now().Add(bodyTime)) // a server that has none reads without
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.maxBody()))
	_ = reading.SetReadDeadline(time.Time{})
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return newProblem(CodePayloadTooLarge, fmt.Sprintf("the body is larger than %d bytes", s.maxBody()))
	case err != nil:
		return newProblem(CodeBadRequest, "the body ends too early")
	}
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}") // a POST that says nothing
	} else if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return newProblem(CodeUnsupportedMedia, "the body has another Content-Type than application/json").withField("Content-Type")
	}
	if err := exactjson.Check(body, "body"); err != nil {
		return newProblem(CodeBadRequest, err.Error()).withField("body")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	return nil
}

const (
	defaultMaxBody = 256 << 10
	bodyTime       = 30 * time.Second // to read a body
)

func (s *Server) maxBody() int64 {
	if s.c.MaxBody > 0 {
		return s.c.MaxBody
	}
	return defaultMaxBody
}
