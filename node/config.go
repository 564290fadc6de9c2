package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/handlers"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/transport"
	"github.com/towline-dev/towline/transport/local"
)

// Config of one process. Store and Syncs are all that most programs set.
type Config struct {
	Store string // path of the store; made if missing
	Syncs []Sync
	// Schedules say when runs are planned without anybody asking. They are all that there are: one that the store holds and
	// that is not among them is removed at the start (S-7).
	Schedules []towline.Schedule
	// NoSchedules leaves the schedules of the store to other processes: this one neither changes nor ticks them.
	NoSchedules bool

	Workers int           // local workers; zero: 4, negative: none, and then only what has a route or a given Bus is published here
	Shared  bool          // several processes on one store; false: this process holds it alone, and a restart resumes at once
	Knobs   towline.Knobs // zero: the defaults

	// Bus is the in-process transport of the local workers; nil: a new one. It is given by programs that put something
	// between relay and workers, with Routes. Its options are the program's; Run closes it.
	Bus *local.Bus
	// Routes gives kinds another publisher; nil, or a missing kind: the bus.
	Routes map[events.Kind]transport.Publisher
	// Transports are publishers that targets of post_sync may name (towline.Target.Transport).
	Transports map[string]transport.Publisher

	// Publisher is where application messages go (M-1): any publisher of Watermill. nil: in process, to Messages. Traits say
	// what can be relied on of it; NilMeansStored is required, for only its word says that a message has arrived. The caller
	// closes it, behind Run.
	Publisher message.Publisher
	Traits    transport.Traits
	// Messages are the in-process consumers of application messages, by topic. A message of another topic is parked;
	// without any consumer all wait in the store.
	Messages map[string]Consumer

	Logger *slog.Logger     // nil: slog.Default()
	Now    func() time.Time // the wall clock; nil: time.Now
	// Monotonic is the clock beside Now that no step of the wall clock touches: how long it has run since any fixed moment.
	// nil: the monotonic reading of the times of Now, as time.Now has it (CLK-3).
	Monotonic func() time.Duration
	Entropy   io.Reader // nil: crypto/rand
	Version   string    // of the program, for the record; empty: not recorded
	// VerifyEvery is how often a running node proves its views and its log; zero: once a day, negative: never (L-8). The
	// first comes an hour after the start, or sooner if the others do.
	VerifyEvery time.Duration
	// MaxBytes is the size budget of the store (towline.Config.MaxBytes, DUR-6); zero: none.
	MaxBytes int64
	// Retention says which finished runs a running node archives by itself; zero: none.
	Retention Retention
	// Backups are made by a running node into a folder; zero: none.
	Backups Backups
	// Unsynced gives up durability across power loss for speed (DUR-2); the start says so.
	Unsynced bool
	// AllowNetworkFS opens a store on a network file system, without WAL (DUR-3).
	AllowNetworkFS bool
}

// Consumer handles the messages of a topic: Validate before any look-up, Handle in a transaction of the store.
type Consumer = handlers.Consumer

// MessageHandler handles a message in the transaction in which the record of it commits (M-12).
type MessageHandler = handlers.MessageHandler

// Invalid marks an error of a MessageHandler as one that no repetition cures: the message is rejected (M-8).
func Invalid(err error) error { return handlers.Invalid(err) }

// Sync is towline.Sync with its ports. A source with a dataset belongs to one sync: a configuration in which the pair
// stands twice is refused.
type Sync struct {
	Name         string
	Sources      []string
	Datasets     []towline.Dataset
	Provider     provider.Provider
	ProviderName string      // in buckets and retry policies; empty: the name of the sync
	Sink         sink.Opener // nil: sink.Discard; the caller closes it, behind Run
	PostSync     towline.PostSync
	OneActiveRun bool
	Config       json.RawMessage // handed to the provider as it is
}

func (s Sync) catalogued() towline.Sync {
	name := s.ProviderName
	if name == "" {
		name = s.Name
	}
	return towline.Sync{
		Name: s.Name, Provider: name, Sources: s.Sources, Datasets: s.Datasets, PostSync: s.PostSync,
		OneActiveRun: s.OneActiveRun, Config: s.Config,
	}
}

