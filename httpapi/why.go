package httpapi

import (
	"context"
	"strings"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/ident"
	"github.com/towline-dev/towline/projections"
)

func (s *Server) whyRun(ctx context.Context, in *runInput) (*Answer[Explanation], error) {
	id, err := s.findRun(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return s.why(ctx, in.AtSeq, ident.Thing{Noun: ident.NounRun, Run: id})
}

// why asks the engine, which knows the present alone.
func (s *Server) why(ctx context.Context, at AtSeq, thing ident.Thing) (*Answer[Explanation], error) {
	if at.AtSeq != 0 {
		return nil, newProblem(CodeInvalidRequest, "why is about the present: what a thing waited for depends on caps and configuration of that time").withField("at_seq").
			withFix("leave at_seq out, or read the unit and its events at that position")
	}
	asking, done := detached(ctx, writeTime)
	defer done()
	w, err := s.engine().Why(asking, thing.WhyID())
	if err != nil {
		return nil, err
	}
	answer, err := view(ctx, s, AtSeq{}, func(v projections.View) (Explanation, error) {
		out := s.explain(w)
		err := addWindow(v, thing, &out)
		return out, err
	})
	answer.ETag = "" // it goes by the clock, too
	return answer, err
}

func (s *Server) explain(w towline.Why) Explanation {
	r := w.Reason
	out := Explanation{
		Of: w.Of, ID: w.ID, State: w.Status, Reason: string(r.Why), On: r.On, NeedsPerson: r.Why.NeedsPerson(), Since: r.Since.Time(),
		Counts: w.Counts, Evidence: []Evidence{}, Fix: fixOf(w),
	}
	if !r.Behind.IsZero() {
		out.Behind = r.Behind.String()
	}
	if w.Evidence.Position != 0 {
		out.Evidence = append(out.Evidence, Evidence(w.Evidence))
	}
	if waitsForWorker(r.Why) {
		out.NoWorker = s.noWorkerSince()
	}
	if r.Next != 0 {
		out.Next = &Next{At: r.Next.Time(), InMS: s.until(r.Next.Time()), What: nextOf(r.Why)}
	}
	return out
}

// fixOf is the command that ends what only a person can end.
func fixOf(w towline.Why) string {
	switch w.Reason.Why {
	case decider.WaitEnginePaused:
		return "towline resume --reason …"
	case decider.WaitSourcePaused:
		return "towline resume --source " + ident.Shell(w.Reason.On) + " --reason …"
	case decider.WaitUnconfigured:
		return "configure " + w.Reason.On + " again, or cancel the run: towline run cancel …"
	case decider.WaitOutboxParked, decider.WaitParked:
		return "towline outbox requeue " + entryOfWhy(w) + " --reason …"
	case decider.WaitUnresolved:
		return "towline outbox resolve " + entryOfWhy(w) + " --delivered | --lost --reason …"
	case decider.WaitRestoredHold:
		return "towline resume --after-restore"
	case decider.WaitEffectsHeld:
		return "mend what the action needs, then towline outbox requeue " + entryOfWhy(w)
	}
	return ""
}

// entryOfWhy is the alias of the outbox entry that a reason is about.
func entryOfWhy(w towline.Why) string {
	const short = 6
	kind := string(w.Reason.Kind)
	owner, _, _ := strings.Cut(w.ID, ":") // of a unit's alias
	if of, ok := strings.CutPrefix(w.ID, "outbox/"); ok {
		owner, kind, _ = strings.Cut(of, "/")
	}
	if kind == "" {
		return w.ID
	}
	if kind == string(events.KindMessage) {
		return owner + "/" + kind // whose short name is the whole one
	}
	return owner[max(len(owner)-short, 0):] + "/" + kind
}

// nextOf says what will have happened by the next time of a reason.
func nextOf(r decider.WaitReason) string {
	switch r {
	case decider.WaitRunning:
		return "its lease ends unless it is renewed"
	case decider.WaitRetryAt:
		return "its next attempt is due"
	case decider.WaitCooldown:
		return "the cooldown of its account ends"
	case decider.WaitForWorker:
		return "it is dispatched again if nobody has claimed it"
	case decider.WaitCapped:
		return "the dispatch looks for free slots again"
	case decider.WaitBreakerOpen:
		return "the transport is tried again"
	case decider.WaitPublish, decider.WaitDue, decider.WaitFinalizing:
		return "its wakeup is published"
	case decider.WaitClaimed:
		return "the claim of its wakeup ends"
	case decider.WaitEffectFailed:
		return "the effect is sent again"
	}
	return "it waits for something else"
}

// addWindow names the crash window in which a thing is (surfaces 0).
func addWindow(v projections.View, thing ident.Thing, out *Explanation) error {
	switch thing.Noun {
	case ident.NounUnit:
		u, ok, err := v.Unit(thing.Unit)
		if err == nil && ok {
			out.Window, out.MayRepeat = unitWindow(u), u.Status == events.UnitIsRunning
		}
		return err
	case ident.NounEntry, ident.NounRun:
		run := thing.Run
		if thing.Noun == ident.NounEntry {
			run = thing.Entry.Owner
		}
		registers, err := v.RegistersOf(run)
		for _, r := range registers {
			if thing.Noun == ident.NounEntry && r.Kind != thing.Entry.Kind || thing.Noun == ident.NounRun && r.Kind != events.KindPostSync {
				continue
			}
			out.Window = registerWindow(r)
			out.MayRepeat = r.Status == decider.RegisterClaimed || r.MaybePublished
			out.MayLose = out.Window == "W8"
		}
		if thing.Noun == ident.NounRun && out.Window == "" && err == nil {
			out.Window = runWindow(out.State)
		}
		return err
	}
	return nil
}

func unitWindow(u projections.SyncRunUnit) string {
	switch u.Status {
	case events.UnitIsPlanned, events.UnitIsRetrying:
		return "W1"
	case events.UnitIsDispatching:
		return "W4"
	case events.UnitIsRunning:
		return "W5" // W6 cannot be told from it: only the sink knows whether it has committed
	case events.UnitHasSucceeded, events.UnitHasFailed, events.UnitIsCancelled:
	}
	return "W7"
}

func registerWindow(r projections.Register) string {
	switch r.Status {
	case decider.RegisterPending, decider.RegisterParked:
		if r.MaybePublished {
			return "W3"
		}
		return "W1"
	case decider.RegisterClaimed:
		return "W2"
	case decider.RegisterMarked, decider.RegisterUnresolved:
		return "W8"
	case decider.RegisterIdle:
	}
	return "W4"
}

func runWindow(state string) string {
	if events.RunStatus(state).Terminal() {
		return "W7"
	}
	if state == string(events.RunIsPlanned) {
		return "W0"
	}
	return "W5"
}
