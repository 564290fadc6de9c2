package crash

import (
	"encoding/json"
	"slices"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
)

// scene is what the log up to a boundary does not say, and what a recovery goes by all the same: who the world is. With the
// log it decides everything, so both together are a Case.
type scene struct {
	seed  uint64
	kills []int           // boundaries at which incarnations of the recovery die
	knobs json.RawMessage // as NodeStarted has them
	syncs []syncSetup

	says     recording // of what has not ended
	replies  replies
	failures []failure
	calls    []call // that were made behind the boundary
}

// syncSetup is what a sync is configured for, as far as its open runs have frozen it.
type syncSetup struct {
	Name     string              `json:"name"`
	Provider string              `json:"provider"`
	Sources  []string            `json:"sources"`
	Datasets []datasetSetup      `json:"datasets"`
	Mode     events.DeliveryMode `json:"post_sync,omitzero"`
	Targets  []string            `json:"targets,omitempty"`
	Sent     []string            `json:"sent,omitempty"`
}

type datasetSetup struct {
	Name     string          `json:"name"`
	Members  []string        `json:"members,omitempty"`
	Tier     events.Tier     `json:"tier,omitzero"`
	Cost     events.Cost     `json:"cost,omitzero"`
	Window   events.Calendar `json:"window,omitzero"`
	Surfaces []string        `json:"surfaces,omitempty"`
}

// setups derives the configuration from what runs have frozen that are not over. A source with a dataset belongs to the sync
// of the newest run that reads it, for a configuration in which it stands twice is refused.
func (h *history) setups() (out []syncSetup) {
	type place struct{ source, dataset string }
	taken := map[place]string{}
	at := map[string]int{}
	runs := h.fold.Runs()
	slices.Reverse(runs)
	for _, run := range runs {
		if h.over(run) {
			continue
		}
		for _, u := range h.fold.Units(run.ID) {
			free := true
			for _, d := range append(u.Plan.Datasets(), u.Plan.Dataset) {
				owner, there := taken[place{u.Plan.Source, d}]
				free = free && (!there || owner == run.Sync)
			}
			if !free {
				continue
			}
			for _, d := range append(u.Plan.Datasets(), u.Plan.Dataset) {
				taken[place{u.Plan.Source, d}] = run.Sync
			}
			i, known := at[run.Sync]
			if !known {
				i = len(out)
				at[run.Sync] = i
				out = append(out, syncSetup{
					Name: run.Sync, Provider: u.Plan.Provider, Mode: run.Policy.PostSync, Targets: run.Policy.Targets, Sent: run.Policy.Sent,
				})
			}
			out[i].add(u.Plan)
		}
	}
	return out
}

// over reports a run of which nothing is to come: it has ended, none of its wakeups is on its way, and what became of its
// effects is on record, if only that nobody knows.
func (h *history) over(run check.Run) bool {
	if !run.Status.Terminal() {
		return false
	}
	for _, r := range h.fold.Registers() {
		if events.RunID(r.Owner) == run.ID && r.Kind != events.KindMessage && r.State != check.Idle && r.State != check.Unresolved {
			return false
		}
	}
	known := map[effect]bool{}
	h.knownEffects(run, known)
	return !run.PostSyncOwed || len(known) == len(run.Policy.Targets)
}

func (s *syncSetup) add(u events.UnitPlanned) {
	if u.Provider != s.Provider {
		return // it was configured anew since: what the older run needs is missing, and shown so
	}
	if !slices.Contains(s.Sources, u.Source) {
		s.Sources = append(s.Sources, u.Source)
	}
	if slices.ContainsFunc(s.Datasets, func(d datasetSetup) bool { return d.Name == u.Dataset }) {
		return
	}
	s.Datasets = append(s.Datasets, datasetSetup{
		Name: u.Dataset, Members: u.Members, Tier: u.Tier, Cost: u.Cost, Window: u.Calendar, Surfaces: u.Surfaces,
	})
}

// script is what stands for the action of a target: the sink takes note of it.
func script(target string) string { return "post_sync " + target }

// sync is the sync as an engine is configured with it. Retry policies are those that its runs have frozen.
func (s syncSetup) sync(says recording) sim.Sync {
	out := sim.Sync{Provider: says, Takes: says.takes, Sync: towline.Sync{Name: s.Name, Provider: s.Provider, Sources: s.Sources}}
	for _, d := range s.Datasets {
		out.Datasets = append(out.Datasets, towline.Dataset{
			Name: d.Name, Members: d.Members, Tier: d.Tier, Cost: d.Cost, Window: d.Window, Surfaces: d.Surfaces,
		})
	}
	out.PostSync.Mode = s.Mode
	for _, name := range s.Targets {
		t := towline.Target{Name: name, SQL: script(name)}
		if slices.Contains(s.Sent, name) {
			t = towline.Target{Name: name, Transport: "broker of " + name, Idempotent: true}
		}
		out.PostSync.Targets = append(out.PostSync.Targets, t)
	}
	return out
}
