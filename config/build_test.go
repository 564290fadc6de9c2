package config

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/provider/git"
)

// repository makes one with a commit.
func repository(t testing.TB, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, args := range [][]string{
		{"init", "-q"},
		{"-c", "user.name=ada", "-c", "user.email=ada@example.org", "commit", "-q", "--allow-empty", "-m", "one"},
	} {
		cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
		cmd.Env = git.Environment()
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
}

// The example of the surfaces, without what a later release adds, is read as it is meant.
const example = `
version: 1
store: {path: towline.db, mode: exclusive, synchronous: full, allow_network_fs: false, max_bytes: 512MiB, backup: {every: 24h, dir: backup, keep: 7}}
retention: {archive_after: 30d, purge_after: 365d, failed_purge_after: 730d}
api: {listen: [unix, 127.0.0.1:7480], idempotency_ttl: 7d, max_body: 256KiB}
console: {enabled: true}
reconcile: {interval: 60s}
relay: {claim_ttl: 60s, publish_timeout: 5s, max_attempts: 20, backoff_base: 5s, backoff_cap: 5m, breaker_failures: 5, drain_rate: 40/s}
dispatch: {countdown: 60s, stale: 15m}
cap: {bucket: 8, run: 16, engine: 64}
plan: {max_units: 1000, depth: 30d}
unit: {lease: 60s, max_lifetime: 1h}
post_sync: {mode: at_most_once}
shutdown: {grace: 20s}
clock: {step_bound: 30s}
error: {max_bytes: 2000}
health: {stall_after: 5m}
transports:
  local: {}
routes:
  default: local
workers: {local: 4}
retry_policies:
  proven: {provider: git, mode: [incremental, backfill], family: [commits, changes], surfaces: [commits, changes], max_retries: 5, backoff: 5s}
syncs:
  code:
    provider: git
    repos: ["src/*"]
    exclude: ["src/vendor-*", "old*"]
    datasets:
      refs:    {tier: reference}
      files:   {tier: reference}
      commits: {tier: work_item, window: month, retry: proven, cost: light}
      changes: {tier: work_item, window: month, retry: proven, cost: heavy}
    sink: {sqlite: {path: history.db, mode: replace_window}}
    post_sync: {mode: at_most_once, sql: activity.sql}
    one_active_run: true
    schedule:
      cron: "15 * * * *"
      tz: Europe/Berlin
      catch_up: once
      overlap: skip
log: {level: info, format: json}
`

const tickets = `
  tickets:
    provider: exec
    command: [./pull-tickets, "--from={{window.from}}", "--to={{window.to}}"]
    protocol: native
    stall_timeout: 5m
    grace: 10s
    env: {TICKETS_TOKEN: "cred:tickets", LANG: C}
    config: {project: 7, big: 12345678901234567}
    datasets: {issues: {tier: work_item, window: day, retry: never}}
    sink: {jsonl: {dir: out/tickets}}
`

func TestTheExampleOfTheSurfaces(t *testing.T) {
	c := mustLoad(t, example)
	require.Equal(t, towline.Knobs{}.Check(), c.Knobs.Check())
	s, ok := c.Sync("code")
	require.True(t, ok)
	require.Equal(t, Git{Repos: []string{"src/*"}, Exclude: []string{"src/vendor-*", "old*"}, Refs: []string{"--all"}}, s.Git)
	require.Equal(t, &Schedule{Cron: "15 * * * *", TZ: "Europe/Berlin", CatchUp: "once", Overlap: "skip"}, s.Schedule)
	_, ok = c.Sync("nobody")
	require.False(t, ok)

	_, err := load(t, example[:len(example)-len("log: {level: info, format: json}\n")]+tickets)
	require.NoError(t, err)
}

func TestBuildMakesWhatANodeNeeds(t *testing.T) {
	path := write(t, example)
	dir := filepath.Dir(path)
	for _, name := range []string{"api", "site", "vendor-x", "old-api"} {
		repository(t, filepath.Join(dir, "src", name))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "src", "notes"), 0o755))
	c, err := Load(Options{File: path, Dir: dir, Env: []string{}})
	require.NoError(t, err)
	_, err = Build(context.Background(), c, BuildOptions{})
	require.ErrorContains(t, err, `sync "code": post_sync: sql: open `)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "activity.sql"), []byte(" \n"), 0o600))
	_, err = Build(context.Background(), c, BuildOptions{})
	require.ErrorContains(t, err, "is empty: write the statements")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "activity.sql"), []byte("SELECT :run"), 0o600))

	b, err := Build(context.Background(), c, BuildOptions{Version: "v1"})
	require.NoError(t, err)
	require.Empty(t, b.Notes)
	require.Equal(t, filepath.Join(dir, "towline.db"), b.Node.Store)
	require.Len(t, b.Node.Syncs, 1)
	s := b.Node.Syncs[0]
	require.Equal(t, []string{"api", "site"}, s.Sources)
	require.Equal(t, []towline.Schedule{{Sync: "code", Cron: "15 * * * *", TimeZone: "Europe/Berlin", CatchUp: towline.CatchUpOnce, Overlap: towline.OverlapSkip}}, b.Node.Schedules)
	require.Equal(t, towline.PostSync{Mode: towline.AtMostOnce, Targets: []towline.Target{{Name: "post_sync", SQL: "SELECT :run"}}}, s.PostSync)
	retry := towline.Retry{Max: 5, Backoff: 5 * time.Second, Modes: []events.Mode{towline.Incremental, towline.Backfill}}
	require.Equal(t, []towline.Dataset{
		{Name: "refs", Tier: towline.Reference, Cost: towline.Light, Snapshot: true, Surfaces: []string{"refs"}},
		{Name: "files", Tier: towline.Reference, Cost: towline.Light, Snapshot: true, Surfaces: []string{"files"}},
		{Name: "commits", Tier: towline.WorkItem, Cost: towline.Light, Window: towline.Month, Surfaces: []string{"commits"}, Retry: retry},
		{Name: "changes", Tier: towline.WorkItem, Cost: towline.Heavy, Window: towline.Month, Surfaces: []string{"changes"}, Retry: retry},
	}, s.Datasets)

	n, err := node.Open(context.Background(), b.Node)
	require.NoError(t, err)
	require.NoError(t, n.Close())
	require.NoError(t, b.Close())
}

