package ident

import "strings"

// Shell is a name as an argument of a command that a person copies into a shell: in single quotes, if a shell would read it
// otherwise than as it is.
func Shell(name string) string {
	plain := name != "" && !strings.HasPrefix(name, "-") && !strings.HasPrefix(name, "#") && strings.IndexFunc(name, special) < 0
	if plain {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// special are what means something to a shell, or might to one of them. Letters of every language do not.
func special(r rune) bool {
	const plain = "_-./:@%+,#" // the last only behind something else
	return r <= ' ' || r == 0x7f || r < 0x80 && !strings.ContainsRune(plain, r) && !isLetterOrDigit(r)
}

func isLetterOrDigit(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
}
