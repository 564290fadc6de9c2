package decider

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

// StartPost takes the post_sync effect of one target, once in the life of the run (HP-2). A second message for it
// finds it taken: no events, and the caller must not run the effect.
type StartPost struct {
	Run       events.RunID
	Target    string
	MessageID string
	Marked    bool // its register holds an OutboxDispatched (HP-1)
}

func (StartPost) Name() string              { return "start_post" }
func (c StartPost) Stream() events.StreamID { return events.RunStream(c.Run) }
func (StartPost) Fresh() bool               { return false }

func (c StartPost) decide(s State) ([]events.Event, *Rejection) {
	r := s.(Run)
	if !r.Status.Terminal() || !c.Marked || !slices.Contains(r.Plan.Policy.Targets, c.Target) {
		return nil, &Rejection{Command: c.Name(), Reason: "unexpected: its run has not ended, its wakeup was not marked, or its target is none of the run's", Err: ErrInvalid}
	}
	if _, taken := r.Post(c.Target); taken {
		return nil, nil
	}
	return []events.Event{events.PostSyncStarted{Generation: Generation(c.Run), Target: c.Target, MessageID: c.MessageID}}, nil
}

// CompletePost says that the effect of a target is done.
type CompletePost struct {
	Run       events.RunID
	Target    string
	MessageID string
	Result    string
}

func (CompletePost) Name() string              { return "complete_post" }
func (c CompletePost) Stream() events.StreamID { return events.RunStream(c.Run) }
func (CompletePost) Fresh() bool               { return false }

func (c CompletePost) decide(s State) ([]events.Event, *Rejection) {
	if p, ok := s.(Run).Post(c.Target); !ok || p.Status != PostStarted {
		return nil, nil
	}
	return []events.Event{events.PostSyncCompleted{
		Generation: Generation(c.Run), Target: c.Target, MessageID: c.MessageID, Result: c.Result,
	}}, nil
}

// FailPost says that the effect of a target failed. In at_most_once mode it is not tried again.
type FailPost struct {
	Run       events.RunID
	Target    string
	MessageID string
	Category  events.Category
	Text      string
}

func (FailPost) Name() string              { return "fail_post" }
func (c FailPost) Stream() events.StreamID { return events.RunStream(c.Run) }
func (FailPost) Fresh() bool               { return false }

func (c FailPost) decide(s State) ([]events.Event, *Rejection) {
	if p, ok := s.(Run).Post(c.Target); !ok || p.Status != PostStarted {
		return nil, nil
	}
	return []events.Event{events.PostSyncFailed{
		Generation: Generation(c.Run), Target: c.Target, MessageID: c.MessageID, Category: c.Category, Text: c.Text,
	}}, nil
}
