package decider

import "github.com/towline-dev/towline/events"

// Run is the fold of a run stream. It is also the once-only ledger of the end of the run and of its post_sync: the
// first RunFinalized or RunCancelled is the only one (spec 4.2).
//
//	∅ ──RunPlanned──► planned ──RunDispatchStarted──► dispatching ──RunFinalized──► succeeded, partial_failed, failed
//	                     └───────────────────────────────┴──────────RunCancelled──► cancelled
//
// After the end only PostSyncStarted, PostSyncCompleted and PostSyncFailed follow.
type Run struct {
	ID           events.RunID
	Plan         events.RunPlanned
	Status       events.RunStatus // empty: the run does not exist
	Reason       string
	Counts       events.Counts // as the terminal event has them
	PostSyncOwed bool
	PlannedAt    events.Micros
	StartedAt    events.Micros
	CompletedAt  events.Micros
	Posts        []Post // one per target of whose effect something is on record, the newest last
}

// Post is what became of the post_sync effect of one target.
type Post struct {
	Target    string          `json:"target"`
	MessageID string          `json:"message_id"`
	Status    PostStatus      `json:"status"`
	Category  events.Category `json:"category,omitzero"`
	Text      string          `json:"text,omitzero"`   // of the newest failure
	Result    string          `json:"result,omitzero"` // of a completed one, for people
	Failures  int             `json:"failures,omitzero"`
	At        events.Micros   `json:"at"`
	// Node is the incarnation that has begun it, while no end is on record: if that is gone, so is the effect (HP-5).
	Node events.NodeID `json:"node,omitzero"`
}

// PostStatus is the state of one target's effect.
type PostStatus string

const (
	PostStarted   PostStatus = "started"
	PostCompleted PostStatus = "completed"
	PostFailed    PostStatus = "failed"
)

// Open is NT(run): the run exists and is not terminal.
func (r Run) Open() bool { return r.Status != "" && !r.Status.Terminal() }

// Exists reports that the run was planned.
func (r Run) Exists() bool { return r.Status != "" }

// Post returns what became of a target, and false if nothing is on record of it.
func (r Run) Post(target string) (Post, bool) {
	for _, p := range r.Posts {
		if p.Target == target {
			return p, true
		}
	}
	return Post{}, false
}

func (r Run) evolve(env events.Envelope) Run {
	switch e := env.Event.(type) {
	case events.RunPlanned:
		r.ID, _ = env.Stream.Run()
		r.Plan, r.Status, r.PlannedAt = e, events.RunIsPlanned, env.At
	case events.RunDispatchStarted:
		r.Status, r.StartedAt = events.RunIsDispatching, env.At
	case events.RunFinalized:
		r.Status, r.Reason, r.Counts = e.Status, e.Reason, e.Counts
		r.PostSyncOwed, r.CompletedAt = e.PostSyncOwed, env.At
	case events.RunCancelled:
		r.Status, r.Reason, r.Counts = events.RunIsCancelled, e.Reason, e.Counts
		r.PostSyncOwed, r.CompletedAt = e.PostSyncOwed, env.At
	case events.PostSyncStarted:
		r.Posts = r.withPost(Post{Target: e.Target, MessageID: e.MessageID, Status: PostStarted, At: env.At, Node: env.Node})
	case events.PostSyncCompleted:
		r.Posts = r.withPost(Post{
			Target: e.Target, MessageID: e.MessageID, Status: PostCompleted, Result: e.Result, Failures: r.failures(e.Target), At: env.At,
		})
	case events.PostSyncFailed:
		r.Posts = r.withPost(Post{
			Target: e.Target, MessageID: e.MessageID, Status: PostFailed, Category: e.Category, Text: e.Text,
			Failures: r.failures(e.Target) + 1, At: env.At,
		})
	}
	return r
}

func (r Run) failures(target string) int {
	p, _ := r.Post(target)
	return p.Failures
}

// withPost copies: a state is a value, and an older copy of it may live in a cache.
func (r Run) withPost(p Post) []Post {
	posts := make([]Post, 0, len(r.Posts)+1)
	for _, old := range r.Posts {
		if old.Target != p.Target {
			posts = append(posts, old)
		}
	}
	return append(posts, p)
}
