package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/towline-dev/towline/docs"
)

// crashWindowsTopic is a page of the documents, for whoever has no network at that moment; it runs nothing.
func crashWindowsTopic() *cobra.Command {
	return &cobra.Command{Use: "crash-windows", Short: "Who recovers what after a crash, and how late at the latest", Long: onScreen(docs.CrashWindows)}
}

const screenWidth = 88

// onScreen is a page as a terminal shows it best: paragraphs and items wrapped, all else as it is written.
func onScreen(page string) string {
	var out strings.Builder
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		indent := ""
		if strings.HasPrefix(line, "- ") {
			indent = "  "
		}
		if asIs.MatchString(line) {
			out.WriteString(line + "\n")
			continue
		}
		width := 0
		for i, word := range strings.Fields(line) {
			n := len([]rune(word))
			switch {
			case i == 0:
			case width+1+n > screenWidth:
				out.WriteString("\n" + indent)
				width = len(indent)
			default:
				out.WriteString(" ")
				width++
			}
			out.WriteString(word)
			width += n
		}
		out.WriteString("\n")
	}
	return strings.TrimRight(out.String(), "\n")
}

// asIs: headings, tables and code keep their lines.
var asIs = regexp.MustCompile(`^(#|\||    )`)

// handbookTopic is the handbook, a topic for each page; it runs nothing.
func handbookTopic() *cobra.Command {
	c := &cobra.Command{Use: "handbook", Short: "What an alert, a reason of /readyz or a problem code means, and what to do"}
	var text strings.Builder
	text.WriteString("towline help handbook NAME shows a page. towline doctor says which of them you need now.\n\n")
	for _, p := range docs.Handbook() {
		fmt.Fprintf(&text, "  %-22s  %s\n", p.Name, p.Title)
		c.AddCommand(&cobra.Command{Use: p.Name, Short: p.Title, Long: onScreen(p.Text)})
	}
	c.Long = strings.TrimRight(text.String(), "\n")
	return c
}
