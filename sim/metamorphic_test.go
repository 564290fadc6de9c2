package sim_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
)

// Design 10: what happens to run after run must not depend on how the work is cut. The same requests end the same, whether
// wakeups are claimed one by one or a hundred at a time, on one node or on three, over the bus in process or over a broker,
// with folds kept or read anew, and whoever moves first.
func TestTheSameOutcomeHoweverTheWorkIsCut(t *testing.T) {
	template := emptyStore(t)
	// What a cancel finds done depends on the order, so the scenario that cancels is not among them.
	for _, s := range []scenario{whole(), holding(), registering()} {
		t.Run(s.name, func(t *testing.T) {
			variants := []struct {
				name   string
				change func(*sim.Config)
			}{
				{"as it is", func(*sim.Config) {}},
				{"batches of 1", func(c *sim.Config) { c.Knobs.RelayBatch = 1 }},
				{"batches of 100", func(c *sim.Config) { c.Knobs.RelayBatch = 100 }},
				{"three nodes", func(c *sim.Config) { c.Nodes = 3 }},
				{"a broker", func(c *sim.Config) { c.Broker = true }},
				{"a broker, three nodes, batches of 1", func(c *sim.Config) { c.Broker, c.Nodes, c.Knobs.RelayBatch = true, 3, 1 }},
				{"one worker", func(c *sim.Config) { c.Workers = 1 }},
				{"another seed", func(c *sim.Config) { c.Seed += 1000 }},
				{"in the plainest order", func(c *sim.Config) { c.Choose = func([]string) int { return 0 } }},
			}
			outcomes := make([]map[string]string, len(variants))
			enumerate(t, "ways to cut "+s.name, len(variants), 1, func(v *verdict, i int) {
				v.name = variants[i].name
				b := baseline{scenario: s, template: template, nodes: 1}
				c := b.config(v)
				variants[i].change(&c)
				w := b.worldOf(v, c)
				e := b.finish(v, w)
				outcomes[i] = e.outcome()
			})
			for i, o := range outcomes {
				require.Equal(t, outcomes[0], o, "%s", variants[i].name)
			}
		})
	}
}

// outcome is what a world has come to, for somebody who does not look at how.
func (e *ending) outcome() map[string]string {
	out := map[string]string{}
	runs := map[string]int{}
	effects := map[events.RunID]int{}
	for _, f := range e.w.Outside().Destination.Effects() {
		effects[f.Run]++
	}
	for _, run := range e.fold.Runs() {
		runs[run.Sync]++
		name := fmt.Sprintf("%s %d", run.Sync, runs[run.Sync])
		out[name] = fmt.Sprintf("%s %+v effects %d", run.Status, run.Units, effects[run.ID])
	}
	for _, u := range e.units {
		name := "unit " + e.name(u)
		out[name] += fmt.Sprintf("%s %s; ", u.Status, u.Category)
	}
	for _, p := range e.w.Outside().Destination.Places() {
		out[fmt.Sprint("rows of ", p)] = fmt.Sprint(e.w.Outside().Destination.Rows(p))
	}
	for _, m := range e.fold.Messages() {
		out["message "+m.Topic+" "+m.ID.String()] = string(m.Status)
	}
	return out
}
