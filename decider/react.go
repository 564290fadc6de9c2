package decider

import "github.com/towline-dev/towline/events"

// Facts are the questions that a reaction may ask of other streams. They are answered in the deciding transaction,
// after everything that the transaction has appended so far.
type Facts interface {
	// OpenUnits counts the units of a run that have not ended (U-21).
	OpenUnits(events.RunID) int
	// WaitingFor lists the planned work items of a source in a run, by ordinal (U-13).
	WaitingFor(run events.RunID, source string) []events.UnitID
	// Mode is the post_sync mode that a run has frozen.
	Mode(events.RunID) events.DeliveryMode
	// Later is the time ahead for which units of an open run wait (HD-6).
	Later(events.RunID) Later
}

// React says which commands follow an event in the same transaction. Reactions run after the caller's commands,
// breadth first, in event order. The refill of freed slots is not here: it is decided once per transaction,
// when everything else is settled (B-6, Freed).
func React(e events.Envelope, after State, f Facts) []Command {
	switch event := e.Event.(type) {
	case events.UnitSucceeded:
		return finalizeIfDone(nil, after.(Unit).Plan.Run, e.At, f)
	case events.UnitFailed:
		u := after.(Unit)
		return finalizeIfDone(cascade(u, f), u.Plan.Run, e.At, f)
	case events.UnitCancelled:
		if event.Reason == events.CancelledWithRun {
			return nil // its run ends in this transaction: there is nothing to finalize (U-15)
		}
		u := after.(Unit)
		return finalizeIfDone(cascadeCancel(u, f), u.Plan.Run, e.At, f)
	case events.UnitRetryScheduled:
		run := after.(Unit).Plan.Run
		return []Command{ArmWakeup{
			Owner: run, Kind: events.KindDispatch, Mode: f.Mode(run), At: event.AvailableAt, Cause: events.ArmDeferred,
		}}
	case events.MessageSubmitted:
		return []Command{ArmMessage(event, e.At)}
	case events.OutboxDropped:
		return armLater(after.(Register), f)
	case events.RunFinalized, events.RunCancelled:
		return endRun(after.(Run), e.At)
	}
	return nil
}

// endRun is what both ends of a run have in common: its job closes, and post_sync is armed if it is owed.
func endRun(r Run, at events.Micros) []Command {
	cmds := []Command{CloseJob{Job: r.Plan.Job, Status: r.Status, Counts: r.Counts}}
	if r.PostSyncOwed {
		cmds = append(cmds, ArmWakeup{
			Owner: r.ID, Kind: events.KindPostSync, Mode: r.Plan.Policy.PostSync, At: at, Cause: events.ArmFinalized,
		})
	}
	return cmds
}

// armLater keeps the time of a retry or of the end of a cooldown that lies ahead, when the early wakeup that stood for it
// too is dropped (O-8, HD-6).
func armLater(r Register, f Facts) []Command {
	if r.Kind != events.KindDispatch {
		return nil
	}
	run := events.RunID(r.Owner)
	later := f.Later(run)
	if later.At == 0 {
		return nil
	}
	return []Command{ArmWakeup{
		Owner: run, Kind: r.Kind, Mode: f.Mode(run), At: later.At, Cause: later.Cause,
	}}
}

// cascade fails what waits for a failed reference unit (U-13).
func cascade(u Unit, f Facts) []Command {
	if u.Plan.Tier != events.TierReference {
		return nil
	}
	var cmds []Command
	for _, id := range f.WaitingFor(u.Plan.Run, u.Plan.Source) {
		cmds = append(cmds, FailReference{Unit: id, RunOpen: true, Reference: u.ID})
	}
	return cmds
}

// cascadeCancel cancels what waits for a cancelled reference unit (U-15).
func cascadeCancel(u Unit, f Facts) []Command {
	if u.Plan.Tier != events.TierReference {
		return nil
	}
	var cmds []Command
	for _, id := range f.WaitingFor(u.Plan.Run, u.Plan.Source) {
		cmds = append(cmds, CancelUnit{Unit: id, RunOpen: true, Reason: events.CancelledWithReference})
	}
	return cmds
}

// finalizeIfDone wakes the finalizer when the run has no open unit left (U-21). A cascade ends its own units, each of
// which asks again; only the last finds none open.
func finalizeIfDone(cmds []Command, run events.RunID, at events.Micros, f Facts) []Command {
	if f.OpenUnits(run) > 0 {
		return cmds
	}
	return append(cmds, ArmWakeup{Owner: run, Kind: events.KindFinalize, Mode: f.Mode(run), At: at, Cause: events.ArmSettled})
}

// Freed reports that a transition gave back a slot (B-6). An expired lease counts, although it took none any more:
// nobody has refilled its place yet.
func Freed(before, after State) (events.RunID, bool) {
	b, ok := before.(Unit)
	if !ok {
		return events.RunID{}, false
	}
	a := after.(Unit)
	freed := b.Status == events.UnitIsRunning && a.Status != events.UnitIsRunning ||
		b.Status == events.UnitIsDispatching && a.Status == events.UnitIsCancelled
	return a.Plan.Run, freed
}