// S-1, S-9: a schedule has what its sync says, else what the file says of all, and the zone of this machine by its name.
func TestSchedules(t *testing.T) {
	path := write(t, "version: 1\nschedule: {catch_up: all(3), overlap: queue, auto_pause_after: 5}\nsyncs:\n"+
		"  a: {provider: exec, command: [sh], datasets: {a: {}}, sink: {jsonl: {dir: o}}, schedule: {cron: '@every 1h', tz: UTC}}\n"+
		"  b: {provider: exec, command: [sh], datasets: {b: {}}, sink: {jsonl: {dir: o}}, schedule: {cron: 0 4 * * *, tz: Asia/Tokyo, catch_up: skip, overlap: skip, auto_pause_after: 0}}\n"+
		"  c: {provider: exec, command: [sh], datasets: {c: {}}, sink: {jsonl: {dir: o}}}\n")
	c, err := Load(Options{File: path, Dir: filepath.Dir(path), Env: []string{}})
	require.NoError(t, err)
	b, err := Build(t.Context(), c, BuildOptions{})
	require.NoError(t, err)
	require.Equal(t, []towline.Schedule{
		{Sync: "a", Cron: "@every 1h", TimeZone: "UTC", CatchUp: towline.CatchUpAll, Max: 3, Overlap: towline.OverlapQueue, AutoPause: 5},
		{Sync: "b", Cron: "0 4 * * *", TimeZone: "Asia/Tokyo", CatchUp: towline.CatchUpSkip, Overlap: towline.OverlapSkip},
	}, b.Node.Schedules)

	for _, at := range []struct{ zone, link, name string }{
		{"UTC", "", "UTC"}, {"Europe/Berlin", "/usr/share/zoneinfo/UTC", "Europe/Berlin"},
		{"Local", "/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"}, {"Local", "/var/db/timezone/zoneinfo/Asia/Tokyo", "Asia/Tokyo"},
		{"Local", "/etc/localtime", ""}, {"Local", "/usr/share/zoneinfo/No/Where", ""}, {"Local", "", ""},
	} {
		name, err := zoneName(at.zone, at.link)
		require.Equal(t, at.name, name)
		require.Equal(t, at.name == "", err != nil)
	}
}

// A secret of a command behind a run is told apart from a plain text, so that it is masked in what is kept of the command.
func TestBuildTellsSecretsOfAPostSync(t *testing.T) {
	path := write(t, "version: 1\nsyncs:\n  a: {provider: git, repos: ['.'], post_sync: {exec: [x], env: {B: two, W: 'env:S', A: one}}}\n")
	repository(t, filepath.Dir(path))
	c, err := Load(Options{File: path, Dir: filepath.Dir(path), Env: []string{}})
	require.NoError(t, err)
	b, err := Build(t.Context(), c, BuildOptions{Env: func(name string) (string, bool) { return "hunter2", name == "S" }})
	require.NoError(t, err)
	target := b.Node.Syncs[0].PostSync.Targets[0]
	require.Equal(t, []string{"A=one", "B=two"}, target.Env)
	require.Equal(t, []string{"W=hunter2"}, target.Secrets)
}

