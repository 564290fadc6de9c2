package towline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// The names of conditions.
const (
	// ClockEarlier: the start found the wall clock before the newest event. Schedules mint nothing until it has caught up,
	// or an operator confirms it (CLK-7).
	ClockEarlier = "clock_earlier_than_newest_event"
	// ClockBehind: the wall clock lies before engine time, because it was set back while the process runs, or because another
	// process of the store has a clock that runs ahead. Nothing waits for it.
	ClockBehind = "clock_behind_engine_time"
	// ViewsIncomplete: the views were made without events of the log that could not be read, because an operator wanted it so
	// (L-7). What they show of the streams of these events may be wrong.
	ViewsIncomplete = "views_incomplete"
)

// Condition is something about this process that a person should know, and that lasts.
type Condition struct {
	Name string // one of the constants
	Text string // one sentence: what is so, and what ends it
	ID   string // what it is of, if there may be several of one name: that of a schedule

	Since time.Time // zero: that is not known
}

// Health lists the conditions in which this process is; none: all is well.
func (e *Engine) Health(ctx context.Context) ([]Condition, error) {
	var head events.Micros
	var confirmed events.Span
	var life projections.Restored
	var without []projections.LeftOut
	err := e.View(ctx, func(v projections.View) (err error) {
		if _, head, err = v.Head(); err != nil {
			return err
		}
		if confirmed, err = v.ClockBehind(); err != nil {
			return err
		}
		if life, err = v.Restored(); err != nil {
			return err
		}
		without, err = v.LeftOut()
		return err
	})
	if err != nil {
		return nil, err
	}
	full, err := e.budgetCondition(ctx)
	if err != nil {
		return nil, err
	}
	r := e.clock.look()
	return slices.Concat(holdCondition(life), withoutCondition(without), full, e.scheduleConditions(), e.clockConditions(r.wall, max(r.at, head), confirmed)), nil
}

func holdCondition(life projections.Restored) []Condition {
	if !life.Held {
		return nil
	}
	return []Condition{{Name: RestoredHold, Text: fmt.Sprintf(
		"the store was restored (epoch %d, from a copy that ends at event %d) and sends nothing: look at what would be sent, then towline resume --after-restore",
		life.Epoch, life.Head)}}
}

func withoutCondition(without []projections.LeftOut) []Condition {
	if len(without) == 0 {
		return nil
	}
	first := without[0]
	return []Condition{{Name: ViewsIncomplete, Text: fmt.Sprintf(
		"they were made without what could not be read of the log (%d in all, first seq %d, %s): what they show of these streams may be wrong, and nothing is decided on them",
		len(without), first.Position, first.Reason)}}
}

func (e *Engine) clockConditions(wall, now events.Micros, confirmed events.Span) []Condition {
	switch {
	case !decider.IsBehind(wall, now, e.inForce.Load().clockBound(), confirmed):
		return nil
	case wall < e.doubt.until:
		return []Condition{{Name: ClockEarlier, Text: fmt.Sprintf(
			"the wall clock shows %s, and the start has found an event of %s: schedules mint nothing until the clock has caught up; set it, or confirm that it is right",
			wall, e.doubt.newest)}}
	}
	return []Condition{{Name: ClockBehind, Text: fmt.Sprintf(
		"the wall clock shows %s, and engine time is %s, which never goes back: what is due is due by it; set it, or confirm that it is right",
		wall, now)}}
}

// ClockHeld reports that no schedule may mint, since nobody knows whether the wall clock is right (CLK-7).
func (t *Tx) ClockHeld() bool {
	wall := t.e.mem.pace.newest.wall
	return wall < t.e.doubt.until && decider.IsBehind(wall, t.now, t.e.inForce.Load().clockBound(), t.hot.ClockBehind())
}

// clockHeld is ClockHeld outside of a transaction.
func (e *Engine) clockHeld(v projections.View) (bool, error) {
	confirmed, err := v.ClockBehind()
	r := e.clock.look()
	return r.wall < e.doubt.until && decider.IsBehind(r.wall, r.at, e.Knobs().clockBound(), confirmed), err
}

// ConfirmClock is an operator's word that the wall clock is right although it lies before the newest event, for example
// because a clock that ran ahead has been corrected (CLK-7). From then on schedules mint, Health says nothing of it, and a
// restart remembers it: by so much the wall clock may lie behind. Engine time stays what it is.
//
// It returns false, and nothing was written, if there is nothing to confirm. by needs a name and a reason. Errors:
// *RequestError (which is ErrInvalid), ErrUnavailable, ErrStopped.
func (e *Engine) ConfirmClock(ctx context.Context, by Actor) (confirmed bool, err error) {
	by, err = e.operatorWithReason(by)
	if err != nil {
		return false, err
	}
	err = e.Transact(ctx, by.Name, func(tx *Tx) error {
		results, err := tx.Execute(decider.ConfirmClock{
			Node: e.node, At: tx.now, Wall: e.mem.pace.newest.wall, Bound: e.inForce.Load().clockBound(),
			Confirmed: tx.hot.ClockBehind(), Actor: by.Name, Reason: by.Reason,
		})
		confirmed = err == nil && len(results[0].Events) > 0
		return err
	})
	return confirmed && err == nil, err
}
