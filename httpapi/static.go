package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/towline-dev/towline/docs"
)

// pages are what is no JSON of /v1: the OpenAPI document, the pages of problems, and a plain page about the node.
func (s *Server) pages() {
	document, err := json.Marshal(s.document)
	s.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		if err != nil {
			s.refuse(w, r, s.fault(r.Context(), err))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(document)
	})
	s.mux.HandleFunc("GET /problems/{code}", s.problemPage)
	if s.c.Metrics != nil {
		s.mux.Handle("GET /metrics", s.c.Metrics)
	}
	if !s.c.NoPages {
		s.mux.HandleFunc("GET /{$}", s.statusPage)
	}
	s.mux.HandleFunc("/", s.nothing)
}

// problemPage serves the whole handbook: beside the codes of problems also what /readyz and the alerts name.
func (s *Server) problemPage(w http.ResponseWriter, r *http.Request) {
	page, ok := docs.HandbookPage(r.PathValue("code"))
	if !ok {
		s.refuse(w, r, newProblem(CodeNotFound, "there is no such code"))
		return
	}
	w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
	_, _ = w.Write([]byte(page.Text))
}

// nothing answers for a path that no operation has, or not with this method.
func (s *Server) nothing(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		s.refuse(w, r, newProblem(CodeMethodNotAllowed, "the path has no "+r.Method))
		return
	}
	s.refuse(w, r, newProblem(CodeNotFound, "there is no such path").withFix("see /openapi.json for all paths"))
}
