package replay

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// markup is HTML of this package. Whatever else stands on a page is text of the world, and is written as text.
type markup string

// hole is where put writes a value.
const hole = "{}"

// put writes a piece of HTML with its values, of which it has as many as it has holes. Values stand between tags or in
// attributes with double quotes, and nowhere else: there the same escapes hold. An address among them begins with #. It is no
// template, for a program that executes one keeps every method of every type (docs/decisions/0023-no-templates.md).
//
// A piece whose holes are not as many as its values panics: every call would.
func put(w io.Writer, piece markup, values ...any) error {
	parts := strings.Split(string(piece), hole)
	if len(parts) != len(values)+1 {
		panic(fmt.Sprintf("replay: %d values for the %d holes of %.80q", len(values), len(parts)-1, piece))
	}
	for i, part := range parts {
		if _, err := io.WriteString(w, part); err != nil {
			return err
		}
		if i == len(values) {
			break
		}
		text, ours := values[i].(markup)
		if !ours {
			text = markup(html.EscapeString(fmt.Sprint(values[i])))
		}
		if _, err := io.WriteString(w, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// attribute is one with a value; empty: none.
func attribute(name, value string) markup {
	if value == "" {
		return ""
	}
	return markup(" "+name+`="`) + escaped(value) + `"`
}

// within is what stands in a link; without an address it stands by itself.
func within(href string, tabbed bool, inside markup) markup {
	if href == "" {
		return inside
	}
	var tab markup
	if !tabbed {
		tab = ` tabindex="-1"`
	}
	return `<a href="` + escaped(href) + `"` + tab + `>` + inside + `</a>`
}

func escaped(text string) markup { return markup(html.EscapeString(text)) }
