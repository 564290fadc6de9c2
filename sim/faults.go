package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
)

// Call is a call of a port that is about to be made.
type Call struct {
	Node int
	Port Port
	Kind events.Kind // of what is published
	What string      // for people; empty for a commit, of which nobody knows yet what it will append
}

// Fault is what goes wrong with a call. The zero Fault is that nothing does.
type Fault struct {
	How FaultKind
	For time.Duration // of Delay
}

// FaultKind says how a call goes wrong.
type FaultKind string

// What a publish can meet. A refused message is surely not sent; of an unsent one and of one whose receipt is lost nobody
// knows.
const (
	Refuse      FaultKind = "refuse"       // the broker does not take it
	RefuseEver  FaultKind = "refuse-ever"  // and never will
	Unsent      FaultKind = "unsent"       // it does not arrive, and the outcome is unknown
	LoseReceipt FaultKind = "lose-receipt" // it arrives, and the outcome is unknown
	Timeout     FaultKind = "timeout"      // as Unsent, behind the whole of the publish timeout
	Drop        FaultKind = "drop"         // the broker takes it, and loses it
	Duplicate   FaultKind = "duplicate"    // it is delivered twice
	Delay       FaultKind = "delay"        // it is delivered later, so others overtake it
)

// What a commit can meet. Nothing is written.
const (
	Busy FaultKind = "busy" // the store is locked: nothing is decided
	Full FaultKind = "full" // the disk is full: everything was decided, and the commit fails
	Torn FaultKind = "torn" // it is full at the second event: the transaction is undone, and the commit it shares is not
)

// What a provider can do.
const (
	Fail  FaultKind = "fail"  // it fails with category network
	Limit FaultKind = "limit" // it is told to wait
	Hang  FaultKind = "hang"  // it works until its context ends
	Deaf  FaultKind = "deaf"  // and does not hear that
	Panic FaultKind = "panic"
)

// KillBefore and KillBehind end the node at a call of any port.
const (
	KillBefore FaultKind = "kill-before"
	KillBehind FaultKind = "kill-behind"
)

// FaultKinds are those that a call of a port can meet.
func FaultKinds(p Port) []FaultKind {
	kills := []FaultKind{KillBefore, KillBehind}
	switch p {
	case PortPublish:
		return append(kills, Refuse, RefuseEver, Unsent, LoseReceipt, Timeout, Drop, Duplicate, Delay)
	case PortCommit:
		return append(kills, Busy, Full, Torn)
	case PortProvider:
		return append(kills, Fail, Limit, Hang, Deaf, Panic)
	}
	return kills
}

func (n *node) fault(p Port, k events.Kind, what string) Fault {
	if n.w.c.Faults == nil {
		return Fault{}
	}
	f := n.w.c.Faults(Call{Node: n.number, Port: p, Kind: k, What: what})
	if f.How != "" && !slices.Contains(FaultKinds(p), f.How) {
		n.w.breaks("sim: Config.Faults: a call of port %s does not meet %q: return one of %q, or the zero Fault", p, f.How, FaultKinds(p))
		return Fault{}
	}
	return f
}

// The errors of a call that a fault has broken.
var (
	errRefused = errors.New("sim: the broker refuses")
	errLost    = errors.New("sim: the connection is gone")
	errLine    = errors.New("sim: the line is down")
	errBusy    = fmt.Errorf("%w: sim: the store is locked", towline.ErrUnavailable)
	errFull    = fmt.Errorf("%w: sim: the disk is full", towline.ErrUnavailable)
	errTorn    = fmt.Errorf("%w: sim: the disk is full behind an event", towline.ErrUnavailable)
)

// deafFor is longer than any lease.
const deafFor = 3 * time.Hour
