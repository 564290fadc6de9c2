package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
)

// write puts a configuration into a folder of its own, and returns where.
func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// load reads a text as a configuration, without anything of this machine.
func load(t testing.TB, text string, env ...string) (*Config, error) {
	t.Helper()
	path := write(t, text)
	return Load(Options{File: path, Dir: filepath.Dir(path), Env: append([]string{"HOME=/home/ada"}, env...)})
}

func mustLoad(t testing.TB, text string, env ...string) *Config {
	t.Helper()
	c, err := load(t, text, env...)
	require.NoError(t, err)
	return c
}

// CFG-1, section 20: flag, TOWLINE_ variable, alias of the original, file, default; and each value knows where it is from.
func TestThePrecedenceOfAValue(t *testing.T) {
	const key = "unit.expired_lease_max_retries"
	path := write(t, "version: 1\nunit:\n  expired_lease_max_retries: 3\n")
	value := func(o Options) (string, string) {
		o.Dir = filepath.Dir(path)
		if o.Env == nil {
			o.Env = []string{}
		}
		c, err := Load(o)
		require.NoError(t, err)
		v, ok := c.Value(key)
		require.True(t, ok)
		return v.Text, v.Origin.String()
	}
	expect := func(o Options, text, origin string) {
		t.Helper()
		gotText, gotOrigin := value(o)
		require.Equal(t, text, gotText)
		require.Equal(t, origin, gotOrigin)
	}
	alias, variable := "SYNC_UNIT_EXPIRED_LEASE_MAX_RETRIES=4", "TOWLINE_UNIT_EXPIRED_LEASE_MAX_RETRIES=5"
	flag := []Flag{{Name: "--set", Key: key, Text: "6"}}
	expect(Options{stat: func(string) bool { return false }}, "1", "default")
	expect(Options{}, "3", "towline.yaml:3")
	expect(Options{Env: []string{alias}}, "4", "SYNC_UNIT_EXPIRED_LEASE_MAX_RETRIES")
	expect(Options{Env: []string{alias, variable}}, "5", "TOWLINE_UNIT_EXPIRED_LEASE_MAX_RETRIES")
	expect(Options{Env: []string{variable}, Flags: flag}, "6", "--set")
}

// CFG-1: the aliases feed policies that set no value of their own, the second counts whole seconds, and one that is
// overruled is reported.
func TestTheAliasesOfTheOriginal(t *testing.T) {
	const backoff = "SYNC_UNIT_EXPIRED_LEASE_RETRY_BACKOFF_SECONDS"
	text := `
version: 1
retry_policies:
  open: {provider: git}
  own: {provider: git, max_retries: 2, backoff: 5s}
`
	c := mustLoad(t, text, "SYNC_UNIT_EXPIRED_LEASE_MAX_RETRIES=7", backoff+"=90")
	require.Equal(t, 90*time.Second, c.Knobs.ExpiredLeaseRetryBackoff)
	require.Equal(t, towline.Retry{Max: 7}, c.RetryPolicies[0].retry(c.Knobs), "its backoff is that of the knobs, in the engine")
	require.Equal(t, towline.Retry{Max: 2, Backoff: 5 * time.Second}, c.RetryPolicies[1].retry(c.Knobs))
	require.Empty(t, c.Notes())

	c = mustLoad(t, text, backoff+"=90", "TOWLINE_UNIT_EXPIRED_LEASE_RETRY_BACKOFF=2m")
	require.Equal(t, 2*time.Minute, c.Knobs.ExpiredLeaseRetryBackoff)
	require.Equal(t, []string{backoff + " is overruled by TOWLINE_UNIT_EXPIRED_LEASE_RETRY_BACKOFF"}, c.Notes())

	_, err := load(t, text, backoff+"=1.5")
	require.ErrorContains(t, err, backoff+": unit.expired_lease_retry_backoff:")
}

