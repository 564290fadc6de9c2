package script

import (
	"fmt"
	"slices"
	"strings"
)

// cutPlace cuts "1/relay before publish weather" into its task and its place.
func cutPlace(text string) (task, at string, err error) {
	for _, side := range []string{"before ", "behind "} {
		if strings.HasPrefix(text, side) {
			return "", text, checkPlace(text)
		}
		if task, at, ok := strings.Cut(text, " "+side); ok {
			return task, side + at, checkPlace(side + at)
		}
	}
	return "", "", fmt.Errorf("%q is no place: it lies before or behind the call of a port", text)
}

// checkPlace says of a place at which nobody can come by that it has no port.
func checkPlace(place string) error {
	known, said := words(ports...), strings.Fields(place)
	if len(said) > 1 && slices.Contains(known, said[1]) || place == "before a transaction" {
		return nil
	}
	return fmt.Errorf("%q is no place: behind its side comes a port, which is one of %s", place, strings.Join(known, ", "))
}

// isAt: the call of a place has the parts that are named, in their order.
func isAt(place, text string) bool {
	words := strings.SplitN(text, " ", 3)
	if len(words) < 2 {
		return false
	}
	rest, ok := strings.CutPrefix(place, words[0]+" "+words[1])
	return ok && (len(words) < 3 || strings.Contains(rest, words[2]))
}

// hasNode refuses the number of a node that the world does not have. One that does not live is none of them.
func (p *Player) hasNode(number int) error {
	if nodes := max(1, p.setup.Nodes); number < 1 || number > nodes {
		return fmt.Errorf("there is no node %d: they are numbered from 1 to %d", number, nodes)
	}
	return nil
}
