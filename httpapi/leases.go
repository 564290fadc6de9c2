package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/ident"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
	"github.com/towline-dev/towline/wire"
)

// The worker protocol (surfaces 5.4): claim, renew, and one of complete, fail and release. A lease is known by its token
// alone, which travels in the header Lease-Token and never in an address or a log (E-4). Times are relative, so the clock of
// a worker does not matter (CLK-5).

func (s *Server) leaseOperations() {
	Register(s, huma.Operation{
		Method: http.MethodPost, Path: "/v1/units/{id}/claim", Summary: "Claim the unit of a message",
		Description: "409 not_claimable: it is not yours. Settle the message and do nothing.",
	}, []string{CodeNotFound, CodeNotClaimable, CodeTooEarly, CodeRestoredHold}, s.claim)
	op := huma.Operation{
		Method: http.MethodPost, Path: "/v1/leases/claim", Summary: "Claim the next units, without a message",
		Description: "204: there was none until the end of wait_ms.",
	}
	Register(s, op, nil, s.claimAny)
	s.document.Paths[op.Path].Post.Responses["204"] = &huma.Response{Description: "no unit waits"}
	lost := []string{CodeLeaseLost}
	Register(s, huma.Operation{Method: http.MethodPost, Path: "/v1/leases/renew", Summary: "Renew a lease", Description: "410 lease_lost: stop, and write nothing more."}, lost, s.renew)
	Register(s, huma.Operation{Method: http.MethodPost, Path: "/v1/leases/complete", Summary: "End a unit well", Description: "410 lease_lost: it came too late, is kept as a late result, and changes nothing."}, lost, s.completeLease)
	Register(s, huma.Operation{Method: http.MethodPost, Path: "/v1/leases/fail", Summary: "End a unit badly, or schedule its next attempt"}, lost, s.failLease)
	Register(s, huma.Operation{Method: http.MethodPost, Path: "/v1/leases/release", Summary: "Hand a unit back; no retry is used up"}, lost, s.releaseLease)
}

// token is what a worker sends back: unit, attempt and secret, in one text that means nothing to it.
func tokenOf(l towline.Lease) string {
	return l.Unit.Unit.String() + "." + strconv.Itoa(l.Unit.Attempt) + "." + string(l.Token)
}

func leaseOf(l towline.Lease) Lease {
	u := l.Unit
	return Lease{
		Token: tokenOf(l), Unit: u.Unit, Alias: u.Alias, Run: u.Run, Attempt: u.Attempt, Fence: l.Fence, Store: l.Store,
		ExpiresInMS: l.ExpiresIn.Milliseconds(), RenewEveryMS: l.RenewEvery.Milliseconds(), LifetimeMS: l.Lifetime.Milliseconds(),
		Sync: l.Sync, Provider: u.Provider, Source: u.Source, Dataset: u.Dataset, Members: notNil(u.Members), Mode: u.Mode, Window: windowOf(u.Window),
		Surfaces: notNil(u.Surfaces), Fingerprint: u.Fingerprint, State: wire.AnyJSON(l.State), Config: wire.AnyJSON(l.Config),
	}
}

