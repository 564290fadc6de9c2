package config

import (
	"fmt"
	"strings"
)

// Reference is docs/CONFIG.md.
func Reference() string {
	var out strings.Builder
	out.WriteString(referenceHead)
	section := ""
	for _, k := range table().keys {
		if s := k.section(); s != section {
			section = s
			fmt.Fprintf(&out, "\n## %s\n\n| key | form | default | |\n|---|---|---|---|\n", section)
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", k.Path, k.formInWords(), k.defaultInWords(), k.docInWords())
	}
	return out.String()
}

const referenceHead = `# Configuration

<!-- Written from the table of package config: go test ./config -run Reference -rewrite -->

Towline reads one YAML file: ` + "`--config`, `$TOWLINE_CONFIG`, `./towline.yaml`, `$XDG_CONFIG_HOME/towline/towline.yaml`, `/etc/towline/towline.yaml`" + `, the
first that is there. A flag (` + "`--set KEY=VALUE`" + `) goes before a variable, a variable before the file, the file before the default. The variable of a
key is ` + "`TOWLINE_`" + ` and the key in upper case, with ` + "`_`" + ` for each dot; keys below a name of your own have none. ` + "`towline config print --origin`" + ` shows
what is in force and where it came from, ` + "`towline config schema`" + ` is the JSON Schema of the file.

An unknown key is an error that names the nearest one. Relative paths start at the file. A duration is ` + "`30s`, `5m`, `24h`, `30d` or `1d12h`" + `, a size
` + "`512MiB`" + `; only counts are bare numbers. A secret is never in the file: write ` + "`file:/path`, `env:NAME` or `cred:NAME`" + ` (a systemd credential), and
it is printed as ` + "`***`" + `. NAME in a key stands for a name of your own. Keys with a ↻ change while Towline runs, when the process gets SIGHUP: all of
them or, if a key without it has changed too, none.
`

// section is under which heading a key is described.
func (k Key) section() string {
	first, rest, _ := strings.Cut(k.Path, ".")
	switch {
	case first == "version":
		return "store"
	case first != "syncs":
		return first
	}
	for _, part := range []string{"datasets", "sink", "post_sync", "schedule"} {
		if strings.HasPrefix(rest, "NAME."+part) {
			return "syncs.NAME." + part
		}
	}
	return "syncs"
}

func (k Key) formInWords() string {
	var out []string
	if k.Form == Choice {
		for _, c := range k.Choices {
			out = append(out, "`"+c+"`")
		}
		return strings.Join(out, ", ")
	}
	out = append(out, string(k.Form))
	if k.Choices != nil {
		out = append(out, "of "+strings.Join(k.Choices, ", "))
	}
	if bounds := k.Bounds(); bounds != "" {
		out = append(out, bounds)
	}
	return strings.Join(out, ", ")
}

func (k Key) defaultInWords() string {
	if k.Default == "" {
		return ""
	}
	return "`" + k.Default + "`"
}

func (k Key) docInWords() string {
	out := strings.NewReplacer("<", "&lt;", ">", "&gt;", "|", "\\|", "*", "\\*").Replace(k.Doc)
	if k.Provider != "" {
		out += " Of the provider " + k.Provider + "."
	}
	if k.Alias != "" {
		out += " Alias `" + k.Alias + "`"
		if k.aliasUnit == "s" {
			out += ", whole seconds"
		}
		out += "."
	}
	if k.Later {
		out += " **Nothing acts on it in this release.**"
	}
	if k.Live {
		out += " ↻"
	}
	return out
}
