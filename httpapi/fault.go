package httpapi

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/ident"
	"github.com/towline-dev/towline/query"
	"github.com/towline-dev/towline/store"
)

var problemStruct = reflect.TypeFor[Problem]()

// fault is the problem of an error. What no case knows is a defect: it is logged, and its text stays here.
func (s *Server) fault(ctx context.Context, err error) *Problem {
	p := problemOf(err)
	if p.Code == CodeStoreUnavailable && s.engine().ReadOnly() {
		p.Detail = "the store cannot be read now: " + err.Error()
		p.Fix = "ask again; if an engine has just been started on it, it answers itself"
	}
	if p.Code == CodeInternal {
		path, _ := ctx.Value(pathKey{}).(string)
		s.logger.Error("a request has failed", "path", path, "error", err)
	}
	s.complete(ctx, p)
	return p
}

// complete adds what a problem says of its request.
func (s *Server) complete(ctx context.Context, p *Problem) {
	p.Instance, _ = ctx.Value(pathKey{}).(string)
	if p.Seq == 0 {
		p.Seq = s.head(ctx)
	}
}

// storeRetry is after how long a store that could not write may be asked again.
const storeRetry = time.Second

func problemOf(err error) *Problem {
	var (
		problem  *Problem
		name     *ident.Error
		search   *query.Error
		id       *events.IDError
		request  *towline.RequestError
		tooMany  *towline.PlanTooLargeError
		full     *towline.DiskBudgetError
		exists   *towline.RunExistsError
		rejected *decider.Rejection
	)
	switch {
	case errors.As(err, &problem):
		return problem
	case errors.As(err, &name):
		return problemOfName(name)
	case errors.As(err, &id):
		return newProblem(CodeBadRequest, id.Error()).withField(id.Noun)
	case errors.As(err, &search):
		return newProblem(CodeInvalidRequest, search.Error()).withField("where").withFix(search.Fix)
	case errors.As(err, &exists):
		p := newProblem(CodeRunExists, exists.Error())
		p.Holder = &Holder{ID: exists.Run, Alias: exists.Run.Short(), Self: runPath(exists.Run)}
		return p.withFix("towline run watch " + exists.Run.Short() + ", or towline run cancel " + exists.Run.Short())
	case errors.As(err, &full):
		return newProblem(CodeDiskBudget, full.Error())
	case errors.As(err, &tooMany):
		return newProblem(CodePlanTooLarge, tooMany.Error())
	case errors.Is(err, towline.ErrKeyReused):
		return newProblem(CodeKeyReused, err.Error()).withField("Idempotency-Key")
	case errors.Is(err, towline.ErrLeaseLost):
		p := newProblem(CodeLeaseLost, "the lease is no longer yours")
		p.Reason = lostReason(err)
		return p
	case errors.Is(err, towline.ErrRestoredHold):
		return newProblem(CodeRestoredHold, "the store was restored, and hands out nothing until an operator releases it")
	case errors.Is(err, towline.ErrNotClaimable), errors.Is(err, towline.ErrTooEarly):
		p := newProblem(CodeNotClaimable, "the unit is not waiting for a worker")
		if errors.Is(err, towline.ErrTooEarly) {
			p = newProblem(CodeTooEarly, "the unit waits for its next attempt")
		}
		if errors.As(err, &rejected) {
			p.Detail = rejected.Reason
		}
		return p
	case errors.As(err, &request):
		return problemOfRequest(request)
	case errors.Is(err, towline.ErrReadOnly):
		return newProblem(CodeReadOnly, "this is a file that is read, and no running engine")
	case isUnavailable(err):
		return newProblem(CodeStoreUnavailable, "the store cannot be written now, and nothing was accepted").after(storeRetry)
	}
	return newProblem(CodeInternal, "the request met something that must not happen")
}

func isUnavailable(err error) bool {
	for _, known := range []error{
		towline.ErrUnavailable, towline.ErrMoved, towline.ErrStopped, store.ErrClosed, store.ErrLocked, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

func problemOfName(e *ident.Error) *Problem {
	code := CodeBadRequest
	if errors.Is(e, ident.ErrUnknown) {
		code = CodeNotFound
	}
	p := newProblem(code, e.Error()).withField("id")
	if code == CodeNotFound {
		p = p.withFix(listsOf[e.Noun])
	}
	p = p.withFix(e.Fix)
	p.Candidates = e.Candidates
	return p
}

func problemOfRequest(e *towline.RequestError) *Problem {
	code := CodeInvalidRequest
	switch {
	case errors.Is(e, towline.ErrNotFound):
		code = CodeNotFound
	case errors.Is(e, towline.ErrSourcePaused):
		code = CodeSourcePaused
	case errors.Is(e, towline.ErrConflict):
		code = CodeConflict
	}
	p := newProblem(code, e.Error()).withField(fieldNames[e.Field].or(e.Field))
	if code == CodeNotFound {
		p = p.withFix(listsOf[e.Field])
	}
	return p.withFix(e.Fix)
}

// fieldNames are those of the engine that are called otherwise here.
var fieldNames = map[string]fieldName{"by.reason": "reason", "by.name": "Towline-Actor", "key": "Idempotency-Key", "position": "at_seq", "register": "id", "run": "id", "unit": "id", "schedule": "id"}

type fieldName string

func (f fieldName) or(name string) string {
	if f == "" {
		return name
	}
	return string(f)
}

// Why a lease is lost, as workers are told (surfaces 5.4).
const (
	lostExpired   = "expired"
	lostTakenOver = "taken_over"
	lostCancelled = "cancelled"
	lostRunEnded  = "run_ended"
)

func lostReason(err error) string {
	var rejected *decider.Rejection
	if errors.Is(err, towline.ErrCancelled) {
		return lostCancelled
	}
	if errors.As(err, &rejected) {
		switch events.LateReason(rejected.Reason) {
		case events.LateRunTerminal:
			return lostRunEnded
		case events.LateAttemptOld:
			return lostTakenOver
		case events.LateLeaseLost, events.LateUnitTerminal:
		}
	}
	return lostExpired
}
