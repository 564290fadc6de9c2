package crash

import "github.com/towline-dev/towline/events"

// slice is the part of a log that a recovery at its end can depend on. What is left out are runs that were over, with their
// jobs, units and registers: they hold no slot, nobody waits for them, and nothing is planned that would look at what they
// have read. A run stays if another is a retry of it, or if its units have been told of a limit that still holds. Positions
// are given anew, for a log has no gaps; fences keep their order.
func slice(log []events.Envelope, h *history) []events.Envelope {
	dropped := h.droppable(log)
	if len(dropped) == 0 {
		return log
	}
	moved := map[events.Position]events.Position{}
	txs := map[events.Position]events.Position{}
	var out []events.Envelope
	for _, env := range log {
		if dropped[env.Stream] {
			continue
		}
		p := events.Position(len(out) + 1)
		moved[env.Position] = p
		if _, begun := txs[env.Tx]; !begun {
			txs[env.Tx] = p
		}
		env.Position, env.Tx = p, txs[env.Tx]
		env.Cause = moved[env.Cause] // 0, a caller, if that is left out
		out = append(out, env)
	}
	return out
}

func (h *history) droppable(log []events.Envelope) map[events.StreamID]bool {
	_, now := h.fold.Head()
	keep := map[events.RunID]bool{}
	jobs := map[events.RunID]events.JobID{}
	units := map[events.UnitID]events.RunID{}
	for _, run := range h.fold.Runs() {
		jobs[run.ID] = run.Job
		if !h.over(run) {
			keep[run.ID] = true
			keep[run.RetryOf] = true
		}
		for _, u := range h.fold.Units(run.ID) {
			units[u.ID] = run.ID
		}
	}
	for _, env := range log {
		unit, _ := env.Stream.Unit()
		if e, ok := env.Event.(events.UnitRetryScheduled); ok && e.CooldownUntil > now {
			keep[units[unit]] = true
		}
	}
	dropped := map[events.StreamID]bool{}
	for _, run := range h.fold.Runs() {
		if keep[run.ID] {
			continue
		}
		dropped[events.RunStream(run.ID)], dropped[events.JobStream(jobs[run.ID])] = true, true
		for _, k := range events.Kinds {
			if k != events.KindMessage {
				dropped[events.RegisterStream(run.ID, k)] = true
			}
		}
	}
	for unit, run := range units {
		if !keep[run] {
			dropped[events.UnitStream(unit)] = true
		}
	}
	return dropped
}
