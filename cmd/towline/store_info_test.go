package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// DUR-6: check says how near a refusal is: what open runs may take counts, and the last eighth of the budget is no room for them.
func TestHowNearARefusalIs(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		used, owed, max int64
		state, says     string
	}{
		"far":                         {2 * mib, mib, 16 * mib, fine, "12 % used, and open runs may take 1.0 MiB more: a run is refused 11.0 MiB from here"},
		"near":                        {12 * mib, mib, 16 * mib, warning, "75 % used, and open runs may take 1.0 MiB more: a run is refused 1.0 MiB from here"},
		"used up by what is open":     {2 * mib, 12 * mib, 16 * mib, failed, "no new run is accepted"},
		"used up":                     {14 * mib, 0, 16 * mib, failed, "no new run is accepted"},
		"no room for the least run":   {14*mib - 3583, 0, 16 * mib, failed, "no new run is accepted"},
		"just room for the least one": {14*mib - 3584, 0, 16 * mib, warning, "a run is refused 3.5 KiB from here"},
	} {
		t.Run(name, func(t *testing.T) {
			found := checkBudget(storeFacts{Used: c.used, Owed: c.owed, MaxBytes: c.max})
			require.Len(t, found, 1)
			require.Equal(t, c.state, found[0].State)
			require.Contains(t, found[0].Text, c.says)
		})
	}
	require.Empty(t, checkBudget(storeFacts{Used: 1 << 40}), "no budget, no refusal")
}
