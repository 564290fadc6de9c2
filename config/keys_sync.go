package config

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

func policyKeys() []Key {
	of := func(at func(*RetryPolicy) any) func(*Config, []string) any {
		return func(c *Config, n []string) any { return at(c.policy(n[0])) }
	}
	return []Key{
		{Path: "retry_policies.NAME", Form: Section, at: of(func(*RetryPolicy) any { return nil }),
			Doc: "A policy under which a unit whose worker was lost is tried again. It declares that its surfaces may be written twice. Without one such a unit fails as worker_lost."},
		{Path: "retry_policies.NAME.provider", Form: Text, at: of(func(p *RetryPolicy) any { return &p.Provider }),
			Doc: "Provider of the syncs that may refer to it; required."},
		{Path: "retry_policies.NAME.mode", Form: Listing, Choices: modes, at: of(func(p *RetryPolicy) any { return &p.Modes }),
			Doc: "Modes of runs in which it holds. Without it all."},
		{Path: "retry_policies.NAME.family", Form: Listing, at: of(func(p *RetryPolicy) any { return &p.Family }),
			Doc: "Datasets that may refer to it. Without it any."},
		{Path: "retry_policies.NAME.surfaces", Form: Listing, at: of(func(p *RetryPolicy) any { return &p.Surfaces }),
			Doc: "Surfaces that may be written twice. A dataset that writes another one is refused. Without it those of the dataset."},
		{Path: "retry_policies.NAME.max_retries", Form: Count, Min: "0", at: of(func(p *RetryPolicy) any { return made(&p.MaxRetries) }),
			Doc: "Without it unit.expired_lease_max_retries. 0: none."},
		{Path: "retry_policies.NAME.backoff", Form: Duration, Min: "1ms", at: of(func(p *RetryPolicy) any { return made(&p.Backoff) }),
			Doc: "Wait before each retry. Without it unit.expired_lease_retry_backoff."},
		{Path: "retry_policies.NAME.retry_on", Form: Listing, Choices: retryable(), at: of(func(p *RetryPolicy) any { return &p.RetryOn }),
			Doc: "Failures that a worker reports and that are tried again, beside the lost worker. A rate limit always is, by its own budget."},
	}
}

// retryable are the categories that retry_on may name.
func retryable() []string {
	var out []string
	for _, c := range append([]events.Category{events.ExpiredLease}, events.Reported...) {
		if c != events.RateLimit && !slices.Contains(out, string(c)) {
			out = append(out, string(c))
		}
	}
	return out
}

func syncKeys() []Key {
	of := func(at func(*Sync) any) func(*Config, []string) any {
		return func(c *Config, n []string) any { return at(c.sync(n[0])) }
	}
	keys := []Key{
		{Path: "syncs.NAME", Form: Section, at: of(func(*Sync) any { return nil }),
			Doc: "One job: where its data comes from, what of it, and where it goes."},
		{Path: "syncs.NAME.provider", Form: Choice, Choices: providerNames(), at: of(func(s *Sync) any { return &s.Provider }),
			Doc: "What reads the data; required."},
		{Path: "syncs.NAME.repos", Form: Listing, Provider: "git", at: of(func(s *Sync) any { return &s.Git.Repos }),
			Doc: "Folders of repositories, or patterns of them, as ~/src/*; required. A match that is no repository is left out."},
		{Path: "syncs.NAME.exclude", Form: Listing, Provider: "git", at: of(func(s *Sync) any { return &s.Git.Exclude }),
			Doc: "Patterns of folders that are left out."},
		{Path: "syncs.NAME.refs", Form: Listing, Default: "--all", Provider: "git", at: of(func(s *Sync) any { return &s.Git.Refs }),
			Doc: "Refs that are read, in the words of git rev-list: --all, --branches, --tags, --remotes, --glob=PATTERN, --exclude=PATTERN."},
		{Path: "syncs.NAME.mailmap", Form: Bool, Default: "false", Provider: "git", at: of(func(s *Sync) any { return &s.Git.Mailmap }),
			Doc: "Map names and addresses by the .mailmap of HEAD."},
		{Path: "syncs.NAME.trust_owner", Form: Bool, Default: "false", Provider: "git", at: of(func(s *Sync) any { return &s.Git.TrustOwner }),
			Doc: "Read repositories of other users, which git refuses."},
		{Path: "syncs.NAME.sources", Form: Listing, Provider: "exec", at: of(func(s *Sync) any { return &s.Exec.Sources }),
			Doc: "Names of what the command reads, each a source of its own. Without it one, named like the sync."},
		{Path: "syncs.NAME.command", Form: Listing, Provider: "exec", at: of(func(s *Sync) any { return &s.Exec.Command }),
			Doc: "Program and arguments; required. {{window.from}}, {{window.to}}, {{source}}, {{dataset}} and {{attempt}} are filled in. No shell."},
		{Path: "syncs.NAME.dir", Form: Path, Provider: "exec", at: of(func(s *Sync) any { return &s.Exec.Dir }),
			Doc: "Folder in which the command starts. Without it that of the configuration file."},
		{Path: "syncs.NAME.protocol", Form: Choice, Default: "native", Choices: []string{"native", "lines"}, Provider: "exec", at: of(func(s *Sync) any { return &s.Exec.Protocol }),
			Doc: "What the lines of its output mean."},
		{Path: "syncs.NAME.stall_timeout", Form: Duration, Default: "5m", Min: "1s", Provider: "exec", at: of(func(s *Sync) any { return &s.Exec.StallTimeout }),
			Doc: "A command without any output for so long is shown as stalled."},
		{Path: "syncs.NAME.grace", Form: Duration, Default: "10s", Min: "1ms", Provider: "exec", at: of(func(s *Sync) any { return &s.Exec.Grace }),
			Doc: "Between SIGTERM and SIGKILL."},
		{Path: "syncs.NAME.env.NAME", Form: Text, Provider: "exec", at: func(c *Config, n []string) any { return variable(&c.sync(n[0]).Exec.Env, n[1]) },
			Doc: "A variable of the command: a plain text, or a secret as file:/path, env:NAME or cred:NAME. One whose name sounds secret must be a reference."},
		{Path: "syncs.NAME.config", Form: Any, Provider: "exec", at: of(func(s *Sync) any { return &s.Config }),
			Doc: "Handed to the command as it is. No secrets: it is in the log."},
		{Path: "syncs.NAME.one_active_run", Form: Bool, Default: "false", at: of(func(s *Sync) any { return &s.OneActiveRun }),
			Doc: "Refuse a second run while one is open."},
	}
	return slices.Concat(keys, datasetKeys(), sinkKeys(), postKeys(), scheduleKeys())
}

