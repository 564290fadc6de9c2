package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/ident"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/wire"
)

// Health says that the process can answer. It is never tied to one row of work.
type Health struct {
	Status string `json:"status" enum:"ok"`
}

type (
	// Readiness is that of package wire.
	Readiness = wire.Readiness
	// Reason is that of package wire.
	Reason = wire.Reason
	// Loop is that of package wire.
	Loop = wire.Loop
)

// Version of the program and its node.
type Version struct {
	Version     string        `json:"version"`
	Incarnation events.NodeID `json:"incarnation" doc:"this start of the process"`
}

type (
	healthOutput  struct{ Body Health }
	versionOutput struct{ Body Version }
	readyOutput   struct {
		Status int
		Body   Readiness
	}
)

func (s *Server) healthOperations() {
	Register(s, huma.Operation{Method: http.MethodGet, Path: "/healthz", Summary: "The process can answer"}, nil, func(context.Context, *struct{}) (*healthOutput, error) {
		return &healthOutput{Health{"ok"}}, nil
	})
	Register(s, huma.Operation{Method: http.MethodGet, Path: "/version", Summary: "Version of the program"}, nil, func(context.Context, *struct{}) (*versionOutput, error) {
		return &versionOutput{Version{Version: s.c.Version, Incarnation: s.engine().Node()}}, nil
	})
	ready := huma.Operation{
		Method: http.MethodGet, Path: "/readyz", Summary: "The node does its work",
		Description: "503 only if the store cannot be written, also while the disk has refused a commit and none has succeeded since, or a loop of the engine, but for the one that archives, has had no success for health.stall_after and three intervals of the reconciler.",
	}
	Register(s, ready, nil, s.ready)
	responses := s.document.Paths[ready.Path].Get.Responses
	responses["503"] = &huma.Response{Description: "It does not", Content: responses["200"].Content}
}

func (s *Server) ready(ctx context.Context, _ *struct{}) (*readyOutput, error) {
	r := s.readiness(ctx)
	if callerOf(ctx).role == nobody {
		for i := range r.Reasons { // a stranger hears that something is wrong, and not of what
			r.Reasons[i].ID, r.Reasons[i].Text, r.Reasons[i].Fix = "", "", ""
		}
		for i := range r.Loops {
			r.Loops[i].Error = ""
		}
	}
	out := &readyOutput{Status: http.StatusOK, Body: r}
	if r.Status == "unavailable" {
		out.Status = http.StatusServiceUnavailable
	}
	return out, nil
}

const probeTime = 2 * time.Second

func (s *Server) readiness(ctx context.Context) Readiness {
	r := Readiness{Status: "ok", Reasons: []Reason{}, Loops: []Loop{}}
	down := func(reason Reason) { r.Status, r.Reasons = "unavailable", append(r.Reasons, reason) }
	asking, done := detached(ctx, probeTime)
	defer done()
	// A transaction that writes nothing: it takes the write lock, and leaves no trace on the disk.
	if s.engine().ReadOnly() {
		down(Reason{What: "not_running", Text: "the store is read without an engine", Fix: "towline up"})
	} else if err := s.engine().Transact(asking, "", func(*towline.Tx) error { return nil }); err != nil {
		down(Reason{What: "store_unavailable", Text: err.Error(), Fix: mustPage(CodeStoreUnavailable).Fix})
	} else if err := s.c.Node.Writable(asking); err != nil { // that transaction has asked nothing of the disk
		down(Reason{What: "store_unavailable", Text: err.Error(), Fix: mustPage(CodeStoreUnavailable).Fix})
	}
	s.loops(&r, down)
	known, err := s.conditions(asking)
	if err != nil && r.Status != "unavailable" {
		down(Reason{What: "store_unavailable", Text: err.Error(), Fix: mustPage(CodeStoreUnavailable).Fix})
	}
	if len(known) > 0 && r.Status == "ok" {
		r.Status = "degraded"
	}
	r.Reasons = append(r.Reasons, known...)
	return r
}

// stallAfter is how many intervals a loop may be without a success.
const stallAfter = 3

// stallLimit is for how long a loop may be without a success before the node counts as not ready.
func (s *Server) stallLimit() time.Duration {
	return max(stallAfter*s.engine().Knobs().ReconcileInterval, s.c.StallAfter)
}

