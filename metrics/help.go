package metrics

import (
	"bytes"

	"github.com/towline-dev/towline/docs"
)

// withHelp says of each metric what METRICS.md says. The library leaves the line empty.
func withHelp(text []byte) []byte {
	const head = "# HELP "
	help := docs.Metrics()
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		name, isHead := bytes.CutPrefix(line, []byte(head))
		name = bytes.TrimSpace(name)
		if says := help[string(name)]; isHead && says != "" {
			line = []byte(head + string(name) + " " + says + "\n")
		}
		out.Write(line)
	}
	return out.Bytes()
}
