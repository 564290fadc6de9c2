package towline

import "github.com/towline-dev/towline/internal/redact"

// CleanText makes an error text fit to be stored and shown: secrets are masked, then invalid bytes are replaced, then it
// is cut to max bytes on a rune boundary, in this order (E-3). It never fails.
func CleanText(s string, maxBytes int) string { return redact.Clean(s, maxBytes) }

// boundText makes a text valid and cuts it on a rune boundary.
func boundText(s string, maxBytes int) string { return redact.Bound(s, maxBytes) }