// Check says what Open would refuse of the configuration itself, before anything is opened; nil: nothing.
func (c Config) Check() error {
	if err := c.check(slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	var syncs []towline.Sync
	for _, s := range c.Syncs {
		syncs = append(syncs, s.catalogued())
	}
	return towline.Config{Syncs: syncs, Schedules: c.Schedules, NoSchedules: c.NoSchedules, Knobs: c.Knobs}.Check()
}

// check refuses a publisher that cannot confirm where nothing but its word would say that a message arrived (O-10), and
// says which kinds will be published again for want of it.
func (c Config) check(logger *slog.Logger) error {
	if c.Store == "" {
		return errors.New("store is empty: give the path of the store's file, which is made if it is missing")
	}
	if err := c.Backups.check(); err != nil {
		return err
	}
	if err := c.Retention.check(); err != nil {
		return err
	}
	for _, s := range c.Syncs {
		if err := s.check(); err != nil {
			return err
		}
		if err := s.checkPosts(c); err != nil {
			return err
		}
		if s.retries() && !s.fenced() {
			logger.Warn("units are tried again, and their sink cannot refuse a late attempt: see Fenced in package sink", "sync", s.Name)
		}
	}
	if err := c.checkMessages(); err != nil {
		return err
	}
	for _, k := range events.Kinds {
		p, ok := c.Routes[k]
		if !ok || p == nil || transport.Confirms(p) {
			continue
		}
		if k == events.KindMessage {
			return fmt.Errorf("routes: %s: transport %q cannot confirm a publish, so no message could ever be known to have arrived; say so in its Traits if it can", k, p.Name())
		}
		if k == events.KindPostSync {
			return fmt.Errorf("routes: %s: transport %q cannot confirm a publish, so no post_sync could ever be known to have arrived; route it elsewhere, or say so in its Traits if it can", k, p.Name())
		}
		logger.Warn("the transport cannot confirm a publish: every wakeup is published again until its work is done", "kind", k, "transport", p.Name())
	}
	return nil
}

// checkMessages: application messages go one way.
func (c Config) checkMessages() error {
	routed := c.Routes[events.KindMessage] != nil
	switch {
	case c.Publisher != nil && routed:
		return errors.New("publisher and routes both take application messages: set one of them")
	case c.Publisher != nil && !c.Traits.NilMeansStored:
		return errors.New("publisher: traits do not say that nil means stored, so no message could ever be known to have arrived: set Traits.NilMeansStored if Publish returns nil only when the broker has the message")
	case (c.Publisher != nil || routed) && len(c.Messages) > 0:
		return errors.New("messages are handled in this process, and publisher or routes send them elsewhere: set one of them")
	}
	for _, topic := range slices.Sorted(maps.Keys(c.Messages)) {
		if err := events.CheckTopic(topic); err != nil {
			return fmt.Errorf("messages: %w", err)
		}
		if c.Messages[topic].Handle == nil {
			return fmt.Errorf("messages: topic %q: handle is missing", topic)
		}
	}
	return nil
}

func (s Sync) check() error {
	f, isFunc := s.Provider.(provider.Func)
	switch {
	case s.Name == "":
		return errors.New("a sync has no name: name is empty")
	case s.Provider == nil, isFunc && f == nil:
		return fmt.Errorf("sync %q: provider is missing", s.Name)
	case len(s.Sources) == 0:
		return fmt.Errorf("sync %q: sources are missing: name at least one", s.Name)
	case len(s.Datasets) == 0:
		return fmt.Errorf("sync %q: datasets are missing: name at least one", s.Name)
	case len(s.Config) > 0 && !json.Valid(s.Config):
		return fmt.Errorf("sync %q: config is not JSON", s.Name)
	}
	return nil
}

// retries reports a dataset whose units may run twice.
func (s Sync) retries() bool {
	return slices.ContainsFunc(s.Datasets, func(d towline.Dataset) bool { return d.Retry.Max > 0 })
}

func (s Sync) fenced() bool {
	f, ok := s.Sink.(sink.Fenced)
	return ok && f.Fenced()
}
