package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/towline-dev/towline/events"
)

// check is what no single key can say. It reads nothing of the world.
func (l *loading) check() {
	c := l.c
	if c.File != "" && c.Version == 0 {
		l.wrong("version", "is missing: write version: 1 at the top")
	}
	if err := c.Knobs.Check(); err != nil {
		key, text, _ := strings.Cut(err.Error(), " is ")
		l.wrong(key, "is "+text)
	}
	l.checkRetention()
	l.checkListen()
	l.noteLater()
	for _, kind := range sortedKeys(c.Routes) {
		if kind != "default" && !slices.Contains(events.Kinds[:], events.Kind(kind)) {
			l.wrong(inPlace("routes", kind), fmt.Sprintf("%q is no kind: want default or one of %v", kind, events.Kinds))
		}
	}
	for bucket := range c.Knobs.CapBuckets { // each says its own; problems are sorted below
		provider, cost, ok := strings.Cut(string(bucket), "/")
		if !ok || provider == "" || !slices.Contains([]string{"light", "medium", "heavy"}, cost) {
			l.wrong(inPlace("cap", "buckets", string(bucket)), "names no bucket: want PROVIDER/COST, as git/heavy")
		}
	}
	for _, p := range c.RetryPolicies {
		if p.Provider == "" {
			l.wrong(inPlace("retry_policies", p.Name), "provider is missing: name the provider of the syncs that may refer to it")
		}
		if p.Name == never {
			l.wrong(inPlace("retry_policies", p.Name), "never is the word for no policy: choose another name")
		}
	}
	for i := range c.Syncs {
		l.checkSync(&c.Syncs[i])
	}
	l.checkSinks()
	l.checkSecrets()
	slices.SortStableFunc(l.problems, func(a, b Problem) int { return strings.Compare(lineKey(a.Where), lineKey(b.Where)) })
}

// lineKey makes the order of lines that of numbers.
func lineKey(where string) string {
	file, line, ok := strings.Cut(where, ":")
	if !ok {
		return where
	}
	return fmt.Sprintf("%s:%8s", file, line)
}

// noteLater says which values that somebody has set change nothing.
func (l *loading) noteLater() {
	for _, k := range table().keys {
		if v, ok := l.c.values[k.Path]; ok && k.Later && v.Origin.Kind > FromDefault {
			l.c.notes = append(l.c.notes, fmt.Sprintf("%s: %s: nothing acts on it in this release", v.Origin, k.Path))
		}
	}
}

func (l *loading) checkRetention() {
	r := l.c.Retention
	later := func(key string, age duration) {
		if age != 0 && r.ArchiveAfter != 0 && age < r.ArchiveAfter {
			l.wrong(key, "is shorter than retention.archive_after: a run is archived before it is purged")
		}
	}
	later("retention.purge_after", r.PurgeAfter)
	later("retention.failed_purge_after", r.FailedPurgeAfter)
}

// never is the dataset's word for no retry policy.
const never = "never"

func (l *loading) checkSync(s *Sync) {
	at := func(parts ...string) string { return inPlace(append([]string{"syncs", s.Name}, parts...)...) }
	if s.Provider == "" {
		l.wrong(at(), "provider is missing: want "+orList(providerNames()))
		return
	}
	for key, v := range l.c.values {
		if v.key.Provider != "" && v.key.Provider != s.Provider && v.Origin.Kind > FromDefault && strings.HasPrefix(key, at()+".") {
			l.wrong(key, fmt.Sprintf("belongs to the provider %s, and that of this sync is %s", v.key.Provider, s.Provider))
		}
	}
	switch {
	case s.Provider == "git" && len(s.Git.Repos) == 0:
		l.wrong(at(), "repos are missing: name the folders of the repositories, as [~/src/*]")
	case s.Provider == "exec" && len(s.Exec.Command) == 0:
		l.wrong(at(), "command is missing: name the program and its arguments, as [./pull, --all]")
	case s.Provider != "git" && len(s.Datasets) == 0:
		l.wrong(at(), "datasets are missing: name at least one")
	}
	for _, d := range s.Datasets {
		if _, err := l.c.retryOf(s, d); err != nil {
			l.wrong(at("datasets", d.Name, "retry"), err.Error())
		}
		if d.Snapshot && d.Window != "" {
			l.wrong(at("datasets", d.Name, "snapshot"), "a snapshot has no windows: leave one of snapshot and window out")
		}
	}
	if s.Sink.SQLite != nil && s.Sink.JSONL != nil {
		l.wrong(at("sink", "jsonl"), "a sync has one sink: leave sqlite or jsonl out")
	}
	if s.Schedule != nil && s.Schedule.Cron == "" {
		l.wrong(at("schedule"), `cron is missing: say when, as "15 * * * *"`)
	}
	l.checkPosts(s, at)
}