func datasetKeys() []Key {
	of := func(at func(*Dataset) any) func(*Config, []string) any {
		return func(c *Config, n []string) any { return at(c.sync(n[0]).dataset(n[1])) }
	}
	const in = "syncs.NAME.datasets.NAME"
	return []Key{
		{Path: in, Form: Section, at: of(func(*Dataset) any { return nil }),
			Doc: "One kind of data. What a line leaves out is as the provider has it. Without datasets git takes all of its own: refs, files, commits, changes."},
		{Path: in + ".tier", Form: Choice, Choices: []string{"reference", "work_item"}, at: of(func(d *Dataset) any { return &d.Tier }),
			Doc: "reference goes before the work_item units of the same source. Without it work_item."},
		{Path: in + ".cost", Form: Choice, Choices: []string{"light", "medium", "heavy"}, at: of(func(d *Dataset) any { return &d.Cost }),
			Doc: "Class under which cap.bucket counts its units. Without it medium."},
		{Path: in + ".window", Form: Choice, Choices: []string{"day", "week", "month", "year"}, at: of(func(d *Dataset) any { return &d.Window }),
			Doc: "UTC calendar period of a unit. Without it windows go by watermark."},
		{Path: in + ".snapshot", Form: Bool, at: of(func(d *Dataset) any { return &d.Snapshot }),
			Doc: "Every unit reads all there is; it has no window and no watermark."},
		{Path: in + ".depth", Form: Duration, Min: "1d", at: of(func(d *Dataset) any { return &d.Depth }),
			Doc: "How far back the first run reads. Without it plan.depth."},
		{Path: in + ".members", Form: Listing, at: of(func(d *Dataset) any { return &d.Members }),
			Doc: "Datasets of a family, which is planned as one unit."},
		{Path: in + ".surfaces", Form: Listing, at: of(func(d *Dataset) any { return &d.Surfaces }),
			Doc: "All that a unit may write to. Without it one, named like the dataset."},
		{Path: in + ".retry", Form: Text, Default: "never", at: of(func(d *Dataset) any { return &d.Retry }),
			Doc: "A policy of retry_policies, or never."},
	}
}

func sinkKeys() []Key {
	sqlite := func(s *Sync) *SQLiteSink { return made(&s.Sink.SQLite) }
	jsonl := func(s *Sync) *JSONLSink { return made(&s.Sink.JSONL) }
	return []Key{
		{Path: "syncs.NAME.sink.sqlite", Form: Section, at: func(c *Config, n []string) any { sqlite(c.sync(n[0])); return nil },
			Doc: "Rows go to tables of a SQLite file, one a surface."},
		{Path: "syncs.NAME.sink.sqlite.path", Form: Path, at: func(c *Config, n []string) any { return &sqlite(c.sync(n[0])).Path },
			Doc: "The file, made if missing; required. Never the store."},
		{Path: "syncs.NAME.sink.sqlite.mode", Form: Choice, Default: "replace_window", Choices: []string{"replace_window", "upsert"},
			at:  func(c *Config, n []string) any { return &sqlite(c.sync(n[0])).Mode },
			Doc: "What becomes of rows that are there: those of the window that are not written again go (replace_window), or all stay (upsert)."},
		{Path: "syncs.NAME.sink.jsonl", Form: Section, at: func(c *Config, n []string) any { jsonl(c.sync(n[0])); return nil },
			Doc: "Rows go to files of JSON lines, one a surface and window."},
		{Path: "syncs.NAME.sink.jsonl.dir", Form: Path, at: func(c *Config, n []string) any { return &jsonl(c.sync(n[0])).Dir },
			Doc: "The folder, made if missing; required."},
	}
}

