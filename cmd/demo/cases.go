package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/provider/git"
)

// outcome is what became of a crash.
type outcome string

const (
	recovered      outcome = "recovered"
	absorbed       outcome = "duplicate_absorbed" // published twice under one id, and done once
	lostByContract outcome = "lost_by_contract"   // post_sync is never sent twice; that nobody knows is on record
)

// crash is one row of the crash table: where a process dies, what it leaves in the log, and what must follow.
type crash struct {
	row    string // of the crash table (spec 12)
	window string // W0 to W8
	title  string
	short  string // the same for a column
	want   outcome

	// What is told of it, once it has happened: where it was ("killed process 17 at W5: …"), what the log held then, and
	// how it went on ("recovered in 47 ms: …").
	where, held, then func(*stage) string

	order func(*stage) order // for the child that will die; it is also the one that recovers from the crash before
	// left is what the child leaves in the log when it dies here; nil: not what the crash table says.
	left func(*stage) trail
	// after is what the next child has written when it has recovered from the crash; nil: not yet.
	after func(*stage) trail
	// autopsy looks at the files between the two, and proof when it has recovered; nil: nothing. Each says in a
	// sentence what it found.
	autopsy, proof func(context.Context, *stage) (string, error)
}

// trail is a piece of the log.
type trail []events.Envelope

