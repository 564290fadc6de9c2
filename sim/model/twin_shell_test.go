package model

import (
	"fmt"
	"slices"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// The shells of the engine, in the twin: dispatch and refill, the relay, the reconciler, handlers and operators.

// dispatch is spec 10.1. limit 0 is the handler, any other a refill.
func (w *twin) dispatch(run, limit int) {
	paused := w.paused(events.EngineControlStream())
	if r := w.run(run); r.Open() && !paused && w.NeverStarted {
		w.giveUp(run)
	}
	d := decider.Dispatch{
		Run: w.run(run), Now: w.now, Paused: paused, Waiting: w.waiting(run), Room: w.room(), Later: w.Later(runID(run)),
		OpenUnits: w.OpenUnits(runID(run)), Wakeup: w.reg(run, events.KindUnit).Announce(), StaleAfter: span.stale,
		Limit: limit, Refill: limit > 0,
	}
	cmds, _ := d.Plan()
	w.execute(cmds...)
}

func (w *twin) giveUp(run int) {
	room := w.room()
	for _, c := range w.waiting(run).Stale {
		if room.Fits(c.Bucket) && decider.IsNeverStarted(c.Dispatches, c.FirstDispatchedAt, w.now, span.neverStarted) {
			w.execute(decider.FailNeverStarted{
				Unit: c.Unit, At: w.now, RunOpen: true, StaleAfter: span.stale, MessageGone: c.MessageGone, NeverStarted: span.neverStarted,
			})
		}
	}
}

// refill is B-6.
func (w *twin) refill() {
	if len(w.freed) == 0 {
		return
	}
	run, ok := -1, false
	for _, own := range w.freed {
		if !ok && w.fitsIn(place(own)) {
			run, ok = place(own), true
		}
	}
	if !ok {
		if run, ok = w.oldestWithRoom(); !ok {
			run = -1
		}
	}
	freed := slices.Clone(w.freed)
	if ok {
		w.dispatch(run, len(freed))
	}
	for _, own := range slices.Compact(freed) {
		if place(own) != run {
			w.net(place(own))
		}
	}
	if oldest, ok := w.oldestWithRoom(); ok {
		w.execute(w.arm(oldest, events.KindDispatch, w.now, events.ArmSlotFreed))
	}
}

func (w *twin) net(run int) {
	next := w.Later(runID(run))
	capped := w.now.Add(span.countdown)
	if w.owing(run, 0).Owes(events.KindDispatch) && (next.At == 0 || capped < next.At) {
		next = decider.Later{At: capped, Cause: events.ArmCapped}
	}
	if next.At != 0 {
		w.execute(w.arm(run, events.KindDispatch, next.At, next.Cause))
	}
}

// perform does what a transition of the model does, as far as the log hears of it. world is the state before it, from which
// the twin reads what the world does: what a relay has met, and whether a message is there.
func (w *twin) perform(t transition, world *state) {
	run, i := int(t.run), int(t.unit)
	k := kindNames[t.kind]
	y := &w.relays[t.relay]
	switch t.do {
	case relayClaims:
		w.claim(y, run, k)
	case relayConcludes:
		w.conclude(y, world.relays[t.relay].met, t.with == 1)
	case relaySheds:
		cause := events.ReleaseShed
		if world.breakerOpen {
			cause = events.ReleaseBreakerOpen
		}
		w.execute(w.release(y, cause))
	case relayMarks:
		w.execute(w.mark(y, w.Targets))
	case relayRecords:
		w.record(y, world, run)

	case deliverDispatch:
		w.dispatch(run, 0)
	case deliverUnit:
		w.claimUnit(i)
	case deliverFinalize:
		w.execute(decider.FinalizeRun{Run: runID(run), Counts: w.counts(run)})
	case deliverPost:
		w.startPost(run, int(t.target))
	case workerSettles:
		w.settle(i, int(t.attempt), result(t.with))
	case effectEnds:
		w.endPost(run, int(t.target), ending(t.with))

	case reconcileLease:
		u := w.unit(i)
		w.execute(decider.ExpireLease{
			Unit: unitID(i), At: w.now, RunOpen: w.run(w.runNumber(i)).Open(), NodeGone: w.gone[u.Lease.Node],
			Policies: w.run(w.runNumber(i)).Plan.Policy.Retry,
		})
	case reconcileClaim:
		w.releaseDead(run, k)
	case reconcileOutcomes:
		for t := range w.Targets {
			w.execute(w.outcome(run, t, events.Unknown))
		}
	case reconcileEffect:
		p, _ := w.run(run).Post(targetName(int(t.target)))
		w.execute(decider.LoseEffect{
			Owner: runID(run), Kind: events.KindPostSync, Target: p.Target, Begun: p.Status == decider.PostStarted, NodeGone: w.gone[p.Node],
		})
	case reconcileOwed:
		w.materialize(run, k)
	case processDies:
		w.start()
	default:
		w.operate(t)
	}
}

// operate does what an operator does.
func (w *twin) operate(t transition) {
	run, i := int(t.run), int(t.unit)
	k := kindNames[t.kind]
	switch t.do {
	case operatorCancelsRun:
		var cmds []decider.Command
		for i := range w.unitsOf(run) {
			if w.unit(i).Open() {
				cmds = append(cmds, decider.CancelUnit{Unit: unitID(i), RunOpen: true, Reason: events.CancelledWithRun})
			}
		}
		w.execute(cmds...)
		w.execute(decider.CancelRun{Run: runID(run), Counts: w.counts(run)})
	case operatorCancelsUnit:
		w.execute(decider.CancelUnit{Unit: unitID(i), RunOpen: w.run(w.runNumber(i)).Open(), Reason: events.CancelledAlone})
	case operatorReleasesUnit:
		r := w.run(w.runNumber(i))
		w.execute(decider.ReleaseUnit{Unit: unitID(i), At: w.now, RunOpen: r.Open(), Policies: r.Plan.Policy.Retry})
	case operatorPausesEngine:
		w.execute(decider.PauseEngine{})
	case operatorResumesEngine:
		w.execute(decider.ResumeEngine{})
		w.wake(func(int) bool { return true })
	case operatorPausesSource:
		w.execute(decider.PauseSource{Source: sourceName(0)})
	case operatorResumesSource:
		w.execute(decider.ResumeSource{Source: sourceName(0)})
		w.wake(func(i int) bool { return w.Units[i].Source == 0 })
	case operatorParks:
		r := w.reg(run, k)
		w.execute(decider.ParkWakeup{Owner: runID(run), Kind: k, Mode: w.mode(), N: r.Current, Over: w.isOver(run, k)})
	case operatorRedrives:
		_, failed := w.run(run).FailedPost()
		w.execute(decider.RedriveWakeup{
			Owner: runID(run), Kind: k, Mode: w.mode(), At: w.now, Over: w.isOver(run, k), Failed: k == events.KindPostSync && failed,
		})
	case operatorResolves:
		w.execute(decider.ResolveWakeup{
			Owner: runID(run), Kind: events.KindPostSync, Target: targetName(int(t.target)), Outcome: events.ResolvedLost,
		})
	}
}

func (w *twin) isOver(run int, k events.Kind) bool {
	if k == events.KindPostSync {
		return w.run(run).Effects() == decider.EffectsDone
	}
	return !w.run(run).Open()
}

// wake is.
func (w *twin) wake(waited func(i int) bool) {
	for run := range w.Runs {
		if !w.run(run).Open() {
			continue
		}
		waits := false
		for i := range w.unitsOf(run) {
			isRetry := w.unit(i).Status == events.UnitIsRetrying && !w.held(i)
			waits = waits || waited(i) && (w.offers(i) || isRetry)
		}
		at := w.now
		if !w.offersAny(run) {
			at = w.Later(runID(run)).At
		}
		if waits && at != 0 {
			w.execute(w.arm(run, events.KindDispatch, at, events.ArmResumed))
		}
	}
}

func (w *twin) claim(y *twinRelay, run int, k events.Kind) {
	r := w.reg(run, k)
	w.tokens++
	*y = twinRelay{runID(run), k, r.Current, events.Token(fmt.Sprint("claim", w.tokens))}
	w.execute(decider.ClaimWakeup{
		Owner: y.run, Kind: k, Mode: w.mode(), At: w.now, N: r.Current, Token: y.token, ExpiresAt: w.now.Add(span.claim), Messages: 1,
		MaxAttempts: int(w.MaxAttempts), Drop: w.owing(run, r.Current).Drop(k),
	})
}

func (w *twin) mark(y *twinRelay, messages int) decider.MarkWakeup {
	transport := "broker"
	if w.InProcess {
		transport = events.TransportLocal
	}
	return decider.MarkWakeup{
		Owner: y.run, Kind: y.kind, Mode: w.mode(), At: w.now, N: y.n, Token: y.token, Transport: transport, Messages: messages,
	}
}

func (w *twin) release(y *twinRelay, cause events.ReleaseCause) decider.ReleaseWakeup {
	return decider.ReleaseWakeup{
		Owner: y.run, Kind: y.kind, Mode: w.mode(), At: w.now, N: y.n, Token: y.token, Cause: cause, MaxAttempts: int(w.MaxAttempts),
		Backoff: decider.Backoff{Base: span.backoff, Cap: span.backoff}, Drop: w.owing(place(y.run), y.n).Drop(y.kind),
	}
}

// conclude is O-11: marked if all was accepted, else released.
func (w *twin) conclude(y *twinRelay, met meets, charged bool) {
	if met == metAccepted {
		w.execute(w.mark(y, 1))
		return
	}
	c := w.release(y, events.ReleaseRefused)
	if met.has(metUnknown) {
		c.Cause = events.ReleasePublishUnknown
	}
	c.Counted, c.MaybePublished, c.Permanent = true, met.has(metAccepted|metUnknown), met.has(metForEver)
	c.Failure = decider.Failure{Transport: "broker", Overtaken: charged}
	w.execute(c)
}

func (w *twin) outcome(run, target int, o events.Outcome) decider.Command {
	return decider.RecordOutcome{
		Owner: runID(run), Kind: events.KindPostSync, N: w.reg(run, events.KindPostSync).Closed, Target: targetName(target), Outcome: o,
	}
}

func (w *twin) record(y *twinRelay, world *state, run int) {
	for t := range w.Targets {
		o := map[outcome]events.Outcome{accepted: events.Accepted, refused: events.Refused, unknown: events.Unknown}[world.runs[run].posts[t].receipt]
		w.execute(decider.RecordOutcome{Owner: y.run, Kind: y.kind, N: y.n, Target: targetName(t), Outcome: o})
	}
}

func (w *twin) releaseDead(run int, k events.Kind) {
	r := w.reg(run, k)
	y := &twinRelay{run: runID(run), kind: k, n: r.Current}
	c := w.release(y, events.ReleaseClaimExpired)
	if c.NodeGone = w.gone[r.Claim.Node]; c.NodeGone {
		c.Cause = events.ReleaseIncarnationGone
	}
	w.execute(c)
}

func (w *twin) materialize(run int, k events.Kind) {
	r := w.reg(run, k)
	o := w.owing(run, 0)
	d := decider.Redrive{
		Now: w.now, Countdown: span.countdown, RedriveAfter: span.redrive, PostRedrive: span.redrive, Mode: w.mode(),
		CloserGone: w.gone[r.ClosedBy], UnitLost: o.UnitLost, Room: w.fitsIn(run),
	}
	if o.Owes(k) && d.Materialize(k, r) {
		w.execute(w.arm(run, k, w.now, events.ArmMaterialized))
	}
}

func (w *twin) claimUnit(i int) {
	u, r := w.unit(i), w.run(w.runNumber(i))
	c := decider.ClaimUnit{
		Unit: unitID(i), At: w.now, RunOpen: r.Open(), Token: leaseToken(i, u.Attempt+1), Lease: span.lease, Lifetime: span.lifetime,
		Remote: !w.Exclusive, StaleAfter: span.stale, MessageGone: w.messageGone(i), SlotFree: true,
	}
	if w.isStale(i) {
		c.SlotFree = w.room().Admits(u.Bucket(), u.Suspect)
	}
	w.execute(c)
}

func leaseToken(i, attempt int) events.Token {
	return events.Token(fmt.Sprint("lease", i, ".", attempt))
}

func (w *twin) settle(i, attempt int, as result) {
	open := w.run(w.runNumber(i)).Open()
	token := leaseToken(i, attempt)
	switch as {
	case succeeds:
		w.execute(decider.CompleteUnit{Unit: unitID(i), At: w.now, RunOpen: open, Attempt: attempt, Token: token})
	case fails:
		w.execute(decider.FailUnit{Unit: unitID(i), At: w.now, RunOpen: open, Attempt: attempt, Token: token, Category: events.Auth})
	case isLimited:
		w.execute(decider.FailUnit{
			Unit: unitID(i), At: w.now, RunOpen: open, Attempt: attempt, Token: token, Category: events.RateLimit,
			Limit: decider.RateLimit{After: span.far, MaxDeferrals: maxAttempts, MaxWait: span.lifetime},
		})
	case handsBack:
		w.execute(decider.HandBackUnit{Unit: unitID(i), At: w.now, RunOpen: open, Attempt: attempt, Token: token})
	}
}

// postID is the message id of the newest wakeup that was sent.
func (w *twin) postID(run, target int) (id string, sent bool) {
	r := w.reg(run, events.KindPostSync)
	n := r.Closed
	if w.Mode == ExactlyOnce {
		n = r.Claimed
	}
	return decider.TargetMessageID(runID(run), n, targetName(target)), n > 0
}

func (w *twin) startPost(run, target int) {
	id, sent := w.postID(run, target)
	w.execute(decider.StartPost{Run: runID(run), Target: targetName(target), MessageID: id, Sent: sent})
}

func (w *twin) endPost(run, target int, e ending) {
	id, sent := w.postID(run, target)
	switch e {
	case effectSucceeds:
		w.execute(decider.CompletePost{Run: runID(run), Target: targetName(target), MessageID: id, Sent: sent})
	case effectFails:
		w.execute(decider.FailPost{Run: runID(run), Target: targetName(target), MessageID: id, Sent: sent, Category: events.HandlerFailed})
	}
}
