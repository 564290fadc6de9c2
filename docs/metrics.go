package docs

import (
	_ "embed" // of the list
	"regexp"
	"strings"
	"sync"
)

//go:embed METRICS.md
var metricsList string

// Metrics is what METRICS.md says of each metric, by name and as plain text of one line.
var Metrics = sync.OnceValue(func() map[string]string {
	row := regexp.MustCompile("(?m)^\\| `(towline_[a-z_]+)` \\|[^|]*\\|[^|]*\\| (.+) \\|$")
	out := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(metricsList, -1) {
		out[m[1]] = strings.ReplaceAll(m[2], "`", "")
	}
	return out
})
