package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/sink/jsonl"
	"github.com/towline-dev/towline/sink/sqlite"
)

// Built is a configuration with its parts, ready to run.
type Built struct {
	Node  node.Config
	Notes []string // what was left out, and why

	sinks []interface{ Close() error }
}

// Close ends the use of the sinks. Call it behind the node's Run.
func (b *Built) Close() error {
	var err error
	for _, s := range b.sinks {
		err = errors.Join(err, s.Close())
	}
	return err
}

// BuildOptions are what a configuration does not hold. The zero value is good.
type BuildOptions struct {
	Logger  *slog.Logger
	Version string
	// NoWorkers is workers.local 0, whatever the file says.
	NoWorkers bool
	Env       func(string) (string, bool) // nil: os.LookupEnv
}

// parts are what a provider brings to a sync.
type parts struct {
	provider provider.Provider
	sources  []string
	datasets []towline.Dataset // those that it knows, with what a configuration may leave out
	closed   bool              // there are no others
	tables   []sqlite.Table    // shapes for a sink that has tables
	config   json.RawMessage   // handed to it with every unit
}

// building makes a Built.
type building struct {
	c     *Config
	o     BuildOptions
	out   *Built
	files map[string]*sqlite.Destination
	dirs  map[string]*jsonl.Destination
}

// makers make the provider of a sync, by its name in the file. A provider joins here, and with its keys in the table.
var makers = map[string]func(context.Context, *building, Sync) (parts, error){
	"git":  makeGit,
	"exec": makeExec,
}

func providerNames() []string { return sortedKeys(makers) }

// Build makes the parts of a configuration: it looks for sources, reads the scripts and secrets that are needed at a start,
// and opens nothing that holds data. Errors name the sync, what is missing, and what to do; what node.Open would refuse of the
// configuration itself is one.
func Build(ctx context.Context, c *Config, o BuildOptions) (*Built, error) {
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	b := &building{c: c, o: o, files: map[string]*sqlite.Destination{}, dirs: map[string]*jsonl.Destination{}}
	b.out = &Built{Node: node.Config{
		Store: c.Store.Path, Shared: c.Store.Mode == "shared", Unsynced: c.Store.Synchronous == "normal",
		AllowNetworkFS: c.Store.AllowNetworkFS, Knobs: c.Knobs, Logger: o.Logger, Version: o.Version,
		MaxBytes:  int64(c.Store.MaxBytes),
		Retention: node.Retention{ArchiveAfter: c.Retention.ArchiveAfter},
		Backups:   node.Backups{Every: c.Store.Backup.Every, Dir: c.Store.Backup.Dir, Keep: c.Store.Backup.Keep},
	}}
	b.workers()
	made := make([]parts, len(c.Syncs))
	for i, s := range c.Syncs {
		var err error
		if made[i], err = makers[s.Provider](ctx, b, s); err != nil { // the key has no other choice
			return nil, fmt.Errorf("sync %q: %w", s.Name, err)
		}
	}
	if err := b.openSinks(made); err != nil {
		return nil, errors.Join(err, b.out.Close())
	}
	for i, s := range c.Syncs {
		n, err := b.sync(s, made[i])
		if err != nil {
			return nil, errors.Join(fmt.Errorf("sync %q: %w", s.Name, err), b.out.Close())
		}
		b.out.Node.Syncs = append(b.out.Node.Syncs, n)
		if s.Schedule == nil {
			continue
		}
		timer, err := b.schedule(s)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("sync %q: %w", s.Name, err), b.out.Close())
		}
		b.out.Node.Schedules = append(b.out.Node.Schedules, timer)
	}
	if err := b.out.Node.Check(); err != nil {
		return nil, errors.Join(err, b.out.Close())
	}
	return b.out, nil
}

