package towline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// RetrySpec is a request to run again what failed of a run.
type RetrySpec struct {
	Run       events.RunID  // that has ended; zero: the run of Unit
	Unit      events.UnitID // that one only; zero: all that failed
	Cancelled bool          // those that were cancelled, too
	Key       string        // idempotency key, its scope is the sync; empty: none, and a second call runs them again
	By        Actor         // a name is needed; a reason is recorded if there is one
}

// RetryFailed plans a new run of the failed units of a run that has ended: with the same windows, mode, tiers, surfaces
// and fingerprints, under the policy that the sync has now. The new run names the old one, which does not change. A
// unit that moves watermarks moves them as in its first run: to the end of its window, and never back (WM-2, WM-3).
//
// It goes by how the units of that run have ended, and by nothing else: without a Key, a second call runs them again,
// also if an earlier retry, or any later run, has mended what they lack. Behind a sink that replaces
// windows it does no harm and costs the work. Give a Key, such as the id of the run, and the second call returns the first
// retry.
//
// A work item whose reference unit has not succeeded is retried only together with it (P-9). The same key with the same
// request returns the first run, for api.idempotency_ttl. Errors, each of which has written nothing: *RequestError, which
// is ErrNotFound (also for a sync, source or dataset that is no longer configured), ErrConflict while the run is open,
// ErrSourcePaused if every source of it is paused, or ErrInvalid, also if there is nothing to retry; *PlanTooLargeError, *RunExistsError, ErrKeyReused, *DiskBudgetError, ErrUnavailable.
func (e *Engine) RetryFailed(ctx context.Context, spec RetrySpec) (Planned, error) {
	by, err := e.operator(spec.By)
	if err != nil {
		return Planned{}, err
	}
	spec.By = by
	if err := checkText("key", spec.Key, maxKeyBytes); err != nil {
		return Planned{}, err
	}
	var planned Planned
	err = e.Transact(ctx, spec.By.Name, func(tx *Tx) (err error) {
		planned, err = tx.retryFailed(spec)
		return err
	})
	return planned, err
}

func (t *Tx) retryFailed(spec RetrySpec) (Planned, error) {
	old, err := t.retriedRun(spec)
	if err != nil {
		return Planned{}, err
	}
	spec.Run = old.ID
	req := request{spec: RunSpec{Sync: old.Plan.Sync, Mode: old.Plan.Mode, Key: spec.Key, By: spec.By}, retryOf: old.ID}
	req.sync.Name, req.fingerprint = old.Plan.Sync, spec.fingerprint()
	if known, found, err := t.e.keyed(t.View(), req, t.now); err != nil || found {
		return known, err
	}
	if old.Open() {
		return Planned{}, &RequestError{Field: "run", Problem: "it is still open", Fix: "wait for its end, or cancel it", Kind: ErrConflict}
	}
	units, err := t.retried(spec)
	if err != nil {
		return Planned{}, err
	}
	if req.sync, err = t.e.stillConfigured(old.Plan.Sync, units); err != nil {
		return Planned{}, err
	}
	if known, found, err := t.admit(req); err != nil || found {
		return known, err
	}
	if most := t.e.inForce.Load().MaxUnits; len(units) > most {
		return Planned{}, &PlanTooLargeError{Units: len(units), Limit: most}
	}
	req.spec.narrow(old.Plan.Selection, units)
	if _, _, err := leavePaused(req, req.spec.Sources, t.hot.Pause); err != nil {
		return Planned{}, err // of some paused sources the units are held
	}
	return t.accept(req, units, nil)
}

// retriedRun is the run that a request names, by itself or by a unit of it.
func (t *Tx) retriedRun(spec RetrySpec) (decider.Run, error) {
	switch {
	case spec.Unit.IsZero() && spec.Run.IsZero():
		return decider.Run{}, invalid("run", "it is empty", "name a run that has ended, or a unit of one")
	case spec.Unit.IsZero():
		run, err := t.Run(spec.Run)
		if err == nil && !run.Exists() {
			err = unknown("run", spec.Run)
		}
		return run, err
	}
	u, run, err := t.unitAndRun(spec.Unit)
	if err == nil && !spec.Run.IsZero() && spec.Run != u.Plan.Run {
		err = invalid("unit", "it belongs to run "+u.Plan.Run.String(), "name that run, or none")
	}
	return run, err
}

