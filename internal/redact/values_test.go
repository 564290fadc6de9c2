package redact_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/internal/redact"
)

// E-3, EX-5: a secret that is known is masked as it is, in an address, and in a JSON text, where a quote or a line break of it
// looks otherwise.
func TestKnownSecretsAreMasked(t *testing.T) {
	masks := redact.Values("a/b c!", "quo\"te\\<and>\nline", " trimmed\n", "abc", "", "trimmed and longer")
	for text, want := range map[string]string{
		"sent a/b c! to https://x/?t=a%2Fb+c%21":  "sent *** to https://x/?t=***",
		"quo\"te\\<and>\nline":                    "***",
		`{"pw":"quo\"te\\<and>\nline"}`:           `{"pw":"***"}`,
		`{"pw":"quo\"te\\\u003cand\u003e\nline"}`: `{"pw":"***"}`,
		"trimmed and longer, trimmed":             "***, ***",
		"abc stays":                               "abc stays",
	} {
		require.Equal(t, want, masks.Replace(text))
	}
	require.Equal(t, "as it is", redact.Values().Replace("as it is"))
}
