package towline

import (
	"context"
	"slices"
	"time"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// Post is one post_sync effect that this caller has been asked to run. In at_most_once mode it has taken it, and must run
// it once. In exactly_once mode others may have been asked for it too: the effect commits with its Key in the once-ledger.
type Post struct {
	Run        events.RunID
	Sync       string
	Mode       events.DeliveryMode
	Target     Target
	Generation string // the same in every delivery
	MessageID  string // of the newest wakeup
	Payload    PostPayload
}

// Key names the effect in a once-ledger (K-6): it is that of the generation and target.
func (p Post) Key() string { return p.Generation + "." + p.Target.Name }

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

// PostInput is what a command reads on its standard input, as one JSON object.
type PostInput struct {
	Sync   string `json:"sync"`
	Target string `json:"target"`
	PostPayload
}

// Input is the PostInput of an effect.
func (p Post) Input() PostInput { return PostInput{p.Sync, p.Target.Name, p.Payload} }

// StartPost asks to run the effect of a target, in its own transaction, before it runs (HP-2, HP-3). taken is false if it
// is not the caller's to run: it is done, a duplicate, or a message that should not exist. In at_most_once mode the effect
// is the caller's from now on, once and for all. In exactly_once mode nothing is written: run it through the once-ledger,
// and report also if that says that another delivery has done it. What a broker has made of the message's id does not
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
		n, sent := g.Closed, g.LastDispatchedAt != 0 // closed by a resolve is not sent: not in this life of the store (O-17)
		if r.ExactlyOnce() {
			n = g.Claimed // its message is faster than its mark (HP-1)
			sent = n > 0
		}
		id := tx.InEpoch(decider.TargetMessageID(run, n, target))
		results, err := tx.Execute(decider.StartPost{Run: run, Target: target, MessageID: id, Sent: sent})
		if err != nil {
			return err
		}
		if results[0].Rejection != nil {
			e.tally.unexpectedPosts.Add(1)
			return nil //nolint:nilerr // a message that should not exist is counted and dropped
		}
		taken = len(results[0].Events) > 0 || r.ExactlyOnce() && slices.Contains(r.Outstanding(), target)
		if !taken {
			e.Absorb(events.KindPostSync)
			return nil
		}
		p = Post{
			Run: run, Sync: r.Plan.Sync, Mode: r.Plan.Policy.PostSync, Generation: decider.Generation(run), MessageID: id,
			Target: e.Target(r.Plan.Sync, target),
		}
		p.Payload, err = tx.PostPayload(run)
		return err
	})
	return p, taken, err
}

// Target is the configured target of a sync. One that is not configured has no action.
func (e *Engine) Target(sync, name string) Target {
	for _, t := range e.syncs.syncs[sync].PostSync.Targets {
		if t.Name == name {
			return t
		}
	}
	return Target{Name: name}
}

// CompletePost says that the effect is done; result is for people. A second word on it changes nothing.
func (e *Engine) CompletePost(ctx context.Context, p Post, result string) error {
	result = CleanText(result, e.inForce.Load().ErrorMaxBytes)
	return e.endPost(ctx, p, func(id string, sent bool) decider.Command {
		return decider.CompletePost{Run: p.Run, Target: p.Target.Name, MessageID: id, Sent: sent, Result: result}
	})
}

// FailPost says that the effect failed. In at_most_once mode it is not tried again. In exactly_once mode the first failure
// of each wakeup is recorded, and it is armed again until it is done, or has failed handler.max_deliveries times (REC-10).
func (e *Engine) FailPost(ctx context.Context, p Post, c events.Category, text string) error {
	text = CleanText(text, e.inForce.Load().ErrorMaxBytes)
	return e.endPost(ctx, p, func(id string, sent bool) decider.Command {
		return decider.FailPost{Run: p.Run, Target: p.Target.Name, MessageID: id, Sent: sent, Category: c, Text: text}
	})
}

// endPost records the end, in exactly_once mode under the id of the newest wakeup, which may have been taken since. It
// outlives ctx (L-11).
func (e *Engine) endPost(ctx context.Context, p Post, command func(id string, sent bool) decider.Command) error {
	return e.Transact(context.WithoutCancel(ctx), "", func(tx *Tx) error {
		id, sent := p.MessageID, false
		if p.Mode == events.ExactlyOnce {
			g, err := tx.Register(p.Run, events.KindPostSync)
			if err != nil {
				return err
			}
			id, sent = tx.InEpoch(decider.TargetMessageID(p.Run, g.Claimed, p.Target.Name)), g.Claimed > 0
		}
		results, err := tx.Execute(command(id, sent))
		if err == nil && results[0].Rejection != nil {
			e.tally.unexpectedPosts.Add(1)
		}
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
