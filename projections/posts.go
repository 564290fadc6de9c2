package projections

import (
	"slices"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// PostSyncState is what became of the fan-out after a run.
type PostSyncState struct {
	Owed    bool            `json:"owed"`
	Effects decider.Effects `json:"effects,omitzero"`  // of exactly_once: open, held or done; else empty
	Posts   []decider.Post  `json:"posts,omitempty"`   // of whose effect something is on record, the newest last
	Targets []PostTarget    `json:"targets,omitempty"` // all of them in declared order, if a post_sync is owed
}

// PostTarget is all that is known of one target.
type PostTarget struct {
	Target string `json:"target"`
	// Outcome is what is known of the publish, and Cause says why it was not accepted (O-12). In exactly_once mode there is
	// none: it is published until the effect is done.
	Outcome  events.Outcome    `json:"outcome,omitzero"`
	Cause    string            `json:"cause,omitzero"`
	Resolved events.Resolution `json:"resolved,omitzero"` // what an operator has said of an unknown publish (O-17); empty: nothing

	Effect   decider.PostStatus `json:"effect,omitzero"` // started, completed, failed; empty: nothing is on record
	Category events.Category    `json:"category,omitzero"`
	Text     string             `json:"text,omitzero"`     // of the newest failure
	Result   string             `json:"result,omitzero"`   // of a completed one
	Failures int                `json:"failures,omitzero"` // wakeups that came to a failure
	At       time.Time          `json:"at,omitzero"`       // of the newest of it

	// Unconfirmed: it was sent, and nobody has said that the effect was done, or failed, or was lost (HP-4).
	Unconfirmed bool `json:"unconfirmed,omitzero"`
	// Held: it has failed as often as its run allows, and is armed again only by a person (REC-10).
	Held bool `json:"held,omitzero"`
}

// publishes is what the register of a post_sync knows.
type publishes struct {
	sent     bool // some number is closed
	outcomes []decider.TargetOutcome
	resolved []decider.Resolution
}

// targets puts together what the run and its register know.
func (run SyncRun) targets(known publishes) []PostTarget {
	if !run.PostSync.Owed {
		return nil
	}
	out := make([]PostTarget, len(run.Policy.Targets))
	for i, name := range run.Policy.Targets {
		t := PostTarget{Target: name}
		for _, r := range known.resolved {
			if r.Target == name {
				t.Resolved = r.Outcome
			}
		}
		for _, o := range known.outcomes {
			if o.Target == name {
				t.Outcome, t.Cause = o.Outcome, o.Cause
			}
		}
		for _, p := range run.PostSync.Posts {
			if p.Target == name {
				t.Effect, t.Category, t.Text, t.Result, t.Failures = p.Status, p.Category, p.Text, p.Result, p.Failures
				t.At, t.Held = p.At.Time(), p.Held(run.Policy)
			}
		}
		silent := t.Effect == "" || t.Effect == decider.PostStarted
		delivered := t.Outcome == events.Accepted && slices.Contains(run.Policy.Sent, name)
		t.Unconfirmed = known.sent && silent && t.Resolved == "" && !delivered
		out[i] = t
	}
	return out
}

// Over reports that nothing of the post_sync is under way any more: each target is done, has failed for good, is surely
// lost, is unknown, or waits for a person. A run that owes none is over.
func (s PostSyncState) Over() bool {
	for _, t := range s.Targets {
		if !t.over(s.Effects != decider.EffectsNone) {
			return false
		}
	}
	return true
}

func (t PostTarget) over(exactlyOnce bool) bool {
	switch {
	case t.Effect == decider.PostCompleted, t.Held, t.Resolved != "":
		return true
	case exactlyOnce:
		return false
	}
	return t.Effect == decider.PostFailed || t.Outcome == events.Refused || t.Outcome == events.Unknown ||
		t.Outcome == events.Accepted && !t.Unconfirmed
}

// UnwokenPosts lists ended runs behind a run whose post_sync nobody would wake: its register was never armed; or it is to
// have its effects exactly once, has not all of them, and nothing was sent for as long as d says (REC-10). A third reason is
// that what was sent died with its process. Redrive.Materialize decides it again.
func (v View) UnwokenPosts(d decider.Redrive, after events.RunID, limit int) ([]Unwoken, error) {
	ids, err := v.runIDs(`SELECT r.run_id FROM runs r WHERE r.post_sync_owed = 1 AND r.post_sync_armed = 0 AND r.run_id > $2
		UNION ALL
		SELECT r.run_id FROM runs r CROSS JOIN outbox o
		WHERE o.owner = r.run_id AND o.kind = 'post_sync' AND r.effects = 'open' AND r.run_id > $2 AND o.status = 'idle'
		  AND (o.last_closed_at <= $1
		       OR o.transport = 'local' AND o.closed_by NOT IN (SELECT incarnation FROM nodes WHERE gone = 0))
		ORDER BY 1 LIMIT $3`, int64(d.Now.Add(-d.PostRedrive)), after[:], limit)
	out := make([]Unwoken, len(ids))
	for i, id := range ids {
		out[i] = Unwoken{Run: id}
	}
	return out, err
}

// HeldEffects lists runs whose effects wait for a person: each target that has not completed has failed as often as the run
// allows (REC-10). Oldest first, at most limit of them behind a run.
func (v View) HeldEffects(after events.RunID, limit int) ([]SyncRun, error) {
	return v.runs(`SELECT `+runColumns+` FROM `+runTables+` WHERE r.effects = 'held' AND r.run_id > $1
		ORDER BY r.run_id LIMIT $2`, after[:], limit)
}
