package towline

import (
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// Finalize ends a run whose units have all ended: the decision of the finalize_sync_run handler (spec 10.3). It reports
// whether it did; an unknown run, one that has ended, and one with an open unit are left alone.
func (t *Tx) Finalize(id events.RunID) (bool, error) {
	run, err := t.Run(id)
	if err != nil || !run.Open() {
		return false, err
	}
	results, err := t.Execute(decider.FinalizeRun{Run: id, Counts: t.hot.Counts(id)})
	return err == nil && len(results[0].Events) > 0, err
}
