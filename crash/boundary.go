package crash

import (
	"fmt"
	"slices"
	"strings"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
)

// boundary is the end of a transaction, and what follows it.
type boundary struct {
	tx     []events.Envelope
	next   []events.Envelope // the transaction behind it; nil: the log ends here
	what   string
	window string // W0 to W8: the last durable boundary of a piece of work that was passed; empty: of none
}

func (b boundary) position() events.Position { return b.tx[len(b.tx)-1].Position }
func (b boundary) at() events.Micros         { return b.tx[0].At }

// boundariesOf cuts a log into its transactions.
func boundariesOf(log []events.Envelope) (out []boundary) {
	names := sim.NewNames()
	for len(log) > 0 {
		n := 1
		for n < len(log) && log[n].Tx == log[0].Tx {
			n++
		}
		tx := log[:n]
		if len(out) > 0 {
			out[len(out)-1].next = tx
		}
		out = append(out, boundary{tx: tx, what: names.Commit(tx), window: windowOf(tx)})
		log = log[n:]
	}
	return out
}

// namesOf are the names that a log has given by the end of some boundaries.
func namesOf(boundaries []boundary) sim.Names {
	names := sim.NewNames()
	for _, b := range boundaries {
		names.Commit(b.tx)
	}
	return names
}

// windowOf names the crash window in which a process is behind a transaction, by what of it is furthest.
func windowOf(tx []events.Envelope) string {
	window := ""
	for _, env := range tx {
		window = max(window, windowBehind(env.Event))
		if _, ok := env.Event.(events.RunPlanned); ok {
			return "W0"
		}
	}
	return window
}

func windowBehind(e events.Event) string {
	switch e := e.(type) {
	case events.OutboxArmed, events.UnitDispatched, events.OutboxReleased:
		return "W1"
	case events.OutboxClaimed:
		return "W2"
	case events.OutboxDispatched:
		if e.Order == events.MarkFirst {
			return "W8"
		}
		return "W4"
	case events.UnitClaimed, events.UnitLeaseRenewed:
		return "W5"
	case events.UnitSucceeded, events.UnitFailed, events.UnitRetryScheduled:
		return "W7"
	case events.OutboxOutcome, events.PostSyncStarted:
		return "W8"
	}
	return ""
}

// call is a call of a port whose outcome the next transaction would have put on record.
type call struct {
	Port   sim.Port      `json:"port"` // publish, sink or effect
	Kind   events.Kind   `json:"kind,omitzero"`
	Run    events.RunID  `json:"run,omitzero"` // the owner
	N      int           `json:"n,omitzero"`
	Target string        `json:"target,omitzero"`
	Unit   events.UnitID `json:"unit,omitzero"`
}

// window is that in which a process is behind the call.
func (c call) window() string {
	switch {
	case c.Port == sim.PortSink:
		return "W6"
	case c.Port == sim.PortEffect, c.Kind == events.KindPostSync && c.Target != "":
		return "W8"
	}
	return "W3"
}

func (c call) name(names sim.Names) string {
	switch {
	case c.Port == sim.PortSink:
		return "sink commit of " + names.Unit(c.Unit)
	case c.Port == sim.PortEffect:
		return fmt.Sprintf("effect of %s %s", names.Run(c.Run), c.Target)
	}
	what := "publish of " + names.Wakeup(c.Run, c.Kind, c.N)
	if c.Target != "" {
		what += " " + c.Target
	}
	return what
}

// callsBefore are the calls of ports that were made before a transaction, and are on record with it: that they went well, or
// that nobody knows, for then a process may well have died behind them.
func callsBefore(tx []events.Envelope) (out []call) {
	for _, env := range tx {
		owner, kind, _ := env.Stream.Register()
		publish := call{Port: sim.PortPublish, Kind: kind, Run: owner}
		unit, _ := env.Stream.Unit()
		run, _ := env.Stream.Run()
		switch e := env.Event.(type) {
		case events.OutboxDispatched:
			if publish.N = e.N; e.Order == events.PublishFirst {
				out = append(out, publish)
			}
		case events.OutboxReleased:
			if publish.N = e.N; e.MaybePublished {
				out = append(out, publish)
			}
		case events.OutboxOutcome:
			if publish.N, publish.Target = e.N, e.Target; e.Cause != events.OutcomeProcessDied && e.Outcome != events.Refused {
				out = append(out, publish)
			}
		case events.UnitSucceeded, events.UnitLeaseExpired:
			out = append(out, call{Port: sim.PortSink, Unit: unit})
		case events.PostSyncCompleted:
			out = append(out, call{Port: sim.PortEffect, Run: run, Target: e.Target})
		}
	}
	return out
}

// touches reports a transaction that is one of a run's.
func touches(tx []events.Envelope, run events.RunID, of map[events.UnitID]events.RunID) bool {
	return slices.ContainsFunc(tx, func(env events.Envelope) bool {
		if id, ok := env.Stream.Run(); ok && id == run {
			return true
		}
		if id, ok := env.Stream.Unit(); ok && of[id] == run {
			return true
		}
		owner, _, ok := env.Stream.Register()
		return ok && events.RunID(owner) == run
	})
}

// callNames says which calls were made, in one line.
func callNames(calls []call, names sim.Names) string {
	parts := make([]string, len(calls))
	for i, c := range calls {
		parts[i] = c.name(names)
	}
	return strings.Join(parts, ", ")
}