// The order in which the story is told: one run over the whole history, then a second one that may have two units in
// flight. Each child recovers from one crash and dies of the next.
var crashes = []crash{
	{
		row: "C-2", window: "W0", title: "the plan is committed, and its first publish never happens",
		short: "first publish never happens", want: recovered,
		where: text("no relay has run"),
		held: func(s *stage) string {
			return "the plan of " + amount(s.log.tallies[s.log.run(0)].total, "unit") + ", and the wakeup committed with it"
		},
		then: text("the next relay found the wakeup and published it"),
		order: func(s *stage) order {
			return s.order(order{Plan: &plan{Mode: events.Incremental}, Idle: true})
		},
		left: func(s *stage) trail {
			g := s.register(0, events.KindDispatch)
			if _, _, claimed := newest[events.OutboxClaimed](g); claimed {
				return nil
			}
			return upTo(g, func(e events.OutboxArmed) bool { return e.N == 1 })
		},
		after: func(s *stage) trail {
			return upTo(s.fresh(0, events.KindDispatch), func(e events.OutboxDispatched) bool { return e.N == 1 })
		},
	},
	{
		row: "C-3", window: "W2", title: "a relay claims a wakeup, and dies before it publishes",
		short: "relay dies before it publishes", want: recovered,
		where: text("the message was not sent"),
		held:  text("the wakeup of some units, claimed by the relay"),
		then:  text("the claim of a dead process is void; it was published"),
		order: func(s *stage) order {
			return s.order(order{Halt: halt{At: beforePublish, Kind: events.KindUnit}})
		},
		left: func(s *stage) trail { return claimed(s.register(0, events.KindUnit)) },
		after: func(s *stage) trail {
			return upTo(s.fresh(0, events.KindUnit), func(e events.OutboxDispatched) bool { return e.N == 1 })
		},
	},
	{
		row: "C-13", window: "W5", title: "a worker dies in the middle of a unit",
		short: "worker dies in a unit", want: recovered,
		where: func(s *stage) string {
			return fmt.Sprintf("%s of %s put; none is in history.db", grouped(s.dead.Rows), amount(plannedCommits(s.victim), "row"))
		},
		held: func(s *stage) string { return "unit " + s.alias(s.dead.Unit) + " claimed, and no result" },
		then: text("attempt 2 began, after the declared backoff of " + retryBackoff.String()),
		order: func(s *stage) order {
			return s.order(order{Halt: halt{At: inUnit, Unit: unitName(git.Commits, s.victim.Window), Rows: s.victimRows}})
		},
		left: func(s *stage) trail {
			u := s.log.streams[events.UnitStream(s.word.Unit)]
			if _, _, ended := newest[events.UnitSucceeded](u); ended {
				return nil
			}
			return claimedUnit(u)
		},
		after: func(s *stage) trail {
			return upTo(s.log.after(s.killedAt, events.UnitStream(s.dead.Unit)), func(e events.UnitClaimed) bool { return e.Attempt > 1 })
		},
		autopsy: nothingOfTheDeadAttempt,
	},
	{
		row: "C-16", window: "W7", title: "the last unit is settled, and the publish that ends the run is lost",
		short: "publish that ends the run is lost", want: recovered,
		where: text("the run is still open"),
		held: func(s *stage) string {
			return fmt.Sprintf("all %d results, and the wakeup committed with the last", s.log.tallies[s.log.run(0)].ended)
		},
		then: text("the next relay found the wakeup, and the run ended"),
		order: func(s *stage) order {
			return s.order(order{Halt: halt{At: beforeClaim, Kind: events.KindFinalize}})
		},
		left: func(s *stage) trail {
			g := s.register(0, events.KindFinalize)
			if t := s.log.tallies[s.log.run(0)]; t.ended < t.total {
				return nil
			}
			if _, _, claimed := newest[events.OutboxClaimed](g); claimed {
				return nil
			}
			return upTo(g, func(events.OutboxArmed) bool { return true })
		},
		after: func(s *stage) trail {
			run := upTo(s.log.after(s.killedAt, events.RunStream(s.log.run(0))), func(events.RunFinalized) bool { return true })
			return run.with(s.fresh(0, events.KindFinalize))
		},
	},
	{
		row: "C-22", window: "W8", title: "post_sync is marked, and its publish never happens",
		short: "post_sync is marked, not published", want: lostByContract,
		where: text("the message was not sent, its script never ran"),
		held:  text("the mark, which forbids a second publish: at most once"),
		then:  text("whether it was sent is unknown, so a person decides"),
		order: func(s *stage) order {
			return s.order(order{Halt: halt{At: beforePublish, Kind: events.KindPostSync}})
		},
		left: func(s *stage) trail {
			g := s.register(0, events.KindPostSync)
			if _, _, known := newest[events.OutboxOutcome](g); known {
				return nil
			}
			return upTo(g, func(e events.OutboxDispatched) bool { return e.Order == events.MarkFirst })
		},
		after: func(s *stage) trail {
			return upTo(s.fresh(0, events.KindPostSync), func(e events.OutboxOutcome) bool { return e.Outcome == events.Unknown })
		},
		autopsy: noActivity,
	},
	{
		row: "C-4", window: "W3", title: "a wakeup is published, and the relay dies before it notes that",
		short: "relay dies after it has published", want: absorbed,
		where: func(s *stage) string {
			return "the message was handled: " + amount(len(s.firstDispatched), "slot") + " taken"
		},
		held: text("the wakeup, still claimed: not that it was published"),
		then: text("published again under the same id, which changed nothing"),
		order: func(s *stage) order {
			return s.order(order{Plan: s.second, RunCap: s.secondCap, Halt: halt{At: afterPublish, Kind: events.KindDispatch}})
		},
		left: func(s *stage) trail {
			g := claimed(s.register(1, events.KindDispatch))
			dispatched := s.dispatchedUnits(1)
			if g == nil || len(dispatched) == 0 {
				return nil
			}
			for _, id := range dispatched {
				u := s.log.streams[events.UnitStream(id)]
				g = g.with(u[len(u)-1:])
			}
			return g
		},
		after: func(s *stage) trail {
			return upTo(s.fresh(1, events.KindDispatch), func(e events.OutboxDispatched) bool { return e.N == 1 })
		},
		autopsy: whatWasDispatched, proof: sameIDTwice,
	},
	{
		row: "C-10", window: "W1", title: "a capped run loses the publish that would go on with it",
		short: "wakeup of a capped run is lost", want: recovered,
		where: func(s *stage) string {
			return amount(s.log.tallies[s.log.run(1)].total-len(s.dispatchedUnits(1)), "unit") + " left over, without a slot"
		},
		held: text("the wakeup to go on, armed when the slots were full"),
		then: text("the next relay found the wakeup and published it"),
		order: func(s *stage) order {
			return s.order(order{RunCap: s.secondCap, Halt: halt{At: beforeClaim, Kind: events.KindDispatch, Absorbed: true, HoldUnits: true}})
		},
		left: func(s *stage) trail {
			g := s.register(1, events.KindDispatch)
			_, armed, _ := newest[events.OutboxArmed](g)
			_, claimed, _ := newest[events.OutboxClaimed](g)
			if armed.N == claimed.N || armed.AvailableAt.Time().After(time.Now()) {
				return nil
			}
			s.redispatch = armed.N
			return only(upTo(g, func(events.OutboxArmed) bool { return true }))
		},
		after: func(s *stage) trail {
			return upTo(s.fresh(1, events.KindDispatch), func(e events.OutboxDispatched) bool { return e.N == s.redispatch })
		},
	},
}

func text(t string) func(*stage) string { return func(*stage) string { return t } }

// claimed is a register whose wakeup 1 is claimed and not settled.
func claimed(g trail) trail {
	if _, _, closed := newest[events.OutboxDispatched](g); closed {
		return nil
	}
	return upTo(g, func(e events.OutboxClaimed) bool { return e.N == 1 })
}

// claimedUnit is a unit that is at work, without what came before its last dispatch.
func claimedUnit(u trail) trail {
	u = upTo(u, func(events.UnitClaimed) bool { return true })
	for i := len(u) - 1; i >= 0; i-- {
		if _, ok := u[i].Event.(events.UnitDispatched); ok {
			return u[i:]
		}
	}
	return u
}

// only is the last event of a piece of the log.
func only(t trail) trail { return t[max(len(t)-1, 0):] }

// with adds what is not in t yet, in the order of the log; nil if one of them is.
func (t trail) with(more trail) trail {
	if t == nil || more == nil {
		return nil
	}
	out := slices.Clone(t)
	for _, env := range more {
		if !slices.ContainsFunc(out, func(o events.Envelope) bool { return o.Position == env.Position }) {
			out = append(out, env)
		}
	}
	slices.SortFunc(out, func(a, b events.Envelope) int { return cmp.Compare(a.Position, b.Position) })
	return out
}

