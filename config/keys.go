package config

import (
	"slices"
	"sync"

	"github.com/towline-dev/towline/events"
)

// Keys are all keys, in the order in which they are described. The table is the whole truth about the file: a key that is
// not in it is unknown.
func Keys() []Key { return slices.Clone(table().keys) }

var table = sync.OnceValue(func() (t struct {
	keys []Key
	root *branch
}) {
	t.keys = slices.Concat(storeKeys(), engineKeys(), restKeys(), policyKeys(), syncKeys())
	t.root = newTree(t.keys)
	return t
})

// fixed is where a key without names belongs.
func fixed[T any](at func(*Config) *T) func(*Config, []string) any {
	return func(c *Config, _ []string) any { return at(c) }
}

func storeKeys() []Key {
	return []Key{
		{
			Path: "version", Form: Count, Min: "1", Max: "1", at: fixed(func(c *Config) *int { return &c.Version }),
			Doc: "Of the file's format; required, so that a later release knows how the file is meant.",
		},
		{
			Path: "store.path", Form: Path, at: fixed(func(c *Config) *string { return &c.Store.Path }),
			Doc: "File of the store, made if missing. Without it towline.db beside the configuration file, under systemd $STATE_DIRECTORY/towline.db.",
		},
		{
			Path: "store.mode", Form: Choice, Default: "exclusive", Choices: []string{"exclusive", "shared"}, at: fixed(func(c *Config) *string { return &c.Store.Mode }),
			Doc: "exclusive: one process, which resumes at once after a crash. shared: several processes of one host, and what a dead one held is free when it expires.",
		},
		{
			Path: "store.synchronous", Form: Choice, Default: "full", Choices: []string{"full", "normal"}, at: fixed(func(c *Config) *string { return &c.Store.Synchronous }),
			Doc: "normal gives up durability across power loss for speed: accepted runs may be missing, and a post_sync may be sent twice.",
		},
		{
			Path: "store.allow_network_fs", Form: Bool, Default: "false", at: fixed(func(c *Config) *bool { return &c.Store.AllowNetworkFS }),
			Doc: "Open the store on a network file system all the same, whose locks are not to be relied upon.",
		},
		{
			Path: "store.max_bytes", Form: Bytes, Default: "512MiB", Min: "16MiB", zero: true, at: fixed(func(c *Config) *Size { return &c.Store.MaxBytes }),
			Doc: "Size budget: no run is accepted that would bring the store beyond seven eighths of it, with what open runs still take. 0: none.",
		},
		{
			Path: "store.backup.every", Form: Duration, Default: "0s", Min: "1m", zero: true, at: fixed(func(c *Config) *duration { return &c.Store.Backup.Every }),
			Doc: "Time between two backups. 0: none.",
		},
		{
			Path: "store.backup.dir", Form: Path, Default: "backup", at: fixed(func(c *Config) *string { return &c.Store.Backup.Dir }),
			Doc: "Folder of the backups.",
		},
		{
			Path: "store.backup.keep", Form: Count, Default: "7", Min: "1", at: fixed(func(c *Config) *int { return &c.Store.Backup.Keep }),
			Doc: "How many backups stay; the oldest goes first.",
		},
		{
			Path: "retention.archive_after", Form: Duration, Default: "30d", zero: true, Live: true, at: fixed(func(c *Config) *duration { return &c.Retention.ArchiveAfter }),
			Doc: "Age at which finished runs move to sealed segments; earlier, the oldest first, near store.max_bytes. 0: never.",
		},
		{
			Path: "retention.purge_after", Later: true, Form: Duration, Default: "365d", zero: true, Live: true, at: fixed(func(c *Config) *duration { return &c.Retention.PurgeAfter }),
			Doc: "Age at which the segments of runs that succeeded are deleted; one summary a run stays. 0: never.",
		},
		{
			Path: "retention.failed_purge_after", Later: true, Form: Duration, Default: "730d", zero: true, Live: true, at: fixed(func(c *Config) *duration { return &c.Retention.FailedPurgeAfter }),
			Doc: "The same for runs that did not succeed. 0: never.",
		},
	}
}

