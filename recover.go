package towline

import (
	"context"
	"errors"
	"fmt"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// decisionsPerTransaction bounds how many things one transaction of the reconciler decides (REC-6).
const decisionsPerTransaction = 100

// Expired says what became of expired leases.
type Expired struct {
	Failed, Retried, Exhausted int
}

// ExpireLeases decides units whose lease was found to have ended (REC-6). Each is decided from its stream: one that was
// settled or renewed since is left alone. If one of them cannot be decided, the others are, one by one, and the error
// names it.
func (e *Engine) ExpireLeases(ctx context.Context, found []projections.LeaseCursor) (Expired, error) {
	x, err := e.expire(ctx, found)
	if err == nil || len(found) == 1 || errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
		return x, err
	}
	var errs []error
	for _, one := range found {
		y, err := e.expire(ctx, []projections.LeaseCursor{one})
		if err != nil {
			errs = append(errs, fmt.Errorf("unit %s: %w", one.Unit, err))
			continue
		}
		x.Failed, x.Retried, x.Exhausted = x.Failed+y.Failed, x.Retried+y.Retried, x.Exhausted+y.Exhausted
	}
	return x, errors.Join(errs...)
}

func (e *Engine) expire(ctx context.Context, found []projections.LeaseCursor) (x Expired, err error) {
	err = e.Transact(ctx, "", func(tx *Tx) error {
		x = Expired{}
		for _, f := range found {
			u, err := tx.Unit(f.Unit)
			if err != nil {
				return err
			}
			run, err := tx.Run(u.Plan.Run)
			if err != nil {
				return err
			}
			results, err := tx.Execute(decider.ExpireLease{
				Unit: f.Unit, At: tx.now, RunOpen: run.Open(), NodeGone: tx.Gone(u.Lease.Node), Policies: run.Plan.Policy.Retry,
			})
			if err != nil {
				return err
			}
			x.count(results[0].Events)
		}
		return nil
	})
	if err != nil {
		return Expired{}, err
	}
	return x, nil
}

func (x *Expired) count(envs []events.Envelope) {
	for _, env := range envs {
		switch e := env.Event.(type) {
		case events.UnitRetryScheduled:
			x.Retried++
		case events.UnitFailed:
			if e.Category == events.WorkerLostExhausted {
				x.Exhausted++
			} else {
				x.Failed++
			}
		}
	}
}

// ReleaseClaims releases claims that have expired or belong to a gone incarnation, and records the outcome of marked
// wakeups that can have none any more as unknown (REC-13, O-12, O-14). It returns how many registers it changed.
func (e *Engine) ReleaseClaims(ctx context.Context) (int, error) {
	n, after := 0, projections.Key{}
	for {
		var page []projections.Key
		err := e.View(ctx, func(v projections.View) (err error) {
			page, err = v.DeadClaims(e.Now(), after, decisionsPerTransaction)
			return err
		})
		if err != nil || len(page) == 0 {
			return n, err
		}
		changed := 0
		err = e.Transact(ctx, "", func(tx *Tx) error {
			changed = 0
			for _, k := range page {
				done, err := tx.endClaim(k)
				if err != nil {
					return err
				}
				if done {
					changed++
				}
			}
			return nil
		})
		n += changed
		if err != nil {
			return n, err
		}
		after = page[len(page)-1]
	}
}

// endClaim releases a dead claim, or records what is missing of a marked one.
func (t *Tx) endClaim(k projections.Key) (bool, error) {
	r, err := t.Register(k.Owner, k.Kind)
	if err != nil {
		return false, err
	}
	run, err := t.Run(k.Owner)
	if err != nil {
		return false, err
	}
	gone := t.Gone(r.Claim.Node)
	if r.Status == decider.RegisterMarked {
		if !gone && r.Claim.ExpiresAt > t.now {
			return false, nil
		}
		return t.loseOutcomes(run, r)
	}
	cause := events.ReleaseClaimExpired
	if gone {
		cause = events.ReleaseIncarnationGone
	}
	results, err := t.Execute(decider.ReleaseWakeup{
		Owner: k.Owner, Kind: k.Kind, Mode: run.Plan.Policy.PostSync, At: t.now, Cause: cause, NodeGone: gone,
		Counted: true, MaybePublished: true, Backoff: t.e.knobs.Backoff(), MaxAttempts: t.e.knobs.MaxAttempts,
		Drop: t.Owing(run, r.Current).Drop(k.Kind),
	})
	return err == nil && len(results[0].Events) > 0, err
}

// loseOutcomes says of every target of a marked wakeup that has no outcome that nobody knows it (C-22, C-23).
func (t *Tx) loseOutcomes(run decider.Run, r decider.Register) (bool, error) {
	changed := false
	for _, target := range run.Plan.Policy.Targets {
		results, err := t.Execute(decider.RecordOutcome{
			Owner: run.ID, Kind: r.Kind, N: r.Closed, Target: target, Outcome: events.Unknown, Cause: events.OutcomeRelayDied,
		})
		if err != nil {
			return changed, err
		}
		changed = changed || len(results[0].Events) > 0
	}
	return changed, nil
}