// Section 20: an unknown key or an unparsable value refuses the start and names the key, with its line, and what was meant.
func TestWhatIsWrongIsNamed(t *testing.T) {
	for text, says := range map[string]string{
		"relay:\n  clam_ttl: 60s":                   "towline.yaml:3: unknown key relay.clam_ttl: did you mean relay.claim_ttl?",
		"claim_ttl: 60s":                            "towline.yaml:2: unknown key claim_ttl: did you mean relay.claim_ttl?",
		"zzz: 1":                                    "towline.yaml:2: unknown key zzz: version, store, retention",
		"transports: {rabbit: {}}":                  "unknown key transports.rabbit: local may stand in transports",
		"transports: {local: {url: x}}":             "unknown key transports.local.url: nothing may stand below transports.local",
		"syncs: {a: {provdier: git}}":               "unknown key syncs.a.provdier: did you mean syncs.a.provider?",
		"relay: 3":                                  "towline.yaml:2: relay: want a mapping",
		"relay: {batch: {}}":                        "relay.batch: is a mapping: want one value, for example 50",
		"relay: {batch: [1]}":                       "relay.batch: is a list: want one value, for example 50",
		"relay: {batch: }":                          "relay.batch: has no value: write one, or leave the line out",
		"relay: {batch: many}":                      `relay.batch: "many" is no count: write for example 50`,
		"relay: {batch: 1.5}":                       `relay.batch: "1.5" is no count`,
		"relay: {batch: 1001}":                      "relay.batch: is out of bounds: want 1 to 1000",
		"relay: {drain_rate: 40}":                   `relay.drain_rate: "40" is no rate: write a number a second, as 40/s`,
		"relay: {claim_ttl: 60}":                    `relay.claim_ttl: "60" is no duration: write a number with a unit, as 30s, 5m, 24h or 30d`,
		"relay: {claim_ttl: -60s}":                  `relay.claim_ttl: "-60s" is no duration`,
		"relay: {claim_ttl: 99999999999w}":          "relay.claim_ttl: \"99999999999w\" is too large",
		"relay: {claim_ttl: 10s}":                   "relay.claim_ttl: is 10s: want more than twice relay.publish_timeout",
		"store: {max_bytes: 512}":                   `store.max_bytes: "512" is no size: write a number with a unit, as 512MiB or 64KiB`,
		"store: {max_bytes: 1MiB}":                  "store.max_bytes: is out of bounds: want 0, or at least 16MiB",
		"store: {mode: exclusiv}":                   `store.mode: "exclusiv": want exclusive or shared; did you mean exclusive?`,
		"store: {allow_network_fs: yes}":            `store.allow_network_fs: "yes": want true or false`,
		"store: {path: ''}":                         "store.path: is empty",
		"retention: {purge_after: 1d}":              "retention.purge_after: is shorter than retention.archive_after",
		"schedule: {catch_up: all(0)}":              `schedule.catch_up: "all(0)": want skip, once or all(N)`,
		"relay: {batch: 1, batch: 2}":               "relay.batch: stands twice, first in line 2",
		"cap: {buckets: {git: 3}}":                  "cap.buckets.git: names no bucket: want PROVIDER/COST, as git/heavy",
		"cap: {buckets: {git/heavy: 0}}":            "cap.buckets.git/heavy: is out of bounds: want at least 1",
		"routes: {post: local}":                     `routes.post: "post" is no kind: want default or one of`,
		"routes: {default: rabbit}":                 `routes.default: "rabbit": want local`,
		"api: {listen: [localhost]}":                `api.listen: "localhost" is no address: want unix, unix:/path or host:port`,
		"api: {listen: ['unix:']}":                  `api.listen: "unix:" is no address`,
		"api: {listen: ['h:99999']}":                `api.listen: "h:99999" is no address`,
		"api: {listen: [unix, 'h:1', unix]}":        `api.listen: "unix" stands twice`,
		"retry_policies: {p: {}}":                   "retry_policies.p: provider is missing",
		"retry_policies: {never: {provider: x}}":    "never is the word for no policy",
		"? [a]\n: 1":                                "a key must be a plain word",
		"store: &s {mode: shared}\nrelay: {<<: *s}": "a key must be a plain word",
	} {
		_, err := load(t, "version: 1\n"+text)
		require.ErrorContains(t, err, says, text)
	}
	_, err := load(t, "relay: {batch: 5}")
	require.ErrorContains(t, err, "towline.yaml: version: is missing: write version: 1 at the top")
	_, err = load(t, "version: 2")
	require.ErrorContains(t, err, "version: is out of bounds: want 1 to 1")
	_, err = load(t, "version: 1\n---\nversion: 1")
	require.ErrorContains(t, err, "holds a second document")
	_, err = load(t, "version: 1\nrelay: [")
	require.ErrorContains(t, err, "configuration: ")
	_, err = load(t, "version: 1\n#"+strings.Repeat("x", maxFile))
	require.ErrorContains(t, err, "longer than 1 MiB")
	_, err = load(t, "- version: 1")
	require.ErrorContains(t, err, "want a mapping of keys and values")
	_, err = load(t, "version: 1", "TOWLINE_RELAY_BATCH=many")
	require.ErrorContains(t, err, `TOWLINE_RELAY_BATCH: relay.batch: "many" is no count`)
}