func (l *loading) checkPosts(s *Sync, at func(...string) string) {
	for _, t := range s.PostSync.Targets {
		parts := []string{"post_sync"}
		if t.Name != ownTarget {
			parts = append(parts, "targets", t.Name)
		}
		var actions []string
		for _, a := range []struct {
			name string
			set  bool
		}{{"sql", t.SQL != ""}, {"exec", len(t.Exec) > 0}, {"transport", t.Transport != ""}} {
			if a.set {
				actions = append(actions, a.name)
			}
		}
		switch {
		case len(actions) == 0:
			l.wrong(at(parts...), "says not what to do: want sql, exec or transport")
		case len(actions) > 1:
			l.wrong(at(append(parts, actions[1])...), "one action has one of sql, exec and transport: use targets for several")
		case t.SQL != "" && s.Sink.SQLite == nil:
			l.wrong(at(append(parts, "sql")...), "runs on the sqlite sink, and this sync has none")
		case t.Transport != "":
			l.wrong(at(append(parts, "transport")...), fmt.Sprintf("%q: there is no such transport to send to: local keeps its messages in the memory of this process", t.Transport))
		case s.mode(l.c) == events.ExactlyOnce && !t.Idempotent && t.SQL == "":
			l.wrong(at(append(parts, actions[0])...), "cannot commit with the once-ledger: set idempotent: true if doing it again under the same generation does no harm, or mode: at_most_once")
		}
		if t.Name == ownTarget && len(s.PostSync.Targets) > 1 {
			l.wrong(at("post_sync", "targets"), "stands beside a single action: write all of them below targets")
		}
	}
}

// checkSinks: a file is one destination, whoever writes to it.
func (l *loading) checkSinks() {
	modes := map[string]string{}
	for _, s := range l.c.Syncs {
		if f := s.Sink.SQLite; f != nil {
			at := inPlace("syncs", s.Name, "sink", "sqlite", "path")
			switch first, seen := modes[f.Path]; {
			case f.Path == "":
				l.wrong(inPlace("syncs", s.Name, "sink", "sqlite"), "path is missing: name the file, as history.db")
				continue
			case f.Path == l.c.Store.Path:
				l.wrong(at, "is the store: rows go to a file of their own")
			case seen && first != f.Mode:
				l.wrong(at, fmt.Sprintf("another sync writes to %s with the mode %s: one file has one mode", filepath.Base(f.Path), first))
			}
			modes[f.Path] = f.Mode
		}
		if d := s.Sink.JSONL; d != nil && d.Dir == "" {
			l.wrong(inPlace("syncs", s.Name, "sink", "jsonl"), "dir is missing: name the folder, as out")
		}
	}
}

// checkSecrets refuses a plain text under a name that sounds like a secret. The text is not repeated.
func (l *loading) checkSecrets() {
	check := func(v Variable, at ...string) {
		if v.Value.Secret.IsZero() && soundsSecret.MatchString(v.Name) {
			l.wrong(inPlace(append(at, "env", v.Name)...), errInline.Error())
		}
	}
	for _, s := range l.c.Syncs {
		for _, v := range s.Exec.Env {
			check(v, "syncs", s.Name)
		}
		for _, t := range s.PostSync.Targets {
			at := []string{"syncs", s.Name, "post_sync"}
			if t.Name != ownTarget {
				at = append(at, "targets", t.Name)
			}
			for _, v := range t.Env {
				check(v, at...)
			}
		}
	}
}

// retryOf is the policy to which a dataset refers; nil: none.
func (c *Config) retryOf(s *Sync, d Dataset) (*RetryPolicy, error) {
	if d.Retry == "" || d.Retry == never {
		return nil, nil
	}
	i := slices.IndexFunc(c.RetryPolicies, func(p RetryPolicy) bool { return p.Name == d.Retry })
	if i < 0 {
		var names []string
		for _, p := range c.RetryPolicies {
			names = append(names, p.Name)
		}
		return nil, fmt.Errorf("there is no retry policy %q: want %s%s", d.Retry, orList(append(names, never)), didYouMean(d.Retry, names))
	}
	p := &c.RetryPolicies[i]
	surfaces := d.Surfaces
	if surfaces == nil {
		surfaces = []string{d.Name}
	}
	switch {
	case p.Provider != "" && p.Provider != s.Provider:
		return nil, fmt.Errorf("the retry policy %s is for the provider %s, and that of this sync is %s", p.Name, p.Provider, s.Provider)
	case p.Family != nil && !slices.Contains(p.Family, d.Name):
		return nil, fmt.Errorf("the retry policy %s is for %s: add %s to its family if its units may run twice", p.Name, orList(p.Family), d.Name)
	}
	for _, surface := range surfaces {
		if p.Surfaces != nil && !slices.Contains(p.Surfaces, surface) {
			return nil, fmt.Errorf("the retry policy %s does not say that %s may be written twice: add it to its surfaces", p.Name, surface)
		}
	}
	return p, nil
}

// wrong says where a key was given, if it was; else where the nearest section above it stands.
func (l *loading) wrong(key, text string) {
	where, at := "", key
	for at != "" && where == "" {
		if v := l.c.values[at]; v != nil {
			where = v.Origin.Where
		}
		i := strings.LastIndexByte(at, '.')
		at = at[:max(i, 0)]
	}
	if where == "" && l.c.File != "" {
		where = filepath.Base(l.c.File)
	}
	l.problem(Problem{Where: where, Key: key, Text: text})
}

func inPlace(parts ...string) string { return place{parts: parts}.String() }

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
