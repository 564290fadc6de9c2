package decider

import "github.com/towline-dev/towline/events"

// Effects says how far the post_sync of a run in exactly_once mode is.
type Effects string

const (
	EffectsNone Effects = ""     // none is owed (yet), or the mode is at_most_once
	EffectsOpen Effects = "open" // some target has not completed: the register is armed again until it has (REC-10)
	EffectsHeld Effects = "held" // what has not completed has failed too often: it waits for a person
	EffectsDone Effects = "done" // every target has completed
)

// ExactlyOnce reports that the run is followed by effects that are delivered until they are done (D-4).
func (r Run) ExactlyOnce() bool { return r.Plan.Policy.PostSync == events.ExactlyOnce }

// Outstanding lists the targets to which a wakeup of post_sync is published, in declared order (K-8): all of them; in
// exactly_once mode those that have not completed. A held one is among them, because whoever arms the register for another
// target, or by hand, gives it a chance as well.
func (r Run) Outstanding() []string {
	if !r.ExactlyOnce() {
		return r.Plan.Policy.Targets
	}
	var out []string
	for _, t := range r.Plan.Policy.Targets {
		if p, _ := r.Post(t); p.Status != PostCompleted {
			out = append(out, t)
		}
	}
	return out
}

// Effects says how far its effects are.
func (r Run) Effects() Effects {
	if !r.ExactlyOnce() || !r.PostSyncOwed {
		return EffectsNone
	}
	state := EffectsDone
	for _, t := range r.Outstanding() {
		if p, _ := r.Post(t); !p.Held(r.Plan.Policy) {
			return EffectsOpen
		}
		state = EffectsHeld
	}
	return state
}

// FailedPost is the newest failure among the effects of an exactly_once run that are not done; false: none has failed.
func (r Run) FailedPost() (newest Post, failed bool) {
	if r.Effects() == EffectsNone {
		return newest, false
	}
	for _, t := range r.Outstanding() {
		if p, _ := r.Post(t); p.Status == PostFailed && p.At >= newest.At {
			newest, failed = p, true
		}
	}
	return newest, failed
}

// Held reports a target that has failed in as many wakeups as the run allows, and has not completed (REC-10).
func (p Post) Held(policy events.Policy) bool {
	return policy.PostSync == events.ExactlyOnce && p.Status == PostFailed && 0 < policy.MaxDeliveries && policy.MaxDeliveries <= p.Failures
}
