package towline

import (
	"context"
	"slices"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/projections"
)

// What a unit needs and a node is not configured for holds the unit at that node, as a paused source would. Each
// node decides by its own catalogue, which NodeStarted records.

// wakeBroughtBack wakes the runs with units that the last incarnation was not configured for, and this one is. It compares
// with the last one whose boot recovery has ended, so a boot that dies half way is repeated by the next.
func (e *Engine) wakeBroughtBack(ctx context.Context) error {
	var before []events.Configured
	known := false
	err := e.View(ctx, func(v projections.View) (err error) {
		before, known, err = v.LastConfigured(e.node)
		return err
	})
	if err != nil || !known {
		return err
	}
	had := map[string]events.Configured{}
	for _, c := range before {
		had[c.Sync] = c
	}
	lacked := func(l projections.Lane) bool {
		c, ok := had[l.Sync]
		return !ok || c.Provider != l.Provider || !slices.Contains(c.Sources, l.Source) || !slices.Contains(c.Datasets, l.Dataset)
	}
	if !e.syncs.any(lacked) {
		return nil
	}
	return e.wakeBehind(ctx, events.RunID{}, "", lacked)
}

// any reports that something which is configured satisfies is.
func (c catalogue) any(is func(projections.Lane) bool) bool {
	for _, s := range c.syncs { // no order: any will do
		for _, source := range s.Sources {
			for _, d := range s.Datasets {
				if is(projections.Lane{Sync: s.Name, Provider: s.Provider, Source: source, Dataset: d.Name}) {
					return true
				}
			}
		}
	}
	return false
}
