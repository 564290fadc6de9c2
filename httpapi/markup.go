package httpapi

import (
	"fmt"
	"html"
	"strings"
	"time"
)

// markup is HTML of this package. Whatever else stands in a page is text of the world, and is written as text.
type markup string

// page is HTML in the making. Values stand between tags or in attributes with double quotes, and nowhere else: there the same
// escapes hold. It is no template, for a program that executes one keeps every method of every type, which are 3 MiB
// (docs/decisions/0023-no-templates.md).
type page struct{ out strings.Builder }

// add appends markup as it is, and anything else as text.
func (p *page) add(parts ...any) {
	for _, part := range parts {
		switch v := part.(type) {
		case markup:
			p.out.WriteString(string(v))
		case time.Time:
			p.out.WriteString(v.UTC().Format("2006-01-02 15:04:05Z"))
		default:
			p.out.WriteString(html.EscapeString(fmt.Sprint(v)))
		}
	}
}

// command is one to be copied: a click takes all of it.
func (p *page) command(parts ...any) {
	p.add(markup("<code>"))
	p.add(parts...)
	p.add(markup("</code>"))
}

// table is one with a head, and a row for each call of cell, which writes the cells between their tags.
func (p *page) table(head []string, rows int, cell func(row, column int)) {
	p.add(markup("<table>\n<tr>"))
	for _, h := range head {
		p.add(markup("<th>"), h, markup("</th>"))
	}
	p.add(markup("</tr>\n"))
	for row := range rows {
		p.add(markup("<tr>"))
		for column := range head {
			p.add(markup("<td>"))
			cell(row, column)
			p.add(markup("</td>"))
		}
		p.add(markup("</tr>\n"))
	}
	p.add(markup("</table>\n"))
}
