package docs_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// L-6, L-12: section 5 of the specification names every event, and every field that is stored of it, and no other.
func TestTheCatalogueOfEventsIsTrue(t *testing.T) {
	spec := specEvents(t)
	for _, typ := range events.Types() {
		e, err := events.Decode(events.Record{Type: typ, Schema: events.SchemaOf(typ), Data: []byte("{}")})
		require.NoError(t, err)
		fields, ok := spec[typ.String()]
		if !ok {
			t.Errorf("section 5 of SPEC.md does not name %s", typ)
			continue
		}
		delete(spec, typ.String())
		stored := storedFields(reflect.TypeOf(e))
		require.Equal(t, fields, stored, "%s: SPEC.md and the stored fields differ", typ)
	}
	require.Empty(t, spec, "section 5 of SPEC.md names events that do not exist")
}

// storedFields are the names under which the fields of an event are stored, without the unit of a length of time.
func storedFields(typ reflect.Type) []string {
	out := []string{}
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Anonymous {
			out = append(out, storedFields(f.Type)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, strings.TrimSuffix(name, "_us"))
	}
	slices.Sort(out)
	return out
}

var (
	remarks   = regexp.MustCompile(`\([^)]*\)|\[[^\]]*\]|"[^"]*"|;.*`)
	fieldName = regexp.MustCompile(`[a-z][a-z_]*`)
	eventName = regexp.MustCompile("`([A-Z][A-Za-z]+)`")
)

// specEvents reads the table of section 5: event, stream, fields, when. What stands in brackets, or behind a semicolon,
// explains a field.
func specEvents(t *testing.T) map[string][]string {
	t.Helper()
	spec, err := os.ReadFile("SPEC.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(spec), "\n## 5. ")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	out := map[string][]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !eventName.MatchString(cells[1]) {
			continue
		}
		fields := []string{}
		for part := range strings.SplitSeq(remarks.ReplaceAllString(cells[3], ""), ",") {
			switch name := fieldName.FindString(part); name {
			case "":
			case "counts":
				fields = append(fields, "total", "succeeded", "failed", "cancelled")
			default:
				fields = append(fields, name)
			}
		}
		slices.Sort(fields)
		for _, m := range eventName.FindAllStringSubmatch(cells[1], -1) {
			out[m[1]] = fields
		}
	}
	return out
}
