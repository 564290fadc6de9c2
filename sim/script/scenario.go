package script

import (
	"bufio"
	"io"
	"strings"
)

// maxLine bounds a line of a file.
const maxLine = 1 << 20

// reading is where a reader of a scenario file stands.
type reading int

const (
	commanding reading = iota // outside of what has happened
	ruled                     // behind the rule that ends commands
	under                     // in what has happened, up to an empty line
	doubled                   // in what has happened, with empty lines, up to a double rule
	ending                    // behind the first of these two rules
)

// next is where it stands behind a line.
func (at reading) next(line string) reading {
	rule := line == "----"
	switch {
	case at == commanding && rule:
		return ruled
	case at == ruled && rule, at == ending && !rule:
		return doubled
	case at == doubled && rule:
		return ending
	case at == ending, at == ruled && line == "", at == under && line == "":
		return commanding
	case at == ruled:
		return under
	}
	return at
}

// ReadScenario reads the commands of a scenario file. What stands under a rule is what has happened when it was written, and is
// left out: it goes to the next empty line, or, if the rule is doubled, to the next double rule. file is its name, with which an
// error begins.
func ReadScenario(file string, r io.Reader) (out []Line, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	at := commanding
	for number := 1; lines.Scan(); number++ {
		before := at
		if at = at.next(strings.TrimSpace(lines.Text())); before != commanding || at != commanding {
			continue
		}
		commands, err := ParseFile(file, number, lines.Text())
		if err != nil {
			return nil, err
		}
		out = append(out, commands...)
	}
	return out, lines.Err()
}
