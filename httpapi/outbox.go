package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/ident"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/query"
)

type entryInput struct {
	ID string `path:"id" doc:"OWNER.KIND, OWNER.KIND.N, or RUN/KIND#N percent-encoded"`
	AtSeq
}

type entriesInput struct {
	Page
	AtSeq
}

type resolveInput struct {
	ID   string `path:"id" doc:"OWNER.KIND, OWNER.KIND.N, or RUN/KIND#N percent-encoded"`
	Body Resolve
}

type entryActionInput struct {
	ID   string `path:"id" doc:"OWNER.KIND, OWNER.KIND.N, or RUN/KIND#N percent-encoded"`
	Body Why
}

func (s *Server) outboxOperations() {
	Register(s, huma.Operation{Method: http.MethodGet, Path: "/v1/outbox", Summary: "List outbox entries, those of the newest owners first"}, nil, s.listEntries)
	Register(s, huma.Operation{Method: http.MethodGet, Path: "/v1/outbox/{id}", Summary: "One outbox entry"}, []string{CodeNotFound}, s.getEntry)
	Register(s, huma.Operation{Method: http.MethodGet, Path: "/v1/outbox/{id}/why", Summary: "Why an outbox entry is no further"}, []string{CodeNotFound}, s.whyEntry)
	Register(s, huma.Operation{
		Method: http.MethodPost, Path: "/v1/outbox/{id}/resolve", Summary: "Say what became of a publish of which nobody knows",
		Description: "Nothing is sent, whatever the outcome.",
	}, []string{CodeNotFound, CodeConflict}, s.resolveEntry)
	Register(s, huma.Operation{
		Method: http.MethodPost, Path: "/v1/outbox/{id}/requeue", DefaultStatus: http.StatusAccepted, Summary: "Publish what is parked after all",
	}, []string{CodeNotFound, CodeConflict}, s.requeueEntry)
}

func (s *Server) findEntry(ctx context.Context, name string) (k projections.Key, n int, err error) {
	err = s.engine().View(ctx, func(v projections.View) error {
		k, n, err = ident.Entry(v, name)
		return err
	})
	return k, n, err
}

func (s *Server) getEntry(ctx context.Context, in *entryInput) (*Answer[Entry], error) {
	k, n, err := s.findEntry(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return s.showEntry(ctx, k, n, in.AtSeq)
}

// showEntry shows a register. A wakeup that it has not reached is not found; an older one is shown as the register is now.
func (s *Server) showEntry(ctx context.Context, k projections.Key, n int, at AtSeq) (*Answer[Entry], error) {
	return view(ctx, s, at, func(v projections.View) (Entry, error) {
		registers, err := registersOf(v, k, at)
		if err != nil {
			return Entry{}, err
		}
		for _, r := range registers {
			if r.Kind != k.Kind || n > max(r.Current, r.Next) {
				continue
			}
			out := entryOf(r)
			if k.Kind == events.KindPostSync {
				run, _, err := v.Run(k.Owner)
				out.Guarantee = string(run.Policy.PostSync)
				return out, err
			}
			return out, nil
		}
		return Entry{}, noSuch(ident.NounEntry, ident.EntryID(k, n))
	})
}

// registersOf are those of an owner. A past knows the registers of a run by its streams; that of a message it finds where the
// owner stands in the list.
func registersOf(v projections.View, k projections.Key, at AtSeq) ([]projections.Register, error) {
	if k.Kind != events.KindMessage || at.AtSeq == 0 {
		return v.RegistersOf(k.Owner)
	}
	const behindEveryKind = "~"
	found, err := v.FindRegisters(nil, projections.Key{Owner: k.Owner, Kind: behindEveryKind}, 1)
	return slices.DeleteFunc(found.Rows, func(r projections.Register) bool { return r.Owner != k.Owner }), err
}

func (s *Server) whyEntry(ctx context.Context, in *entryInput) (*Answer[Explanation], error) {
	k, n, err := s.findEntry(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return s.why(ctx, in.AtSeq, ident.Thing{Noun: ident.NounEntry, Entry: k, Wakeup: n})
}

func (s *Server) listEntries(ctx context.Context, in *entriesInput) (*Answer[List[Entry]], error) {
	var before projections.Key
	if in.After != "" {
		if err := readKey(in.After, &before); err != nil {
			return nil, badCursor()
		}
	}
	return list(ctx, s, query.Outbox, in.Page, in.AtSeq, func(v projections.View, terms []projections.Term) (List[Entry], error) {
		found, err := v.FindRegisters(terms, before, in.Limit)
		return listOf(found.Rows, entryOf, found.More, ident.EntryID(found.Next, 0)), err
	})
}

// readKey reads the cursor of a list of entries: OWNER.KIND with a whole ULID.
func readKey(text string, k *projections.Key) (err error) {
	const ulid = 26
	if len(text) < ulid+2 || text[ulid] != '.' {
		return fmt.Errorf("%q is no cursor", text)
	}
	k.Kind = events.Kind(text[ulid+1:])
	k.Owner, err = events.ParseRunID(text[:ulid])
	return err
}

func (s *Server) resolveEntry(ctx context.Context, in *resolveInput) (*Answer[Entry], error) {
	k, n, err := s.findEntry(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	target := in.Body.Target
	if target == "" {
		if target, err = s.onlyUnknown(ctx, k); err != nil {
			return nil, err
		}
	}
	writing, done := detached(ctx, writeTime)
	defer done()
	if err := s.engine().Resolve(writing, k, target, in.Body.Outcome, s.by(ctx, in.Body.Reason)); err != nil {
		return nil, err
	}
	return s.showEntry(writing, k, n, AtSeq{})
}

// onlyUnknown is the target of which nobody knows, if there is one; with several of them the caller must say which.
func (s *Server) onlyUnknown(ctx context.Context, k projections.Key) (target string, err error) {
	shown, err := s.showEntry(ctx, k, 0, AtSeq{})
	if err != nil {
		return "", err
	}
	var unknown []string
	for _, t := range shown.Body.Targets {
		if t.Outcome == string(events.Unknown) && t.Resolved == "" {
			unknown = append(unknown, t.Target)
		}
	}
	if len(unknown) > 1 {
		return "", newProblem(CodeInvalidRequest, fmt.Sprintf("%d targets are unknown: %v", len(unknown), unknown)).withField("target").withFix("name one of them")
	}
	if len(unknown) == 1 {
		target = unknown[0]
	}
	return target, nil // of none the engine says what state it is in
}

func (s *Server) requeueEntry(ctx context.Context, in *entryActionInput) (*Answer[Entry], error) {
	k, _, err := s.findEntry(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	writing, done := detached(ctx, writeTime)
	defer done()
	if err := s.engine().Redrive(writing, k, s.by(ctx, in.Body.Reason)); err != nil {
		return nil, err
	}
	return s.showEntry(writing, k, 0, AtSeq{})
}