// One look is enough: all problems are told, in the order of the lines.
func TestAllProblemsAreToldAtOnce(t *testing.T) {
	_, err := load(t, "version: 1\nrelay:\n  batch: x\nstore:\n  mode: y\n  paht: z\nsyncs:\n  a: {provider: git}\n  b: {}\n")
	var problems Problems
	require.ErrorAs(t, err, &problems)
	var where []string
	for _, p := range problems {
		where = append(where, p.Where)
	}
	require.Equal(t, []string{"towline.yaml:3", "towline.yaml:5", "towline.yaml:6", "towline.yaml:8", "towline.yaml:9"}, where)
}

// Section 20: an unknown TOWLINE_ variable is only reported, because workers and tests share the prefix.
func TestAnUnknownVariableIsReported(t *testing.T) {
	c := mustLoad(t, "version: 1", "TOWLINE_RELAY_BACH=3", "TOWLINE_TEST_SERVICES=require", "TOWLINE_URL=x", "TOWLINE_FENCE=1")
	require.Equal(t, []string{
		"TOWLINE_FENCE is set and is no key",
		"TOWLINE_RELAY_BACH is set and is no key: did you mean TOWLINE_RELAY_BATCH?",
	}, c.Notes())
}

// Section 7 of the surfaces: where the file is looked for, and where the store is without a word: two folders never share one.
func TestPlaces(t *testing.T) {
	dir := t.TempDir()
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	for _, path := range []string{at("work", FileName), at("xdg", "towline", FileName), at("home", ".config", "towline", FileName), at("named.yaml"), at("flag.yaml")} {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("version: 1\n"), 0o600))
	}
	require.NoError(t, os.MkdirAll(at("empty"), 0o700))
	find := func(dir, flag string, env ...string) *Config {
		c, err := Load(Options{File: flag, Dir: dir, Env: env, Need: true})
		require.NoError(t, err)
		return c
	}
	named, xdg, home := "TOWLINE_CONFIG=../named.yaml", "XDG_CONFIG_HOME="+at("xdg"), "HOME="+at("home")
	require.Equal(t, at("flag.yaml"), find(at("work"), "../flag.yaml", named, xdg, home).File)
	require.Equal(t, at("named.yaml"), find(at("work"), "", named, xdg, home).File)
	require.Equal(t, at("work", FileName), find(at("work"), "", xdg, home).File)
	require.Equal(t, at("xdg", "towline", FileName), find(at("empty"), "", xdg, home).File)
	require.Equal(t, at("home", ".config", "towline", FileName), find(at("empty"), "", home).File)

	require.Equal(t, at("work", "towline.db"), find(at("work"), "").Store.Path)
	require.Equal(t, at("towline.db"), find(at("work"), "../flag.yaml").Store.Path, "beside the file, not where one stands")
	require.Equal(t, "/var/lib/towline/towline.db", find(at("work"), "", "STATE_DIRECTORY=/var/lib/towline:/var/lib/x").Store.Path)

	_, err := Load(Options{Dir: at("empty"), Env: []string{}, Need: true, stat: func(string) bool { return false }})
	require.ErrorIs(t, err, ErrNoFile)
	require.ErrorContains(t, err, "write one with towline init git DIR")
	_, err = Load(Options{File: at("gone.yaml"), Env: []string{}})
	require.ErrorIs(t, err, os.ErrNotExist)

	c := mustLoad(t, "version: 1\nstore: {path: ~/x.db, backup: {dir: b/c}}\nsyncs: {a: {provider: git, repos: [x], sink: {jsonl: {dir: /abs}}}}")
	require.Equal(t, "/home/ada/x.db", c.Store.Path)
	require.Equal(t, filepath.Join(c.Dir, "b/c"), c.Store.Backup.Dir)
	require.Equal(t, "/abs", c.Syncs[0].Sink.JSONL.Dir)
}