// ownTarget is the name of an action that stands directly below post_sync.
const ownTarget = "post_sync"

func postKeys() []Key {
	keys := []Key{
		{Path: "syncs.NAME.post_sync.mode", Form: Choice, Choices: []string{"at_most_once", "exactly_once"},
			at:  func(c *Config, n []string) any { return &c.sync(n[0]).PostSync.Mode },
			Doc: "Without it post_sync.mode of the whole file."},
	}
	keys = append(keys, targetKeys("syncs.NAME.post_sync", func(c *Config, n []string) *Target { return c.sync(n[0]).PostSync.target(ownTarget) })...)
	const many = "syncs.NAME.post_sync.targets.NAME"
	target := func(c *Config, n []string) *Target { return c.sync(n[0]).PostSync.target(n[1]) }
	keys = append(keys, Key{Path: many, Form: Section, at: func(c *Config, n []string) any { target(c, n); return nil },
		Doc: "One of several actions, in this order. A single one may stand directly below post_sync."})
	return append(keys, targetKeys(many, target)...)
}

func targetKeys(in string, target func(*Config, []string) *Target) []Key {
	of := func(at func(*Target) any) func(*Config, []string) any {
		return func(c *Config, n []string) any { return at(target(c, n)) }
	}
	return []Key{
		{Path: in + ".sql", Form: Path, at: of(func(t *Target) any { return &t.SQL }),
			Doc: "File of a script that runs in one transaction on the sqlite sink, with :run and :generation."},
		{Path: in + ".exec", Form: Listing, at: of(func(t *Target) any { return &t.Exec }),
			Doc: "Program and arguments. No shell."},
		{Path: in + ".transport", Form: Text, at: of(func(t *Target) any { return &t.Transport }),
			Doc: "A transport to which a message goes; an accepted publish is the end of it."},
		{Path: in + ".topic", Form: Text, at: of(func(t *Target) any { return &t.Topic }), Doc: "Of transport. Without it post_sync."},
		{Path: in + ".env.NAME", Form: Text, at: func(c *Config, n []string) any { return variable(&target(c, n).Env, n[len(n)-1]) },
			Doc: "A variable of exec: a plain text, or a secret as file:/path, env:NAME or cred:NAME."},
		{Path: in + ".dir", Form: Path, at: of(func(t *Target) any { return &t.Dir }), Doc: "Folder in which exec starts. Without it that of the configuration file."},
		{Path: in + ".timeout", Form: Duration, Min: "1s", at: of(func(t *Target) any { return &t.Timeout }), Doc: "Of exec. Without it 5m."},
		{Path: in + ".idempotent", Form: Bool, at: of(func(t *Target) any { return &t.Idempotent }),
			Doc: "Doing it again under the same generation does no harm. exec and transport need it for exactly_once."},
	}
}

func scheduleKeys() []Key {
	of := func(at func(*Schedule) any) func(*Config, []string) any {
		return func(c *Config, n []string) any {
			return at(made(&c.sync(n[0]).Schedule))
		}
	}
	const in = "syncs.NAME.schedule"
	return []Key{
		{Path: in, Form: Section, at: of(func(*Schedule) any { return nil }), Doc: "When the sync starts by itself."},
		{Path: in + ".cron", Form: Text, at: of(func(s *Schedule) any { return &s.Cron }),
			Doc: "Five fields, a leading one for seconds if you like, or @every DURATION; required."},
		{Path: in + ".tz", Form: Text, Default: "local", at: of(func(s *Schedule) any { return &s.TZ }), Doc: "Time zone, as Europe/Berlin, or local."},
		{Path: in + ".catch_up", Form: Choice, Choices: catchUps, at: of(func(s *Schedule) any { return &s.CatchUp }), Doc: "Without it schedule.catch_up."},
		{Path: in + ".overlap", Form: Choice, Choices: overlaps, at: of(func(s *Schedule) any { return &s.Overlap }), Doc: "Without it schedule.overlap."},
		{Path: in + ".auto_pause_after", Form: Count, Min: "0", at: of(func(s *Schedule) any { return made(&s.AutoPauseAfter) }),
			Doc: "Without it schedule.auto_pause_after."},
	}
}
