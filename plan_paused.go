package towline

import (
	"context"
	"fmt"
	"slices"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// A request that names no sources leaves paused ones out, and says so. One that names them is planned: its units are held
// until the resume. If all that was asked for is paused, there is nothing to plan, and the request is refused.

// withoutPaused looks before anything is listed, if something will be. The transaction of the plan looks again.
func (e *Engine) withoutPaused(ctx context.Context, req request) (request, error) {
	if e.lister == nil || !slices.ContainsFunc(req.datasets, Dataset.listed) {
		return req, nil
	}
	err := e.View(ctx, func(v projections.View) error {
		paused, err := v.Paused()
		if err != nil {
			return err
		}
		pauseOf := func(source string) (projections.Pause, bool) {
			i := slices.IndexFunc(paused, func(p projections.Pause) bool { return p.Source == source })
			if i < 0 {
				return projections.Pause{}, false
			}
			return paused[i], true
		}
		req.sources, req.leftOut, err = leavePaused(req, req.sources, pauseOf)
		return err
	})
	return req, err
}

// leavePaused looks again, in the transaction that plans.
func (t *Tx) leavePaused(req request, l listing) (listing, error) {
	sources, leftOut, err := leavePaused(req, l.sources, t.hot.Pause)
	l.sources, l.leftOut = sources, slices.Concat(l.leftOut, leftOut)
	return l, err
}

// leavePaused takes the paused sources out, if the request names none.
func leavePaused(req request, sources []string, pauseOf func(string) (projections.Pause, bool)) (kept []string, leftOut []events.LeftOut, err error) {
	var last projections.Pause
	for _, source := range sources {
		pause, paused := pauseOf(source)
		if !paused {
			kept = append(kept, source)
			continue
		}
		last = pause
		leftOut = append(leftOut, events.LeftOut{Source: source, Reason: SourcePaused})
	}
	switch {
	case len(leftOut) > 0 && len(kept) == 0:
		return nil, nil, sourcePaused(last)
	case req.spec.Sources != nil:
		return sources, nil, nil // their units are held
	}
	return kept, leftOut, nil
}

func sourcePaused(p projections.Pause) error {
	problem := fmt.Sprintf("all that was asked for is paused, %q by %s since %s", p.Source, p.By, p.Since.Format("2006-01-02T15:04:05Z"))
	if p.Reason != "" {
		problem += " (" + p.Reason + ")"
	}
	return &RequestError{Field: "sources", Problem: problem, Fix: "resume it, or name a source that is not paused", Kind: ErrSourcePaused}
}
