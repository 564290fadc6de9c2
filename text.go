package towline

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// CleanText makes an error text fit to be stored and shown: secrets are masked, then invalid bytes are replaced, then it
// is cut to max bytes on a rune boundary, in this order (E-3). It never fails.
func CleanText(s string, maxBytes int) string {
	s = strings.ToValidUTF8(redact(boundInput(s, maxBytes)), "\uFFFD")
	if len(s) <= maxBytes {
		return s
	}
	const ellipsis = "…"
	cut := maxBytes - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + ellipsis
}

// boundInput keeps the work on a huge text bounded. Twice the bound, and a good deal more, leaves room for what masking
// takes away.
func boundInput(s string, maxBytes int) string {
	const spare = 4096
	if bound := 2*maxBytes + spare; len(s) > bound {
		return s[:bound]
	}
	return s
}

const mask = "***"

// secrets are the forms in which credentials reach error texts. Each keeps its first group and masks the rest.
var secrets = []*regexp.Regexp{
	// user info in an address: scheme://user:password@host
	regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://)[^/\s:@]*:[^/\s@]*@`),
	regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://)[^/\s:@]+@`),
	// Authorization: Bearer …, and bare bearer tokens
	regexp.MustCompile(`(?i)(\b(?:bearer|basic|token)\s+)[a-z0-9._~+/=-]{8,}`),
	// key=value and "key": "value"
	regexp.MustCompile(`(?i)((?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|authorization|credential|private[_-]?key|client[_-]?secret|session)[a-z0-9_-]*["']?\s*[:=]\s*["']?)[^\s"',;&]+`),
	// keys that are known by their form
	regexp.MustCompile(`()\b(?:ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs]|sk|pk|AKIA)[_-]?[A-Za-z0-9_-]{16,}\b`),
}

func redact(s string) string {
	for i, re := range secrets {
		replacement := "${1}" + mask
		if i < 2 { // the address stays readable
			replacement += "@"
		}
		s = re.ReplaceAllString(s, replacement)
	}
	return s
}
