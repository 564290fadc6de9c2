// Package redact makes texts of the world fit to be stored and shown: secrets are masked, bytes that are no text are replaced,
// and what is too long is cut (E-3).
package redact

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Clean masks secrets in a text, then replaces invalid bytes, then cuts it to max bytes on a rune boundary, in this order
// (E-3). It never fails.
func Clean(s string, maxBytes int) string {
	return Bound(Secrets(boundInput(s, maxBytes)), maxBytes)
}

// Bound makes a text valid and cuts its end off on a rune boundary.
func Bound(s string, maxBytes int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
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
// takes away. The cut stands between two words where it can, for half a secret might not be known as one.
func boundInput(s string, maxBytes int) string {
	const spare = 4096
	bound := 2*maxBytes + spare
	if len(s) <= bound {
		return s
	}
	s = s[:bound]
	if i := strings.LastIndexAny(s, " \t\r\n"); i > maxBytes {
		return s[:i]
	}
	return s
}

const mask = "***"

// secret is a form in which credentials reach error texts, and what is written in its place.
type secret struct {
	form *regexp.Regexp
	mask string
}

var secrets = []secret{
	// the block of a private key, also one that was cut off
	{regexp.MustCompile(`(-----BEGIN [A-Z ]*PRIVATE KEY-----)(?s:.*?)(?:-----END [A-Z ]*-----|$)`), "${1}" + mask},
	// user info in an address: scheme://user:password@host. A password may hold what no address should: slashes, an @
	{regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://)[^\s"'<>/@:]*:[^\s"'<>]*@`), "${1}" + mask + "@"},
	{regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*://)[^\s"'<>/]+@`), "${1}" + mask + "@"},
	// Authorization: Bearer …, and bare bearer tokens
	{regexp.MustCompile(`(?i)(\b(?:bearer|basic|token)\s+)[^\s"',;]{8,}`), "${1}" + mask},
	// Authorization: with a scheme of any other name
	{regexp.MustCompile(`(?i)(authorization\s*[:=]\s*)[a-z][a-z0-9-]*\s+[^\s"',;]{8,}`), "${1}" + mask},
	// key=value, "key": "value", and the same inside a quoted text
	{regexp.MustCompile(`(?i)((?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|authorization|credential|private[_-]?key|session|cookie)[a-z0-9_-]*\\?["']?\s*[:=]\s*)(?:\\"[^"\\]*(?:\\")?|"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s"',;&]+)`), "${1}" + mask},
	// keys that are known by their form
	{regexp.MustCompile(`\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|[spr]k[_-]|AKIA|ASIA)[A-Za-z0-9_-]{16,}`), mask},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?`), mask},
}

// Secrets masks what looks like a credential.
func Secrets(s string) string {
	for _, x := range secrets {
		s = x.form.ReplaceAllString(s, x.mask)
	}
	return s
}

// shortest: a shorter secret would mask half of any text.
const shortest = 4

// Values masks secrets that are known, also in the forms that they have in an address and in a JSON text. One of less than 4
// bytes is not masked.
func Values(secrets ...string) *strings.Replacer {
	var forms []string
	for _, v := range secrets {
		v = strings.TrimSpace(v)
		if len(v) >= shortest {
			forms = append(forms, v, url.QueryEscape(v), url.PathEscape(v), inJSON(v, true), inJSON(v, false))
		}
	}
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) }) // one may be the beginning of another
	var pairs []string
	for _, f := range forms {
		pairs = append(pairs, f, mask)
	}
	return strings.NewReplacer(pairs...)
}

// inJSON is a text as JSON has it between its quotes, also with the letters of HTML escaped, as some encoders do.
func inJSON(text string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	if err := e.Encode(text); err != nil {
		return text // a text always encodes
	}
	quoted := bytes.TrimSpace(b.Bytes())
	return string(quoted[1 : len(quoted)-1])
}