// openSinks makes one destination for each file and folder, with the tables of all syncs that write to it.
func (b *building) openSinks(made []parts) error {
	tables := map[string][]sqlite.Table{}
	for i, s := range b.c.Syncs {
		f := s.Sink.SQLite
		if f == nil {
			continue
		}
		for _, t := range made[i].tables {
			same := func(other sqlite.Table) bool { return strings.EqualFold(other.Name, t.Name) }
			switch at := slices.IndexFunc(tables[f.Path], same); {
			case at < 0:
				tables[f.Path] = append(tables[f.Path], t)
			case !reflect.DeepEqual(tables[f.Path][at], t):
				return fmt.Errorf("sync %q: another sync writes a table %s of another shape to %s: give one of them a file of its own", s.Name, t.Name, f.Path)
			}
		}
	}
	for _, s := range b.c.Syncs {
		if f := s.Sink.SQLite; f != nil && b.files[f.Path] == nil {
			d := sqlite.File(f.Path, sqlite.Tables(tables[f.Path]...), sqlite.Write(sqlite.Mode(f.Mode)))
			b.files[f.Path] = d
			b.out.sinks = append(b.out.sinks, d)
		}
		if f := s.Sink.JSONL; f != nil && b.dirs[f.Dir] == nil {
			b.dirs[f.Dir] = jsonl.Dir(f.Dir)
		}
	}
	return nil
}

func (b *building) sync(s Sync, p parts) (node.Sync, error) {
	out := node.Sync{
		Name: s.Name, Sources: p.sources, Provider: p.provider, ProviderName: s.Provider, OneActiveRun: s.OneActiveRun, Config: p.config,
	}
	var opener sink.Opener
	switch {
	case s.Sink.SQLite != nil:
		opener = b.files[s.Sink.SQLite.Path]
	case s.Sink.JSONL != nil:
		opener = b.dirs[s.Sink.JSONL.Dir]
	case b.works():
		b.note("sync %q has no sink: its rows are dropped", s.Name)
	}
	out.Sink = opener
	var err error
	if out.Datasets, err = b.datasets(s, p); err != nil {
		return out, err
	}
	out.PostSync, err = b.posts(s)
	return out, err
}

// datasets are those of the file, with what the provider knows of them where the file says nothing; without any, all that
// the provider knows.
func (b *building) datasets(s Sync, p parts) ([]towline.Dataset, error) {
	if len(s.Datasets) == 0 {
		return p.datasets, nil
	}
	var out []towline.Dataset
	for _, d := range s.Datasets {
		var names []string
		base := towline.Dataset{Name: d.Name}
		known := false
		for _, k := range p.datasets {
			names = append(names, k.Name)
			if k.Name == d.Name {
				base, known = k, true
			}
		}
		if p.closed && !known {
			return nil, fmt.Errorf("dataset %q: the provider %s has %s%s", d.Name, s.Provider, orList(names), didYouMean(d.Name, names))
		}
		policy, err := b.c.retryOf(&s, d)
		if err != nil {
			return nil, fmt.Errorf("dataset %q: %w", d.Name, err)
		}
		out = append(out, d.over(base, policy, b.c.Knobs))
	}
	return out, nil
}

// over puts what the file says over what the provider knows.
func (d Dataset) over(base towline.Dataset, policy *RetryPolicy, k towline.Knobs) towline.Dataset {
	if d.Tier != "" {
		base.Tier = events.Tier(d.Tier)
	}
	if d.Cost != "" {
		base.Cost = events.Cost(d.Cost)
	}
	if d.Window != "" {
		base.Window, base.Snapshot = events.Calendar(d.Window), false
	}
	base.Snapshot = base.Snapshot || d.Snapshot
	base.Depth = d.Depth
	if d.Members != nil {
		base.Members = d.Members
	}
	if d.Surfaces != nil {
		base.Surfaces = d.Surfaces
	}
	if policy != nil {
		base.Retry = policy.retry(k)
	}
	return base
}

// retry is the policy as the engine takes it. One without a number has that of the knobs (CFG-1).
func (p RetryPolicy) retry(k towline.Knobs) towline.Retry {
	most := max(k.ExpiredLeaseMaxRetries, 0)
	if p.MaxRetries != nil {
		most = *p.MaxRetries
	}
	if most == 0 {
		return towline.Retry{}
	}
	r := towline.Retry{Max: most}
	if p.Backoff != nil {
		r.Backoff = *p.Backoff
	}
	for _, m := range p.Modes {
		r.Modes = append(r.Modes, events.Mode(m))
	}
	for _, c := range p.RetryOn {
		r.On = append(r.On, events.Category(c))
	}
	return r
}

func (b *building) home() string {
	home, _ := b.o.Env("HOME")
	return home
}

func (b *building) note(format string, args ...any) {
	b.out.Notes = append(b.out.Notes, fmt.Sprintf(format, args...))
}
