package replay

// What is on a page, part by part, from its head to its tail. The picture is in write_picture.go.

// heading is what stands above the first step.
type heading struct {
	Run, Job, Sync, Mode, Units, Planned, Planner string
	Class, Status, Outcome                        string
	Position                                      int64
	At, Since, Steps                              string
	Facts                                         []fact
	Story                                         story
	Picture                                       picture
	Subjects                                      []subject
}

func (p *page) writeHead(h heading) {
	p.put(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{}: {}, run {}</title>
<style>{}</style>
</head>
<body>
<header>
`, pagePolicy, h.Sync, h.Status, h.Run, markup(pageStyle))
	p.put(`<h1><span class="chip {}">{}</span> {} <small>{}, {}</small></h1>
<p class="outcome">{}</p>
<dl class="facts">
<div><dt>Run</dt><dd><code>{}</code></dd></div>
<div><dt>Job</dt><dd><code>{}</code></dd></div>
<div><dt>Planned</dt><dd><time datetime="{}">{}</time>, from which all times count</dd></div>
<div><dt>By</dt><dd>{}</dd></div>
<div><dt>As of</dt><dd>position {}, {} (<time datetime="{}">{}</time>)</dd></div>
<div><dt>Log</dt><dd>{} of this run</dd></div>
</dl>
</header>
<main>
`, h.Class, h.Status, h.Sync, h.Mode, h.Units, h.Outcome, h.Run, h.Job, h.Planned, h.Planned, h.Planner, h.Position, h.Since, h.At, h.At, h.Steps)
	p.writeStory(h.Facts, h.Story)
	p.put(`<section aria-labelledby="over-time">
<h2 id="over-time">Over time</h2>
`)
	p.writePicture(&h.Picture)
	p.put(`
</section>
<section aria-labelledby="events">
<h2 id="events">Event by event</h2>
<p class="hint">Each event has its position in the log, what it happened to and how that went from one state to the next; below, the event as the log has it and the rows that it changed. <span class="scripted" hidden>Choose an event to stop there: <kbd>←</kbd> <kbd>→</kbd> go one back and forward.</span></p>
<form id="bar" hidden>
<label>Show <select id="only"><option value="">everything</option><option value="run job">the run and its job</option>`)
	for _, s := range h.Subjects {
		p.put(`<option value="{}">{}</option>`, s.Key, s.Label)
	}
	p.put(`</select></label>
<span class="moves"><button type="button" id="first" title="to the first event">⇤</button><button type="button" id="back" title="one event back (left arrow)">←</button><button type="button" id="on" title="one event on (right arrow)">→</button><button type="button" id="end" title="to the last event">⇥</button></span>
<label class="slide"><span class="v">Stop at</span><input type="range" id="slide" min="0" value="0"></label>
<output id="where" aria-live="polite"></output>
</form>
<div class="split">
<ol class="log">
`)
}

func (p *page) writeStory(facts []fact, s story) {
	p.put(`<section aria-labelledby="not-planned">
<h2 id="not-planned">What was not planned</h2>
<ul class="chips">`)
	for _, f := range facts {
		p.put(`<li class="fact {}">{}</li>`, f.Class, f.Text)
	}
	p.put("</ul>\n")
	if len(s.Entries) > 0 {
		p.put("<ol class=\"story\">\n")
		for _, e := range s.Entries {
			p.put("<li class=\"{}\"><span class=\"t\">{}</span> <b>{}</b> <span>{}</span></li>\n", e.Class, e.Since, e.Subject, within(e.Href, true, escaped(e.Text)))
		}
		p.put("</ol>")
	}
	if s.More > 0 {
		p.put(`<p>… and {} more, less bad or later. They are in the events below, if their units have a lane.</p>`, s.More)
	}
	p.put("\n</section>\n")
}

func (p *page) writeTransaction(t transaction) {
	p.put(`<li class="tx"><h3><span class="t">{}</span> {}`, t.Since, t.Command)
	if t.Actor != "" {
		p.put(`, for {}`, t.Actor)
	}
	if t.Opener.Text != "" {
		p.put(`, in the transaction of {}`, t.Opener.markup())
	}
	if t.By != "" {
		p.put(`, by process {}`, t.By)
	}
	p.put("</h3><ol>\n")
}

func (l linked) markup() markup { return within(l.Href, true, escaped(l.Text)) }

func (p *page) writeStep(t toldStep) {
	p.put(`<li class="step" id="p{}" data-keys="{}" data-x="{}" data-t="{}"{}>
<p class="h"><a class="n" href="#p{}">{}</a> <b>{}</b>`, t.ID, t.Keys, t.X, t.Since, attribute("data-shift", t.Shift), t.ID, t.ID, t.Subject)
	if t.Is != "" {
		was := markup("new")
		if t.Was != "" {
			was = `<span class="chip ` + escaped(t.WasC) + `">` + escaped(t.Was) + `</span> <span class="to">→</span>`
		}
		p.put(` {} <span class="chip {}">{}</span>`, was, t.IsC, t.Is)
	}
	p.put("</p>\n<p class=\"e\"><b>{}</b> {}</p>\n", t.Type, t.Fields)
	for i, l := range t.Because {
		piece := markup(`, because of {}`)
		if i == 0 {
			piece = `<p class="w">because of {}`
		}
		p.put(piece, l.markup())
	}
	if len(t.Because) > 0 {
		p.put("</p>\n")
	}
	p.writeRows(t.Rows)
	p.put("</li>\n")
}

func (p *page) writeFold(t toldStep) {
	p.put(`<li class="tx"><h3><span class="t">{}</span>`, t.Since)
	if t.Since != t.Until {
		p.put(` to <span class="t">{}</span>`, t.Until)
	}
	p.put(`</h3><ol>
<li class="step fold" id="p{}" data-to="{}" data-keys="{}" data-x="{}" data-t="{}"{}>
<p class="h"><a class="n" href="#p{}">{} to {}</a></p>
`, t.ID, t.To, t.Keys, t.X, t.Until, attribute("data-shift", t.Shift), t.ID, t.ID, t.To)
	for _, part := range t.Parts {
		p.put("<p class=\"e\">{}</p>\n", part)
	}
	if len(t.Rows) > 0 {
		p.put(`<details><summary>what they have made of {}</summary>`, amount(len(t.Rows), "row"))
		p.writeRows(t.Rows)
		p.put(`</details>`)
	}
	p.put("</li>\n</ol></li>\n")
}

func (p *page) writeRows(rows []toldRow) {
	for _, r := range rows {
		if !r.Long() {
			p.writeRow(r)
			continue
		}
		p.put(`<details><summary>{}: new row, {} columns</summary>`, r.Name, len(r.Columns))
		p.writeRow(r)
		p.put("</details>\n")
	}
}

func (p *page) writeRow(r toldRow) {
	p.put(`<table data-r="{}" data-op="{}"`, r.N, r.Op)
	if r.Table != "" {
		p.put(` data-table="{}" data-of="{}"`, r.Table, r.Owner)
	}
	p.put(`><caption{}>{}`, marked(r.Own, "v"), r.Name)
	if r.Op == "gone" {
		p.put(`: gone`)
	}
	if r.Shared {
		p.put(` <small>(other runs write this row, too)</small>`)
	}
	p.put(`</caption><thead class="v"><tr><th scope="col">column</th><th scope="col">was</th><th scope="col">is</th></tr></thead>`)
	for _, c := range r.Columns {
		p.put(`<tr{}><th scope="row">{}</th><td{}>{}</td><td{}>{}</td></tr>`,
			marked(r.Own && c.Above, "v"), c.Name, marked(c.WasNone, "z"), c.Was, marked(c.IsNot, "z"), c.Is)
	}
	p.put("</table>\n")
}

// marked is a class that something has or not.
func marked(is bool, class string) markup {
	if !is {
		return ""
	}
	return attribute("class", class)
}

func (p *page) writeDeath(id string, how Change, lines []string) {
	p.put(`<li class="death {}"{}>`, how, attribute("id", id))
	for _, l := range lines {
		p.put(`<p>{}</p>`, l)
	}
	p.put("</li>\n")
}

func (p *page) writeTail(outcome string, position int64, since string) {
	p.put(`</ol>
<aside id="state" aria-labelledby="stopped" hidden></aside>
</div>
</section>
</main>
<footer><p>{}. As of position {}, {}.</p></footer>
<script>{}</script>
</body>
</html>
`, outcome, position, since, markup(pageScript))
}
