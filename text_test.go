package towline_test

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
)

// E-3, SC-341: what looks like a credential is masked, and the rest stays readable.
func TestCleanTextMasksSecrets(t *testing.T) {
	const hidden = "Tr0ub4dor"
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"nothing to hide: 404 at https://example.org/a/b?c=d#e", "nothing to hide: 404 at https://example.org/a/b?c=d#e"},
		{"go: module github.com/towline-dev/towline@v1.2.3: not found",
			"go: module github.com/towline-dev/towline@v1.2.3: not found"},
		{"open https://example.org/pkg@v1.2.3", "open https://example.org/pkg@v1.2.3"},
		{"dial tcp 10.0.0.1:5432: refused", "dial tcp 10.0.0.1:5432: refused"},
		{"https://example.org:8443/path is down", "https://example.org:8443/path is down"},

		// user info
		{"clone https://ada:" + hidden + "@example.org/r.git", "clone https://***@example.org/r.git"},
		{"clone https://" + hidden + "@example.org/r.git", "clone https://***@example.org/r.git"},
		{"https://:" + hidden + "@example.org", "https://***@example.org"},
		{"postgres://ada:" + hidden + "@s@db:5432/x?sslmode=off", "postgres://***@db:5432/x?sslmode=off"},
		{`parse "postgres://ada:x/` + hidden + `@db/x": invalid port ":x" after host`,
			`parse "postgres://***@db/x": invalid port ":x" after host`},
		{"SSH+Git://ada:" + hidden + "@host", "SSH+Git://***@host"},
		{"two: a://u:" + hidden + "@h b://v:" + hidden + "@i", "two: a://***@h b://***@i"},

		// headers
		{"Authorization: Bearer " + hidden, "Authorization: *** ***"},
		{"sent bearer " + hidden + " twice", "sent bearer *** twice"},
		{"Proxy-Authorization: Basic " + hidden + "==", "Proxy-Authorization: *** ***"},
		{"authorization: token " + hidden, "authorization: *** ***"},
		{"Authorization: ApiKey " + hidden + " refused", "Authorization: *** refused"},
		{`curl -H "proxy-authorization: Negotiate ` + hidden + `=="`, `curl -H "proxy-authorization: ***"`},
		{"authorization: denied for ada", "authorization: *** for ada"},
		{"x-api-key: " + hidden, "x-api-key: ***"},
		{"PRIVATE-TOKEN: " + hidden, "PRIVATE-TOKEN: ***"},
		{"Set-Cookie: " + hidden + "; Path=/", "Set-Cookie: ***; Path=/"},

		// key and value
		{"password=" + hidden + " user=ada", "password=*** user=ada"},
		{"?api_key=" + hidden + "&page=2", "?api_key=***&page=2"},
		{"AWS_SECRET_ACCESS_KEY=" + hidden, "AWS_SECRET_ACCESS_KEY=***"},
		{`{"client_secret": "` + hidden + `", "page": 2}`, `{"client_secret": ***, "page": 2}`},
		{`{"password":"two words, ` + hidden + `"}`, `{"password":***}`},
		{`{"password":"quoted \" ` + hidden + `"}`, `{"password":***}`},
		{`body "{\"token\":\"` + hidden + `\",\"n\":1}"`, `body "{\"token\":***,\"n\":1}"`},
		{"passphrase: '" + hidden + " of two'", "passphrase: ***"},
		{"password=" + hidden, "password=***"},
		{"pwd : " + hidden, "pwd : ***"},

		// by their form
		{"git said ghp_" + strings.Repeat("a", 36), "git said ***"},
		{"key AKIA" + strings.Repeat("A", 16) + " refused", "key *** refused"},
		{"xoxb-" + strings.Repeat("1", 24), "***"},
		{"sk-proj-" + strings.Repeat("a", 24), "***"},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "***"},
		{"skipped_because_of_an_earlier_error", "skipped_because_of_an_earlier_error"},
		{"-----BEGIN RSA PRIVATE KEY-----\n" + hidden + "\n-----END RSA PRIVATE KEY-----\nend",
			"-----BEGIN RSA PRIVATE KEY-----***\nend"},
		{"-----BEGIN PRIVATE KEY-----\n" + hidden, "-----BEGIN PRIVATE KEY-----***"},
	} {
		got := towline.CleanText(c.in, 2000)
		require.Equal(t, c.want, got)
		require.NotContains(t, got, hidden)
	}
}

// E-3: masking comes before the repair of invalid bytes, and both before the cut, which falls between two runes.
func TestCleanTextRepairsAndCuts(t *testing.T) {
	require.Equal(t, "a\uFFFDb", towline.CleanText("a\xff\xfeb", 100))
	require.Equal(t, "bearer *** x", towline.CleanText("bearer abc\xffdefgh x", 100),
		"a secret does not end at an invalid byte")
	require.Equal(t, strings.Repeat("x", 64), towline.CleanText(strings.Repeat("x", 64), 64))
	require.Equal(t, strings.Repeat("x", 61)+"…", towline.CleanText(strings.Repeat("x", 65), 64))
	require.Equal(t, strings.Repeat("é", 30)+"…", towline.CleanText(strings.Repeat("é", 40), 64))
	require.Equal(t, strings.Repeat("𝄞", 15)+"…", towline.CleanText(strings.Repeat("𝄞", 40), 64))
}

// E-3: a secret that lies across the place where a huge text is cut off for the work's sake is not half shown.
func TestCleanTextShowsNoHalfSecret(t *testing.T) {
	const most = 64
	noise := strings.Repeat("password=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ", 1000)
	for cut := 4000; cut < 4400; cut++ {
		text := noise[:cut-cut%107] + "https://ada:Tr0ub4dor" + strings.Repeat("z", 5000) + "@example.org"
		require.NotContains(t, towline.CleanText(text, 2000), "Tr0ub")
	}
	require.LessOrEqual(t, len(towline.CleanText(noise, most)), most)
}

// E-3: whatever the text, the result is valid, bounded and final.
func TestCleanTextIsBoundedForEveryText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(64, 300).Draw(t, "most")
		text := string(rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(t, "text"))
		got := towline.CleanText(text, most)
		require.LessOrEqual(t, len(got), most)
		require.True(t, utf8.ValidString(got))
	})
}

// E-3: also the text of the last hand-back, before which a rule puts words of its own, fits into error.max_bytes.
func TestTheTextOfTheLastHandBackFits(t *testing.T) {
	const bound = 64
	w := openWorkshop(t, options{config: towline.Config{
		Syncs: []towline.Sync{single("north")}, Knobs: towline.Knobs{ErrorMaxBytes: bound},
	}})
	p := w.started(towline.RunSpec{Sync: "north"})
	before := w.head()
	for i := range decider.MaxHandBacks {
		if i > 0 {
			w.untilDue(w.unit(p.Run, 1))
			w.dispatch(p.Run)
		}
		l := w.claim(w.unit(p.Run, 1).Unit)
		require.NoError(t, w.e.Release(context.Background(), l, strings.Repeat("§", bound)))
	}
	failed := enginetest.Only[events.UnitFailed](w.since(before))[0]
	require.Contains(t, failed.Text, "10 times in a row: §§§")
	require.LessOrEqual(t, len(failed.Text), bound)
	require.True(t, utf8.ValidString(failed.Text))
	for _, e := range enginetest.Only[events.UnitRetryScheduled](w.since(before)) {
		require.LessOrEqual(t, len(e.Text), bound)
	}
}
