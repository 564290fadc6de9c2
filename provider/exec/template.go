package exec

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/towline-dev/towline/provider"
)

// template is an argument, split at what stands for a value of the unit: text, name, text, name, text.
type template []string

// place looks like one of our names. Other braces, as {{.Names}} of other programs has them, are text.
var place = regexp.MustCompile(`\{\{ *([a-z][a-z_.]*) *\}\}`)

// values are what templates may name.
var values = map[string]func(provider.Unit) string{
	"window.from": func(u provider.Unit) string { return instant(u.Window.From) },
	"window.to":   func(u provider.Unit) string { return instant(u.Window.To) },
	"source":      func(u provider.Unit) string { return u.Source },
	"dataset":     func(u provider.Unit) string { return u.Dataset },
	"attempt":     func(u provider.Unit) string { return strconv.Itoa(u.Attempt) },
}

func parseTemplate(arg string) (template, error) {
	var t template
	end := 0
	for _, m := range place.FindAllStringSubmatchIndex(arg, -1) {
		name := arg[m[2]:m[3]]
		if values[name] == nil {
			known := []string{"{{window.from}}", "{{window.to}}", "{{source}}", "{{dataset}}", "{{attempt}}"}
			return nil, fmt.Errorf("argument %q: {{%s}} is not known: use %s", arg, name, strings.Join(known, ", "))
		}
		t = append(t, arg[end:m[0]], name)
		end = m[1]
	}
	return append(t, arg[end:]), nil
}

// fill puts the values of a unit in. A value is never read as a template.
func (t template) fill(u provider.Unit) string {
	parts := slices.Clone(t)
	for i := 1; i < len(parts); i += 2 {
		parts[i] = values[parts[i]](u)
	}
	return strings.Join(parts, "")
}
