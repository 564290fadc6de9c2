package metrics_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/towline-dev/towline/docs"
)

// ruleFile is the form in which Prometheus reads rules.
type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

// Surfaces 8: every alert goes by metrics that there are, says what it means, and leads to the page of the handbook that says what
// to do.
func TestAlerts(t *testing.T) {
	folder := filepath.Join("..", "docs")
	text, err := os.ReadFile(filepath.Join(folder, "alerts.yml"))
	require.NoError(t, err)
	var file ruleFile
	dec := yaml.NewDecoder(strings.NewReader(string(text)))
	dec.KnownFields(true)
	require.NoError(t, dec.Decode(&file))
	list, err := os.ReadFile(filepath.Join(folder, "METRICS.md"))
	require.NoError(t, err)
	pages := map[string]string{}
	for _, p := range docs.Handbook() {
		if p.Alert != "" {
			pages[p.Alert] = p.Name
		}
	}
	metric := regexp.MustCompile(`towline_[a-z_]+`)
	seen := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			require.False(t, seen[r.Alert], "%s stands twice", r.Alert)
			seen[r.Alert] = true
			names := metric.FindAllString(r.Expr, -1)
			require.NotEmpty(t, names, r.Alert)
			for _, name := range names {
				require.Contains(t, string(list), "| `"+name+"` |", r.Alert)
			}
			require.Contains(t, []string{"page", "ticket"}, r.Labels["severity"], r.Alert)
			require.NotEmpty(t, r.Annotations["summary"], r.Alert)
			page := pages[r.Alert]
			require.NotEmpty(t, page, "%s has no page: write one in docs/handbook, with a line alert: %s", r.Alert, r.Alert)
			require.Equal(t, "handbook/"+page+".md", r.Annotations["handbook"], r.Alert)
		}
	}
	for alert, page := range pages {
		require.True(t, seen[alert], "page %s is of the alert %s, which there is not", page, alert)
	}
	require.Len(t, seen, 15)
}
