package crash

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// Options.Most takes crashes in equal distances, in their order, and the last among them.
func TestASampleIsEven(t *testing.T) {
	all := make([]crash, 10)
	for i := range all {
		all[i].boundary = i
	}
	at := func(most int) (out []int) {
		for _, c := range sample(all, most) {
			out = append(out, c.boundary)
		}
		return out
	}
	require.Len(t, at(0), 10)
	require.Len(t, at(11), 10)
	require.Equal(t, []int{9}, at(1))
	require.Equal(t, []int{2, 5, 9}, at(3))
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, at(10))
}

func TestAMatrixOfARun(t *testing.T) {
	ctx := context.Background()
	path := newspaper{plain: true}.print(t)
	log, err := readLog(ctx, path, t.TempDir())
	require.NoError(t, err)
	var run events.RunID
	for _, env := range log {
		if id, ok := env.Stream.Run(); ok {
			run = id
		}
	}
	var told []int
	scratch := t.TempDir()
	m, err := MakeMatrix(ctx, Options{Store: path, Run: run, Most: 4, Scratch: scratch, AtOnce: 2, Progress: func(played, of int) {
		require.Equal(t, 4, of)
		told = append(told, played)
	}})
	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, m.Text(&text))
	require.True(t, m.Good(), text.String())
	require.Len(t, m.Rows, 4)
	require.Positive(t, m.Left)
	require.Equal(t, []int{1, 2, 3, 4}, told)
	require.Less(t, m.Boundaries, len(boundariesOf(log)), "the starts of processes are no boundaries of the run")
	left, err := os.ReadDir(scratch)
	require.NoError(t, err)
	require.Empty(t, left, "what was made in the scratch folder is removed")

	_, err = MakeMatrix(ctx, Options{Store: path, Run: events.RunID{1}})
	require.ErrorContains(t, err, "it holds no run")
}

func TestAMatrixThatIsInterrupted(t *testing.T) {
	path := newspaper{plain: true}.print(t)
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	scratch := t.TempDir()
	_, err := MakeMatrix(ctx, Options{Store: path, Scratch: scratch, AtOnce: 1, Progress: func(played, _ int) {
		if played == 2 {
			cancel(enough)
		}
	}})
	require.ErrorIs(t, err, enough)
	left, err := os.ReadDir(scratch)
	require.NoError(t, err)
	require.Empty(t, left)
}

// C-37: a second crash, at a boundary of the recovery.
func TestACrashDuringTheRecovery(t *testing.T) {
	path := newspaper{plain: true}.print(t)
	for _, at := range []int{1, 4, 9} {
		m, err := MakeMatrix(context.Background(), Options{Store: path, Most: 8, Kills: []int{at}})
		require.NoError(t, err)
		require.True(t, m.Good(), "killed again at %d", at)
	}
}

// C-9: what a broker had is taken as lost, of which nobody is told. So work that was announced through it waits until it is
// stale, and no longer; and whoever shared the store is dead, too.
func TestProcessesThatShareAStore(t *testing.T) {
	path := newspaper{plain: true, nodes: 2}.print(t)
	m, err := MakeMatrix(context.Background(), Options{Store: path, Most: 24})
	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, m.Text(&text))
	require.True(t, m.Good(), text.String())
	longest, ok := m.longest()
	require.True(t, ok)
	require.GreaterOrEqual(t, longest.Bound, 15*time.Minute, text.String())
}

// HP-3, C-25, C-26: in exactly_once mode no crash loses an effect, and the ledger absorbs the second delivery.
func TestExactlyOnceLosesNothing(t *testing.T) {
	path := newspaper{plain: true, mode: events.ExactlyOnce}.print(t)
	log, err := readLog(context.Background(), path, t.TempDir())
	require.NoError(t, err)
	m, err := MakeMatrix(context.Background(), Options{Store: path, Run: postRun(log)})
	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, m.Text(&text))
	require.True(t, m.Good(), text.String())
	require.Zero(t, m.Count(Lost), text.String())
	require.Contains(t, text.String(), "the ledger has skipped the effect of mart")
}

func postRun(log []events.Envelope) (run events.RunID) {
	for _, env := range log {
		if id, ok := env.Stream.Run(); ok {
			run = id
		}
	}
	return run
}

// Colours are for terminals. The text is the same on every machine.
func TestATextHasNoColours(t *testing.T) {
	m := Matrix{Events: 1, Boundaries: 1, Rows: []Row{{
		Position: 1, What: "NodeStarted", Verdict: Stranded, Waited: 1500 * time.Millisecond, Problems: []string{"it does not come up"},
	}}}
	var text strings.Builder
	require.NoError(t, m.Text(&text))
	require.NotContains(t, text.String(), "\x1b")
	require.False(t, m.Good())
	require.Equal(t, `1 event, 1 durable boundary, 1 crash

at  since  window  verdict   waited  of  rows  died behind
 1      0  –       stranded    1.5s   0  –     NodeStarted
                   stranded: it does not come up

0 recovered, 0 duplicate absorbed, 0 lost by contract, 0 violated, 1 stranded, 0 invariants violated
longest wait 1.5s of 0 allowed, behind 1
`, text.String())
	p := &printer{w: &text, colour: true}
	require.Equal(t, "\x1b[31mstranded\x1b[0m", p.paint(Stranded, "stranded"))
}
