package sim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
)

// WHY-1 to WHY-4, I-30: whenever the clock is about to move, every unit and run that has not ended and every register that
// is not idle has exactly one reason; and by the time that a reason names, and nobody can move any more, something has become
// of it. Worlds of several seeds, each killed twice somewhere.
func TestEveryWaitIsExplainedAndEndsInTime(t *testing.T) {
	const most = 6
	seeds := most
	if testing.Short() || sample > 1 {
		seeds = 1
	}
	template := emptyStore(t)
	scenarios := append(acts(), whole())
	explained := make([]map[decider.WaitReason]int, seeds*len(scenarios))
	enumerate(t, "worlds whose waits are explained", len(explained), 1, func(v *verdict, i int) {
		s := scenarios[i%len(scenarios)]
		s.seed += uint64(i / len(scenarios))
		if *window != 0 && i+1 != *window {
			v.left = true
			return
		}
		chance := rand.New(rand.NewPCG(s.seed, uint64(i)))
		const early = 80 // boundaries: all of these scenarios have more
		kills := []int{1 + chance.IntN(early), 1 + chance.IntN(early)}
		v.name = fmt.Sprintf("%s, killed at %v: go test ./sim -run TestEveryWaitIsExplained -seed %d -window %d", s.name, kills, scenarios[0].seed, i+1)
		b := baseline{scenario: s, template: template}
		c := b.config(v)
		c.Kills = kills
		if i/len(scenarios)%2 == 1 {
			c.Workers = 1 // so that units wait in line for it
		}
		w := b.worldOf(v, c)
		p := &promises{of: map[string]promise{}, explained: map[decider.WaitReason]int{}}
		w.Watch(func(ctx context.Context, idle bool) error { return p.look(ctx, w, idle) })
		b.finish(v, w)
		explained[i] = p.explained
	})
	if t.Failed() || *window != 0 || seeds < most {
		return
	}
	seen := map[decider.WaitReason]int{}
	for _, of := range explained {
		for why, n := range of {
			seen[why] += n
		}
	}
	for _, why := range []decider.WaitReason{
		decider.WaitEnginePaused, decider.WaitSourcePaused, decider.WaitCooldown, decider.WaitRetryAt, decider.WaitOutboxParked,
		decider.WaitParked, decider.WaitDue, decider.WaitRunning, decider.WaitCapped,
		decider.WaitForWorker, decider.WaitReference,
	} {
		require.Positive(t, seen[why], "no world has ever waited for %s", why)
	}
}

// promises are what was said of all that waits, as long as nothing has become of it.
type promises struct {
	of        map[string]promise
	explained map[decider.WaitReason]int
}

// promise is a reason, with the versions of the streams in which a change would show.
type promise struct {
	reason decider.Reason
	show   string
}

// waiting is a thing that is to say why.
type waiting struct {
	id, what string
	shows    []events.StreamID
}

// look asks about everything that waits, and holds the answers against those of earlier: if the world is idle, whoever had
// something to do by then has done it.
func (p *promises) look(ctx context.Context, w *sim.World, idle bool) error {
	log, err := w.Log(ctx)
	if err != nil {
		return err
	}
	versions := map[events.StreamID]events.Version{}
	fold := check.New(check.Options{Keep: true, Settings: w.Settings()})
	for _, env := range log {
		fold.Apply(env)
		versions[env.Stream] = env.Version
	}
	fold.EndTx()
	still := map[string]promise{}
	for _, t := range waits(fold) {
		why, err := w.Engine().Why(ctx, t.id)
		if err != nil {
			return fmt.Errorf("why %s: %w", t.what, err)
		}
		if err := explains(t, why, w.Now()); err != nil {
			return err
		}
		p.explained[why.Reason.Why]++
		now := promise{reason: why.Reason}
		for _, s := range t.shows {
			now.show += fmt.Sprintf("%d ", versions[s])
		}
		if b := why.Reason.Behind; !b.IsZero() { // the time is that of the unit which goes first
			now.show += fmt.Sprintf("%d ", versions[events.UnitStream(b)])
		}
		if was, known := p.of[t.id]; known && was.same(now) {
			if next := was.reason.Next; idle && next != 0 && next < w.Now() {
				return fmt.Errorf("%s has waited for %s, which was to have changed by %s; at %s nothing has: %+v", t.what, was.reason.Why, next, w.Now(), was.reason)
			}
			now.reason.Next = events.Earliest(was.reason.Next, now.reason.Next) // no time is put off while nothing happens
		}
		still[t.id] = now
	}
	p.of = still
	return nil
}

// same: the answer is the same, and nothing shows.
func (p promise) same(q promise) bool {
	p.reason.Next, q.reason.Next = 0, 0
	return p == q
}

// explains holds an answer against what every answer must be.
func explains(t waiting, why towline.Why, now events.Micros) error {
	r := why.Reason
	behind := r.Why == decider.WaitReference || r.Why == decider.WaitCrashSuspect // as long as what goes first, which may wait for a person
	switch {
	case r.Why == "":
		return fmt.Errorf("%s waits, and there is no reason: %+v", t.what, why)
	case r.Next != 0 && r.Next < now:
		return fmt.Errorf("%s waits for %s, which was to have changed by %s; it is %s", t.what, r.Why, r.Next, now)
	case r.Next == 0 && !r.Why.NeedsPerson() && !behind:
		return fmt.Errorf("%s waits for %s, and neither a person nor a time ends it", t.what, r.Why)
	case why.Evidence.Position == 0:
		return fmt.Errorf("%s waits for %s, and nothing shows it", t.what, r.Why)
	}
	return nil
}

// waits are the things that have not come to their end.
func waits(fold *check.Checker) (out []waiting) {
	registers := map[events.RunID][]events.StreamID{}
	for _, r := range fold.Registers() {
		id := events.RegisterStream(r.Owner, r.Kind)
		registers[r.Owner] = append(registers[r.Owner], id)
		if r.State != check.Idle {
			out = append(out, waiting{id.String(), "register " + id.String(), []events.StreamID{id}})
		}
	}
	for _, run := range fold.Runs() {
		if run.Status.Terminal() {
			continue
		}
		ofRun := append([]events.StreamID{events.RunStream(run.ID)}, registers[run.ID]...)
		for _, u := range fold.Units(run.ID) {
			ofRun = append(ofRun, events.UnitStream(u.ID))
			if u.Status.Terminal() {
				continue
			}
			shows := append([]events.StreamID{events.UnitStream(u.ID)}, registers[run.ID]...)
			out = append(out, waiting{u.ID.String(), "unit " + u.ID.String(), shows})
		}
		out = append(out, waiting{run.ID.String(), "run " + run.ID.String(), ofRun})
	}
	return out
}
