package towline

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/exactjson"
	"github.com/towline-dev/towline/projections"
)

// Worker is who claims a unit.
type Worker struct {
	Name   string // for people
	Remote bool   // over the API: the lease belongs to no incarnation and outlives our restarts (N-5)
	// Secret is random, and new for each request: the tokens of its leases are made of it, so who has sent it can ask for them
	// again (ClaimedAgain). Empty: they are random.
	Secret string
}

// token is that of a claim.
func (w Worker) token(t *Tx, unit events.UnitID, attempt int) events.Token {
	if w.Secret == "" {
		return t.NewToken()
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", w.Secret, unit, attempt))
	return events.Token(base64.RawURLEncoding.EncodeToString(sum[:16]))
}

// Lease is a worker's right to one attempt of one unit. Times are relative, so that a worker's clock does not matter.
type Lease struct {
	Unit       projections.SyncRunUnit // the row after the claim
	Sync       string
	Fence      events.Fence    // for sinks
	Store      string          // identity of the store whose fence it is: fences of two stores cannot be compared (HU-5)
	Token      events.Token    // the right to renew and to settle; never logged
	ExpiresIn  time.Duration   // until the lease ends if it is not renewed
	RenewEvery time.Duration   // a third of the lease
	Lifetime   time.Duration   // until the absolute end
	State      json.RawMessage // left by the last success of this source and dataset; nil: none
	Config     json.RawMessage // of the sync
}

// holder is what of a lease its settle needs. A transaction keeps what it closes over, and a lease is 856 bytes.
type holder struct {
	unit    events.UnitID
	run     events.RunID
	attempt int
	token   events.Token
	source  string
	members []string
}

func (l *Lease) holder() holder {
	return holder{unit: l.Unit.Unit, run: l.Unit.Run, attempt: l.Unit.Attempt, token: l.Token, source: l.Unit.Source, members: l.Unit.Members}
}

// Settle says how an attempt ends: Completed, Failed or HandedBack.
type Settle interface {
	command(t *Tx, h holder, run decider.Run) decider.Command
}

// Completed ends a unit well (U-7).
type Completed struct{ Result events.Result }

// Failed ends a unit badly, or schedules its next attempt: of any category if the run's policy allows it (U-8, U-10), and
// of events.RateLimit within the budget of the rate limit, whatever the policy says (U-9, RL-2).
type Failed struct {
	Category events.Category
	Text     string // it is redacted and cut before it is stored (E-3)
	Result   events.Result
	// After is how long a rate limit asks to wait; zero: rate_limit.default_wait. It is cut to what is left of
	// rate_limit.max_wait.
	After time.Duration
	// Account is whose rate limit it is, if sources share one, by a name that is no secret; at most 200 bytes are kept.
	// Empty: the source has a limit of its own. While it is in force no unit of a source that has reported it is
	// dispatched (RL-5).
	Account string
}

// HandedBack gives a unit back without using up a retry (U-16).
type HandedBack struct{ Reason string }

func (s Completed) command(t *Tx, h holder, run decider.Run) decider.Command {
	return decider.CompleteUnit{
		Unit: h.unit, At: t.now, RunOpen: run.Open(), Attempt: h.attempt, Token: h.token,
		Grace: t.hot.Grace(h.unit), Result: s.Result,
		Watermarks: t.hot.Watermarks(h.source, h.members),
	}
}

func (s Failed) command(t *Tx, h holder, run decider.Run) decider.Command {
	return decider.FailUnit{
		Unit: h.unit, At: t.now, RunOpen: run.Open(), Attempt: h.attempt, Token: h.token,
		Grace: t.hot.Grace(h.unit), Category: s.Category,
		Text: CleanText(s.Text, t.e.inForce.Load().ErrorMaxBytes), Result: s.Result, Policies: run.Plan.Policy.Retry,
		Limit: decider.RateLimit{
			After: events.SpanOf(s.After), Account: CleanText(s.Account, maxAccountBytes), MaxDeferrals: t.e.inForce.Load().maxDeferrals(),
			MaxWait: t.e.inForce.Load().maxWait(), Default: events.SpanOf(t.e.inForce.Load().RateLimitDefaultWait), Stepped: t.hot.Stepped(),
		},
	}
}

// maxAccountBytes bounds the name of an account, which becomes part of a key.
const maxAccountBytes = 200

func (s HandedBack) command(t *Tx, h holder, run decider.Run) decider.Command {
	return decider.HandBackUnit{
		Unit: h.unit, At: t.now, RunOpen: run.Open(), Attempt: h.attempt, Token: h.token,
		Grace: t.hot.Grace(h.unit), Reason: CleanText(s.Reason, t.e.inForce.Load().ErrorMaxBytes-decider.HandBackRoom), Backoff: t.e.inForce.Load().Backoff(),
	}
}

// Claim takes the only live lease of a unit (U-5). It commits before it returns, so the caller may start to work.
// Errors: ErrNotClaimable (also a duplicate, and a unit that does not exist), ErrTooEarly, ErrUnavailable.
func (e *Engine) Claim(ctx context.Context, unit events.UnitID, w Worker) (Lease, error) {
	var lease Lease
	var rejected error
	err := e.Transact(ctx, "", func(tx *Tx) (err error) {
		lease, rejected, err = tx.claim(unit, w)
		return err
	})
	if err != nil {
		return Lease{}, err // what was decided did not come to be
	}
	return lease, rejected
}

// Complete settles a unit well (U-7). A caller that no longer holds the lease gets ErrLeaseLost, and its result is on
// record as late (U-19). The settle outlives ctx: a finished result is not lost with its request (L-11).
// Other errors: ErrInvalid, ErrUnavailable.
func (e *Engine) Complete(ctx context.Context, l Lease, r events.Result) error {
	return e.Settle(ctx, l, Completed{r})
}

// Fail settles a unit badly (U-8), or schedules its next attempt (U-9, U-10). A rate limit that says how long to wait, or
// whose it is, is settled with Settle and a Failed. Errors as Complete.
func (e *Engine) Fail(ctx context.Context, l Lease, c events.Category, text string) error {
	return e.Settle(ctx, l, Failed{Category: c, Text: text})
}

// Release hands a unit back; no retry is used up (U-16). Errors as Complete.
func (e *Engine) Release(ctx context.Context, l Lease, reason string) error {
	return e.Settle(ctx, l, HandedBack{reason})
}

// Settle ends the attempt of a lease. Errors: ErrLeaseLost, ErrInvalid, ErrUnavailable.
func (e *Engine) Settle(ctx context.Context, l Lease, s Settle) error {
	s, err := storable(s)
	if err != nil {
		return err
	}
	var rejected error
	h := l.holder()
	err = e.Transact(context.WithoutCancel(ctx), "", func(tx *Tx) (err error) {
		rejected, err = tx.settle(h, s)
		return err
	})
	if err != nil {
		return err
	}
	return rejected
}

// SettleAndClaim ends one attempt and claims the next unit of the same worker in one transaction, which halves the
// commits of a busy worker (U-5). The two are decided apart: a settle that is refused does not undo the claim, nor the
// other way round. Both errors are as those of Settle and Claim; a fault is in both.
func (e *Engine) SettleAndClaim(ctx context.Context, l Lease, s Settle, next events.UnitID, w Worker) (lease Lease, settled, claimed error) {
	if s, settled = storable(s); settled != nil {
		lease, claimed = e.Claim(context.WithoutCancel(ctx), next, w)
		return lease, settled, claimed
	}
	h := l.holder()
	err := e.Transact(context.WithoutCancel(ctx), "", func(tx *Tx) (err error) {
		if settled, err = tx.settle(h, s); err != nil {
			return err
		}
		lease, claimed, err = tx.claim(next, w)
		return err
	})
	if err != nil {
		return Lease{}, err, err
	}
	return lease, settled, claimed
}

// Renew moves the end of the lease (U-6), and returns it with its times anew. It writes at most once per third of the
// lease, however often it is called. ErrLeaseLost: stop, and write nothing more; it is ErrCancelled, too, if an operator has
// cancelled the unit or its run.
func (e *Engine) Renew(ctx context.Context, l Lease) (Lease, error) {
	leases := []Lease{l}
	lost, err := e.RenewAll(ctx, leases)
	if err != nil {
		return l, err
	}
	return leases[0], lost[0]
}

// RenewAll renews the leases of one node that fall due together, in one transaction (HU-3). There is one error per
// lease: as that of Renew, or nil, and then its times in leases are those in force now, whether or not there was anything to
// write. An error as a whole, ErrUnavailable or ErrStopped, has changed nothing.
func (e *Engine) RenewAll(ctx context.Context, leases []Lease) ([]error, error) {
	var lost []error
	var renewed []Lease
	err := e.Transact(context.WithoutCancel(ctx), "", func(tx *Tx) error {
		lost, renewed = make([]error, len(leases)), slices.Clone(leases)
		for i := range renewed {
			rejected, err := tx.renew(&renewed[i])
			if err != nil {
				return err
			}
			lost[i] = rejected
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	copy(leases, renewed)
	return lost, nil
}

func (t *Tx) renew(l *Lease) (rejected, err error) {
	run, err := t.Run(l.Unit.Run)
	if err != nil {
		return nil, err
	}
	grace := t.hot.Grace(l.Unit.Unit)
	results, err := t.Execute(decider.RenewLease{
		Unit: l.Unit.Unit, At: t.now, RunOpen: run.Open(), Attempt: l.Unit.Attempt, Token: l.Token,
		Lease: run.Plan.Policy.Lease, Grace: grace,
	})
	if err != nil {
		return nil, err
	}
	if r := results[0].Rejection; r != nil {
		return t.lost(l.Unit.Unit, r)
	}
	u, err := t.Unit(l.Unit.Unit)
	if err != nil {
		return nil, err
	}
	left, lifetime := u.Lease.Left(t.now, grace)
	l.ExpiresIn, l.Lifetime = left.Std(), lifetime.Std()
	return nil, nil
}

// maxWorkerBytes bounds the name of a worker, which comes from outside.
const maxWorkerBytes = 200

func (t *Tx) claim(id events.UnitID, w Worker) (Lease, error, error) {
	if t.Held() {
		return Lease{}, &decider.Rejection{Command: "claim_unit", Reason: "restored hold", Err: ErrRestoredHold}, nil
	}
	u, err := t.Unit(id)
	if err != nil {
		return Lease{}, nil, err
	}
	run, err := t.Run(u.Plan.Run)
	if err != nil {
		return Lease{}, nil, err
	}
	if missing := t.missing(run, u); !w.Remote && missing != "" {
		return Lease{}, &decider.Rejection{Command: "claim_unit", Reason: missing + " is not configured here", Err: ErrNotClaimable}, nil
	}
	stale := events.SpanOf(t.e.inForce.Load().Stale)
	messageGone := t.hot.MessageGone(id)
	c := decider.ClaimUnit{
		Unit: id, At: t.now, RunOpen: run.Open(), Token: w.token(t, id, u.Attempt+1), Lease: run.Plan.Policy.Lease,
		Lifetime: run.Plan.Policy.Lifetime, Remote: w.Remote, Worker: boundText(w.Name, maxWorkerBytes), StaleAfter: stale, MessageGone: messageGone,
		SlotFree: true,
	}
	if u.Stale(t.now, stale, messageGone) {
		c.SlotFree = t.hot.Room(u.Plan.Run, t.now).Admits(u.Bucket(), u.Suspect)
	}
	results, err := t.Execute(c)
	if err != nil {
		return Lease{}, nil, err
	}
	if r := results[0].Rejection; r != nil {
		return Lease{}, r, nil
	}
	lease, err := t.lease(id, run)
	return lease, nil, err
}

// missing is what of a unit this node is not configured for; empty: nothing (HU-1, X-9).
func (t *Tx) missing(run decider.Run, u decider.Unit) string {
	if !run.Exists() {
		return ""
	}
	return t.e.syncs.missing(run.Plan.Sync, u.Plan.Provider, u.Plan.Source, u.Plan.Dataset)
}

func (t *Tx) lease(id events.UnitID, run decider.Run) (Lease, error) {
	u, err := t.Unit(id)
	if err != nil {
		return Lease{}, err
	}
	l := Lease{
		Unit: projections.UnitOf(u), Sync: run.Plan.Sync, Fence: events.NewFence(t.hot.Epoch(), u.Claimed), Store: t.e.origin.String(), Token: u.Lease.Token,
		ExpiresIn: u.Lease.ExpiresAt.Sub(t.now).Std(), RenewEvery: run.Plan.Policy.Lease.Std() / 3,
		Lifetime: u.Lease.EndsAt.Sub(t.now).Std(), Config: t.e.syncs.syncs[run.Plan.Sync].Config,
	}
	if t.hot.HasState(u.Plan.Source, u.Plan.Dataset) {
		l.State, err = t.View().LeftState(u.Plan.Source, u.Plan.Dataset)
	}
	return l, err
}

func (t *Tx) settle(h holder, s Settle) (rejected, err error) {
	run, err := t.Run(h.run)
	if err != nil {
		return nil, err
	}
	results, err := t.Execute(s.command(t, h, run))
	if err != nil {
		return nil, err
	}
	if r := results[0].Rejection; r != nil {
		return t.lost(h.unit, r)
	}
	return nil, nil
}

// lost says to a worker whose write was refused whether an operator has cancelled its unit.
func (t *Tx) lost(unit events.UnitID, r *decider.Rejection) (rejected, err error) {
	u, err := t.Unit(unit)
	if err != nil || u.Cancelled == "" {
		return r, err
	}
	return fmt.Errorf("%w: %w", ErrCancelled, r), nil
}

// storable is s in the form in which the log gives it back, so that a view and its rebuild are equal (I-26).
func storable(s Settle) (Settle, error) {
	var err error
	switch settle := s.(type) {
	case Completed:
		settle.Result, err = storableResult(settle.Result)
		return settle, err
	case Failed:
		if !slices.Contains(events.Reported, settle.Category) { // a word of the caller's own
			settle.Text = string(settle.Category) + ": " + settle.Text
			settle.Category = events.ProviderError
		}
		settle.Result, err = storableResult(settle.Result)
		return settle, err
	}
	return s, nil
}

// CheckResult says whether the log can take a result: a caller asks before its sink commits what belongs to it. ErrInvalid
// names the field.
func CheckResult(r events.Result) error {
	_, err := storableResult(r)
	return err
}

func storableResult(r events.Result) (events.Result, error) {
	if err := checkText("result.fingerprint", r.Fingerprint, events.MaxFingerprintBytes); err != nil {
		return r, err
	}
	for _, part := range []struct {
		field string
		json  *json.RawMessage
	}{{"state", &r.State}, {"detail", &r.Detail}} {
		if len(*part.json) == 0 {
			*part.json = nil // an empty one that is not nil is no JSON
			continue
		}
		var stored bytes.Buffer
		if err := json.Compact(&stored, *part.json); err != nil || !utf8.Valid(stored.Bytes()) {
			return r, invalid("result."+part.field, "it is not JSON", "")
		}
		if err := exactjson.Check(stored.Bytes(), part.field); err != nil { // a worker in another language reads it, too
			return r, invalid("result", err.Error(), "name each key once, write numbers of more than 64 bits as text, and nest no deeper than 64")
		}
		*part.json = stored.Bytes()
	}
	if n := len(r.State) + len(r.Detail); n > events.MaxResultBytes {
		return r, invalid("result", fmt.Sprintf("state and detail are %d bytes", n), fmt.Sprintf("keep them to %d together", events.MaxResultBytes))
	}
	return r, nil
}
