package decider

import "github.com/towline-dev/towline/events"

// Owing is what the state of a run says must be published (spec 10, 11). It is read in the transaction that decides.
type Owing struct {
	RunOpen      bool
	RunTerminal  bool
	OpenUnits    int
	Dispatchable bool // a unit is planned with open tier, retrying and due, or dispatching and stale, and nothing holds it
	Announced    int  // units that the wakeup in question expands to (K-1)
	PostSync     bool // the run ended with something to follow
	Effects      Effects
	UnitLost     bool // the message of a dispatching unit that nothing holds died with its incarnation (N-3)
}

// Drop says why the wakeup of a kind need not be published any more, or "" if it must be (O-8). A message that was
// published for nothing is harmless; a claim that finds nothing owed saves it.
func (o Owing) Drop(k events.Kind) events.DropReason {
	switch k {
	case events.KindDispatch:
		return o.dropUnless(o.Dispatchable)
	case events.KindUnit:
		if o.RunOpen && o.Announced == 0 {
			return events.DropUnitGone
		}
		return o.dropUnless(o.Announced > 0)
	case events.KindFinalize:
		return o.dropUnless(o.OpenUnits == 0)
	case events.KindPostSync:
		if o.Effects == EffectsDone {
			return events.DropNothingOwed
		}
	}
	return "" // post_sync: its run has ended, and nothing can undo that
}

func (o Owing) dropUnless(owed bool) events.DropReason {
	switch {
	case !o.RunOpen:
		return events.DropRunTerminal
	case !owed:
		return events.DropNothingOwed
	}
	return ""
}

// Owes reports an obligation of the materialization (REC-7, REC-9, REC-10). run_sync_unit is none: its wakeup is
// armed with every dispatch, and a breach of that is a defect to report, not to repair (REC-8).
func (o Owing) Owes(k events.Kind) bool {
	switch k {
	case events.KindDispatch:
		return o.RunOpen && o.Dispatchable
	case events.KindFinalize:
		return o.RunOpen && o.OpenUnits == 0
	case events.KindPostSync:
		return o.RunTerminal && o.PostSync && o.Effects != EffectsDone && o.Effects != EffectsHeld
	}
	return false
}

// Redrive is the part of the materialization that looks at the register (REC-10, REC-12).
type Redrive struct {
	Now          events.Micros
	Countdown    events.Span // dispatch.countdown
	RedriveAfter events.Span // relay.redrive_after
	PostRedrive  events.Span // post_sync.redrive_after, of exactly_once
	Mode         events.DeliveryMode
	CloserGone   bool        // the incarnation of Register.ClosedBy is gone
	UnitLost     bool        // of dispatch: the message of a dispatching unit died with its incarnation
	Room         bool        // of dispatch: a free slot lets a unit of the run in
	CloserShared bool        // of message: the incarnation of Register.ClosedBy shares its store, so its death is not seen
	Stale        events.Span // of message: dispatch.stale
}

// Materialize reports that an owed obligation has lost its wakeup, so that it must be armed again.
func (d Redrive) Materialize(k events.Kind, r Register) bool {
	if k == events.KindMessage {
		return d.messageLost(r)
	}
	wait := d.RedriveAfter
	if k == events.KindPostSync {
		if r.Newest > 0 && !DeliveryOf(k, d.Mode).Rearm {
			return false // wakeup 1 is the only one
		}
		wait = d.PostRedrive
	}
	switch r.Status {
	case RegisterClaimed, RegisterParked, RegisterMarked, RegisterUnresolved:
		return false
	case RegisterPending:
		if r.Floor || r.AvailableAt <= d.Now {
			return false // REC-12: due, or held by a release
		}
		if r.AvailableAt <= d.Now.Add(d.Countdown) {
			// REC-12: due within the countdown. But where a free slot lets a unit in, no such wait is meant (B-6): the
			// wakeup that would have filled it died with its process (C-5, C-9, C-11).
			return k == events.KindDispatch && d.Room && d.lost(k, r)
		}
	}
	return r.Closed == 0 || r.LastClosedAt <= d.Now.Add(-wait) || d.lost(k, r)
}

// messageLost reports that an application's message, which nobody has handled, died in the memory of the process that took
// it (REC-11). No broker can be asked for it, and none delivers it again. Where the death of a process is not seen it is
// taken for lost after a while; if it is not, the second delivery finds it handled (M-12).
func (d Redrive) messageLost(r Register) bool {
	inProcess := r.Status == RegisterIdle && r.Closed > 0 && events.InProcess(r.Transport)
	return inProcess && (d.CloserGone || d.CloserShared && r.LastClosedAt <= d.Now.Add(-d.Stale))
}

// lost reports that a message died with its process, so that nothing is to be waited for (N-3): that of the newest closed
// number, or of a unit, whatever the dispatch register was doing last.
func (d Redrive) lost(k events.Kind, r Register) bool {
	return r.ClosedInProcess(d.CloserGone) || k == events.KindDispatch && d.UnitLost && d.CloserGone
}
