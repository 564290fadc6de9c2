package towline

import (
	"fmt"
	"slices"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// Dispatch gives slots to the units of a run (spec 10.1): the decision of the dispatch_sync_run handler.
func (t *Tx) Dispatch(run events.RunID) (decider.DispatchCode, error) {
	return t.dispatch(run, 0)
}

// refill is the same decision for the slots that this transaction has given back (B-6): for its own run, else for the
// oldest other run of which a free slot lets a unit in; at most one run, and as many units as slots were freed. What
// could still be taken after that is woken at once, so a free slot never waits for the countdown.
func (t *Tx) refill() error {
	if len(t.freed) == 0 {
		return nil
	}
	run, ok := t.beneficiary()
	if ok {
		if _, err := t.dispatch(run, len(t.freed)); err != nil {
			return err
		}
	}
	for _, own := range slices.Compact(slices.Clone(t.freed)) {
		if own != run {
			if err := t.net(own); err != nil {
				return err
			}
		}
	}
	oldest, ok := t.hot.OldestWithRoom(t.now)
	if !ok {
		return nil
	}
	_, err := t.Execute(decider.ArmWakeup{
		Owner: oldest, Kind: events.KindDispatch, Mode: t.Mode(oldest), At: t.now, Cause: events.ArmSlotFreed,
	})
	return err
}

// net arms the safety net of a run that has freed a slot which lets none of its own units in: the same transition may
// have opened a tier, whose units are overflow from then on (B-5, HD-6), or begun a cooldown, whose end they wait for.
// While a wakeup of the run is open and due no later, it appends nothing.
func (t *Tx) net(id events.RunID) error {
	run, err := t.Run(id)
	if err != nil {
		return err
	}
	next := t.Later(id)
	capped := t.now.Add(run.Plan.Policy.Countdown)
	if t.Owing(run, 0).Owes(events.KindDispatch) && (next.At == 0 || capped < next.At) {
		next = decider.Later{At: capped, Cause: events.ArmCapped}
	}
	if next.At == 0 {
		return nil
	}
	_, err = t.Execute(decider.ArmWakeup{
		Owner: id, Kind: events.KindDispatch, Mode: run.Plan.Policy.PostSync, At: next.At, Cause: next.Cause,
	})
	return err
}

func (t *Tx) beneficiary() (events.RunID, bool) {
	for _, own := range t.freed {
		if t.hot.Fits(own, t.now) {
			return own, true
		}
	}
	return t.hot.OldestWithRoom(t.now)
}

// dispatch decides for one run. limit 0 is the handler, which takes what fits; any other is a refill.
func (t *Tx) dispatch(id events.RunID, limit int) (decider.DispatchCode, error) {
	run, err := t.Run(id)
	if err != nil {
		return "", err
	}
	paused := t.enginePaused()
	if run.Open() && !paused {
		if err := t.failNeverStarted(run); err != nil {
			return "", err
		}
	}
	announcer, err := t.Register(id, events.KindUnit)
	if err != nil {
		return "", err
	}
	d := decider.Dispatch{
		Run: run, Now: t.now, Paused: paused, Waiting: t.hot.Waiting(id, t.now), Room: t.hot.Room(id, t.now),
		Later: t.Later(id), OpenUnits: t.hot.OpenUnits(id), Wakeup: announcer.Announce(),
		StaleAfter: events.SpanOf(t.e.inForce.Load().Stale), Limit: limit, Refill: limit > 0,
	}
	cmds, code := d.Plan()
	if _, err := t.Execute(cmds...); err != nil {
		return "", fmt.Errorf("dispatch run %s: %w", id, err)
	}
	return code, nil
}

// failNeverStarted gives up units that nobody ever claimed (HD-2). It asks only while there is room, so that no unit is
// given up for lack of it (U-14, B-4).
func (t *Tx) failNeverStarted(run decider.Run) error {
	after := t.e.inForce.Load().neverStarted()
	if after == 0 {
		return nil
	}
	room := t.hot.Room(run.ID, t.now)
	for _, c := range t.hot.Waiting(run.ID, t.now).Stale {
		if !room.Fits(c.Bucket) || !decider.IsNeverStarted(c.Dispatches, max(c.FirstDispatchedAt, t.hot.Stepped()), t.now, after) {
			continue
		}
		_, err := t.Execute(decider.FailNeverStarted{
			Unit: c.Unit, At: t.now, RunOpen: true, StaleAfter: events.SpanOf(t.e.inForce.Load().Stale), MessageGone: c.MessageGone,
			NeverStarted: after, Stepped: t.hot.Stepped(),
		})
		if err != nil {
			return err
		}
	}
	return nil
}
