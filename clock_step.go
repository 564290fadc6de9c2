package towline

import (
	"log/slog"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// clockStep is a move of the wall clock against the monotonic one (CLK-3).
type clockStep struct {
	before events.Micros // engine time as the monotonic clock alone would have it
	after  events.Micros // what the wall clock shows
	moved  bool          // engine time has gone forward with it, by more than the bound
}

// stepBetween compares the clocks of two transactions. head is the time of the newest event: where another process has
// brought the log forward, it has recorded why, and what remains is this process's own.
//
// Engine time may have moved although the wall clock stands where it should: it went forward and came back, and in
// between somebody asked for the time.
func stepBetween(from, to reading, head events.Micros, bound events.Span) (clockStep, bool) {
	ran := to.ran - from.ran
	expected := from.at.Add(ran)
	drift := to.wall.Sub(from.wall) - ran
	if max(drift, -drift) <= bound && to.at.Sub(expected) <= bound {
		return clockStep{}, false
	}
	s := clockStep{before: max(expected, head), after: to.wall}
	if s.moved = to.at.Sub(s.before) > bound; s.moved {
		s.after = to.at
	}
	return s, true
}

// pace is how the wall clock goes against the monotonic one, from one transaction to the next. It belongs to the writer.
type pace struct {
	newest  reading // of the transaction in progress, or of the last one
	mark    mark
	retreat *mark // before the newest step, which a commit that fails makes undecided again; nil: there was none
}

// mark is the newest transaction whose step, if it met one, is decided. Its engine time is the now of the transaction.
type mark struct {
	reading reading
	steps   int // of this incarnation, on record so far
}

func (p *pace) void() {
	if p.retreat != nil {
		p.mark = *p.retreat
	}
}

// noteStep records a step of the wall clock since the last transaction, before anything else is decided (CLK-3).
func (t *Tx) noteStep() error {
	p := &t.e.mem.pace
	from, here := p.mark.reading, p.newest
	here.at = t.now
	if from.at != 0 { // else it is the first of its incarnation, and has nothing to compare with
		_, head, err := t.tx.Head()
		if err != nil {
			return err
		}
		if s, stepped := stepBetween(from, p.newest, head, t.e.inForce.Load().stepBound()); stepped {
			if err := t.recordStep(s); err != nil {
				return err
			}
		}
	}
	p.mark.reading = here
	return nil
}

// recordStep appends a step to the stream of this incarnation, unless the log has it: a failed commit makes the writer
// forget what an earlier one has kept.
func (t *Tx) recordStep(s clockStep) error {
	f, err := t.fold(events.NodeStream(t.e.node), false)
	if err != nil {
		return err
	}
	p, recorded := &t.e.mem.pace, f.state.(decider.Node).Steps
	if p.mark.steps < recorded {
		p.mark.steps = recorded
		return nil
	}
	c := decider.NoteStep{Node: t.e.node, Number: recorded + 1, Before: s.before, After: s.after}
	if lease := t.hot.LongestHurt(s.before); s.moved && lease > 0 {
		c.GraceUntil = t.now.Add(lease)
	}
	asker := t.actor
	t.actor = "" // whoever asks for this transaction has not moved the clock
	results, err := t.Execute(c)
	t.actor = asker
	if err != nil {
		return err
	}
	undecided := p.mark
	p.retreat, p.mark.steps = &undecided, c.Number
	for _, env := range results[0].Events {
		stepped := env.Event.(events.ClockStepped)
		t.step = &stepped
	}
	return nil
}

// startClock compares the clock of an incarnation that has just started with the newest event before it. A clock that lies
// behind it is in doubt (CLK-7). One that lies ahead may be wrong as well, but that looks like time in which nobody worked:
// leases that were live then, of API workers and of other processes, live one lease longer, in case their workers are
// still there (CLK-9).
func (t *Tx) startClock(newest events.Micros) error {
	if newest == 0 || t.now.Sub(newest) <= t.e.inForce.Load().stepBound() || t.hot.LongestHurt(newest) == 0 {
		return nil
	}
	return t.recordStep(clockStep{before: newest, after: t.now, moved: true})
}

// clockDoubt is what a start thinks of a wall clock that lies before the newest event by more than the bound (CLK-7). Its
// zero value is a clock that does not.
type clockDoubt struct {
	wall, newest events.Micros
	behind       events.Span
	until        events.Micros // what the wall clock must show to have caught up
	confirmed    bool          // an operator has said that it is right
}

func (t *Tx) doubtClock() clockDoubt {
	wall, bound := t.e.mem.pace.newest.wall, t.e.inForce.Load().clockBound()
	if !decider.IsBehind(wall, t.now, bound, 0) {
		return clockDoubt{}
	}
	return clockDoubt{
		wall: wall, newest: t.now, behind: t.now.Sub(wall), until: t.now.Add(-bound),
		confirmed: !decider.IsBehind(wall, t.now, bound, t.hot.ClockBehind()),
	}
}

func (d clockDoubt) log(logger *slog.Logger) {
	if d.behind > 0 && !d.confirmed {
		logger.Warn("the wall clock lies before the newest event: schedules mint nothing until it has caught up, or somebody confirms that it is right",
			"wall", d.wall.String(), "newest_event", d.newest.String())
	}
}

// logStep says what a transaction has recorded; nil: nothing.
func (e *Engine) logStep(s *events.ClockStepped) {
	if s == nil {
		return
	}
	until := ""
	if s.GraceUntil != 0 {
		until = s.GraceUntil.String()
	}
	e.logger.Warn("the wall clock does not agree with the time that has passed", "before", s.Before.String(), "after", s.After.String(),
		"leases_live_until", until)
}

// worldTime is what the wall clock shows, but not more than engine time: up to then the world can have been read. After a
// clock was set back engine time runs ahead of it, and a window up to there would leave a watermark behind which nothing
// is ever read (CLK-10).
func (t *Tx) worldTime() events.Micros { return min(t.now, t.e.mem.pace.newest.wall) }

// Stepped is when a clock was last set forward; 0: never. What it skipped is no time in which anybody could have done
// anything, so a budget of time that ends a unit begins anew there (CLK-8).
func (t *Tx) Stepped() events.Micros { return t.hot.Stepped() }
