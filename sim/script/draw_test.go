package script_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/sim/script"
)

// I-31: the same seed draws the same schedule, another one another, and each command of it is read back from its line.
func TestASeedIsASchedule(t *testing.T) {
	text := func(seed uint64, ops int) string {
		var out strings.Builder
		for _, c := range script.Draw(seed, ops) {
			fmt.Fprintln(&out, c)
			back, err := script.Parse(c.String())
			require.NoError(t, err)
			require.Equal(t, c.String(), back.String())
		}
		return out.String()
	}
	words := map[string]bool{}
	for seed := range uint64(300) {
		drawn := text(seed, 30)
		require.Equal(t, drawn, text(seed, 30))
		require.NotEqual(t, drawn, text(seed+1, 30))
		for line := range strings.Lines(drawn) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			words[word] = true
		}
	}
	require.Len(t, words, 32, "%v", words)
	require.Len(t, script.Draw(7, 0), 14, "the world, some steps, and calm")
}
