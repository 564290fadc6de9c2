package sim_test

import (
	"strings"
	"time"

	"github.com/towline-dev/towline/check"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/sim"
)

// oracle says what must become of a crash: the crash table (check.Crash), for a crash of a world and what was asked of it.
type oracle struct {
	check.Crash
}

func newOracle(s scenario, c sim.Crash, log []events.Envelope, settings check.Settings, out *sim.Outside) *oracle {
	fold := check.New(check.Options{Keep: true, Settings: settings})
	for _, env := range log {
		if env.Position <= c.Head {
			fold.Apply(env)
		}
	}
	fold.EndTx()
	o := &oracle{check.Crash{
		Log: fold, Time: c.Time, Published: out.Published, Called: out.Called, Written: out.Written,
		Planning: len(fold.Runs()) < len(s.requests), Submitting: len(fold.Messages()) < len(s.submissions),
		Cancelling: strings.Contains(c.At.What, "Cancelled(") && c.At.Behind,
		Expiring:   strings.Contains(c.At.What, "UnitLeaseExpired") && !c.At.Behind,
		Delay:      scripted,
	}}
	for _, m := range c.Lost {
		o.Lost = append(o.Lost, check.Lost{
			Kind: m.Notice.Kind, Run: m.Notice.Run, N: m.Notice.Wakeup, Unit: m.Notice.Unit, Target: m.Notice.Target, InWork: m.InWork,
		})
	}
	return o
}

// scripted is the wait that the provider's own failure will cost, with or without a crash.
func scripted(u check.Unit) events.Span {
	if u.Attempt == 0 && failsOnce(u.Plan.Source, u.Plan.Dataset, u.Plan.Window.Name()) {
		return events.SpanOf(retryBackoff)
	}
	return 0
}

func (o *oracle) rows() []check.CrashRow { return o.Rows() }

func (o *oracle) bound() time.Duration {
	if o.Planning { // the run that is still to be planned may bring such a failure
		return max(retryBackoff, o.Bound().Std())
	}
	return o.Bound().Std()
}

func (o *oracle) armable() map[events.StreamID]bool { return o.Armable() }

func (o *oracle) doomed() map[events.UnitID]events.Category { return o.Doomed() }
