package replay

import (
	"fmt"
	"html"
)

func (p *page) writePicture(pic *picture) {
	p.put(`<figure>
<div class="wide" role="region" aria-labelledby="over-time" tabindex="0">
<svg id="picture" viewBox="0 0 {} {}" role="img" aria-labelledby="pt pd">
<title id="pt">The run over time</title>
<desc id="pd">{} {}</desc>
`, pic.Width, pic.Height, pic.About, pic.Rest)
	p.put(pictureForms)
	for _, l := range pic.Lanes {
		p.writeLane(pic, l)
	}
	if a := pic.AreaY; a.Text != "" {
		p.put(`<g><text class="name" x="8" y="{}" dy="14">{}</text><rect class="ground" x="{}" y="{}" width="{}" height="{}"/></g>`,
			a.Y, a.Text, a.X, a.Y, a.W, a.H)
	}
	p.put("\n")
	for _, a := range pic.Area {
		p.put("<path class=\"a {}\" d=\"{}\"><title>{}</title></path>\n", a.Class, a.Path, a.Title)
	}
	for _, c := range pic.Cuts {
		p.put(`<g class="gap"><title>{}</title><rect x="{}" y="{}" width="{}" height="{}"/><text x="{}" dx="32" y="46">{}</text></g>
`, c.Title, c.X, c.Y, c.W, c.H, c.X, c.Text)
	}
	for _, t := range pic.Ticks {
		p.put(`<path class="tick" d="M{} 34V{}"/><text class="time {}" x="{}" y="30">{}</text>`, t.X, pic.Bottom, t.Class, t.X, t.Text)
		if pic.Axis2 > 0 {
			p.put(`<text class="time {}" x="{}" y="{}">{}</text>`, t.Class, t.X, pic.Axis2, t.Text)
		}
		p.put("\n")
	}
	for _, e := range pic.Ends {
		p.put(`<g class="end {}"><title>{}</title><rect x="{}" y="{}" width="{}" height="{}"/></g>
`, e.Class, e.Title, e.X, e.Y, e.W, e.H)
	}
	for _, l := range pic.Lanes {
		for _, b := range l.Bars {
			p.put("{}\n", within(b.Href, false, b.bar()))
		}
	}
	for _, e := range pic.Ends {
		p.put("<path class=\"stroke {}\" d=\"M{} 18v{}v34\"/>\n", e.Class, e.X, e.H)
	}
	for _, l := range pic.Labels {
		p.put("<a class=\"end {}\" href=\"{}\"><text x=\"{}\" y=\"13\">{}</text></a>\n", l.Class, l.Href, l.X, l.Text)
	}
	for _, l := range pic.Lanes {
		for _, m := range l.Marks {
			p.put("{}\n", within(m.Href, false, m.mark()))
		}
	}
	p.put(`<path id="cursor" d="M0 34V{}" visibility="hidden"/>
</svg>
</div>
<figcaption>
<ul class="legend">`, pic.Bottom)
	for _, state := range pic.Legend {
		p.put(`<li><svg viewBox="0 0 22 12" width="22" height="12" aria-hidden="true"><rect class="b {}" x="1" y="1" width="20" height="10" rx="2"/></svg> {}</li>`, state, state)
	}
	p.put("</ul>\n")
	if pic.Rest != "" {
		p.put("<p>{}.</p>", pic.Rest)
	}
	p.put("\n")
	if len(pic.Cuts) > 0 {
		p.put("<p>Where the picture is crossed by a pale band, a time in which nothing happened to the run is drawn short; its length stands above.</p>")
	}
	p.put(`
<p class="scripted" hidden>Choose a bar or a mark to stop at its event, a name to see its events alone.</p>
</figcaption>
</figure>`)
}

func (p *page) writeLane(pic *picture, l drawnLane) {
	class := "lane"
	if l.Class != "" {
		class += " " + l.Class
	}
	p.put(`<g class="{}" data-key="{}"><title>{}</title><rect class="row" x="0" y="{}" width="{}" height="{}"/>{}</g>
`, class, l.Key, l.Title, l.Y, pic.Width, l.H,
		within(l.Href, false, filled(`<text class="name" x="8" y="%d">%s</text>`, l.TextY, html.EscapeString(l.Label))))
}

// filled is a piece of HTML whose values are numbers, or escaped already.
func filled(piece string, values ...any) markup { return markup(fmt.Sprintf(piece, values...)) }

func (d drawn) bar() markup {
	var text markup
	if d.Text != "" {
		text = filled(`<text class="in" x="%d" y="%d" dy="11">%s</text>`, d.TextX, d.Y, html.EscapeString(d.Text))
	}
	return filled(`<g><title>%s</title><rect class="b %s" x="%d" y="%d" width="%d" height="%d" rx="2"/>%s</g>`,
		html.EscapeString(d.Title), html.EscapeString(d.Class), d.X, d.Y, d.W, d.H, text)
}

func (d drawn) mark() markup {
	class := html.EscapeString(d.Class)
	return filled(`<svg class="m %s" x="%d" y="%d" width="1" height="1" overflow="visible"><title>%s</title><use href="#%s" x="-8" y="-8" width="16" height="16"/></svg>`,
		class, d.X, d.Y, html.EscapeString(d.Title), class)
}

// pictureForms are the patterns and signs of every picture.
const pictureForms markup = `<defs>
<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="hb" width="6" height="6"/><rect class="hl" width="2" height="6"/></pattern>
<pattern id="dots" width="5" height="5" patternUnits="userSpaceOnUse"><rect class="db" width="5" height="5"/><rect class="dl" width="2" height="5"/></pattern>
<symbol id="good" viewBox="-8 -8 16 16"><circle r="7"/><path d="M-3.500 0.500l2.500 2.500 4.500-5.500"/></symbol>
<symbol id="bad" viewBox="-8 -8 16 16"><rect x="-7" y="-7" width="14" height="14" rx="2"/><path d="M-3.500-3.500l7 7m0-7l-7 7"/></symbol>
<symbol id="lost" viewBox="-8 -8 16 16"><path d="M0-7.500l7.500 7.500-7.500 7.500-7.500-7.500z"/><path d="M-3-3l6 6m0-6l-6 6"/></symbol>
<symbol id="note" viewBox="-8 -8 16 16"><path d="M0-7l7.500 13h-15z"/><path d="M0-2.500v4m0 1.500v1"/></symbol>
<symbol id="cut" viewBox="-8 -8 16 16"><circle r="7"/><path d="M-4 0h8"/></symbol>
</defs>
`
