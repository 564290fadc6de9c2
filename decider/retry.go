package decider

import (
	"slices"

	"github.com/towline-dev/towline/events"
)

// PolicyFor returns the retry policy under which a unit may be tried again after a cause (RW-3). Every condition is a
// line of its own, and each alone can make the unit ineligible. The run is open and the count is below the maximum
// are the caller's two conditions, because the answer differs (RW-4).
func PolicyFor(policies []events.RetryPolicy, u events.UnitPlanned, cause events.Category) (events.RetryPolicy, bool) {
	for _, p := range policies {
		if Eligible(p, u, cause) {
			return p, true
		}
	}
	return events.RetryPolicy{}, false
}

// Eligible is RW-3 without the count.
func Eligible(p events.RetryPolicy, u events.UnitPlanned, cause events.Category) bool {
	return p.Provider == u.Provider &&
		slices.Contains(p.Modes, u.Mode) &&
		within(u.Datasets(), p.Family) &&
		len(u.Surfaces) > 0 &&
		within(u.Surfaces, p.Surfaces) &&
		retriesOn(p, cause)
}

// retriesOn: a policy that lists nothing retries lost workers only (RW-2).
func retriesOn(p events.RetryPolicy, cause events.Category) bool {
	if len(p.RetryOn) == 0 {
		return cause == events.ExpiredLease
	}
	return slices.Contains(p.RetryOn, cause)
}

// within reports that every element of list is in set.
func within(list, set []string) bool {
	for _, x := range list {
		if !slices.Contains(set, x) {
			return false
		}
	}
	return true
}

// Linear is the shipped policy (RW-5): Linear backfills of the work-item family may be tried again, because the five
// tables they write are replaced as a whole.
func Linear(maxRetries int, backoff events.Span) events.RetryPolicy {
	family := []string{
		"work-items", "work-item-labels", "work-item-projects", "work-item-history", "work-item-comments",
	}
	return events.RetryPolicy{
		Name: "linear", Provider: "linear", Modes: []events.Mode{events.Backfill},
		Family: family, Surfaces: family, MaxRetries: maxRetries, Backoff: backoff,
	}
}