func restKeys() []Key {
	return []Key{
		{
			Path: "api.listen", Form: Listing, Default: "unix, 127.0.0.1:7480", at: fixed(func(c *Config) *[]string { return &c.API.Listen }),
			Doc: "Where the API is served: unix is the socket of this user, $RUNTIME_DIRECTORY/api.sock, $XDG_RUNTIME_DIR/towline/api.sock or ~/.cache/towline/api.sock; unix:/path is one of your own; else host:port. Anything but the loopback needs a token. []: nowhere.",
		},
		{
			Path: "api.max_body", Form: Bytes, Default: "256KiB", Min: "1KiB", at: fixed(func(c *Config) *Size { return &c.API.MaxBody }),
			Doc: "Longest request; a longer one is answered with 413.",
		},
		{
			Path: "console.enabled", Form: Bool, Default: "true", at: fixed(func(c *Config) *bool { return &c.Console }),
			Doc: "Serve the console beside the API, for now one page of what runs and what needs a person.",
		},
		{
			Path: "post_sync.mode", Form: Choice, Default: "at_most_once", Choices: []string{"at_most_once", "exactly_once"},
			at:  fixed(func(c *Config) *string { return &c.PostSyncMode }),
			Doc: "How often the action behind a run may happen, for syncs that do not say. at_most_once: a crash may lose it, visibly. exactly_once: it is repeated under one generation until it is done.",
		},
		{
			Path: "health.stall_after", Form: Duration, Default: "5m", Min: "1s", at: fixed(func(c *Config) *duration { return &c.StallAfter }),
			Doc: "A loop of the engine that has had no success for so long, and for three times reconcile.interval, makes /readyz answer 503.",
		},
		{
			Path: "schedule.catch_up", Form: Choice, Default: "once", Choices: catchUps, at: fixed(func(c *Config) *string { return &c.Schedules.CatchUp }),
			Doc: "What of the times missed while nothing ran is made up for: none, the newest, or the newest N.",
		},
		{
			Path: "schedule.overlap", Form: Choice, Default: "skip", Choices: overlaps, at: fixed(func(c *Config) *string { return &c.Schedules.Overlap }),
			Doc: "A time that comes while the last run is open: skip it, or queue one.",
		},
		{
			Path: "schedule.auto_pause_after", Form: Count, Default: "0", Min: "0", at: fixed(func(c *Config) *int { return &c.Schedules.AutoPauseAfter }),
			Doc: "A schedule whose last runs all failed, so many of them, is paused. 0: never.",
		},
		{
			Path: "transports.local", Form: Section, at: func(*Config, []string) any { return nil },
			Doc: "The in-process transport. It is always there and has no keys; the brokers of later releases stand beside it.",
		},
		{
			Path: "routes.NAME", Form: Choice, Choices: []string{"local"},
			at: func(c *Config, n []string) any {
				return setText(func(transport string) {
					if c.Routes == nil {
						c.Routes = map[string]string{}
					}
					c.Routes[n[0]] = transport
				})
			},
			Doc: "Transport of a kind (dispatch_sync_run, run_sync_unit, finalize_sync_run, post_sync, message) or of all others (default).",
		},
		{
			Path: "workers.local", Form: Count, Default: "4", Min: "0", Max: "1024", at: fixed(func(c *Config) *int { return &c.Workers }),
			Doc: "Units that this process works on at once. 0: none, as with serve. In mode exclusive they then wait for workers that ask for them over the API, in mode shared for other processes of the store.",
		},
		{
			Path: "log.level", Form: Choice, Default: "info", Choices: []string{"debug", "info", "warn", "error"}, Live: true,
			at:  fixed(func(c *Config) *string { return &c.Log.Level }),
			Doc: "Least level that is logged.",
		},
		{
			Path: "log.format", Form: Choice, Default: "json", Choices: []string{"json", "text"}, at: fixed(func(c *Config) *string { return &c.Log.Format }),
			Doc: "Form of the lines on standard error.",
		},
	}
}

var (
	catchUps = []string{"skip", "once", "all(N)"}
	overlaps = []string{"skip", "queue"}
	modes    = []string{string(events.Incremental), string(events.Backfill), string(events.FullResync)}
)
