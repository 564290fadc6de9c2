package httpapi

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/ident"
	"github.com/towline-dev/towline/projections"
)

//go:embed status_page.css
var statusStyle string

var statusPolicy = policyOf(statusStyle)

// policyOf lets a page have this style and nothing else: no script, no form, no picture, no frame around it, no other page.
func policyOf(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// status is what the page shows: what needs a person first, then what goes on.
type status struct {
	version string
	seq     events.Position
	ready   Readiness
	runs    []Run
	more    bool // runs than are shown
	paused  []projections.Pause
}

// statusPage is a plain page until there is a console. It is of the moment in which it was asked for.
func (s *Server) statusPage(w http.ResponseWriter, r *http.Request) {
	now := status{version: s.c.Version, ready: s.readiness(r.Context())}
	err := s.engine().View(r.Context(), func(v projections.View) (err error) {
		const most = 50
		if now.seq, _, err = v.Head(); err != nil {
			return err
		}
		if now.paused, err = v.Paused(); err != nil {
			return err
		}
		runs, err := v.OpenRuns(events.RunID{}, most+1)
		now.more = len(runs) > most
		now.runs = listOf(runs[:min(len(runs), most)], runOf, false, "").Items
		return err
	})
	if err != nil {
		s.refuse(w, r, s.fault(r.Context(), err))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", statusPolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set(seqHeader, now.seq.String())
	_, _ = w.Write([]byte(now.page())) // a reader that has gone away does not see it
}

const (
	statusHead = markup(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Towline</title>
<style>`)
	statusFoot = markup(`<p><a href="/v1/runs">runs</a> · <a href="/v1/outbox?where=state:pending,claimed,parked,unresolved">outbox</a> · <a href="/v1/events">events</a> · <a href="/readyz">readyz</a> · <a href="/openapi.json">openapi.json</a></p>
</html>
`)
)

func (now status) page() string {
	var p page
	p.add(statusHead, markup(statusStyle), markup("</style>\n<h1>Towline</h1>\n"))
	p.add(markup("<p>as of seq "), now.seq, " · ", now.ready.Status, " · version ", now.version, markup("</p>\n"))
	now.needsALook(&p)
	now.isPaused(&p)
	now.inFlight(&p)
	p.add(statusFoot)
	return p.out.String()
}

func (now status) needsALook(p *page) {
	if len(now.ready.Reasons) == 0 {
		return
	}
	p.add(markup("<section class=\"person\">\n<h2>Needs a look</h2>\n<dl>\n"))
	for _, r := range now.ready.Reasons {
		p.add(markup("<dt><b>"), r.What, markup("</b>"))
		if r.ID != "" {
			p.add(" ", r.ID)
		}
		if !r.Since.IsZero() {
			p.add(", since ", r.Since)
		}
		p.add(markup("</dt>\n<dd>"), r.Text, markup("<br>"))
		p.command(r.Fix)
		p.add(markup("</dd>\n"))
	}
	p.add(markup("</dl>\n</section>\n"))
}

func (now status) isPaused(p *page) {
	if len(now.paused) == 0 {
		return
	}
	p.add(markup("<h2>Paused</h2>\n"))
	p.table([]string{"what", "since", "by", "why", "to resume"}, len(now.paused), func(row, column int) {
		pause := now.paused[row]
		what, resume := "the engine", "towline resume --reason …"
		if pause.Source != "" {
			what, resume = "source "+pause.Source, "towline resume --source "+ident.Shell(pause.Source)+" --reason …"
		}
		switch column {
		case 0:
			p.add(what)
		case 1:
			p.add(pause.Since)
		case 2:
			p.add(pause.By)
		case 3:
			p.add(pause.Reason)
		default:
			p.command(resume)
		}
	})
}

func (now status) inFlight(p *page) {
	p.add(markup("<h2>Runs in flight</h2>\n"))
	if len(now.runs) == 0 {
		p.add(markup("<p>No run is open. To start one: "))
		p.command("towline run start SYNC")
		p.add(markup("</p>\n"))
		return
	}
	p.table([]string{"run", "sync", "state", "units", "to follow it"}, len(now.runs), func(row, column int) {
		run := now.runs[row]
		switch column {
		case 0:
			p.add(markup(`<a href="`), run.Links.Self, markup(`">`), run.Alias, markup("</a>"))
		case 1:
			p.add(run.Sync)
		case 2:
			p.add(run.State)
		case 3:
			p.add(run.Succeeded, " of ", run.Units)
			if run.Failed > 0 {
				p.add(", ", run.Failed, " failed")
			}
		default:
			p.command("towline run watch ", run.Alias)
		}
	})
	if now.more {
		p.add(markup(`<p>There are more: <a href="/v1/runs?where=state:planned,dispatching,running">all of them</a>.</p>` + "\n"))
	}
}
