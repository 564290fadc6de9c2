package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
)

// Config of a Server.
type Config struct {
	Node    Node          // whose API it is
	Tokens  Tokens        // zero: none, and then only the unix socket and loopback are served
	Version string        // of the program
	MaxBody int64         // api.max_body: of a request; zero: 256 KiB
	Grace   time.Duration // of requests that are being answered when the server stops; zero: 5 s
	Logger  *slog.Logger  // nil: slog.Default()

	// StallAfter is health.stall_after: for how long a loop may be without a success, besides three intervals of the
	// reconciler; zero: those alone.
	StallAfter time.Duration
	// NoPages leaves the pages for people out (console.enabled: false): the path / is then one that does not exist.
	NoPages bool

	// Metrics is served at /metrics; nil: there is none.
	Metrics http.Handler
	// More adds operations to the API; nil: none.
	More func(*Server)

	// KeepAlive is between two comments of a quiet stream; zero: 15 s.
	KeepAlive time.Duration
	// Patience is how long a stream waits for its reader, and a sixth of how long any other answer does; zero: 10 s.
	Patience time.Duration
	// MaxLag is how many events may come while a stream that was up to date sends those that it has found; zero: 10,000.
	MaxLag int
}

// Server answers requests about one node. Its handler may be used without Serve, as a part of another server, whose
// requests then are those of a stranger: each needs a token.
type Server struct {
	c        Config
	logger   *slog.Logger
	mux      *http.ServeMux
	document *huma.OpenAPI
	handler  http.Handler
	pasts    pasts
	workers  heard
	repeats  repeats

	stopping context.Context // ends when the server begins to stop: streams and long polls end with it
	stop     context.CancelFunc
}

// New makes the API of a node. Errors: none of the network, see Serve.
func New(c Config) (*Server, error) {
	if c.Node == nil {
		return nil, errors.New("httpapi: node is missing")
	}
	s := &Server{c: c, logger: c.Logger, mux: http.NewServeMux(), document: newDocument(c.Version)}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.pasts.open = c.Node.AsOf
	s.workers.at.Store(time.Now().UnixMicro())
	s.operations()
	if c.More != nil {
		c.More(s)
	}
	s.pages()
	s.handler = s.guard(s.mux)
	return s, nil
}

// newDocument is the OpenAPI document without operations.
func newDocument(version string) *huma.OpenAPI {
	return &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Towline", Version: cmp.Or(version, "dev"),
			Description: "Runs, units, outbox entries and events of one Towline node, and its worker protocol.",
		},
		Components: &huma.Components{
			Schemas:         schemas(),
			SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer", Description: "not needed over the unix socket, nor on loopback"}},
		},
		Security: []map[string][]string{{}, {"token": {}}},
	}
}

// operations are all of /v1, one file each.
func (s *Server) operations() {
	s.runOperations()
	s.unitOperations()
	s.outboxOperations()
	s.jobOperations()
	s.scheduleOperations()
	s.eventOperations()
	s.stateOperations()
	s.positionOperations()
	s.whyAnyOperations()
	s.controlOperations()
	s.leaseOperations()
	s.healthOperations()
}

func (s *Server) engine() *towline.Engine { return s.c.Node.Engine() }

// Document is the OpenAPI document, of which Config.More may change what Register has said of its operations. It is served as
// it is when New returns.
func (s *Server) Document() *huma.OpenAPI { return s.document }

// Handler is the API for a server of one's own: nobody is trusted, so every request needs a token.
func (s *Server) Handler() http.Handler { return s.handler }

// head is the position of the newest event; 0 if it cannot be read.
func (s *Server) head(ctx context.Context) events.Position {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	seq, err := s.engine().Head(ctx)
	if err != nil {
		return 0
	}
	return seq
}

const (
	defaultGrace = 5 * time.Second
	headerTime   = 10 * time.Second // to read the header of a request
	idleTime     = 2 * time.Minute  // of a connection without a request
	byeTime      = 200 * time.Millisecond
)

// Serve answers requests until ctx ends, then stops: streams say bye and close, long polls answer that there is nothing,
// requests that are being answered have the grace, and what is left is cut off. It closes the listeners. Errors: a listener
// of strangers without a token; one that fails. nil after a clean stop.
func (s *Server) Serve(ctx context.Context, listeners ...Listener) error {
	if err := s.check(listeners); err != nil {
		return err
	}
	server := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		ErrorLog: slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			t, ok := c.(trustedConn)
			return context.WithValue(ctx, trustedKey{}, ok && t.trusted)
		},
	}
	failed := make(chan error, len(listeners))
	var all sync.WaitGroup
	for _, l := range listeners {
		all.Go(func() {
			if err := server.Serve(trustListener(l)); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serve %s: %w", l.Addr(), err)
			}
		})
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.stop()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(s.c.Grace, defaultGrace))
	defer cancel()
	if shutErr := server.Shutdown(grace); shutErr != nil {
		s.logger.Warn("some requests did not end within the grace and were cut off")
		err = errors.Join(err, server.Close())
	}
	all.Wait()
	return errors.Join(err, s.pasts.close())
}

// Close ends streams and long polls, for a server of one's own, and frees what was kept for questions about the past.
func (s *Server) Close() error {
	s.stop()
	return s.pasts.close()
}

func (s *Server) check(listeners []Listener) error {
	if len(listeners) == 0 {
		return errors.New("api.listen is empty: give unix:PATH, or HOST:PORT")
	}
	for _, l := range listeners {
		if !l.Trusted && s.c.Tokens.Full == "" {
			return fmt.Errorf("api.listen %s can be reached from other machines, and there is no token: open the token files first, or listen on 127.0.0.1", l.Addr())
		}
	}
	return nil
}

// trustedConn knows by which listener it came.
type trustedConn struct {
	net.Conn
	trusted bool
}

type trustingListener struct{ Listener }

func trustListener(l Listener) net.Listener { return trustingListener{l} }

// Accept marks the connection.
func (l trustingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return trustedConn{c, l.Trusted}, nil
}

// detached is a context for a write: it outlives the client, so that a write is all or nothing whether or not somebody waits
// for the answer, and it has a bound of its own.
func detached(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), most)
}

const (
	writeTime = 30 * time.Second
	planTime  = 10 * time.Minute // with the listing of sources
)
