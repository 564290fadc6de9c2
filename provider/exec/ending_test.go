//go:build unix

package exec_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/provider/exec"
)

// EX-4, E-1, RL-1: what exit codes mean. Text is never searched.
func TestExitCodes(t *testing.T) {
	for code, want := range map[int]provider.Category{
		1: provider.OtherError, 2: provider.OtherError, 3: provider.OtherError, 64: provider.OtherError, 69: provider.Network,
		70: provider.OtherError, 75: provider.OtherError, 77: provider.Auth, 78: provider.Configuration, 126: provider.OtherError,
		127: provider.OtherError, 129: provider.OtherError, 255: provider.OtherError,
	} {
		got := run(t, sh(fmt.Sprintf(`echo '{"a":1}'; echo "429 rate limit, 401, timeout" >&2; exit %d`, code)))
		got.requireFailed(want, fmt.Sprintf("exec /bin/sh: %s: exit status %d", want, code))
		require.Equal(t, code, *got.detail().Exit)
		require.Equal(t, "429 rate limit, 401, timeout\n", got.detail().Stderr)
	}
	require.Len(t, run(t, sh(`echo '{"a":1}'; exit 0`)).rows(), 1)
}

// EX-4, RL-1, RL-4: a rate limit is a line and an exit code. One without the other is none.
func TestARateLimit(t *testing.T) {
	for line, want := range map[string]time.Duration{
		`{"towline":"retry_after","seconds":30}`:                   30 * time.Second,
		`{"towline":"retry_after","seconds":0.25,"account":"ada"}`: 250 * time.Millisecond,
		`{"towline":"retry_after","seconds":0}`:                    0,
		`{"towline":"retry_after","seconds":1e300}`:                2400 * time.Hour,
	} {
		for _, to := range []string{"1", "3"} {
			got := run(t, sh(fmt.Sprintf(`echo '%s' >&%s; exit 75`, line, to)))
			got.requireFailed(provider.RateLimit, "exit status 75")
			after, account := provider.LimitOf(got.err)
			require.Equal(t, want, after)
			require.Equal(t, strings.Contains(line, "ada"), account == "ada")
		}
	}
	run(t, sh(`echo '{"towline":"retry_after","seconds":30}'; exit 1`)).requireFailed(provider.OtherError, "exit status 1")
	require.Empty(t, run(t, sh(`echo '{"towline":"retry_after","seconds":30}'`)).rows())
}

// EX-4: death by a signal is on record as such, and a half line before it is no reason of its own.
func TestDeathByASignal(t *testing.T) {
	got := run(t, sh(`printf '{"towline":"record","key":"a","data":{}}\n{"towline":"rec'; echo bye >&2; kill -SEGV $$`))
	got.requireFailed(provider.OtherError, "ended by signal 11 (segmentation fault): bye")
	require.Equal(t, "11 (segmentation fault)", got.detail().Signal)
	require.Nil(t, got.detail().Exit)
	run(t, sh(`kill -9 $$`)).requireFailed(provider.OtherError, "ended by signal 9 (killed)")
	run(t, sh(`sh -c 'kill -9 $$'; exit $?`)).requireFailed(provider.OtherError, "exit status 137, which a shell has of a command that was ended by signal 9 (killed)")
}

// EX-4: a program that is not there, is none, or has no folder is a matter of the configuration.
func TestAProgramThatCannotBeStarted(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(plain, []byte("no program"), 0o600))
	for name, o := range map[string]exec.Options{
		"missing":    {Command: []string{"no-such-program-as-this"}},
		"no file":    {Command: []string{filepath.Join(t.TempDir(), "none")}},
		"no program": {Command: []string{plain}},
		"a folder":   {Command: []string{t.TempDir()}},
		"no folder":  {Command: []string{"/bin/true"}, Dir: filepath.Join(t.TempDir(), "none")},
		"too long":   {Command: []string{"/bin/true", strings.Repeat("x", 8<<20)}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, o).requireFailed(provider.Configuration, "it cannot be started")
		})
	}
}

