package httpapi

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
)

// caller is who sends a request.
type caller struct {
	role    role
	trusted bool   // by the listener
	actor   string // for the record
}

type (
	callerKey  struct{}
	trustedKey struct{}
	pathKey    struct{}
)

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// guard is what every request passes before its handler: a panic becomes a problem, who asks is known, and a body is JSON
// of which no digit would be lost.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &answer{ResponseWriter: w, s: s, r: r}
		answer.wait() // else that of the request before would hold for what is said before the answer
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler { //nolint:errorlint // it is thrown as it is
					panic(p)
				}
				s.logger.Error("a request has met a defect", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				if !answer.written {
					s.refuse(answer, r, newProblem(CodeInternal, "the request met something that must not happen"))
				}
			}
		}()
		r = r.WithContext(context.WithValue(r.Context(), pathKey{}, r.URL.Path))
		answer.r = r
		c, problem := s.identify(r)
		if problem == nil {
			problem = checkPath(r.URL)
		}
		if problem == nil {
			problem = checkQuery(r.URL)
		}
		if problem == nil {
			problem = s.checkWrite(r)
		}
		if problem == nil {
			problem = s.takeBody(w, r)
		}
		if problem != nil {
			s.refuse(answer, r, problem)
			return
		}
		defer s.workers.hear(r)()
		next.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

// checkPath refuses a path that names its parents: the library would redirect it to another one.
func checkPath(u *url.URL) *Problem {
	for _, part := range strings.Split(u.Path, "/") {
		if part == "." || part == ".." {
			return newProblem(CodeBadRequest, fmt.Sprintf("%q is no name of anything", part))
		}
	}
	return nil
}

// checkWrite refuses what would write where nothing can be written.
func (s *Server) checkWrite(r *http.Request) *Problem {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || !s.engine().ReadOnly() {
		return nil
	}
	return newProblem(CodeReadOnly, "this is a file that is read, and no running engine")
}

// refuse writes a problem.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, p *Problem) {
	s.complete(r.Context(), p)
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_ = encodeJSON(w, p) // a client that has gone away does not hear it
	}
}

// public are the paths that need no token, wherever a request comes from: they say nothing of the work.
var public = []string{"/healthz", "/readyz", "/version", "/openapi.json", "/problems/"}

func isPublic(path string) bool {
	for _, p := range public {
		if path == p || strings.HasSuffix(p, "/") && strings.HasPrefix(path, p) {
			return true
		}
	}
	return false
}

// identify says who sends a request, and refuses what may not be sent.
func (s *Server) identify(r *http.Request) (caller, *Problem) {
	trusted, _ := r.Context().Value(trustedKey{}).(bool)
	c := caller{trusted: trusted && !proxied(r)}
	if given, ok := bearer(r); ok {
		var known bool
		if c.role, known = s.c.Tokens.role(given); !known {
			return c, newProblem(CodeUnauthenticated, "the token is unknown").withField("Authorization")
		}
	} else if c.trusted {
		if p := s.checkOrigin(r); p != nil {
			return c, p
		}
		c.role = full
	}
	c.actor = actorOf(r, c)
	switch {
	case isPublic(r.URL.Path), c.role == full:
	case c.role == nobody:
		return c, newProblem(CodeUnauthenticated, "a token is needed here")
	case !isWorkerPath(r.Method, r.URL.Path):
		return c, newProblem(CodeForbidden, "the worker token does not allow it")
	}
	return c, nil
}

// isWorkerPath: a worker claims, renews and settles, and asks for nothing else.
func isWorkerPath(method, path string) bool {
	return method == http.MethodPost && (strings.HasPrefix(path, "/v1/leases/") ||
		strings.HasPrefix(path, "/v1/units/") && strings.HasSuffix(path, "/claim"))
}

// proxied: somebody else has sent the request to a program of this machine, which has passed it on. Via is what each proxy
// must add (RFC 9110); the others are what most of them do. One that adds nothing cannot be told from a local program.
func proxied(r *http.Request) bool {
	for _, h := range []string{"Via", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip"} {
		if r.Header.Get(h) != "" {
			return true
		}
	}
	return false
}

func bearer(r *http.Request) (string, bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// checkOrigin keeps web pages out, which a browser of this machine would let reach the loopback address: by a name that
// points here, or by a form of another site.
func (s *Server) checkOrigin(r *http.Request) *Problem {
	if _, isUnix := r.Context().Value(http.LocalAddrContextKey).(*net.UnixAddr); isUnix {
		return nil
	}
	if !isLocalName(r.Host) {
		return newProblem(CodeForbidden, fmt.Sprintf("the host %q is no name of this machine", r.Host)).withField("Host")
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || u.Host != r.Host {
			return newProblem(CodeForbidden, "a page of another site has sent it").withField("Origin")
		}
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		return newProblem(CodeForbidden, "a page of another site has sent it").withField("Sec-Fetch-Site")
	}
	return nil
}

func isLocalName(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	name = strings.Trim(name, "[]")
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

const maxActorHeader = 200

// actorOf is who is put on record: who says so, else where it comes from.
func actorOf(r *http.Request, c caller) string {
	if name := strings.TrimSpace(r.Header.Get("Towline-Actor")); name != "" && len(name) <= maxActorHeader {
		return name
	}
	switch {
	case c.role == worker:
		return "api:worker-token"
	case c.trusted:
		return "api:local"
	}
	return "api:token"
}
