package sqlite

import (
	"fmt"
	"strings"
	"time"

	"github.com/towline-dev/towline/events"
)

// Options say how a store is opened. The zero value is the safe one.
type Options struct {
	// Shared lets several processes of this host use the store at once. False: this process alone (N-2).
	Shared bool
	// Now is the clock until an engine attaches itself, whose clock then is the one of the store, too. It is read once per
	// transaction by the goroutine that writes. nil: the wall clock, which is good for a store without an engine: nothing
	// in it waits for the time to pass.
	Now func() events.Micros
	// Synchronous is full or normal, in any case. Empty: full. With normal the last commits may be lost when the power
	// fails, and the promises that rest on them (DUR-2).
	Synchronous string
	// AllowNetworkFS opens the store on a network file system all the same, for this process alone and without WAL: the
	// locks of such a file system are not to be relied upon, and readers and the writer wait for each other (DUR-3).
	AllowNetworkFS bool
	// Inline runs each Write in the goroutine of its caller, one at a time and in a commit of its own. It is for tests
	// and simulators that must know who runs when.
	Inline bool

	networkFS   func(dir string) (string, error) // names the network file system of a directory; nil: ask the system
	maxReadAge  time.Duration                    // zero: maxReadAge
	walBytes    int64                            // zero: walBytes
	busyTimeout int                              // milliseconds; zero: busyTimeout
	effectTime  time.Duration                    // zero: effectTime
}

const (
	syncFull   = "full"
	syncNormal = "normal"
)

// check fills in the defaults.
func (o Options) check() (Options, error) {
	switch o.Synchronous = strings.ToLower(o.Synchronous); o.Synchronous {
	case "":
		o.Synchronous = syncFull
	case syncFull, syncNormal:
	default:
		return o, fmt.Errorf("synchronous %q: want full or normal", o.Synchronous)
	}
	if o.Now == nil {
		o.Now = func() events.Micros { return events.MicrosOf(time.Now()) }
	}
	if o.networkFS == nil {
		o.networkFS = networkFS
	}
	if o.maxReadAge == 0 && o.Inline { // time is not what it seems, and nobody waits
		o.maxReadAge = time.Hour
	}
	if o.maxReadAge == 0 {
		o.maxReadAge = maxReadAge
	}
	if o.walBytes == 0 {
		o.walBytes = walBytes
	}
	if o.busyTimeout == 0 {
		o.busyTimeout = busyTimeout
	}
	if o.effectTime == 0 {
		o.effectTime = effectTime
	}
	return o, nil
}