// EX-5, E-3: of standard error the end is kept, without secrets, as valid UTF-8 and within its bound, whatever it is.
func TestStandardErrorIsKept(t *testing.T) {
	for name, c := range map[string]struct{ script, begins, ends string }{
		"text":          {`seq 1 100000 >&2`, "", "99999\n100000\n"},
		"zero bytes":    {`head -c 1000000 /dev/zero >&2`, "", "\x00\x00"},
		"no UTF-8":      {`head -c 1000000 /dev/zero | tr '\0' '\377' >&2`, "", "\uFFFD"},
		"half a rune":   {`i=0; while [ $i -lt 40000 ]; do printf 'é€'; i=$((i+1)); done >&2; printf '\342\202' >&2`, "", "é€\uFFFD"},
		"quotes":        {`yes '"\' | head -c 300000 >&2`, "", "\"\\\n"},
		"one long word": {`head -c 300000 /dev/zero | tr '\0' x >&2`, "", "xxx"},
		"of a key":      {`{ echo '-----BEGIN RSA PRIVATE KEY-----'; yes MIIBOgIBAAJB | head -n 5500; echo '-----END RSA PRIVATE KEY-----'; echo over; } >&2`, "-----BEGIN RSA PRIVATE KEY-----***", "over\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, sh(c.script+"; exit 1"))
			require.Error(t, got.err)
			require.True(t, utf8.ValidString(got.err.Error()))
			require.Less(t, len(got.err.Error()), 2000)
			require.LessOrEqual(t, len(got.result.Detail), events.MaxResultBytes)
			d := got.detail()
			require.True(t, utf8.ValidString(d.Stderr))
			require.True(t, strings.HasSuffix(d.Stderr, c.ends), "%q", d.Stderr[max(0, len(d.Stderr)-20):])
			if c.begins != "" {
				require.True(t, strings.HasPrefix(d.Stderr, c.begins), "%.80q", d.Stderr)
			} else {
				require.True(t, d.Cut)
			}
		})
	}
	whole := strings.Repeat("0123456789\n", 5900) // as JSON a little less than the bound
	o := sh(`printf '%s' "$TEXT" >&2; exit 1`)
	o.Env = map[string]string{"TEXT": whole[:60000]}
	got := run(t, o)
	require.False(t, got.detail().Cut)
	require.Equal(t, whole[:60000], got.detail().Stderr)
}

// EX-5, E-3, E-4: secrets that were given to the program, and what looks like one, are in nothing that is kept or logged.
func TestSecretsAreMasked(t *testing.T) {
	o := sh(`echo "sent $TOKEN to https://x/?t=a%2Fb+c%21secret"; echo "password=hunter2 and $TOKEN" >&2
		echo '{"towline":"log","text":"token '"$TOKEN"'"}'; exit 1`)
	o.Secrets = map[string]string{"TOKEN": "a/b c!secret", "SHORT": "e", "EMPTY": ""}
	got := run(t, o)
	got.requireFailed(provider.OtherError, "exit status 1: password=*** and ***")
	require.Equal(t, "password=*** and ***\n", got.detail().Stderr)
	require.Equal(t, "sent *** to https://x/?t=***\ntoken ***\n", got.detail().Log)
	for _, kept := range []string{got.err.Error(), string(got.result.Detail), got.log.String()} {
		require.NotContains(t, kept, "a/b c!secret")
		require.NotContains(t, kept, "a%2Fb+c%21secret")
		require.NotContains(t, kept, "hunter2")
	}
}

// E-3, EX-5: nor does the error of a line that is wrong, which quotes it, hold a secret, or the half of one that is cut.
func TestSecretsInAWrongLineAreMasked(t *testing.T) {
	secret := strings.Repeat("hunter22", 10) + "!"
	for script, want := range map[string]string{
		`echo '{"towline":"log"}'; echo "{ $TOKEN"`:                    "each must be one: write what is for people to standard error: { ***",
		`echo '{"towline":"log"}'; echo "{ about to show $TOKEN"`:      "to standard error: { about to show ***",
		`echo '{"towline":"'$TOKEN'"}'`:                                `towline is "***"`,
		`echo '{"towline":"record","key":{"a":"'$TOKEN'"},"data":{}}'`: `no list of them: {"a":"***"}`,
	} {
		o := sh(script)
		o.Secrets = map[string]string{"TOKEN": secret}
		got := run(t, o)
		got.requireFailed(provider.OtherError, want)
		require.NotContains(t, got.err.Error(), "hunter22")
	}
}
