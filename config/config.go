package config

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
)

// Config is a whole configuration: read, with every default, and valid. The fields are described by Keys, under which they
// stand in the file. Paths are absolute.
type Config struct {
	File string // it was read from; empty: there is none, and all is default, variable and flag
	Dir  string // where relative paths start: the folder of File, else the working folder

	Version   int
	Store     Store
	Retention Retention
	API       API
	Console   bool
	// Knobs are filled in with every default. An explicit 0 of the file is negative here, as towline.Knobs says.
	Knobs        towline.Knobs
	PostSyncMode string // of syncs that set none
	StallAfter   time.Duration
	Schedules    ScheduleDefaults
	Routes       map[string]string // kind, or default → transport
	Workers      int               // local ones
	Log          Log

	RetryPolicies []RetryPolicy // in the order of the file
	Syncs         []Sync        // the same

	values map[string]*setting // by place
	order  []string            // of values: that of the table, and of the file below names
	socket string              // of this user; empty: there is no folder for it
	home   string              // where ~ in a path starts
	notes  []string
}

// Store is where the log is.
type Store struct {
	Path           string
	Mode           string // exclusive or shared
	Synchronous    string // full or normal
	AllowNetworkFS bool
	MaxBytes       Size // 0: no budget
	Backup         Backup
}

// Backup is the regular one of the store. Every is 0: none.
type Backup struct {
	Every time.Duration
	Dir   string
	Keep  int
}

// Retention is how long finished runs are kept. An age of 0 is never.
type Retention struct{ ArchiveAfter, PurgeAfter, FailedPurgeAfter time.Duration }

// API is where the engine is reached.
type API struct {
	Listen  []string // "unix", "unix:/path", or host:port, as they were written; see Config.Addresses
	MaxBody Size
}

// ScheduleDefaults hold for schedules that do not say otherwise.
type ScheduleDefaults struct {
	CatchUp        string
	Overlap        string
	AutoPauseAfter int // 0: never
}

// Log is what is logged.
type Log struct{ Level, Format string }

// RetryPolicy is a declared one (RW-2), to which datasets refer by name.
type RetryPolicy struct {
	Name, Provider string
	Modes          []string // nil: all
	Family         []string // nil: whichever datasets refer to it
	Surfaces       []string // nil: those of the dataset
	MaxRetries     *int     // nil: unit.expired_lease_max_retries (CFG-1)
	Backoff        *time.Duration
	RetryOn        []string
}

// Sync is one entry of syncs.
type Sync struct {
	Name, Provider string
	OneActiveRun   bool
	Datasets       []Dataset
	PostSync       PostSync
	Sink           Sink
	Schedule       *Schedule // nil: none
	Config         json.RawMessage

	Git  Git
	Exec Exec
}

// Git is what a sync of the provider git says.
type Git struct {
	Repos, Exclude, Refs []string // patterns of folders; see provider/git for Refs
	Mailmap, TrustOwner  bool
}

// Exec is what a sync of the provider exec says.
type Exec struct {
	Sources      []string
	Command      []string
	Dir          string
	Protocol     string
	StallTimeout time.Duration
	Grace        time.Duration
	Env          []Variable // by name
}

// Variable is one of a command's environment.
type Variable struct {
	Name  string
	Value EnvValue
}

// Dataset is one of a sync.
type Dataset struct {
	Name               string
	Tier, Cost, Window string // empty: as the provider has it, else the default of towline.Dataset
	Snapshot           bool
	Depth              time.Duration // 0: plan.depth
	Members, Surfaces  []string
	Retry              string // a policy, or never
}

// Sink is where the rows go. At most one of its fields is set.
type Sink struct {
	SQLite *SQLiteSink
	JSONL  *JSONLSink
}

// SQLiteSink is a SQLite file.
type SQLiteSink struct{ Path, Mode string }

// JSONLSink is a folder of JSON lines.
type JSONLSink struct{ Dir string }

// PostSync is what follows a run.
type PostSync struct {
	Mode    string   // empty: post_sync.mode
	Targets []Target // a single action written directly below post_sync is one of the name "post_sync"
}

// Target is one action.
type Target struct {
	Name       string
	SQL        string // file of a script
	Exec       []string
	Env        []Variable
	Dir        string
	Timeout    time.Duration // 0: 5 min
	Transport  string
	Topic      string
	Idempotent bool
}

// Schedule triggers a sync.
type Schedule struct {
	Cron, TZ         string
	CatchUp, Overlap string // empty: those of schedule
	AutoPauseAfter   *int   // nil: that of schedule
}

// made is what p points at, made if it is not there: what may be left out is a pointer, so that leaving it out shows.
func made[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}

// named finds the thing of a name, or makes it at the end.
func named[T any](list *[]T, of func(*T) *string, name string) *T {
	for i := range *list {
		if *of(&(*list)[i]) == name {
			return &(*list)[i]
		}
	}
	*list = append(*list, *new(T))
	item := &(*list)[len(*list)-1]
	*of(item) = name
	return item
}

func (c *Config) policy(name string) *RetryPolicy {
	return named(&c.RetryPolicies, func(p *RetryPolicy) *string { return &p.Name }, name)
}

func (c *Config) sync(name string) *Sync {
	return named(&c.Syncs, func(s *Sync) *string { return &s.Name }, name)
}

func (s *Sync) dataset(name string) *Dataset {
	return named(&s.Datasets, func(d *Dataset) *string { return &d.Name }, name)
}

func (p *PostSync) target(name string) *Target {
	return named(&p.Targets, func(t *Target) *string { return &t.Name }, name)
}

func variable(list *[]Variable, name string) *EnvValue {
	return &named(list, func(v *Variable) *string { return &v.Name }, name).Value
}

// Sync is the configured sync of a name.
func (c *Config) Sync(name string) (Sync, bool) {
	i := slices.IndexFunc(c.Syncs, func(s Sync) bool { return s.Name == name })
	if i < 0 {
		return Sync{}, false
	}
	return c.Syncs[i], true
}

// Notes are what is worth a word and refuses nothing: unknown TOWLINE_ variables, an alias that was overruled (CFG-1), a key
// that changes nothing in this release.
func (c *Config) Notes() []string { return c.notes }

// mode is that of post_sync, in the words of the log.
func (s Sync) mode(c *Config) events.DeliveryMode {
	if s.PostSync.Mode != "" {
		return events.DeliveryMode(s.PostSync.Mode)
	}
	return events.DeliveryMode(c.PostSyncMode)
}

// resolve makes a path absolute: one with ~ from the home folder, any other from the folder of the configuration.
func (c *Config) resolve(home, path string) string {
	if rest, ok := cutHome(path); ok && home != "" {
		return filepath.Join(home, rest)
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(c.Dir, path)
}

func cutHome(path string) (rest string, ok bool) {
	if path == "~" {
		return "", true
	}
	if len(path) > 1 && path[0] == '~' && (path[1] == '/' || path[1] == filepath.Separator) {
		return path[2:], true
	}
	return "", false
}
