package model

import (
	"flag"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

var explore = flag.Bool("large", false, "explore the large configurations, too; it takes a few minutes and about 1 GB")

// I-27 and the other invariants of section 23: no order of events, faults and acts breaks them.
func TestTheRulesHold(t *testing.T) {
	const bound = 50_000
	for _, c := range small {
		report := Explore(c, NoBug, bound)
		t.Log(report)
		requireNone(t, report)
	}
}

// The same, a few steps farther.
func TestTheRulesHoldInLarge(t *testing.T) {
	if !*explore {
		t.Skip("it takes minutes: run with -large")
	}
	const bound, atLeast = 2_000_000, 1_000_000
	for _, c := range large {
		t.Run(c.Name, func(t *testing.T) {
			report := Explore(c, NoBug, bound)
			t.Log(report)
			requireNone(t, report)
			require.Greater(t, report.States, atLeast, "it is no large one")
			runtime.GC() // one is as much as a machine should hold
		})
	}
}

func requireNone(t *testing.T, r Report) {
	t.Helper()
	if r.Violation == "" {
		return
	}
	t.Errorf("%s: %s", r.Config.Name, r.Violation)
	for _, line := range r.Trace {
		t.Log("    " + line)
	}
}
