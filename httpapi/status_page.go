package httpapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

var (
	//go:embed status_page.html
	statusText string
	//go:embed status_page.css
	statusStyle string

	statusTemplate = template.Must(template.New("status").Parse(statusText))
	statusPolicy   = policyOf(statusStyle)
)

// policyOf lets a page have this style and nothing else: no script, no form, no picture, no frame around it, no other page.
func policyOf(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// status is what the page shows: what needs a person first, then what goes on.
type status struct {
	Version string
	Style   template.CSS
	Seq     events.Position
	Ready   Readiness
	Runs    []Run
	More    bool // runs than are shown
	Paused  []projections.Pause
}

// statusPage is a plain page until there is a console. It is of the moment in which it was asked for.
func (s *Server) statusPage(w http.ResponseWriter, r *http.Request) {
	page := status{Version: s.c.Version, Style: template.CSS(statusStyle), Ready: s.readiness(r.Context())} //nolint:gosec // it is a file of this package
	err := s.engine().View(r.Context(), func(v projections.View) (err error) {
		const most = 50
		if page.Seq, _, err = v.Head(); err != nil {
			return err
		}
		if page.Paused, err = v.Paused(); err != nil {
			return err
		}
		runs, err := v.OpenRuns(events.RunID{}, most+1)
		page.More = len(runs) > most
		page.Runs = listOf(runs[:min(len(runs), most)], runOf, false, "").Items
		return err
	})
	var text bytes.Buffer
	if err == nil {
		err = statusTemplate.Execute(&text, page)
	}
	if err != nil {
		s.refuse(w, r, s.fault(r.Context(), err))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", statusPolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set(seqHeader, page.Seq.String())
	_, _ = w.Write(text.Bytes()) // a reader that has gone away does not see it
}
