package config

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
)

var rewrite = flag.Bool("rewrite", false, "write docs/CONFIG.md anew")

// docs/CONFIG.md is the table.
func TestReference(t *testing.T) {
	path := filepath.Join("..", "docs", "CONFIG.md")
	if *rewrite {
		require.NoError(t, os.WriteFile(path, []byte(Reference()), 0o644))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, Reference(), string(got), "write it anew: go test ./config -run Reference -rewrite")
}

// Each key has a text, a default that it accepts itself and prints as it stands, and a variable of its own.
func TestTheTable(t *testing.T) {
	variables := map[string]string{}
	c := &Config{values: map[string]*setting{}}
	for _, k := range Keys() {
		require.NotEmpty(t, k.Doc, k.Path)
		require.True(t, strings.HasSuffix(k.Doc, "."), k.Path)
		require.NotNil(t, k.at, k.Path)
		if v := k.Variable(); v != "" {
			require.Empty(t, variables[v], "%s is that of two keys", v)
			variables[v] = k.Path
		}
		names := []string{"git/heavy", "b", "c"}[:strings.Count(k.Path, name)]
		to := k.at(c, names)
		require.Equal(t, k.Form == Section, to == nil, k.Path)
		if k.Default == "" {
			continue
		}
		shown, err := k.put(to, k.defaultValue())
		require.NoError(t, err, k.Path)
		want := k.Default
		if k.Form == Listing {
			want = "[" + want + "]"
		}
		if k.Form == Duration {
			d, err := parseDuration(want)
			require.NoError(t, err)
			want = durationText(d)
		}
		require.Equal(t, want, shown, k.Path)
	}
}

// Section 20: its table of keys and this one are the same, and so are the defaults.
func TestTheTableIsThatOfTheSpecification(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "SPEC.md"))
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "\n## 20. Configuration\n")
	section, _, _ = strings.Cut(section, "\n## 21.")
	known := map[string]Key{}
	for _, k := range Keys() {
		known[k.Path] = k
	}
	row := regexp.MustCompile("(?m)^\\| (`[^|]*) \\| ([^|]*) \\|")
	key := regexp.MustCompile("`([a-z_]+\\.[a-z_.]+)`")
	specified := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(section, -1) {
		keys, defaults := key.FindAllStringSubmatch(m[1], -1), strings.Split(m[2], " / ")
		for i, k := range keys {
			path := k[1]
			specified[path] = true
			require.Contains(t, known, path, "the specification has a key that the table lacks")
			if len(keys) != len(defaults) || path == "store.path" {
				continue
			}
			want := strings.NewReplacer(" in a row", "", " doubling to 5 min", "", " ", "", "min", "m").Replace(defaults[i])
			got := known[path].Default
			if path == "plan.watermark_overlap" {
				want += "s"
			}
			require.Equal(t, want, got, path)
		}
	}
	for path, k := range known {
		if strings.HasPrefix(path, "relay.") || strings.HasPrefix(path, "unit.") || strings.HasPrefix(path, "dispatch.") {
			require.True(t, specified[path] || k.named(), "%s is not in the specification", path)
		}
	}
	require.Greater(t, len(specified), 50)
}

// Every knob of the engine is a key, and no 0 of the file silently means a default.
func TestEveryKnobIsAKey(t *testing.T) {
	c := mustLoad(t, "version: 1")
	var knobs map[string]any
	b, err := json.Marshal(c.Knobs)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &knobs))
	for field, v := range knobs {
		if field != "CapBuckets" && field != "WatermarkOverlap" {
			require.NotZero(t, v, "Knobs.%s is set by no key", field)
		}
	}
	for _, k := range engineKeys() {
		if k.zeroIsNever || k.Path == "plan.watermark_overlap" {
			continue
		}
		_, err := k.put(k.at(c, []string{"git/heavy"}), raw{text: map[Form]string{Rate: "0/s"}[k.Form] + map[Form]string{Count: "0", Duration: "0s"}[k.Form]})
		require.Error(t, err, "%s accepts 0, and the engine would take it for the default", k.Path)
	}
	require.Equal(t, towline.Knobs{}.Check(), c.Knobs.Check())
}

// The schema knows every key, and nothing else.
func TestTheSchemaIsTheTable(t *testing.T) {
	var top map[string]any
	require.NoError(t, json.Unmarshal(Schema(), &top))
	found := map[string]bool{}
	var walk func(map[string]any, []string)
	walk = func(s map[string]any, at []string) {
		below, isMapping := s["additionalProperties"]
		if !isMapping {
			found[strings.Join(at, ".")] = true
			return
		}
		if s["description"] != nil {
			found[strings.Join(at, ".")] = true
		}
		if named, ok := below.(map[string]any); ok {
			walk(named, append(at[:len(at):len(at)], name))
		}
		properties, _ := s["properties"].(map[string]any)
		for part, p := range properties {
			walk(p.(map[string]any), append(at[:len(at):len(at)], part))
		}
	}
	walk(top, nil)
	for _, k := range Keys() {
		require.True(t, found[k.Path], k.Path)
		delete(found, k.Path)
	}
	require.Empty(t, found)
}

// Forms are read and printed alike.
func TestForms(t *testing.T) {
	for text, want := range map[string]string{
		"90s": "90s", "60s": "1m", "1d12h": "36h", "2w": "14d", "1500ms": "1500ms", "24h": "1d", "0": "0s", "1h30m": "90m",
	} {
		d, err := parseDuration(text)
		require.NoError(t, err)
		require.Equal(t, want, durationText(d))
		again, err := parseDuration(want)
		require.NoError(t, err)
		require.Equal(t, d, again)
	}
	for _, text := range []string{"", "s", "3", "3x", "1.5s", "+3s", "3 s", "3s ", "9223372036854775808s"} {
		_, err := parseDuration(text)
		require.Error(t, err, text)
	}
	for text, want := range map[string]string{"1024MiB": "1GiB", "1kB": "1000B", "0": "0B", "1GiB512MiB": "1536MiB"} {
		s, err := ParseSize(text)
		require.NoError(t, err)
		require.Equal(t, want, s.String())
	}
}

// HC-59: nothing near is no suggestion.
func TestNearest(t *testing.T) {
	words := []string{"relay", "retention", "reconcile"}
	require.Equal(t, "relay", nearest("relax", words))
	require.Equal(t, "reconcile", nearest("reconsile", words))
	require.Empty(t, nearest("console", []string{"relay"}))
	require.Equal(t, 1, distance("ab", "ba"))
	require.Equal(t, 3, distance("", "abc"))
}
