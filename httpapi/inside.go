package httpapi

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// Inside is the API for callers of this process, without a network: they are trusted as those of the socket are. An answer
// streams, as over a connection.
func (s *Server) Inside() http.RoundTripper { return inside{s} }

type inside struct{ s *Server }

// RoundTrip answers a request. It never fails; what goes wrong is a problem.
func (i inside) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), trustedKey{}, true))
	asked := r.Clone(ctx)
	asked.RequestURI = r.URL.RequestURI()
	asked.Host = "localhost" // what checkOrigin knows as a name of this machine
	if asked.Body == nil {
		asked.Body = http.NoBody
	}
	body, to := io.Pipe()
	w := &insideWriter{header: http.Header{}, to: to, begun: make(chan struct{})}
	go func() {
		defer cancel()
		defer asked.Body.Close()
		i.s.handler.ServeHTTP(w, asked)
		w.WriteHeader(http.StatusOK)
		_ = to.Close() // it cannot fail
	}()
	<-w.begun
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: insideBody{body, cancel}, ContentLength: -1, Request: r,
	}, nil
}

// insideBody ends the handler when its reader goes, as the end of a connection would.
type insideBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b insideBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// insideWriter is a http.ResponseWriter into a pipe. Deadlines mean nothing there: whoever does not read only holds up itself.
type insideWriter struct {
	header, sent http.Header
	status       int
	to           *io.PipeWriter
	once         sync.Once
	begun        chan struct{} // closed when status and header are known
}

func (w *insideWriter) Header() http.Header { return w.header }

func (w *insideWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

func (w *insideWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.to.Write(b)
}

// Flush does nothing: what was written has been read.
func (w *insideWriter) Flush() {}

// SetWriteDeadline does nothing.
func (w *insideWriter) SetWriteDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (w *insideWriter) SetReadDeadline(time.Time) error { return nil }
