package towline

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// The words of the root package for what a run may be: see events.
const (
	Incremental = events.Incremental
	Backfill    = events.Backfill
	FullResync  = events.FullResync

	Reference = events.TierReference
	WorkItem  = events.TierWorkItem

	Light  = events.CostLight
	Medium = events.CostMedium
	Heavy  = events.CostHeavy

	Day   = events.Day
	Week  = events.Week
	Month = events.Month
	Year  = events.Year

	AtMostOnce  = events.AtMostOnce
	ExactlyOnce = events.ExactlyOnce
)

// Sync is what planning must know of a sync. Its ports are given to package node. A source with a dataset belongs to one
// sync: the pair has one watermark and one fence, so it may stand in one sync of the configuration only (P-7). Two syncs
// that read the same source have datasets of different names.
type Sync struct {
	Name         string
	Provider     string // names the provider in buckets and retry policies
	Sources      []string
	Datasets     []Dataset
	PostSync     PostSync
	OneActiveRun bool            // a second trigger while a run is open is refused (P-10)
	Config       json.RawMessage // handed to the provider as it is
}

// Dataset is one kind of data of a provider (P-7). With each source of its sync it belongs to that sync alone.
type Dataset struct {
	Name     string
	Members  []string        // of a family, which is planned as one unit; nil: the dataset itself
	Tier     events.Tier     // WorkItem (zero) or Reference
	Cost     events.Cost     // Medium (zero), Light or Heavy
	Window   events.Calendar // Day, Week, Month or Year (W-8); zero: windows by watermark (W-1 to W-4)
	Snapshot bool            // every unit reads all there is; no watermark
	Depth    time.Duration   // how far back the first run reads; zero: plan.depth
	Surfaces []string        // all that a unit may write to; nil: one, named like the dataset
	Retry    Retry           // zero: a lost worker fails the unit (RW-1)
}

// listed reports that a provider may say which periods there are (P-12).
func (d Dataset) listed() bool { return d.Window != "" }

// Retry lets units be tried again. By setting it, the author declares every surface of the dataset safe to write again
// (RW-2, RW-3).
type Retry struct {
	Max     int
	Backoff time.Duration     // zero: unit.expired_lease_retry_backoff
	Modes   []events.Mode     // nil: all
	On      []events.Category // failures that a worker reports and that are tried again, too; a lost worker always is
}

// catalogue is the checked configuration of what can be planned.
type catalogue struct {
	syncs map[string]Sync
}

// missing is what of a unit this node is not configured for, so that it can neither dispatch nor work on it (X-9, HU-1);
// empty: nothing is missing.
func (c catalogue) missing(sync, provider, source, dataset string) string {
	s, ok := c.syncs[sync]
	switch {
	case !ok:
		return fmt.Sprintf("sync %q", sync)
	case s.Provider != provider:
		return fmt.Sprintf("provider %q", provider)
	case !slices.Contains(s.Sources, source):
		return fmt.Sprintf("source %q", source)
	case !slices.ContainsFunc(s.Datasets, func(d Dataset) bool { return d.Name == dataset }):
		return fmt.Sprintf("dataset %q", dataset)
	}
	return ""
}

// hasSource reports a source of some sync.
func (c catalogue) hasSource(source string) bool {
	for _, s := range c.syncs { // no order: any will do
		if slices.Contains(s.Sources, source) {
			return true
		}
	}
	return false
}

