//go:build unix

package exec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider/exec"
)

// EX-1, HU-4, HC-49: a program reads its unit on standard input, in a file and in its environment; digits are those that were given.
func TestAProgramIsToldItsUnit(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TOWLINE_API_TOKEN", "not for programs")
	t.Setenv("NOTIFY_SOCKET", "/run/manager")
	t.Setenv("INHERITED", "yes")
	o := sh(`cat >input && cmp input "$TOWLINE_UNIT_FILE" && cp "$TOWLINE_STATE_FILE" state && env | sort >variables
		ls -l "$TOWLINE_UNIT_FILE" | cut -c1-10 >mode; printf '%s\n' "$@" >arguments`)
	o.Dir = dir
	o.Command = append(o.Command, "sh", "--from={{window.from}}", "{{ window.to }}", "{{source}}/{{dataset}}#{{attempt}}", "{{.Names}} {{", "a b;$HOME")
	o.Env = map[string]string{"PLAIN": "1"}
	o.Secrets = map[string]string{"TICKETS_TOKEN": "hunter22"}
	u := unit()
	u.State, u.Config = []byte(`{"last":9007199254740993}`), []byte(`{"limit":18446744073709551615,"a":"<&>"}`)
	require.Empty(t, runUnit(t.Context(), t, o, u).rows())

	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(b)
	}
	require.Equal(t, `{"towline":1,"run":"`+u.Run.String()+`","unit":"`+u.ID.String()+`","alias":"00000A:orders/commits/2024-03-01","attempt":2,`+
		`"fence":"00000001.0000000000001187","sync":"code","source":"orders","dataset":"commits","surfaces":["commits"],"mode":"incremental",`+
		`"window":{"from":"2024-03-01T00:00:00Z","to":"2024-03-02T00:00:00Z"},"state":{"last":9007199254740993},`+
		`"config":{"limit":18446744073709551615,"a":"<&>"}}`+"\n", read("input"))
	require.Equal(t, `{"last":9007199254740993}`, read("state"))
	require.Equal(t, "-rw-------\n", read("mode"))
	require.Equal(t, "--from=2024-03-01T00:00:00Z\n2024-03-02T00:00:00Z\norders/commits#2\n{{.Names}} {{\na b;$HOME\n", read("arguments"))
	all := strings.Split(read("variables"), "\n")
	for _, want := range []string{
		"INHERITED=yes", "PLAIN=1", "TICKETS_TOKEN=hunter22", "TOWLINE_RUN_ID=" + u.Run.String(), "TOWLINE_UNIT_ID=" + u.ID.String(),
		"TOWLINE_UNIT_ALIAS=00000A:orders/commits/2024-03-01", "TOWLINE_ATTEMPT=2", "TOWLINE_FENCE=00000001.0000000000001187",
		"TOWLINE_SYNC=code", "TOWLINE_SOURCE=orders", "TOWLINE_DATASET=commits", "TOWLINE_WINDOW_FROM=2024-03-01T00:00:00Z",
		"TOWLINE_WINDOW_TO=2024-03-02T00:00:00Z", "TRACEPARENT=00-01020300000000000000000000000009-0000000000000005-01",
	} {
		require.Contains(t, all, want)
	}
	require.NotContains(t, read("variables"), "TOWLINE_API_TOKEN")
	require.NotContains(t, read("variables"), "NOTIFY_SOCKET")
}

// EX-1, W-5: a unit with an open start, and one without state and configuration.
func TestAUnitWithAnOpenStart(t *testing.T) {
	u := unit()
	u.Window.From = u.Window.From.AddDate(-5000, 0, 0)
	u.Window = events.Window{To: u.Window.To}
	o := sh(`cat; cat "$TOWLINE_STATE_FILE"; echo; echo "[$TOWLINE_WINDOW_FROM] $0"`)
	o.Command, o.Protocol = append(o.Command, "{{window.from}}|{{window.to}}"), exec.Lines
	got := runUnit(t.Context(), t, o, u)
	rows := got.rows()
	require.Len(t, rows, 1)
	require.Contains(t, rows[0], `"window":{"from":null,"to":"2024-03-02T00:00:00Z"},"state":null,"config":{}}`)
	require.Contains(t, rows[0], "commits 000000001 {")
	require.Equal(t, "null\n[] |2024-03-02T00:00:00Z\n", got.detail().Log)
}

// EX-1: a program that closes its standard input at once, or never reads it, is not disturbed.
func TestAClosedInput(t *testing.T) {
	u := unit()
	u.Config = []byte(`"` + strings.Repeat("x", 1<<20) + `"`) // more than a pipe holds
	require.Len(t, runUnit(t.Context(), t, sh(`exec <&-; echo '{"a":1}'`), u).rows(), 1)
}

// CFG: a mistake in the options is one clear sentence.
func TestMistakesInTheOptions(t *testing.T) {
	for want, o := range map[string]exec.Options{
		"command is empty":                 {},
		"command is empty: name":           {Command: []string{""}},
		`{{window.start}} is not known`:    {Command: []string{"x", "--since={{window.start}}"}},
		"the program cannot be a template": {Command: []string{"{{source}}"}},
		`protocol "singer" is not known`:   {Command: []string{"x"}, Protocol: "singer"},
		"grace is -1ns":                    {Command: []string{"x"}, Grace: -1},
		"key names an empty field":         {Command: []string{"x"}, Key: []string{"a", ""}},
		`env: "A B" is no name`:            {Command: []string{"x"}, Env: map[string]string{"A B": ""}},
		"secrets: TOWLINE_FENCE is set by": {Command: []string{"x"}, Secrets: map[string]string{"TOWLINE_FENCE": ""}},
		"env and secrets both set TOKEN":   {Command: []string{"x"}, Env: map[string]string{"TOKEN": "1"}, Secrets: map[string]string{"TOKEN": "2"}},
		"env: A holds a NUL byte":          {Command: []string{"x"}, Env: map[string]string{"A": "a\x00b"}},
	} {
		_, err := exec.New(o)
		require.ErrorContains(t, err, want)
	}
}
