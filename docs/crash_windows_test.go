package docs_test

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/docs"
)

// formula is a sum of knobs, each with a factor or without, and what it comes to.
var formula = regexp.MustCompile("`((?:[0-9.]+ × )?[a-z_]+\\.[a-z_]+(?: \\+ (?:[0-9.]+ × )?[a-z_]+\\.[a-z_]+)*)` = ([0-9.]+ (?:s|min|h|d))")

// REC-1 to REC-14: the page for operators names each window with the bounds of the table of GUARANTEES.md, and each formula
// comes to what stands behind it.
func TestTheBoundsOfTheCrashWindows(t *testing.T) {
	k := defaults(t)
	parts := strings.Split(docs.CrashWindows, "\n## ")
	require.Len(t, parts, 1+len(windows)+1, "a head, the windows, and the kinds")
	for i, w := range windows {
		part := parts[1+i]
		require.True(t, strings.HasPrefix(part, w.name+": "), w.name)
		for _, line := range []string{"who recovers", "at the latest", "lost", "what you see", "shown by"} {
			require.Contains(t, part, "\n- "+line+": ", w.name)
		}
		require.Equal(t, strings.Contains(w.lost, "possibly"), strings.Contains(part, "lost: **possibly**"), w.name)
		var want []string
		for _, b := range w.otherwise(k) {
			want = append(want, seconds(b.max))
		}
		require.Equal(t, want, comesTo(t, k, part), w.name)
	}
	kinds := parts[len(parts)-1]
	require.NotEmpty(t, comesTo(t, k, kinds))
	for _, d := range decider.Deliveries {
		row := "\n| " + code(string(d.Kind))
		if d.Mode != "" {
			row += ", " + code(string(d.Mode))
		}
		require.Contains(t, kinds, row+" |")
	}
}

// comesTo are the values of the formulas of a text, each proved.
func comesTo(t *testing.T, k towline.Knobs, text string) (out []string) {
	t.Helper()
	values, fields := reflect.ValueOf(k), map[string]string{}
	for _, knob := range knobs(t) {
		fields[knob.key] = knob.field
	}
	for _, m := range formula.FindAllStringSubmatch(text, -1) {
		sum := time.Duration(0)
		for term := range strings.SplitSeq(m[1], " + ") {
			factor := 1.0
			if head, key, ok := strings.Cut(term, " × "); ok {
				f, err := strconv.ParseFloat(head, 64)
				require.NoError(t, err, term)
				factor, term = f, key
			}
			require.Contains(t, fields, term, "%s is no knob", term)
			d, ok := values.FieldByName(fields[term]).Interface().(time.Duration)
			require.True(t, ok, "%s is no time", term)
			sum += time.Duration(factor * float64(d))
		}
		require.Equal(t, seconds(sum), m[2], m[1])
		out = append(out, m[2])
	}
	require.Equal(t, strings.Count(text, "` = "), len(out), "a bound that is no formula")
	return out
}
