package replay

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// What does not fit above the picture is counted: nobody takes a part for the whole.
func TestFactsSayHowManyAreLeftOut(t *testing.T) {
	of := func(n int) *survey {
		l := &lane{Subject: Subject{Name: "post_sync"}}
		for i := range n {
			l.marks = append(l.marks, mark{sign: signBad, text: fmt.Sprintf("target %d failed", i)})
		}
		return &survey{registers: []*lane{l}}
	}
	all := of(maxFacts).facts()
	require.Len(t, all, maxFacts)
	require.Equal(t, fact{"post_sync: target 11 failed", "bad"}, all[maxFacts-1])

	some := of(maxFacts + 3).facts()
	require.Len(t, some, maxFacts+1)
	require.Equal(t, all, some[:maxFacts])
	require.Equal(t, fact{"… and 3 more", "note"}, some[maxFacts])
}