// retried are the plans of the units that a request selects, numbered anew.
func (t *Tx) retried(spec RetrySpec) ([]events.UnitPlanned, error) {
	all, err := t.View().Unsucceeded(spec.Run)
	if err != nil {
		return nil, err
	}
	chosen := slices.DeleteFunc(slices.Clone(all), func(u projections.Unsucceeded) bool { return !spec.selects(u) })
	if len(chosen) == 0 {
		return nil, spec.nothing(all)
	}
	if err := requireReferences(all, chosen); err != nil {
		return nil, err
	}
	units := make([]events.UnitPlanned, len(chosen))
	for i, u := range chosen {
		units[i] = u.Plan
		units[i].Ordinal = i + 1
	}
	return units, nil
}

func (s RetrySpec) selects(u projections.Unsucceeded) bool {
	return (s.Unit.IsZero() || s.Unit == u.Unit) && (s.Cancelled || u.Status == events.UnitHasFailed)
}

// nothing says why a request selects none of the units that have not succeeded.
func (s RetrySpec) nothing(all []projections.Unsucceeded) error {
	const fix = "set cancelled to retry what was cancelled"
	if s.Unit.IsZero() {
		if len(all) > 0 {
			return invalid("cancelled", fmt.Sprintf("none of its units failed, and %d were cancelled", len(all)), fix)
		}
		return invalid("run", "all of its units have succeeded, or it has none", "plan a new run")
	}
	if slices.ContainsFunc(all, func(u projections.Unsucceeded) bool { return u.Unit == s.Unit }) {
		return invalid("cancelled", "the unit was cancelled", fix)
	}
	return invalid("unit", "it has succeeded", "plan a new run")
}

// requireReferences refuses a work item without the reference units of its source that have not succeeded: in a run
// without them its tier would be open (P-9).
func requireReferences(all, chosen []projections.Unsucceeded) error {
	for _, reference := range all {
		missing := reference.Plan.Tier == events.TierReference && !slices.ContainsFunc(chosen, func(u projections.Unsucceeded) bool { return u.Unit == reference.Unit })
		if !missing {
			continue
		}
		for _, u := range chosen {
			if u.Plan.Source == reference.Plan.Source && u.Plan.Tier == events.TierWorkItem {
				return invalid("unit", fmt.Sprintf("reference unit %s of source %q has not succeeded, and unit %s needs it", reference.Unit, reference.Plan.Source, u.Unit),
					"retry the run, with cancelled if that unit was cancelled")
			}
		}
	}
	return nil
}

// stillConfigured is the sync of a retried run, if all that its units name is known here (P-4, X-9).
func (e *Engine) stillConfigured(name string, units []events.UnitPlanned) (Sync, error) {
	sync, ok := e.syncs.syncs[name]
	if !ok {
		return sync, &RequestError{Field: "sync", Problem: fmt.Sprintf("there is no sync %q any more", name), Fix: oneOf(slices.Sorted(maps.Keys(e.syncs.syncs))), Kind: ErrNotFound}
	}
	for _, u := range units {
		if !slices.Contains(sync.Sources, u.Source) {
			return sync, &RequestError{Field: "sources", Problem: fmt.Sprintf("sync %q has no source %q any more", name, u.Source), Fix: oneOf(sync.Sources), Kind: ErrNotFound}
		}
		if sync.Provider != u.Provider {
			return sync, &RequestError{Field: "sync", Problem: fmt.Sprintf("sync %q has another provider now, %q", name, sync.Provider), Fix: "plan a new run", Kind: ErrNotFound}
		}
		if e.syncs.missing(name, u.Provider, u.Source, u.Dataset) != "" {
			return sync, &RequestError{Field: "datasets", Problem: fmt.Sprintf("sync %q has no dataset %q any more", name, u.Dataset), Fix: oneOf(datasetNames(sync.Datasets)), Kind: ErrNotFound}
		}
	}
	return sync, nil
}

// narrow makes the selection of a retry: what its units name, in the range of the first request.
func (s *RunSpec) narrow(first events.Selection, units []events.UnitPlanned) {
	for _, u := range units {
		if !slices.Contains(s.Sources, u.Source) {
			s.Sources = append(s.Sources, u.Source)
		}
		if !slices.Contains(s.Datasets, u.Dataset) {
			s.Datasets = append(s.Datasets, u.Dataset)
		}
	}
	s.Since, s.Before = first.Since.Time(), first.Before.Time()
}

// fingerprint differs from that of every RunSpec, so a key is never taken for one of the other kind (P-11).
func (s RetrySpec) fingerprint() string {
	b, err := json.Marshal(struct {
		RetryOf   events.RunID
		Unit      events.UnitID
		Cancelled bool
	}{s.Run, s.Unit, s.Cancelled})
	if err != nil {
		panic(fmt.Sprintf("towline: encode retry: %v", err))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}
