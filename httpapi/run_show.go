package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/ident"
	"github.com/towline-dev/towline/projections"
)

// accepted shows a run that was just planned. If it cannot be read, the answer is what is known of it, and no fault: who was told
// that nothing was accepted would start the run a second time. known is what the request says.
func (s *Server) accepted(ctx context.Context, planned towline.Planned, known Run) *Accepted {
	out := &Accepted{Status: http.StatusAccepted, Location: runPath(planned.Run)}
	if planned.Replayed {
		out.Replayed = "true"
	}
	shown, err := s.showRun(context.WithoutCancel(ctx), planned.Run, AtSeq{})
	if err != nil {
		s.logger.Warn("a run was accepted and cannot be read; it is answered as it was planned", "run", planned.Run, "error", err)
		out.Body = asPlanned(planned, known)
		return out
	}
	out.Seq, out.Body = shown.Seq, shown.Body
	return out
}

// asPlanned is a run of which nothing can be read: what its request has said, and what was planned.
func asPlanned(planned towline.Planned, known Run) Run {
	known.ID, known.Alias, known.Job, known.State, known.Units = planned.Run, planned.Run.Short(), planned.Job, events.RunIsPlanned, planned.Units
	for _, l := range planned.LeftOut {
		known.LeftOut = append(known.LeftOut, LeftOut{Source: l.Source, Reason: l.Reason})
	}
	known.Links = linksOf(planned.Run)
	return known
}

func (s *Server) findRun(ctx context.Context, name string) (id events.RunID, err error) {
	err = s.engine().View(ctx, func(v projections.View) error {
		id, err = ident.Run(v, name)
		return err
	})
	return id, err
}

func (s *Server) showRun(ctx context.Context, id events.RunID, at AtSeq) (*Answer[Run], error) {
	return view(ctx, s, at, func(v projections.View) (Run, error) {
		row, ok, err := v.Run(id)
		if err != nil {
			return Run{}, err
		}
		if !ok {
			return Run{}, noSuch(ident.NounRun, id.String())
		}
		out := runOf(row)
		if !row.Status.Terminal() {
			if out.Dispatch, err = s.dispatchOf(v, id); err != nil {
				return Run{}, err
			}
		}
		if at.AtSeq != 0 {
			return out, nil // who retried it is a fold of the whole log
		}
		const most = 20
		retries, err := v.RetriesOf(id, most)
		for _, r := range retries {
			out.Retries = append(out.Retries, r.Run)
		}
		return out, err
	})
}

func noSuch(noun, id string) error {
	return newProblem(CodeNotFound, fmt.Sprintf("there is no %s %s", noun, id)).withField("id").withFix(listsOf[noun])
}

// listsOf are the words by which somebody finds the right name of a thing, where it is not a run, which the page of not_found
// names.
var listsOf = map[string]string{
	ident.NounUnit:    "list what there is, for example with `towline unit list`",
	ident.NounEntry:   "list what there is, for example with `towline outbox list`",
	ident.NounMessage: "list what there is, for example with `towline outbox list --where kind:message`",
	"schedule":        "look at what there is with `towline schedule list`; a sync has one if `schedule` stands in its section of towline.yaml",
}

// dispatchOf is how far the wakeup is that starts the units of a run.
func (s *Server) dispatchOf(v projections.View, run events.RunID) (*Dispatch, error) {
	registers, err := v.RegistersOf(run)
	if err != nil {
		return nil, err
	}
	for _, r := range registers {
		if r.Kind != events.KindDispatch {
			continue
		}
		d := &Dispatch{
			Entry: ident.EntryAlias(r.Key(), r.Current), State: string(r.Status), Transport: s.c.Node.Transport(r.Kind), Attempts: r.Attempts, Error: r.LastText,
		}
		if r.Status == decider.RegisterPending && !r.AvailableAt.IsZero() {
			d.NextTryMS = s.until(r.AvailableAt)
		}
		return d, s.addBreaker(v, r, d)
	}
	return nil, nil
}

func (s *Server) addBreaker(v projections.View, r projections.Register, d *Dispatch) error {
	breakers, err := v.OpenBreakers()
	for _, b := range breakers {
		if b.Node == s.engine().Node() && b.Transport == d.Transport {
			d.Breaker, d.Since, d.Error = "open", b.OpenedAt, b.Cause
			d.NextTryMS = max(s.until(b.Until), s.until(r.AvailableAt))
		}
	}
	return err
}

// until is how many milliseconds a time lies ahead; 0: it does not.
func (s *Server) until(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(t.Sub(s.engine().Now().Time()).Milliseconds(), 0)
}

const maxWait = time.Minute

// preferredWait reads wait=SECONDS of RFC 7240; what else is preferred is not heard.
func preferredWait(header string) (time.Duration, string, error) {
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if !strings.EqualFold(name, "wait") {
			continue
		}
		seconds, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31)
		if err != nil {
			return 0, "", newProblem(CodeBadRequest, fmt.Sprintf("wait=%q is no number of seconds", value)).withField("Prefer")
		}
		wait := min(time.Duration(seconds)*time.Second, maxWait)
		return wait, fmt.Sprintf("wait=%d", int(wait.Seconds())), nil
	}
	return 0, "", nil
}

// waitForEnd comes back when the run has ended, the time is over, the client has gone or the server stops.
func (s *Server) waitForEnd(ctx context.Context, run events.RunID, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	stop := context.AfterFunc(s.stopping, cancel)
	defer stop()
	_, _ = s.engine().Wait(ctx, run) // whatever ends it, the state of the run is read behind it
}