// register is the history of a register of the nth run.
func (s *stage) register(run int, k events.Kind) trail {
	return s.log.streams[events.RegisterStream(s.log.run(run), k)]
}

// fresh is what was appended to it since the last kill.
func (s *stage) fresh(run int, k events.Kind) trail {
	return s.log.after(s.killedAt, events.RegisterStream(s.log.run(run), k))
}

// dispatchedUnits are the units of the nth run that have a slot.
func (s *stage) dispatchedUnits(run int) []events.UnitID {
	out := s.log.unitsOf(s.log.run(run), func(history trail) bool {
		_, _, ok := newest[events.UnitDispatched](history)
		return ok
	})
	slices.SortFunc(out, events.UnitID.Compare)
	return out
}

// nothingOfTheDeadAttempt looks for rows of the unit whose worker died.
func nothingOfTheDeadAttempt(ctx context.Context, s *stage) (string, error) {
	there, err := s.count(ctx, git.Commits, `repo = $1 AND window = $2`, s.repo.source, s.victim.Window.Name())
	if err != nil {
		return "", fmt.Errorf("read history.db: %w", err)
	}
	if there > 0 {
		return "", fmt.Errorf("%s of the dead attempt in history.db", amount(there, "row"))
	}
	return fmt.Sprintf("It had put %s of %d; history.db has none of them.", amount(s.dead.Rows, "row"), plannedCommits(s.victim)), nil
}

// noActivity looks for the effect of a post_sync that was never sent.
func noActivity(ctx context.Context, s *stage) (string, error) {
	there, err := s.count(ctx, "activity", `true`)
	if err != nil {
		return "", fmt.Errorf("read history.db: %w", err)
	}
	if there > 0 {
		return "", errors.New("the action of post_sync has run, although nothing was sent")
	}
	return "Its action appends monthly counts to the table activity, which has none.", nil
}

// whatWasDispatched notes what the first delivery has done.
func whatWasDispatched(_ context.Context, s *stage) (string, error) {
	s.firstDispatched = s.dispatchedUnits(1)
	return fmt.Sprintf("Its handler had given slots to %s.", amount(len(s.firstDispatched), "unit")), nil
}

// sameIDTwice compares what the dead child and the next one have sent, and waits until the duplicate was handled.
func sameIDTwice(ctx context.Context, s *stage) (string, error) {
	if err := s.await(ctx, "the duplicate to be absorbed", func() bool { return s.child.absorbed > 0 }); err != nil {
		return "", err
	}
	id := s.dead.Message
	if !slices.ContainsFunc(s.child.sent, func(w word) bool { return w.Message == id }) {
		return "", fmt.Errorf("message %s was not sent again", id)
	}
	for _, unit := range s.firstDispatched {
		if n := countOf[events.UnitDispatched](s.log.streams[events.UnitStream(unit)]); n != 1 {
			return "", fmt.Errorf("unit %s was dispatched %d times", unit, n)
		}
	}
	return fmt.Sprintf("The second delivery of %s changed nothing: %s dispatched once.",
		shortIDs(id), amountIs(len(s.firstDispatched), "unit")), nil
}

func countOf[E events.Event](list trail) (n int) {
	for _, env := range list {
		if _, ok := env.Event.(E); ok {
			n++
		}
	}
	return n
}

// choices are what the seed decides.
type choices struct {
	victim     provider.Period // the window whose worker dies
	victimRows int             // rows that it puts before
	second     *plan           // the run that reads some months again
	secondCap  int             // units of it in flight
}

// secondUnits is about how many units the second run has.
const secondUnits = 8

// draw makes the choices. number returns one from 0 to n-1.
func draw(r repository, number func(n int) int) choices {
	var c choices
	fit := slices.DeleteFunc(slices.Clone(r.periods), func(p provider.Period) bool { return plannedCommits(p) < 2 })
	if len(fit) == 0 {
		fit = r.periods
	}
	c.victim = fit[number(len(fit))]
	c.victimRows = 1 + number(max(plannedCommits(c.victim)-1, 1))

	datasets := []string{git.Commits}
	if r.layout.Changes {
		datasets = append(datasets, git.Changes)
	}
	n := min(secondUnits/len(datasets), len(r.periods))
	from := number(len(r.periods) - n + 1)
	chosen := r.periods[from : from+n]
	c.second = &plan{Mode: events.Backfill, Datasets: datasets, Since: chosen[0].Window.From, Before: chosen[n-1].Window.To}
	units := n * len(datasets)
	if units < 2 { // one unit fills no cap: read everything again
		c.second = &plan{Mode: events.FullResync}
	}
	c.secondCap = 1
	if units > 2*2 {
		c.secondCap = 2
	}
	return c
}

// plannedCommits is the count in a fingerprint of the git provider.
func plannedCommits(p provider.Period) int {
	count, _, _ := strings.Cut(p.Fingerprint, ":")
	n := 0
	_, _ = fmt.Sscanf(count, "%d", &n) // an empty one is 0
	return n
}
