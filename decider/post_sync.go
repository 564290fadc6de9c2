package decider

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

// StartPost asks to run the post_sync effect of one target, and refuses a message that should not exist (HP-1).
//
// In at_most_once mode it takes the effect, once in the life of the run (HP-2): a second message for it finds it taken,
// no events, and the caller must not run it. In exactly_once mode it takes nothing, and writes nothing: the once-ledger
// decides who runs it (HP-3).
type StartPost struct {
	Run       events.RunID
	Target    string
	MessageID string
	Sent      bool // its register holds an OutboxDispatched; in exactly_once mode an OutboxClaimed, for the message is faster than its mark
}

func (StartPost) Name() string              { return "start_post" }
func (c StartPost) Stream() events.StreamID { return events.RunStream(c.Run) }
func (StartPost) Fresh() bool               { return false }

func (c StartPost) decide(s State) ([]events.Event, *Rejection) {
	r := s.(Run)
	if rejection := r.expects(c.Name(), c.Target, c.Sent); rejection != nil {
		return nil, rejection
	}
	if _, taken := r.Post(c.Target); taken || r.ExactlyOnce() {
		return nil, nil
	}
	return []events.Event{events.PostSyncStarted{Generation: Generation(c.Run), Target: c.Target, MessageID: c.MessageID}}, nil
}

// expects says why nobody can have been asked for the effect of a target, or nil (HP-1).
func (r Run) expects(command, target string, sent bool) *Rejection {
	if r.Status.Terminal() && sent && slices.Contains(r.Plan.Policy.Targets, target) {
		return nil
	}
	return &Rejection{Command: command, Reason: "unexpected: its run has not ended, its wakeup was not sent, or its target is none of the run's", Err: ErrInvalid}
}

// expectsEnd is the same of an end. In at_most_once mode PostSyncStarted says that it was sent.
func (r Run) expectsEnd(command, target string, sent bool) *Rejection {
	return r.expects(command, target, sent || !r.ExactlyOnce())
}

// CompletePost says that the effect of a target is done. It is recorded once for a generation and target.
type CompletePost struct {
	Run       events.RunID
	Target    string
	MessageID string
	Sent      bool // of exactly_once: its register holds an OutboxClaimed
	Result    string
}

func (CompletePost) Name() string              { return "complete_post" }
func (c CompletePost) Stream() events.StreamID { return events.RunStream(c.Run) }
func (CompletePost) Fresh() bool               { return false }

func (c CompletePost) decide(s State) ([]events.Event, *Rejection) {
	r := s.(Run)
	if rejection := r.expectsEnd(c.Name(), c.Target, c.Sent); rejection != nil {
		return nil, rejection
	}
	if !r.mayEnd(c.Target) {
		return nil, nil
	}
	return []events.Event{events.PostSyncCompleted{
		Generation: Generation(c.Run), Target: c.Target, MessageID: c.MessageID, Result: c.Result,
	}}, nil
}

// mayEnd: at_most_once ends what it has started, and once (HP-2); exactly_once goes on until it is completed (HP-3).
func (r Run) mayEnd(target string) bool {
	p, _ := r.Post(target)
	if r.ExactlyOnce() {
		return p.Status != PostCompleted
	}
	return p.Status == PostStarted
}

// FailPost says that the effect of a target failed. In at_most_once mode it is not tried again.
//
// In exactly_once mode one failure is recorded for each wakeup, under the id of its message, however often a transport
// delivers that: so the log stays short, and the count is that of wakeups which came to nothing (HP-3, REC-10).
type FailPost struct {
	Run       events.RunID
	Target    string
	MessageID string
	Sent      bool // as in CompletePost
	Category  events.Category
	Text      string
}

func (FailPost) Name() string              { return "fail_post" }
func (c FailPost) Stream() events.StreamID { return events.RunStream(c.Run) }
func (FailPost) Fresh() bool               { return false }

func (c FailPost) decide(s State) ([]events.Event, *Rejection) {
	r := s.(Run)
	if rejection := r.expectsEnd(c.Name(), c.Target, c.Sent); rejection != nil {
		return nil, rejection
	}
	if p, _ := r.Post(c.Target); !r.mayEnd(c.Target) || p.Status == PostFailed && p.MessageID == c.MessageID {
		return nil, nil
	}
	return []events.Event{events.PostSyncFailed{
		Generation: Generation(c.Run), Target: c.Target, MessageID: c.MessageID, Category: c.Category, Text: c.Text,
	}}, nil
}
