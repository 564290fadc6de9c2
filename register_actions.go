package towline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// RegisterKey names a register of the outbox: its owner and its kind. projections.Register.Key makes one of a listed
// register.
type RegisterKey = projections.Key

// MessageRegister is the register of an application message; its owner is the message and no run.
func MessageRegister(id events.MessageID) RegisterKey {
	return RegisterKey{Owner: events.RunID(id), Kind: events.KindMessage}
}

// Park stops the publish of a register's pending wakeup until it is redriven, or until a new change arms the register
// (O-21). A wakeup that waits behind it takes its place. The reconciler never arms what is parked: a run whose finalize is
// parked stays open. by needs a name and a reason.
//
// It is for wakeups that wait: of a broker that is away or refuses them, and those that were planned before the node runs.
// On a node that runs and publishes, a register is pending for milliseconds and then idle, and a Park comes too late; what
// holds back work there is PauseSource or PauseEngine.
//
// Errors, each of which has written nothing: *RequestError, which is ErrInvalid, ErrNotFound, or ErrConflict for a register
// that is not pending, whose run has ended, or whose kind is delivered at most once; ErrUnavailable.
func (e *Engine) Park(ctx context.Context, key RegisterKey, by Actor) error {
	by, err := e.operatorWithReason(by)
	if err != nil {
		return err
	}
	return e.onRegister(ctx, key, by, func(tx *Tx, o owner) error {
		return tx.act("register", decider.ParkWakeup{
			Owner: key.Owner, Kind: key.Kind, Mode: o.mode, N: o.register.Current, Over: o.over, Reason: by.Reason,
		}, "")
	})
}

// Redrive publishes what is parked after all, and sends exactly_once effects again that are held, or have failed and would
// be sent again only behind post_sync.redrive_after: the next wakeup of the register is armed now, under a new message id,
// the same generation, and with no attempt used (O-18). by needs a name; a reason is recorded if there is one.
//
// Errors, each of which has written nothing: *RequestError, which is ErrInvalid, ErrNotFound, or ErrConflict for a register
// that is neither parked nor idle behind a failed effect, whose run has ended, or whose kind is delivered at most once;
// ErrUnavailable.
func (e *Engine) Redrive(ctx context.Context, key RegisterKey, by Actor) error {
	by, err := e.operator(by)
	if err != nil {
		return err
	}
	return e.onRegister(ctx, key, by, func(tx *Tx, o owner) error {
		return tx.act("register", decider.RedriveWakeup{
			Owner: key.Owner, Kind: key.Kind, Mode: o.mode, At: tx.now, Over: o.over, Failed: o.failed, Reason: by.Reason,
		}, "")
	})
}

// Resolve records what the caller found out about a publish of which nobody knew: events.ResolvedDelivered or
// events.ResolvedLost, for one target of an unresolved post_sync (O-17). Either way nothing is sent, and with the last
// unknown target the register waits for nobody any more. by needs a name and a reason.
//
// In a restored hold a post_sync in mode at_most_once that still waits is resolved, too: it may have been sent in the earlier
// life of the store, and with the word on it it never is again. It is resolved as a whole; target is empty, or the one that
// there is.
//
// Errors, each of which has written nothing: *RequestError, which is ErrInvalid, ErrNotFound, or ErrConflict for a register
// that is not unresolved or a target that is not unknown; ErrUnavailable.
func (e *Engine) Resolve(ctx context.Context, key RegisterKey, target string, outcome events.Resolution, by Actor) error {
	by, err := e.operatorWithReason(by)
	if err != nil {
		return err
	}
	if outcome != events.ResolvedDelivered && outcome != events.ResolvedLost {
		return invalid("outcome", fmt.Sprintf("%q is none", outcome), "use delivered or lost")
	}
	return e.onRegister(ctx, key, by, func(tx *Tx, o owner) error {
		pending := tx.Held() && o.register.Status == decider.RegisterPending
		if pending && target != "" && !slices.Equal(o.targets, []string{target}) {
			return &RequestError{
				Field: "target", Problem: "the wakeup was not marked before the backup, so it is resolved as a whole", Fix: "leave target out", Kind: ErrConflict,
			}
		}
		if _, known := o.register.Outcome(target); !known && o.register.Status == decider.RegisterUnresolved {
			return &RequestError{Field: "target", Problem: fmt.Sprintf("there is no target %q", target), Fix: oneOf(o.targets), Kind: ErrNotFound}
		}
		return tx.act("register", decider.ResolveWakeup{
			Owner: key.Owner, Kind: key.Kind, Target: target, Outcome: outcome, Held: tx.Held(), Mode: o.mode, Actor: by.Name, Reason: by.Reason,
		}, "")
	})
}

// owner is what a register's owner says of it.
type owner struct {
	register decider.Register
	mode     events.DeliveryMode
	targets  []string
	over     bool // nothing is owed to it: its run has ended, its effects are done, or its message is settled
	failed   bool // an effect of it has, and is not done (REC-10)
}

func (e *Engine) onRegister(ctx context.Context, key RegisterKey, by Actor, action func(*Tx, owner) error) error {
	if !slices.Contains(events.Kinds[:], key.Kind) {
		return invalid("kind", fmt.Sprintf("%q is none", key.Kind), "use one of "+kinds())
	}
	return e.Transact(ctx, by.Name, func(tx *Tx) error {
		o, err := tx.ownerOf(key)
		if err != nil {
			return err
		}
		return action(tx, o)
	})
}

func kinds() string {
	var names []string
	for _, k := range events.Kinds {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// ownerOf reads a register that exists, and what its owner says of it.
func (t *Tx) ownerOf(key RegisterKey) (o owner, err error) {
	if o.register, err = t.Register(key.Owner, key.Kind); err != nil {
		return o, err
	}
	if o.register.Status == "" {
		return o, &RequestError{Field: "register", Problem: "there is no register " + key.String(), Kind: ErrNotFound}
	}
	if key.Kind == events.KindMessage {
		over, err := t.dropMessage(events.MessageID(key.Owner))
		o.over = over != ""
		return o, err
	}
	run, err := t.Run(key.Owner)
	if err != nil {
		return o, err
	}
	o.mode, o.targets = run.Plan.Policy.PostSync, run.Plan.Policy.Targets
	o.over = !run.Open()
	if key.Kind == events.KindPostSync { // it is owed behind the end of its run
		_, o.failed = run.FailedPost()
		o.over = run.Effects() == decider.EffectsDone
	}
	return o, nil
}