// sources are those of all syncs, by name.
func (c catalogue) sources() []string {
	var all []string
	for _, s := range c.syncs { // sorted below
		all = append(all, s.Sources...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// recorded is what a node is configured for, by name, as NodeStarted keeps it.
func (c catalogue) recorded() []events.Configured {
	out := []events.Configured{} // not nil: it says so also when that is nothing
	for _, name := range slices.Sorted(maps.Keys(c.syncs)) {
		s := c.syncs[name]
		c := events.Configured{Sync: s.Name, Provider: s.Provider}
		c.Sources = append(c.Sources, s.Sources...)
		c.Datasets = append(c.Datasets, datasetNames(s.Datasets)...)
		out = append(out, c)
	}
	return out
}

// maxNameBytes bounds every configured name; names are part of keys and messages.
const maxNameBytes = 200

func newCatalogue(syncs []Sync) (catalogue, error) {
	c := catalogue{syncs: map[string]Sync{}}
	for _, s := range syncs {
		if err := s.check(); err != nil {
			return c, fmt.Errorf("sync %q: %w", s.Name, err)
		}
		if _, twice := c.syncs[s.Name]; twice {
			return c, fmt.Errorf("sync %q is configured twice", s.Name)
		}
		c.syncs[s.Name] = s.normal()
	}
	return c, onePlaceOneSync(syncs)
}

// onePlaceOneSync refuses a (source, dataset) in two syncs: watermarks, coverage and left state belong to that pair (4.2),
// so what the one has read would count as read by the other, and never reach its sink.
func onePlaceOneSync(syncs []Sync) error {
	type place struct{ source, dataset string }
	owners := map[place]string{}
	for _, s := range syncs {
		for _, source := range s.Sources {
			for _, d := range s.Datasets {
				for _, name := range d.places() {
					p := place{source, name}
					if owner, taken := owners[p]; taken {
						return fmt.Errorf("source %q with dataset %q stands twice, in sync %q and in sync %q, and would have one watermark: rename one of them",
							source, name, owner, s.Name)
					}
					owners[p] = s.Name
				}
			}
		}
	}
	return nil
}

// places are the names under which a dataset is remembered: watermarks by member, the rest by its own name.
func (d Dataset) places() []string {
	if family := d.family(); !slices.Contains(family, d.Name) {
		return append(slices.Clone(family), d.Name)
	}
	return d.family()
}

// family are the members of a dataset, by default itself.
func (d Dataset) family() []string {
	if len(d.Members) == 0 {
		return []string{d.Name}
	}
	return d.Members
}

func (s Sync) check() error {
	if err := checkName("name", s.Name); err != nil {
		return err
	}
	if err := checkName("provider", s.Provider); err != nil {
		return err
	}
	if err := distinct("source", s.Sources); err != nil {
		return err
	}
	names := make([]string, len(s.Datasets))
	for i, d := range s.Datasets {
		names[i] = d.Name
		if err := d.check(); err != nil {
			return fmt.Errorf("dataset %q: %w", d.Name, err)
		}
	}
	if err := distinct("dataset", names); err != nil {
		return err
	}
	return s.PostSync.check()
}

func (d Dataset) check() error {
	switch {
	case !slices.Contains([]events.Tier{"", Reference, WorkItem}, d.Tier):
		return fmt.Errorf("tier %q: want reference or work_item", d.Tier)
	case !slices.Contains([]events.Cost{"", Light, Medium, Heavy}, d.Cost):
		return fmt.Errorf("cost %q: want light, medium or heavy", d.Cost)
	case !slices.Contains([]events.Calendar{"", Day, Week, Month, Year}, d.Window):
		return fmt.Errorf("window %q: want day, week, month or year", d.Window)
	case d.Window != "" && d.Snapshot:
		return fmt.Errorf("window %q: a snapshot has no windows", d.Window)
	case d.Depth != 0 && d.Depth < 24*time.Hour:
		return fmt.Errorf("depth %s: want at least a day", d.Depth)
	case d.Retry.Max < 0:
		return fmt.Errorf("retry max %d: want 0 or more", d.Retry.Max)
	case d.Retry.Backoff < 0:
		return fmt.Errorf("retry backoff %s: want 0 or more", d.Retry.Backoff)
	}
	for _, m := range d.Retry.Modes {
		if !slices.Contains([]events.Mode{Incremental, Backfill, FullResync}, m) {
			return fmt.Errorf("retry mode %q: want incremental, backfill or full_resync", m)
		}
	}
	for _, on := range d.Retry.On {
		if !retryable(on) {
			return fmt.Errorf("retry on %q: want one of %v but %s", on, events.Reported, events.RateLimit)
		}
	}
	if d.Retry.Max == 0 && (d.Retry.Backoff != 0 || d.Retry.Modes != nil || d.Retry.On != nil) {
		return errors.New("retry max is 0: want 1 or more, or no Retry at all")
	}
	if err := distinct("member", d.Members); err != nil {
		return err
	}
	return distinct("surface", d.Surfaces)
}

// retryable reports what Retry.On may name. A rate limit is not among it, for it always retries (E-2).
func retryable(c events.Category) bool {
	return c == events.ExpiredLease || c != events.RateLimit && slices.Contains(events.Reported, c)
}

// distinct checks names, and that none stands twice.
func distinct(field string, names []string) error {
	seen := map[string]bool{}
	for _, n := range names {
		if err := checkName(field, n); err != nil {
			return err
		}
		if seen[n] {
			return fmt.Errorf("%s %q stands twice", field, n)
		}
		seen[n] = true
	}
	return nil
}

func checkName(field, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty", field)
	case len(name) > maxNameBytes:
		return fmt.Errorf("%s %q…: longer than %d bytes", field, name[:20], maxNameBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("%s %q: is not valid UTF-8", field, name)
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("%s %q: holds a control character", field, name)
	}
	return nil
}

// normal fills in what a zero value means.
func (s Sync) normal() Sync {
	s.Datasets = slices.Clone(s.Datasets)
	for i, d := range s.Datasets {
		d.Tier = cmp.Or(d.Tier, WorkItem)
		d.Cost = cmp.Or(d.Cost, Medium)
		if d.Surfaces == nil {
			d.Surfaces = []string{d.Name}
		}
		s.Datasets[i] = d
	}
	s.PostSync = s.PostSync.normal()
	return s
}

func (d Dataset) forPlan() decider.Dataset {
	return decider.Dataset{
		Name: d.Name, Members: d.Members, Tier: d.Tier, Cost: d.Cost, Calendar: d.Window, Snapshot: d.Snapshot,
		Surfaces: d.Surfaces, Depth: d.Depth,
	}
}

// policy is what a run of the sync freezes (CFG-2).
func (s Sync) policy(k Knobs) events.Policy {
	p := events.Policy{
		Lease: events.SpanOf(k.Lease), Lifetime: events.SpanOf(k.MaxLifetime), Countdown: events.SpanOf(k.Countdown),
		RunCap: k.CapRun, Retry: s.retryPolicies(k),
	}
	s.PostSync.freeze(&p, k)
	return p
}

// categories adds the lost worker to what is declared: surfaces that are safe to write again are so after a crash, too.
func (r Retry) categories() []events.Category {
	if r.On == nil || slices.Contains(r.On, events.ExpiredLease) {
		return r.On
	}
	return append([]events.Category{events.ExpiredLease}, r.On...)
}

func (r Retry) backoff(k Knobs) events.Span {
	if r.Backoff > 0 {
		return events.SpanOf(r.Backoff)
	}
	return k.expiredLeaseBackoff()
}

// retryPolicies are the declared ones, and behind them the shipped one: the first that fits a unit decides (RW-2), and
// what the author has written is for this dataset.
func (s Sync) retryPolicies(k Knobs) []events.RetryPolicy {
	var out []events.RetryPolicy
	for _, d := range s.Datasets {
		if d.Retry.Max == 0 {
			continue
		}
		modes := d.Retry.Modes
		if modes == nil {
			modes = []events.Mode{Incremental, Backfill, FullResync}
		}
		out = append(out, events.RetryPolicy{
			Name: s.Name + "/" + d.Name, Provider: s.Provider, Modes: modes, Family: d.family(), Surfaces: d.Surfaces,
			MaxRetries: d.Retry.Max, Backoff: d.Retry.backoff(k),
			RetryOn: d.Retry.categories(),
		})
	}
	if linear := decider.Linear(k.expiredLeaseMaxRetries(), k.expiredLeaseBackoff()); linear.Provider == s.Provider {
		out = append(out, linear)
	}
	return out
}
