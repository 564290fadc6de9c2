package towline

import (
	"context"
	"fmt"

	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store"
)

// VerifyStore proves the log and the views of a store on which no engine runs, as Engine.Verify does with its own: a copy, before
// it is trusted (DUR-5). It starts no incarnation and writes nothing but into scratch, which must be an empty store. Views that
// another release has made are not compared: the next start makes them anew from the log.
func VerifyStore(ctx context.Context, s, scratch store.Store) (v Verification, err error) {
	e := &Engine{store: s}
	knobs := Knobs{}.withDefaults() // until the log says others: each start has recorded its own
	e.inForce.Store(&knobs)
	checker := check.New(check.Options{Settings: e.checkSettings()})
	f, err := e.newFolds(ctx, scratch, checker)
	if err != nil {
		return v, err
	}
	var ours bool
	err = s.Read(ctx, func(r store.Reader) (err error) {
		ours, err = projections.Comparable(r)
		return err
	})
	if err == nil && ours {
		v.Differences, err = f.compareTables(ctx, verifyPage)
	}
	if err == nil {
		err = f.toHead(ctx)
	}
	v.Position, v.Violations = f.at, checker.Finish()
	if err != nil {
		return v, err
	}
	differences, err := compareFolds(ctx, scratch, checker, verifyPage)
	if err != nil {
		return v, fmt.Errorf("compare the folds: %w", err)
	}
	v.Differences = append(v.Differences, differences...)
	return v, nil
}