func (s *Server) claim(ctx context.Context, in *claimInput) (*leaseOutput, error) {
	id, err := s.findUnit(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	shown, err := s.showUnit(ctx, id, AtSeq{})
	if err != nil {
		return nil, err
	}
	writing, done := detached(ctx, writeTime)
	defer done()
	lease, err := s.engine().Claim(writing, id, towline.Worker{Name: in.Body.Worker, Remote: true})
	if err != nil {
		if p := problemOf(err); p.Code == CodeTooEarly {
			return nil, p.after(time.Duration(s.until(shown.Body.AvailableAt)) * time.Millisecond)
		}
		return nil, err
	}
	return &leaseOutput{leaseOf(lease)}, s.heard(ctx, lease)
}

// heard gives a lease back of which its worker will never hear, because it has hung up: else the unit would count as lost
// with a worker that never had it (HC-11).
func (s *Server) heard(ctx context.Context, lease towline.Lease) error {
	if ctx.Err() == nil {
		return nil
	}
	writing, done := detached(ctx, writeTime)
	defer done()
	return s.engine().Release(writing, lease, "its worker hung up before it heard of the claim")
}

func (s *Server) claimAny(ctx context.Context, in *claimAnyInput) (*leasesOutput, error) {
	b := in.Body
	known := func(l projections.Lane) bool {
		return has(b.Syncs, l.Sync) && has(b.Sources, l.Source) && has(b.Datasets, l.Dataset) && knows(b.Known, l)
	}
	asked := time.Now()
	client := ctx
	ctx, cancel := context.WithTimeout(ctx, time.Duration(b.WaitMS)*time.Millisecond)
	defer cancel()
	if b.Secret != "" {
		over, err := s.repeats.turn(client, b.Secret, cancel)
		if err != nil {
			return nil, err
		}
		defer over()
		lost, err := s.claimedAgain(client, b)
		if err != nil || lost != nil {
			return lost, err
		}
	}
	stop := context.AfterFunc(s.stopping, cancel)
	defer stop()
	var poll <-chan time.Time
	if s.engine().Shared() {
		ticker := time.NewTicker(pollShared)
		defer ticker.Stop()
		poll = ticker.C
	}
	for {
		heard := s.c.Node.Committed() // before the look, so that nothing falls between
		waited := time.Since(asked)
		leases, err := s.claimSome(ctx, b, known)
		if err != nil && s.stopsWith(ctx, err) {
			return &leasesOutput{Status: http.StatusNoContent}, nil
		}
		if err != nil {
			return nil, err
		}
		if len(leases) > 0 {
			out := &leasesOutput{Status: http.StatusOK, Body: &Leases{WaitedMS: waited.Milliseconds()}}
			for _, l := range leases {
				if err := s.heard(client, l); err != nil {
					return nil, err
				}
				out.Body.Leases = append(out.Body.Leases, leaseOf(l))
			}
			return out, nil
		}
		select {
		case <-heard:
		case <-poll:
		case <-ctx.Done():
			return &leasesOutput{Status: http.StatusNoContent}, nil
		}
	}
}

// stopsWith reports that a node has ended because all of the process stops, of which the node may have heard first. Then there is
// nothing to claim, and nothing is wrong.
func (s *Server) stopsWith(waiting context.Context, err error) bool {
	if !errors.Is(err, towline.ErrStopped) && !errors.Is(err, store.ErrClosed) {
		return false
	}
	<-waiting.Done()
	return s.stopping.Err() != nil
}

func has(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }

// claimedAgain are the leases of a request that is repeated; nil: it had got none.
func (s *Server) claimedAgain(ctx context.Context, b ClaimAny) (*leasesOutput, error) {
	asking, done := detached(ctx, writeTime)
	defer done()
	leases, err := s.engine().ClaimedAgain(asking, workerOf(b))
	if err != nil || len(leases) == 0 {
		return nil, err
	}
	out := &leasesOutput{Status: http.StatusOK, Body: &Leases{}}
	for _, l := range leases {
		out.Body.Leases = append(out.Body.Leases, leaseOf(l))
	}
	return out, nil
}

func workerOf(b ClaimAny) towline.Worker {
	return towline.Worker{Name: b.Worker, Remote: true, Secret: b.Secret}
}

// knows reports that a worker which names what it knows sync by sync knows a lane (HU-1).
func knows(known []Known, l projections.Lane) bool {
	return len(known) == 0 || slices.ContainsFunc(known, func(k Known) bool {
		return k.Sync == l.Sync && (k.Provider == "" || k.Provider == l.Provider) && has(k.Sources, l.Source) && has(k.Datasets, l.Dataset)
	})
}

// claimSome takes one lease after the other, each in a transaction of its own (U-5). What it has it keeps, whatever comes.
func (s *Server) claimSome(ctx context.Context, b ClaimAny, known func(projections.Lane) bool) (out []towline.Lease, err error) {
	for len(out) < max(b.Max, 1) {
		writing, done := detached(ctx, writeTime)
		lease, found, err := s.engine().ClaimNext(writing, workerOf(b), known)
		done()
		if err != nil && len(out) == 0 {
			return nil, err
		}
		if !found { // also behind an error: what it has it keeps
			break
		}
		out = append(out, lease)
	}
	return out, nil
}

// held reads the lease of a token. What it says of the unit never changes; whether it is still held is decided by the engine.
func (s *Server) held(ctx context.Context, text string) (towline.Lease, error) {
	unit, rest, _ := strings.Cut(text, ".")
	number, secret, _ := strings.Cut(rest, ".")
	id, idErr := events.ParseUnitID(unit)
	attempt, attemptErr := strconv.Atoi(number)
	if idErr != nil || attemptErr != nil || attempt < 1 || secret == "" {
		return towline.Lease{}, newProblem(CodeBadRequest, "Lease-Token is none: send lease_token of the claim as it was").withField("Lease-Token")
	}
	lease := towline.Lease{Token: events.Token(secret)}
	err := s.engine().View(ctx, func(v projections.View) error {
		u, ok, err := v.Unit(id)
		if err != nil || !ok {
			if err == nil {
				err = fmt.Errorf("%s %s: %w", ident.NounUnit, id, towline.ErrLeaseLost)
			}
			return err
		}
		run, _, err := v.Run(u.Run)
		u.Attempt = attempt
		lease.Unit, lease.RenewEvery = u, run.Policy.Lease.Std()/3
		return err
	})
	return lease, err
}

func (s *Server) renew(ctx context.Context, in *renewInput) (*renewedOutput, error) {
	lease, err := s.held(ctx, in.Token)
	if err != nil {
		return nil, err
	}
	writing, done := detached(ctx, writeTime)
	defer done()
	if lease, err = s.engine().Renew(writing, lease); err != nil {
		return nil, err
	}
	return &renewedOutput{Renewed{
		ExpiresInMS: lease.ExpiresIn.Milliseconds(), RenewEveryMS: lease.RenewEvery.Milliseconds(), LifetimeMS: lease.Lifetime.Milliseconds(),
	}}, nil
}

func (s *Server) completeLease(ctx context.Context, in *completeInput) (*settledOutput, error) {
	result, err := resultOf(in.Body.Result, in.Body.State)
	if err != nil {
		return nil, err
	}
	return s.settle(ctx, in.Token, towline.Completed{Result: result})
}

// resultOf is a result as it is stored. The state may stand beside it, or in it.
func resultOf(r Result, state json.RawMessage) (events.Result, error) {
	if len(state) > 0 && len(r.State) > 0 {
		return events.Result{}, newProblem(CodeInvalidRequest, "state stands twice").withField("state").withFix("give it beside result only")
	}
	if len(state) == 0 {
		state = r.State
	}
	return events.Result{Rows: r.Rows, Fingerprint: r.Fingerprint, State: orNone(state), Detail: orNone(r.Detail)}, nil
}

// orNone: null says that there is none.
func orNone(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

func (s *Server) failLease(ctx context.Context, in *failInput) (*settledOutput, error) {
	result, err := resultOf(in.Body.Result, nil)
	if err != nil {
		return nil, err
	}
	const most = math.MaxInt64 / int64(time.Millisecond) // a longer one would turn into a negative one, which is none
	return s.settle(ctx, in.Token, towline.Failed{
		Category: in.Body.Category, Text: in.Body.Detail, Result: result,
		After: time.Duration(min(in.Body.RetryAfterMS, most)) * time.Millisecond, Account: in.Body.Account,
	})
}

func (s *Server) releaseLease(ctx context.Context, in *releaseInput) (*settledOutput, error) {
	return s.settle(ctx, in.Token, towline.HandedBack{Reason: in.Body.Reason})
}

func (s *Server) settle(ctx context.Context, token string, how towline.Settle) (*settledOutput, error) {
	lease, err := s.held(ctx, token)
	if err != nil {
		return nil, err
	}
	writing, done := detached(ctx, writeTime)
	defer done()
	if err := s.engine().Settle(writing, lease, how); err != nil {
		return nil, err
	}
	return &settledOutput{Settled{Unit: lease.Unit.Unit, Attempt: lease.Unit.Attempt}}, nil
}
