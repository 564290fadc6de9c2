package towline

import (
	"context"
	"slices"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// Post is one post_sync effect that this caller has taken and must run, once.
type Post struct {
	Run        events.RunID
	Sync       string
	Target     Target
	Generation string
	MessageID  string
	Payload    PostPayload
}

// PostPayload says what a run has brought (K-5). Only what succeeded is in it, and it is never narrowed: with one open
// lower bound From is zero.
type PostPayload struct {
	Run        events.RunID `json:"run_id"`
	Generation string       `json:"generation"`
	Provider   string       `json:"provider"`
	Sources    []string     `json:"sources"`
	Datasets   []string     `json:"datasets"`
	From       time.Time    `json:"from,omitzero"`
	To         time.Time    `json:"to"`
}

// StartPost takes the effect of a target, in its own transaction, before it runs (HP-2). taken is false if it is not the
// caller's to run: a duplicate, or a message that should not exist. What a broker has made of the message's id does not
// matter: the log holds the one under which it was published.
func (e *Engine) StartPost(ctx context.Context, run events.RunID, target string) (p Post, taken bool, err error) {
	err = e.Transact(ctx, "", func(tx *Tx) error {
		p, taken = Post{}, false
		r, err := tx.Run(run)
		if err != nil {
			return err
		}
		g, err := tx.Register(run, events.KindPostSync)
		if err != nil {
			return err
		}
		id := decider.TargetMessageID(run, g.Closed, target)
		results, err := tx.Execute(decider.StartPost{Run: run, Target: target, MessageID: id, Marked: g.Closed > 0})
		if err != nil {
			return err
		}
		if results[0].Rejection != nil {
			e.tally.unexpectedPosts.Add(1)
			return nil //nolint:nilerr // a message that should not exist is counted and dropped
		}
		if taken = len(results[0].Events) > 0; !taken {
			e.tally.absorbed.Add(1)
			return nil
		}
		p = Post{Run: run, Sync: r.Plan.Sync, Generation: decider.Generation(run), MessageID: id}
		p.Target = e.target(r.Plan.Sync, target)
		p.Payload, err = tx.PostPayload(run)
		return err
	})
	return p, taken, err
}

func (e *Engine) target(sync, name string) Target {
	for _, t := range e.syncs.syncs[sync].PostSync.Targets {
		if t.Name == name {
			return t
		}
	}
	return Target{Name: name} // no longer configured: the handler says so in the failure
}

// CompletePost says that the effect is done.
func (e *Engine) CompletePost(ctx context.Context, p Post, result string) error {
	return e.settlePost(ctx, decider.CompletePost{
		Run: p.Run, Target: p.Target.Name, MessageID: p.MessageID, Result: CleanText(result, e.knobs.ErrorMaxBytes),
	})
}

// FailPost says that the effect failed. It is not tried again.
func (e *Engine) FailPost(ctx context.Context, p Post, c events.Category, text string) error {
	return e.settlePost(ctx, decider.FailPost{
		Run: p.Run, Target: p.Target.Name, MessageID: p.MessageID, Category: c, Text: CleanText(text, e.knobs.ErrorMaxBytes),
	})
}

func (e *Engine) settlePost(ctx context.Context, c decider.Command) error {
	return e.Transact(context.WithoutCancel(ctx), "", func(tx *Tx) error {
		_, err := tx.Execute(c)
		return err
	})
}

// PostPayload is built from the units that have succeeded, at the time of the publish (K-5).
func (t *Tx) PostPayload(run events.RunID) (PostPayload, error) {
	p := PostPayload{Run: run, Generation: decider.Generation(run)}
	brought, err := t.View().Brought(run)
	if err != nil {
		return p, err
	}
	for i, b := range brought {
		p.Provider = b.Provider
		if !slices.Contains(p.Sources, b.Source) {
			p.Sources = append(p.Sources, b.Source)
		}
		if !slices.Contains(p.Datasets, b.Dataset) {
			p.Datasets = append(p.Datasets, b.Dataset)
		}
		if i == 0 || !p.From.IsZero() && b.From.Before(p.From) {
			p.From = b.From // zero, an open start, is before any other and stays
		}
		if b.To.After(p.To) {
			p.To = b.To
		}
	}
	slices.Sort(p.Datasets)
	return p, nil
}