// EX-1, EX-7: a command is a provider: a program with a path starts at the file, secrets are told apart from plain texts, and
// attempts are on record beside the store. One that is not there is said, and ends nothing.
func TestBuildMakesACommandAProvider(t *testing.T) {
	path := write(t, "version: 1\nsyncs:\n  one:\n    provider: exec\n    command: [./pull]\n    sources: [a, b]\n"+
		"    config: {n: 1}\n    datasets: {d: {snapshot: true}}\n    sink: {jsonl: {dir: out}}\n"+
		"  two: {provider: exec, command: [sh, -c, 'true'], protocol: lines, stall_timeout: 7s, datasets: {e: {}}, sink: {jsonl: {dir: out}}}\n")
	dir := filepath.Dir(path)
	build := func() *Built {
		c, err := Load(Options{File: path, Dir: dir, Env: []string{}})
		require.NoError(t, err)
		b, err := Build(t.Context(), c, BuildOptions{})
		require.NoError(t, err)
		return b
	}
	require.Len(t, build().Notes, 1)
	require.Contains(t, build().Notes[0], `sync "one": its program cannot be started: exec: "`+filepath.Join(dir, "pull")+`"`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pull"), []byte("#!/bin/sh\n"), 0o700)) //nolint:gosec // it is a program
	b := build()
	require.Empty(t, b.Notes)
	one, two := b.Node.Syncs[0], b.Node.Syncs[1]
	require.Equal(t, []string{"a", "b"}, one.Sources)
	require.JSONEq(t, `{"n": 1}`, string(one.Config))
	require.Equal(t, []string{"two"}, two.Sources, "one, named like the sync")
	require.Equal(t, 7*time.Second, two.Provider.(provider.Watched).StallAfter())
	n, err := node.Open(t.Context(), b.Node)
	require.NoError(t, err)
	require.NoError(t, n.Close())
	require.DirExists(t, filepath.Join(dir, "towline.db-attempts"))
}

// Two syncs that write to one file share the destination; without datasets a git sync has all.
func TestOneFileIsOneDestination(t *testing.T) {
	path := write(t, `
version: 1
workers: {local: 0}
store: {mode: shared, synchronous: normal}
syncs:
  a: {provider: git, repos: [src/api, gone], sink: {sqlite: {path: h.db}}}
  b: {provider: git, repos: [src/site], sink: {sqlite: {path: ./h.db}}}
  c: {provider: git, repos: [src/other]}
`)
	dir := filepath.Dir(path)
	for _, name := range []string{"api", "site", "other"} {
		repository(t, filepath.Join(dir, "src", name))
	}
	c, err := Load(Options{File: path, Dir: dir, Env: []string{}})
	require.NoError(t, err)
	b, err := Build(context.Background(), c, BuildOptions{})
	require.NoError(t, err)
	defer b.Close()
	require.Same(t, b.Node.Syncs[0].Sink, b.Node.Syncs[1].Sink)
	require.Len(t, b.Node.Syncs[0].Datasets, 4)
	require.Equal(t, -1, b.Node.Workers)
	require.True(t, b.Node.Shared)
	require.True(t, b.Node.Unsynced)
	require.Equal(t, []string{`sync "a": nothing is at gone`}, b.Notes, "whoever works writes")
	c.Workers = 1
	b, err = Build(context.Background(), c, BuildOptions{})
	require.NoError(t, err)
	defer b.Close()
	require.Equal(t, []string{`sync "a": nothing is at gone`, `sync "c" has no sink: its rows are dropped`}, b.Notes)
}

// What no single key can say.
func TestASyncThatCannotBe(t *testing.T) {
	for text, says := range map[string]string{
		"{}":                             "syncs.a: provider is missing: want exec or git",
		"{provider: git}":                "syncs.a: repos are missing",
		"{provider: exec}":               "syncs.a: command is missing",
		"{provider: exec, command: [x]}": "syncs.a: datasets are missing",
		"{provider: git, repos: [x], command: [y]}":                                             "syncs.a.command: belongs to the provider exec, and that of this sync is git",
		"{provider: git, repos: [x], sink: {sqlite: {}}}":                                       "syncs.a.sink.sqlite: path is missing",
		"{provider: git, repos: [x], sink: {jsonl: }}":                                          "syncs.a.sink.jsonl: dir is missing",
		"{provider: git, repos: [x], sink: {sqlite: {path: towline.db}}}":                       "syncs.a.sink.sqlite.path: is the store",
		"{provider: git, repos: [x], sink: {jsonl: {dir: o}, sqlite: {path: h}}}":               "a sync has one sink",
		"{provider: git, repos: [x], schedule: {tz: local}}":                                    "syncs.a.schedule: cron is missing",
		"{provider: git, repos: [x], datasets: {commits: {retry: prooven}}}":                    `there is no retry policy "prooven": want proven or never; did you mean proven?`,
		"{provider: git, repos: [x], datasets: {refs: {retry: proven}}}":                        "the retry policy proven is for commits: add refs to its family",
		"{provider: git, repos: [x], datasets: {commits: {retry: proven, surfaces: [other]}}}":  "does not say that other may be written twice",
		"{provider: exec, command: [x], datasets: {commits: {retry: proven}}}":                  "is for the provider git, and that of this sync is exec",
		"{provider: exec, command: [x], datasets: {d: {snapshot: true, window: day}}}":          "a snapshot has no windows",
		"{provider: exec, command: [x], env: {A: 'cred:a/b'}, datasets: {d: {}}}":               "syncs.a.env.A: cred:a/b: name a credential, without a folder",
		"{provider: exec, command: [x], env: {A: 'env:'}, datasets: {d: {}}}":                   "syncs.a.env.A: a secret is never written inline",
		"{provider: exec, command: [x], grace: 0s, datasets: {d: {}}}":                          "syncs.a.grace: is out of bounds: want at least 1ms",
		"{provider: git, repos: [x], post_sync: {sql: x.sql}}":                                  "runs on the sqlite sink, and this sync has none",
		"{provider: git, repos: [x], post_sync: {timeout: 5s}}":                                 "says not what to do",
		"{provider: git, repos: [x], post_sync: {exec: [y], transport: z}}":                     "one action has one of sql, exec and transport",
		"{provider: git, repos: [x], post_sync: {transport: local}}":                            "keeps its messages in the memory of this process",
		"{provider: git, repos: [x], post_sync: {mode: exactly_once, exec: [y]}}":               "cannot commit with the once-ledger",
		"{provider: git, repos: [x], post_sync: {exec: [y], targets: {t: {exec: [z]}}}}":        "stands beside a single action",
		"{provider: git, repos: [x], post_sync: {targets: {t: {exec: [z], env: {A_KEY: v0}}}}}": "syncs.a.post_sync.targets.t.env.A_KEY: a secret is never written inline",
		"{provider: exec, command: [x], env: {API_TOKEN: s3cr3t}, datasets: {d: {}}}":           "syncs.a.env.API_TOKEN: a secret is never written inline",
	} {
		_, err := load(t, "version: 1\nretry_policies: {proven: {provider: git, family: [commits], surfaces: [commits]}}\nsyncs:\n  a: "+text+"\n")
		require.ErrorContains(t, err, says, text)
		require.NotContains(t, err.Error(), "s3cr3t")
	}
	_, err := load(t, "version: 1\nsyncs:\n  a: {provider: git, repos: [x], sink: {sqlite: {path: h}}}\n  b: {provider: git, repos: [y], sink: {sqlite: {path: h, mode: upsert}}}\n")
	require.ErrorContains(t, err, "one file has one mode")
	for text, says := range map[string]string{
		"{provider: git, repos: [none]}":                                                  "there is no git repository in none",
		"{provider: git, repos: ['[']}":                                                   "is no pattern",
		"{provider: git, repos: ['.'], refs: [HEAD]}":                                     `refs: "HEAD" selects no refs`,
		"{provider: git, repos: ['.'], datasets: {comits: {}}}":                           `dataset "comits": the provider git has refs, files, commits or changes; did you mean commits?`,
		"{provider: exec, command: [x, '{{nobody}}'], datasets: {d: {}}}":                 "command: argument \"{{nobody}}\": {{nobody}} is not known",
		"{provider: git, repos: ['.'], schedule: {cron: x y}}":                            `schedule "a": cron "x y"`,
		"{provider: git, repos: ['.'], schedule: {cron: 0 4 * * *, tz: Mars}}":            `schedule "a": time zone "Mars" is not known`,
		"{provider: git, repos: ['.'], schedule: {cron: 0 4 * * *, catch_up: all(1001)}}": `max 1001: catch-up all needs how many, from 1 to 1000`,
		"{provider: exec, command: [x], env: {TOWLINE_X: y}, datasets: {d: {}}}":          "env: TOWLINE_X is set by Towline",
		"{provider: exec, command: [x], env: {A: 'env:NONE'}, datasets: {d: {}}}":         "env A: secret env:NONE: the variable is not set",
		"{provider: git, repos: ['.'], post_sync: {exec: [y], env: {A_KEY: 'env:NONE'}}}": "post_sync: env A_KEY: secret env:NONE: the variable is not set",
	} {
		path := write(t, "version: 1\nsyncs:\n  a: "+text+"\n")
		repository(t, filepath.Dir(path))
		c, err := Load(Options{File: path, Dir: filepath.Dir(path), Env: []string{}})
		require.NoError(t, err, text)
		_, err = Build(context.Background(), c, BuildOptions{Env: func(string) (string, bool) { return "", false }})
		require.ErrorContains(t, err, `"a": `, text)
		require.ErrorContains(t, err, says, text)
	}
}

// A secret is a reference; nothing that can be printed of a configuration holds it.
func TestSecretsAreNeverPrinted(t *testing.T) {
	path := write(t, "version: 1\nsyncs:"+tickets)
	dir := filepath.Dir(path)
	c, err := Load(Options{File: path, Dir: dir, Env: []string{}})
	require.NoError(t, err)
	v, ok := c.Value("syncs.tickets.env.TICKETS_TOKEN")
	require.True(t, ok)
	require.Equal(t, "***", v.Text)
	v, _ = c.Value("syncs.tickets.env.LANG")
	require.Equal(t, "***", v.Text, "a plain text may be a secret all the same")
	v, _ = c.Value("syncs.tickets.config")
	require.JSONEq(t, `{"project": 7, "big": 12345678901234567}`, v.Text)
	b, err := json.Marshal(c)
	require.NoError(t, err)
	for _, text := range []string{string(b), fmt.Sprintf("%v %+v %#v", c.Syncs, c.Syncs, c.Syncs[0].Exec.Env)} {
		require.NotContains(t, text, "cred:")
	}

	env := map[string]string{"CREDENTIALS_DIRECTORY": dir, "SECRET": "from env"}
	look := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tickets"), []byte("from file\r\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "empty"), []byte("\n"), 0o600))
	for text, want := range map[string]string{"cred:tickets": "from file", "env:SECRET": "from env", "file:" + filepath.Join(dir, "tickets"): "from file"} {
		s, err := parseSecret(text)
		require.NoError(t, err)
		got, err := s.Read(look)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for text, says := range map[string]string{
		"env:NONE": "the variable is not set", "cred:none": "no such file", "cred:empty": "the file is empty",
	} {
		s, err := parseSecret(text)
		require.NoError(t, err)
		_, err = s.Read(look)
		require.ErrorContains(t, err, says)
	}
	delete(env, "CREDENTIALS_DIRECTORY")
	s, err := parseSecret("cred:x")
	require.NoError(t, err)
	_, err = s.Read(look)
	require.ErrorContains(t, err, "add LoadCredential=x to the systemd unit")
	for _, text := range []string{"hunter2", "https://user:pw@host", "vault:x", "env:", "cred:../x"} {
		_, err := parseSecret(text)
		require.Error(t, err)
	}
}

