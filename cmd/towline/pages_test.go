package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/docs"
	"github.com/towline-dev/towline/query"
)

// namedCommand is a command in the text of a page.
var namedCommand = regexp.MustCompile("`(towline [^`]+)`|(?m:^    (towline .+)$)")

// Surfaces 10: each command that a page names is one of the tree, with its flags, its arguments and its query.
func TestPagesNameCommandsThatThereAre(t *testing.T) {
	pages := map[string]string{"crash-windows": docs.CrashWindows}
	for _, p := range docs.Handbook() {
		pages[p.Name] = p.Text
	}
	for _, pattern := range []string{"../*.md", "*.md", "handbook/README.md"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "docs", pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			pages[f] = string(text)
		}
	}
	for name, page := range pages {
		for _, m := range namedCommand.FindAllStringSubmatch(page, -1) {
			for text := range strings.SplitSeq(m[1]+m[2], " && ") {
				if err := understands(text); err != nil {
					t.Errorf("%s: %s: %v", name, text, err)
				}
			}
		}
	}
}

// The check above sees what is wrong.
func TestACommandThatThereIsNotIsFound(t *testing.T) {
	for text, want := range map[string]string{
		"towline why ID": "",
		"towline outbox resolve RUN/post_sync --delivered | --lost --reason …": "",
		"towline run list --where 'state:planned sync:code'":                   "",
		"towline help crash-windows":                                           "",
		"towline explain ID":                                                   "no such command",
		"towline outbox resend ID":                                             "no such command",
		"towline why":                                                          "",
		"towline why A B":                                                      "is too much",
		"towline run list --were x":                                            "unknown flag",
		"towline run list --where state:lost":                                  "lost",
		"towline help crash-window":                                            "no such page",
	} {
		err := understands(text)
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, want, text)
	}
}

var quotedOrPlain = regexp.MustCompile(`'([^']*)'|(\S+)`)

// understands parses a command as a shell and the program would, and runs nothing.
func understands(text string) error {
	var words []string
	for _, m := range quotedOrPlain.FindAllStringSubmatch(text, -1) {
		switch word := m[1] + m[2]; word {
		case "|": // one flag or the other
		case "N":
			words = append(words, "1")
		default:
			words = append(words, word)
		}
	}
	root := (&program{}).root()
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(words[1:])
	if err != nil {
		return err
	}
	if cmd.Name() == "help" {
		rest = slices.DeleteFunc(rest, func(word string) bool { return word == "NAME" }) // any page
		page, left, err := root.Find(rest)
		if err == nil && (page == root || len(left) > 0) {
			err = fmt.Errorf("no such page: %s", rest)
		}
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	args := cmd.Flags().Args()
	if cmd.HasSubCommands() && len(args) > 0 {
		return fmt.Errorf("%s has no such command: %s", cmd.CommandPath(), args)
	}
	if len(args) > 0 { // else it is only named, or a flag of it
		if err := cmd.ValidateArgs(args); err != nil {
			return err
		}
	}
	if where := cmd.Flags().Lookup("where"); where != nil && where.Value.String() != "" {
		_, err := query.Parse(subjectOf(cmd.Parent().Name()), where.Value.String(), time.Now())
		return err
	}
	return nil
}

// subjectOf is what the query of a noun is about.
func subjectOf(noun string) query.Subject {
	return map[string]query.Subject{
		"run": query.Runs, "unit": query.Units, "outbox": query.Outbox, "events": query.Events,
	}[noun]
}