func (s *Server) loops(r *Readiness, down func(Reason)) {
	limit := s.stallLimit()
	now := s.engine().Now().Time()
	list := s.c.Node.Loops()
	if len(list) == 0 {
		down(Reason{What: "not_running", Text: "the loops of the node have not begun", Fix: "wait for the end of the start"})
	}
	for _, l := range list {
		shown := Loop{Name: l.Name, LastSuccess: -1, Error: l.Error}
		if !l.LastSuccess.IsZero() {
			shown.LastSuccess = now.Sub(l.LastSuccess).Milliseconds()
		}
		if !l.FailingSince.IsZero() {
			shown.FailingMS = now.Sub(l.FailingSince).Milliseconds()
		}
		r.Loops = append(r.Loops, shown)
		silent := l.Name == "reconcile" && !l.LastSuccess.IsZero() && now.Sub(l.LastSuccess) > limit
		failing := !l.FailingSince.IsZero() && now.Sub(l.FailingSince) > limit
		if !silent && !failing {
			continue
		}
		stalled := Reason{What: "loop_stalled", ID: l.Name, Since: l.LastSuccess, Text: "its last success is too old: " + l.Error, Fix: "look at the log of the process; a restart loses nothing"}
		if l.Name != node.LoopPrune {
			down(stalled)
			continue
		}
		r.Reasons = append(r.Reasons, stalled) // no run waits for it
		if r.Status == "ok" {
			r.Status = "degraded"
		}
	}
}

// conditions are what a person should know, and what nobody needs to be woken for.
func (s *Server) conditions(ctx context.Context) (out []Reason, err error) {
	known, err := s.engine().Health(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range known {
		switch c.Name {
		case towline.RestoredHold:
			out = append(out, Reason{What: CodeRestoredHold, Text: c.Text, Fix: mustPage(CodeRestoredHold).Fix})
		case towline.ViewsIncomplete:
			out = append(out, Reason{What: "views_incomplete", Text: c.Text, Fix: "start a release that reads these events, or restore a backup; then run towline rebuild"})
		case towline.DiskBudget:
			out = append(out, Reason{What: CodeDiskBudget, Text: c.Text, Fix: mustPage(CodeDiskBudget).Fix})
		case towline.ScheduleWaits:
			out = append(out, Reason{What: towline.ScheduleWaits, ID: c.ID, Since: c.Since, Text: c.Text, Fix: "mend what its text says: most often, raise store.max_bytes or plan smaller runs"})
		default:
			out = append(out, Reason{What: "clock", ID: c.Name, Text: c.Text, Fix: "set the clock, or confirm that it is right: towline resume --clock-ok"})
		}
	}
	out = append(out, s.backup()...)
	err = s.engine().View(ctx, func(v projections.View) error {
		breakers, err := v.OpenBreakers()
		for _, b := range breakers {
			out = append(out, Reason{What: "breaker_open", ID: b.Transport, Since: b.OpenedAt, Text: b.Cause, Fix: "mend the transport; what waits for it follows by itself, and no attempt is used up"})
		}
		if err == nil {
			err = s.waiting(v, &out)
		}
		return err
	})
	return out, err
}

// backup names a regular backup that is long overdue, with its age.
func (s *Server) backup() []Reason {
	b := s.c.Node.BackupState()
	if now := time.Now(); b.Overdue(now) {
		text := "none was made yet"
		if !b.Newest.IsZero() {
			text = fmt.Sprintf("the newest is %s old, and one is due every %s", now.Sub(b.Newest).Round(time.Second), b.Every)
		}
		if b.Error != "" {
			text += ": " + b.Error
		}
		return []Reason{{What: "backup", Since: b.Newest, Text: text, Fix: "make room in store.backup.dir, or look at the log of the process"}}
	}
	return nil
}

// waiting adds entries that wait for a person, and the oldest that is overdue.
func (s *Server) waiting(v projections.View, out *[]Reason) error {
	const most = 20
	held, err := v.HeldRegisters(most)
	if err != nil {
		return err
	}
	for _, h := range held {
		alias := ident.EntryAlias(h.Key(), h.Current)
		switch h.Status {
		case "unresolved":
			*out = append(*out, Reason{What: "unresolved", ID: alias, Since: h.LastDispatched, Text: "nobody knows whether it was sent", Fix: "towline outbox resolve " + alias + " --delivered | --lost --reason …"})
		case "parked":
			*out = append(*out, Reason{What: "parked", ID: alias, Text: h.LastText, Fix: "towline outbox requeue " + alias + " --reason …"})
		}
	}
	effects, err := v.HeldEffects(events.RunID{}, most)
	if err != nil {
		return err
	}
	for _, r := range effects {
		*out = append(*out, Reason{What: "held", ID: r.Run.Short(), Text: "its post_sync has failed as often as its run allows", Fix: "towline outbox requeue " + r.Run.Short() + "/post_sync --reason …"})
	}
	due, err := v.OpenRegisters(1)
	if err != nil || len(due) == 0 {
		return err
	}
	if age := s.engine().Now().Time().Sub(due[0].AvailableAt); age > stallAfter*s.engine().Knobs().ReconcileInterval {
		alias := ident.EntryAlias(due[0].Key(), due[0].Current)
		*out = append(*out, Reason{What: "overdue", ID: alias, Since: due[0].AvailableAt, Text: fmt.Sprintf("it is due since %s", age.Round(time.Second)), Fix: "towline why " + alias})
	}
	return nil
}