// CFG-3: what a reload would change, key by key; a secret's reference is compared and not shown.
func TestChanges(t *testing.T) {
	before := mustLoad(t, "version: 1\nrelay: {batch: 5}\nsyncs:"+tickets)
	same := mustLoad(t, "version: 1\nrelay: {batch: 5}\nsyncs:"+tickets)
	require.Equal(t, 3, len(before.Changes(same)), "two folders: store, backup, sink")
	before.Dir, same.Dir = "", ""
	later := mustLoad(t, "version: 1\nlog: {level: debug}\nsyncs:\n  tickets: {provider: exec, command: [x], env: {TICKETS_TOKEN: 'env:T'}, datasets: {issues: }}")
	changed := map[string]Change{}
	for _, c := range before.Changes(later) {
		changed[c.Key] = c
	}
	require.Equal(t, Change{Key: "relay.batch", Before: "5", After: "50", Live: true}, changed["relay.batch"])
	require.Equal(t, Change{Key: "log.level", Before: "info", After: "debug", Live: true}, changed["log.level"])
	require.Equal(t, Change{Key: "syncs.tickets.env.TICKETS_TOKEN", Before: "***", After: "***"}, changed["syncs.tickets.env.TICKETS_TOKEN"])
	require.Equal(t, "", changed["syncs.tickets.env.LANG"].After)
}
