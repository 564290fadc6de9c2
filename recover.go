package towline

import (
	"context"
	"errors"
	"slices"

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
// settled or renewed since is left alone. One that cannot be decided is left out, and the error names it.
func (e *Engine) ExpireLeases(ctx context.Context, found []projections.LeaseCursor) (Expired, error) {
	var x Expired
	name := func(f projections.LeaseCursor) string { return "unit " + f.Unit.String() }
	var errs []error
	for batch := range slices.Chunk(found, decisionsPerTransaction) {
		err := Apart(ctx, batch, name, func(rest []projections.LeaseCursor) error {
			for len(rest) > 0 {
				decided, y, err := e.expire(ctx, rest)
				if err != nil {
					return err
				}
				x = Expired{x.Failed + y.Failed, x.Retried + y.Retried, x.Exhausted + y.Exhausted}
				rest = rest[decided:]
			}
			return nil
		})
		errs = append(errs, err)
		if isAway(ctx, err) {
			break
		}
	}
	return x, errors.Join(errs...)
}

// commandsPerTransaction bounds what the decisions of one transaction may cause before it makes room for others: the
// reference unit of a large run that fails takes every work item of its source with it (U-13).
const commandsPerTransaction = 2000

// expire decides found leases in order, as many as a transaction should hold and at least one.
func (e *Engine) expire(ctx context.Context, found []projections.LeaseCursor) (decided int, x Expired, err error) {
	err = e.Transact(ctx, "", func(tx *Tx) error {
		decided, x = 0, Expired{}
		for _, f := range found {
			if tx.executed >= commandsPerTransaction {
				return nil
			}
			u, err := tx.Unit(f.Unit)
			if err != nil {
				return err
			}
			run, err := tx.Run(u.Plan.Run)
			if err != nil {
				return err
			}
			results, err := tx.Execute(decider.ExpireLease{
				Unit: f.Unit, At: tx.now, RunOpen: run.Open(), NodeGone: tx.Gone(u.Lease.Node), Grace: tx.hot.Grace(f.Unit),
				Policies: run.Plan.Policy.Retry,
			})
			if err != nil {
				return err
			}
			x.count(results[0].Events)
			decided++
		}
		return nil
	})
	return decided, x, err
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

// Released counts registers whose dead claim was ended.
type Released struct {
	Claims  int // that were released, parked or dropped
	Unknown int // that were marked, and of whose publish nobody will ever know
}

// ReleaseClaims releases claims that have expired or belong to a gone incarnation, and records the outcome of marked
// wakeups that can have none any more as unknown (REC-13, O-12, O-14). A register that cannot be decided is left out, and
// the error names it.
func (e *Engine) ReleaseClaims(ctx context.Context) (Released, error) {
	var all Released
	var errs []error
	for after := (projections.Key{}); ; {
		var page []projections.Key
		err := e.View(ctx, func(v projections.View) (err error) {
			page, err = v.DeadClaims(e.Now(), after, decisionsPerTransaction)
			return err
		})
		if err != nil || len(page) == 0 {
			return all, errors.Join(append(errs, err)...)
		}
		err = Apart(ctx, page, projections.Key.String, func(batch []projections.Key) error {
			released, err := e.endClaims(ctx, batch)
			if err == nil {
				all = Released{all.Claims + released.Claims, all.Unknown + released.Unknown}
			}
			return err
		})
		errs = append(errs, err)
		if isAway(ctx, err) {
			return all, errors.Join(errs...)
		}
		after = page[len(page)-1]
	}
}

func (e *Engine) endClaims(ctx context.Context, batch []projections.Key) (n Released, err error) {
	err = e.Transact(ctx, "", func(tx *Tx) error {
		n = Released{}
		for _, k := range batch {
			marked, changed, err := tx.endClaim(k)
			if err != nil {
				return err
			}
			switch {
			case changed && marked:
				n.Unknown++
			case changed:
				n.Claims++
			}
		}
		return nil
	})
	return n, err
}

// endClaim releases a dead claim, or records what is missing of a marked one.
func (t *Tx) endClaim(k projections.Key) (marked, changed bool, err error) {
	r, err := t.Register(k.Owner, k.Kind)
	if err != nil {
		return false, false, err
	}
	o, err := t.Obligation(k, r.Current)
	if err != nil {
		return false, false, err
	}
	gone := t.Gone(r.Claim.Node)
	if r.Status == decider.RegisterMarked {
		if !gone && t.givesUpAt(r) > t.now {
			return true, false, nil
		}
		changed, err = t.loseOutcomes(o.Run, r)
		return true, changed, err
	}
	cause := events.ReleaseClaimExpired
	if gone {
		cause = events.ReleaseIncarnationGone
	}
	results, err := t.Execute(decider.ReleaseWakeup{
		Owner: k.Owner, Kind: k.Kind, Mode: o.Mode(), At: t.now, Cause: cause, NodeGone: gone,
		Counted: true, MaybePublished: true, Backoff: t.e.inForce.Load().Backoff(), MaxAttempts: t.e.inForce.Load().MaxAttempts, Drop: o.Drop,
	})
	return false, err == nil && len(results[0].Events) > 0, err
}

// givesUpAt is when the outcome of a marked wakeup is given up as unknown, if its relay does not die before. A clock that is
// set forward must not make that look dead: a person would have to look for what is well (CLK-8).
func (t *Tx) givesUpAt(r decider.Register) events.Micros {
	return max(r.Claim.ExpiresAt, t.hot.Stepped().Add(events.SpanOf(t.e.inForce.Load().ClaimTTL)))
}

// Obligation is what stands behind a wakeup.
type Obligation struct {
	Run  decider.Run       // the owner; zero for kind message
	Drop events.DropReason // why it need not be published any more (O-8); empty: it must be
}

// Mode is the one in which the kind of the wakeup is delivered.
func (o Obligation) Mode() events.DeliveryMode { return o.Run.Plan.Policy.PostSync }

// Obligation reads what stands behind wakeup n of a register.
func (t *Tx) Obligation(k projections.Key, n int) (o Obligation, err error) {
	if k.Kind == events.KindMessage {
		o.Drop, err = t.dropMessage(events.MessageID(k.Owner))
		return o, err
	}
	if o.Run, err = t.Run(k.Owner); err == nil {
		o.Drop = t.Owing(o.Run, n).Drop(k.Kind)
	}
	return o, err
}

// LoseEffects says of at_most_once effects that had begun in an incarnation which is gone that nobody knows what became of
// them, so that a person looks (HP-5). n counts them. One that cannot be decided is left out, and the error names it.
func (e *Engine) LoseEffects(ctx context.Context) (n int, err error) {
	var errs []error
	for after := (projections.Begun{}); ; {
		var page []projections.Begun
		err := e.View(ctx, func(v projections.View) (err error) {
			page, err = v.LostEffects(after, decisionsPerTransaction)
			return err
		})
		if err != nil || len(page) == 0 {
			return n, errors.Join(append(errs, err)...)
		}
		err = Apart(ctx, page, projections.Begun.String, func(batch []projections.Begun) error {
			lost, err := e.loseEffects(ctx, batch)
			n += lost
			return err
		})
		errs = append(errs, err)
		if isAway(ctx, err) {
			return n, errors.Join(errs...)
		}
		after = page[len(page)-1]
	}
}

func (e *Engine) loseEffects(ctx context.Context, batch []projections.Begun) (n int, err error) {
	err = e.Transact(ctx, "", func(tx *Tx) error {
		n = 0
		for _, b := range batch {
			run, err := tx.Run(b.Run)
			if err != nil {
				return err
			}
			p, _ := run.Post(b.Target)
			results, err := tx.Execute(decider.LoseEffect{
				Owner: b.Run, Kind: events.KindPostSync, Target: b.Target,
				Begun: p.Status == decider.PostStarted, NodeGone: tx.Gone(p.Node),
			})
			if err != nil {
				return err
			}
			n += len(results[0].Events)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
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