// Section 20: 0 is what the table says it is, and a zero Knobs is that table.
func TestZeroAndDefaults(t *testing.T) {
	c := mustLoad(t, "version: 1")
	require.NoError(t, c.Knobs.Check())
	recorded, err := towline.RecordedKnobs([]byte(`{}`))
	require.NoError(t, err)
	require.Zero(t, recorded)

	zeros := mustLoad(t, `
version: 1
dispatch: {never_started_after: 0}
unit: {expired_lease_max_retries: 0, expired_lease_retry_backoff: 0s}
rate_limit: {max_deferrals: 0, max_wait: 0}
shutdown: {grace: 0s}
store: {max_bytes: 0}
cap: {buckets: {git/heavy: 2}}
workers: {local: 0}
`)
	k := zeros.Knobs
	require.Equal(t, []int{-1, -1}, []int{k.ExpiredLeaseMaxRetries, k.RateLimitMaxDeferrals})
	for _, d := range []time.Duration{k.NeverStartedAfter, k.ExpiredLeaseRetryBackoff, k.RateLimitMaxWait, k.ShutdownGrace} {
		require.Negative(t, d)
	}
	require.Zero(t, zeros.Store.MaxBytes)
	require.Equal(t, map[events.Bucket]int{"git/heavy": 2}, k.CapBuckets)
	v, _ := zeros.Value("dispatch.never_started_after")
	require.Equal(t, "0s", v.Text)
}

// A key on which nothing acts yet is said where somebody has set it, and by nobody's default.
func TestAKeyThatChangesNothingIsSaid(t *testing.T) {
	require.Empty(t, mustLoad(t, "version: 1\nrelay: {batch: 7}\n").Notes())
	require.Equal(t, []string{
		"TOWLINE_RETENTION_PURGE_AFTER: retention.purge_after: nothing acts on it in this release",
		"towline.yaml:2: retention.failed_purge_after: nothing acts on it in this release",
	}, mustLoad(t, "version: 1\nretention: {failed_purge_after: 40d}\n", "TOWLINE_RETENTION_PURGE_AFTER=31d").Notes())
}

// EX-1: the config of a command is handed on as it was written: no digit is lost, and a date stays what it looks like.
func TestTheConfigOfACommandIsHandedOn(t *testing.T) {
	of := func(text string) (string, error) {
		c, err := load(t, "version: 1\nsyncs:\n  a: {provider: exec, command: [x], datasets: {d: {}}, config: "+text+"}\n")
		if err != nil {
			return "", err
		}
		return string(c.Syncs[0].Config), nil
	}
	for text, want := range map[string]string{
		"{since: 2024-01-01, at: 2024-01-01T00:00:00Z}":             `{"since":"2024-01-01","at":"2024-01-01T00:00:00Z"}`,
		"{big: 123456789012345678901234, v: 1.10, e: 1e3, n: -0}":   `{"big":123456789012345678901234,"v":1.10,"e":1e3,"n":-0}`,
		`{t: "2024", y: yes, b: True, none: null, tilde: ~, e: ""}`: `{"t":"2024","y":"yes","b":true,"none":null,"tilde":null,"e":""}`,
		"{1: [a, {b: c}], l: [], m: {}}":                            `{"1":["a",{"b":"c"}],"l":[],"m":{}}`,
		"[&a [1], *a]":                                              `[[1],[1]]`,
		"null":                                                      `null`,
	} {
		got, err := of(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for text, says := range map[string]string{
		"{o: 010}": "syncs.a.config: 010 is no number of JSON", "{o: 0x1f}": "0x1f is no number", "{o: .inf}": ".inf is no number",
		"{a: 1, a: 2}": "a stands twice", "{[a]: 1}": "a key must be a plain word", "&a [*a]": "too deep",
	} {
		_, err := of(text)
		require.ErrorContains(t, err, says, text)
	}
}
