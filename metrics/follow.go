package metrics

import (
	"fmt"
	"time"

	vm "github.com/VictoriaMetrics/metrics"

	"github.com/towline-dev/towline/events"
)

// follower counts what the log says.
type follower struct {
	set   *vm.Set
	after events.Position // the newest event that was counted

	publishing map[events.StreamID]events.Micros // claimed wakeups: since when
	expired    map[events.UnitID]events.Micros   // units whose lease has ended and that are not dispatched again: since when

	stepped   events.Micros // when the clock was last seen to step
	stepWidth events.Span
}

var (
	expiryCauses = []events.ExpiryCause{events.LeaseExpired, events.LeaseMissing, events.LeaseIncarnationGone, events.LeaseReleased}
	outcomes     = []events.Outcome{events.Accepted, events.Refused, events.Unknown}
	runEnds      = []events.RunStatus{events.RunSucceeded, events.RunPartialFailed, events.RunFailed, events.RunIsCancelled}
	unitEnds     = []events.UnitStatus{events.UnitHasSucceeded, events.UnitHasFailed, events.UnitIsCancelled}
)

var (
	publishBounds  = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60}
	recoveryBounds = []float64{0.01, 0.1, 0.5, 1, 5, 15, 30, 60, 120, 300, 900, 3600}
)

// newFollower has every counter at 0, so that the first of its events is an increase.
func newFollower() follower {
	f := follower{set: vm.NewSet(), publishing: map[events.StreamID]events.Micros{}, expired: map[events.UnitID]events.Micros{}}
	for _, c := range expiryCauses {
		f.count("towline_lease_expired_total", "cause", string(c)).Set(0)
	}
	for _, o := range outcomes {
		f.publish(o)
	}
	for _, s := range runEnds {
		f.count("towline_runs_ended_total", "state", string(s)).Set(0)
	}
	for _, s := range unitEnds {
		f.count("towline_units_ended_total", "state", string(s)).Set(0)
	}
	f.lost().Set(0)
	f.set.GetOrCreateCounter("towline_late_results_total").Set(0)
	f.recovery()
	return f
}

func (f *follower) count(name, label, value string) *vm.Counter {
	return f.set.GetOrCreateCounter(fmt.Sprintf("%s{%s=%q}", name, label, value))
}

func (f *follower) publish(o events.Outcome) *vm.PrometheusHistogram {
	return f.set.GetOrCreatePrometheusHistogramExt(fmt.Sprintf("towline_publish_seconds{outcome=%q}", o), publishBounds)
}

func (f *follower) recovery() *vm.PrometheusHistogram {
	return f.set.GetOrCreatePrometheusHistogramExt("towline_recovery_seconds", recoveryBounds)
}

func (f *follower) lost() *vm.Counter {
	return f.count("towline_lost_by_contract_total", "kind", string(events.KindPostSync))
}

// take counts one event. What is remembered of a wakeup or a unit is forgotten with its claim, or when it ends.
func (f *follower) take(x events.Envelope) {
	f.after = x.Position
	switch e := x.Event.(type) {
	case events.OutboxClaimed:
		f.publishing[x.Stream] = x.At
	case events.OutboxDispatched:
		if e.Order == events.MarkFirst {
			f.publishing[x.Stream] = x.At // it is about to be published
			return
		}
		f.published(x, events.Accepted)
	case events.OutboxOutcome:
		f.published(x, e.Outcome)
		if e.Outcome == events.Refused { // it is not sent again
			f.lost().Inc()
		}
	case events.OutboxReleased:
		f.released(x, e.Cause)
	case events.OutboxDropped, events.OutboxParked:
		delete(f.publishing, x.Stream)
	case events.OutboxResolved:
		if e.Outcome == events.ResolvedLost {
			f.lost().Inc()
		}
	case events.RunFinalized:
		f.count("towline_runs_ended_total", "state", string(e.Status)).Inc()
	case events.RunCancelled:
		f.count("towline_runs_ended_total", "state", string(events.RunIsCancelled)).Inc()
	case events.ClockStepped:
		if e.Actor == "" { // else somebody has confirmed it
			f.stepped, f.stepWidth = x.At, e.After.Sub(e.Before)
		}
	default:
		f.takeUnit(x)
	}
}

// takeUnit counts an event in the life of a unit.
func (f *follower) takeUnit(x events.Envelope) {
	unit, isUnit := x.Stream.Unit()
	if !isUnit {
		return
	}
	ended := func(state events.UnitStatus) {
		f.count("towline_units_ended_total", "state", string(state)).Inc()
		delete(f.expired, unit)
	}
	switch e := x.Event.(type) {
	case events.UnitLeaseExpired:
		f.count("towline_lease_expired_total", "cause", string(e.Cause)).Inc()
		f.expired[unit] = x.At
		if e.LeaseExpiresAt != 0 && e.LeaseExpiresAt < x.At {
			f.expired[unit] = e.LeaseExpiresAt
		}
	case events.UnitDispatched:
		if since, ok := f.expired[unit]; ok {
			f.recovery().Update(seconds(x.At.Sub(since)))
			delete(f.expired, unit)
		}
	case events.UnitLateResult:
		f.set.GetOrCreateCounter("towline_late_results_total").Inc()
	case events.UnitSucceeded:
		ended(events.UnitHasSucceeded)
	case events.UnitFailed:
		ended(events.UnitHasFailed)
	case events.UnitCancelled:
		ended(events.UnitIsCancelled)
	}
}

// published ends the publish of a wakeup. One whose claim was not seen began before this process.
func (f *follower) published(x events.Envelope, o events.Outcome) {
	if since, ok := f.publishing[x.Stream]; ok {
		f.publish(o).Update(seconds(x.At.Sub(since)))
		delete(f.publishing, x.Stream)
	}
}

// released ends a claim without a mark: of a publish only if it was tried.
func (f *follower) released(x events.Envelope, cause events.ReleaseCause) {
	switch cause {
	case events.ReleaseRefused:
		f.published(x, events.Refused)
	case events.ReleasePublishUnknown:
		f.published(x, events.Unknown)
	default:
		delete(f.publishing, x.Stream)
	}
}

// stepShown is how long a step of the clock is shown.
const stepShown = events.Span(time.Hour / time.Microsecond)

// step is the newest step of the wall clock in seconds, negative when it was set back; 0 again an hour later.
func (f *follower) step(now events.Micros) float64 {
	if f.stepped == 0 || now.Sub(f.stepped) > stepShown {
		return 0
	}
	return seconds(f.stepWidth)
}

func seconds(d events.Span) float64 { return d.Std().Seconds() }
