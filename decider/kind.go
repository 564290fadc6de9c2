package decider

import (
	"strconv"
	"strings"

	"github.com/towline-dev/towline/events"
)

// Delivery is one row of the delivery table (spec 7): the order of effects, as data.
type Delivery struct {
	Kind      events.Kind
	Mode      events.DeliveryMode // post_sync only
	Topic     string              // of its messages; empty: that of the message itself
	Guarantee string
	Order     events.Order
	// Rearm says that a register may be armed again after its first number. Without it wakeup 1 is the only one.
	Rearm bool
	// ByRedrive narrows Rearm to an operator, and to the message that died in the memory of a gone process (REC-11).
	ByRedrive bool
	// ArmedBy and Harmless are for people: the table of GUARANTEES.md is printed from here.
	ArmedBy  string
	Harmless string
}

// Deliveries is the delivery table.
var Deliveries = [...]Delivery{
	{
		Kind: events.KindDispatch, Topic: string(events.KindDispatch), Guarantee: "at least once",
		Order: events.PublishFirst, Rearm: true,
		ArmedBy:  "planner; dispatch that left units over; settle that leaves a retry or room; materialization",
		Harmless: "slots and unit states are decided in one transaction",
	},
	{
		Kind: events.KindUnit, Topic: string(events.KindUnit), Guarantee: "at least once",
		Order: events.PublishFirst, Rearm: true,
		ArmedBy:  "every UnitDispatched",
		Harmless: "the claim: one winner, the others skip",
	},
	{
		Kind: events.KindFinalize, Topic: string(events.KindFinalize), Guarantee: "at least once",
		Order: events.PublishFirst, Rearm: true,
		ArmedBy:  "the terminal event of the run's last open unit; dispatch on a run with nothing open; materialization",
		Harmless: "the run stream is the once-only ledger",
	},
	{
		Kind: events.KindPostSync, Mode: events.AtMostOnce, Topic: string(events.KindPostSync), Guarantee: "at most once",
		Order: events.MarkFirst, Rearm: false,
		ArmedBy:  "finalize or cancel",
		Harmless: "PostSyncStarted is decided once per generation and target",
	},
	{
		Kind: events.KindPostSync, Mode: events.ExactlyOnce, Topic: string(events.KindPostSync), Guarantee: "at least once, effect once",
		Order: events.PublishFirst, Rearm: true,
		ArmedBy:  "finalize or cancel; materialization until every target has completed",
		Harmless: "the once-ledger, under a generation that stays the same",
	},
	{
		Kind: events.KindMessage, Guarantee: "at least once",
		Order: events.PublishFirst, Rearm: true, ByRedrive: true,
		ArmedBy:  "`MessageSubmitted`; redrive; materialization, when it died in the memory of a process",
		Harmless: "stable message id; `MessageHandled` commits with the effect",
	},
}

// mayArm is the column "may be armed again" of the table.
func (d Delivery) mayArm(r Register, c events.ArmCause) bool {
	switch {
	case r.Newest == 0:
		return true
	case d.ByRedrive:
		return c == events.ArmRedriven || c == events.ArmMaterialized
	}
	return d.Rearm
}

// DeliveryOf is the row of a kind; mode matters for post_sync only. It panics on a kind that this release cannot
// deliver, which no log of this format level can hold.
func DeliveryOf(k events.Kind, mode events.DeliveryMode) Delivery {
	for _, d := range Deliveries {
		if d.Kind == k && (d.Mode == "" || d.Mode == mode) {
			return d
		}
	}
	panic("decider: no delivery for " + string(k) + " " + string(mode))
}

// MessageID is the stable id of a wakeup's message: the same for every retry of the wakeup, new for the next (K-3).
func MessageID(owner events.RunID, k events.Kind, n int) string {
	return owner.String() + "." + string(k) + "." + strconv.Itoa(n)
}

// UnitMessageID adds the unit, and the attempt that the message invites.
func UnitMessageID(run events.RunID, n int, unit events.UnitID, attempt int) string {
	return MessageID(run, events.KindUnit, n) + "." + unit.String() + "." + strconv.Itoa(attempt)
}

// TargetMessageID adds the target of a post_sync fan-out (K-8).
func TargetMessageID(run events.RunID, n int, target string) string {
	return MessageID(run, events.KindPostSync, n) + "." + target
}

// InEpoch is the id of a message in the life of a store that began with an epoch: a broker's memory of an earlier one must not
// swallow it (K-3).
func InEpoch(id string, epoch int) string {
	if epoch > 1 {
		return id + ".e" + strconv.Itoa(epoch)
	}
	return id
}

// sameWakeup reports that the id of a message is that of another one, in whatever epoch it was published.
func sameWakeup(id, without string) bool {
	rest, ok := strings.CutPrefix(id, without)
	return ok && (rest == "" || strings.HasPrefix(rest, ".e"))
}

// Generation is the stable name of a run's post_sync effect: consumers deduplicate by it (K-4).
func Generation(run events.RunID) string { return run.String() + ".1" }
