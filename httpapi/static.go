package httpapi

import (
	"encoding/json"
	"html/template"
	"net/http"
	"strings"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// pages are what is no JSON of /v1: the OpenAPI document, the pages of problems, and a plain page about the node.
func (s *Server) pages() {
	document, err := json.Marshal(s.api.OpenAPI())
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
	s.mux.HandleFunc("GET /{$}", s.statusPage)
	s.mux.HandleFunc("/", s.nothing)
}

func (s *Server) problemPage(w http.ResponseWriter, r *http.Request) {
	page, ok := ProblemPageOf(r.PathValue("code"))
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

var statusTemplate = template.Must(template.New("status").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Towline</title>
<style>body{font:1rem/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}td,th{text-align:left;padding-right:1.5rem}</style>
<h1>Towline {{.Version}}</h1>
<p>as of seq {{.Seq}} · {{.Ready.Status}}</p>
{{range .Ready.Reasons}}<p><b>{{.What}}</b> {{.ID}} {{.Text}}<br>{{.Fix}}</p>
{{end}}{{if .Runs}}<table>
<tr><th>run</th><th>sync</th><th>state</th><th>units</th></tr>
{{range .Runs}}<tr><td><a href="{{.Links.Self}}">{{.Alias}}</a></td><td>{{.Sync}}</td><td>{{.State}}</td><td>{{.Succeeded}} of {{.Units}}, {{.Failed}} failed</td></tr>
{{end}}</table>
{{else}}<p>No run is open.</p>
{{end}}<p><a href="/v1/runs">runs</a> · <a href="/v1/outbox?where=state:pending,claimed,parked,unresolved">outbox</a> · <a href="/v1/events">events</a> · <a href="/openapi.json">openapi.json</a></p>
</html>
`))

// statusPage is a plain page until there is a console.
func (s *Server) statusPage(w http.ResponseWriter, r *http.Request) {
	page := struct {
		Version string
		Seq     events.Position
		Ready   Readiness
		Runs    []Run
	}{Version: s.c.Version, Ready: s.readiness(r.Context())}
	err := s.engine().View(r.Context(), func(v projections.View) (err error) {
		const most = 50
		if page.Seq, _, err = v.Head(); err != nil {
			return err
		}
		runs, err := v.OpenRuns(events.RunID{}, most)
		page.Runs = listOf(runs, runOf, false, "").Items
		return err
	})
	if err != nil {
		s.refuse(w, r, s.fault(r.Context(), err))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	_ = statusTemplate.Execute(w, page) // a reader that has gone away does not see it
}
