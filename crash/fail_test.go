package crash

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

// A matrix can fail: in a world that knows nothing of the sync every open run is stranded, and the row says so.
func TestAWorldWithoutTheSyncStrands(t *testing.T) {
	path := newspaper{plain: true}.print(t)
	m, err := MakeMatrix(context.Background(), Options{Store: path, Most: 3, damage: func(m *moment) { m.syncs = nil }})
	require.NoError(t, err)
	require.False(t, m.Good())
	require.Equal(t, 2, m.Count(Stranded), "the last of the three has nothing open")
	for _, r := range m.Rows[:2] {
		require.Equal(t, Stranded, r.Verdict)
		require.Contains(t, strings.Join(r.Problems, "\n"), "of paper is")
	}
}

// An effect that has happened twice, and one that is not done, are no matter of taste.
func TestWhatIsNoRecovery(t *testing.T) {
	path := newspaper{plain: true}.print(t)
	log, err := readLog(context.Background(), path, t.TempDir())
	require.NoError(t, err)
	twice := func(m *moment) {
		for range 2 {
			m.outside.effects = append(m.outside.effects, effect{run: postRun(log), target: "mart"})
		}
	}
	m, err := MakeMatrix(context.Background(), Options{Store: path, Most: 1, damage: twice})
	require.NoError(t, err)
	require.Equal(t, Violated, m.Rows[0].Verdict)
	require.Contains(t, m.Rows[0].Problems[0], "G-4: the effect paper mart has happened 3 times")

	late := func(m *moment) { m.bound = -1 }
	m, err = MakeMatrix(context.Background(), Options{Store: path, Most: 2, damage: late})
	require.NoError(t, err)
	require.Equal(t, 2, m.Count(Violated))
	require.Contains(t, m.Rows[0].Problems[0], "passed without work behind the restart")

	doomed := func(m *moment) {
		for _, u := range m.units {
			m.doomed[u.ID] = events.WorkerLost
		}
	}
	m, err = MakeMatrix(context.Background(), Options{Store: path, Most: 2, damage: doomed})
	require.NoError(t, err)
	require.Equal(t, Violated, m.Rows[0].Verdict)
	require.Contains(t, m.Rows[0].Problems[0], "RW-4")
}

// M-4, G-17: a message that nobody has handled and nothing shows is stranded. One that is parked is shown, and one that a
// broker has is the broker's.
func TestAMessageThatIsLeft(t *testing.T) {
	path := newspaper{}.print(t)
	log, err := readLog(context.Background(), path, t.TempDir())
	require.NoError(t, err)
	judged := func(log []events.Envelope) Row {
		row := Row{Verdict: Recovered}
		j := &judge{e: &ending{log: log}, row: &row}
		j.fold()
		j.messages()
		return row
	}
	require.Equal(t, Recovered, judged(log).Verdict)
	for i, env := range log {
		if _, ok := env.Event.(events.MessageHandled); !ok {
			continue
		}
		left := judged(log[:i])
		require.Equal(t, Stranded, left.Verdict)
		require.Regexp(t, `^M-4: message \S+ of mail is open, its wakeup 1 is idle$`, left.Problems[0])

		sent := slices.Clone(log[:i])
		for k := range sent {
			_, kind, _ := sent[k].Stream.Register()
			if e, ok := sent[k].Event.(events.OutboxDispatched); ok && kind == events.KindMessage {
				e.Transport = "broker"
				sent[k].Event = e
			}
		}
		require.Equal(t, Recovered, judged(sent).Verdict, "whoever has it is no process of this store")

		parked := log[i]
		parked.Stream = events.MessageStream(log[i].Event.(events.MessageHandled).Message)
		parked.Event = events.OutboxParked{N: 1, Cause: events.ParkHandlerFailed, Attempts: 1}
		require.Equal(t, Recovered, judged(append(slices.Clone(log[:i]), parked)).Verdict)
		return
	}
	t.Fatal("no message was handled")
}

// I-26: behind a recovery the views are the fold of its log.
func TestViewsThatAreNoFold(t *testing.T) {
	ctx := context.Background()
	path := newspaper{plain: true}.print(t)
	for _, tampered := range []bool{false, true} {
		p, err := load(ctx, Options{Store: path}, t.TempDir())
		require.NoError(t, err)
		store := filepath.Join(t.TempDir(), "grown.db")
		g, err := newGrower(ctx, store)
		require.NoError(t, err)
		h := newHistory()
		for _, b := range p.boundaries[:5] {
			require.NoError(t, g.add(ctx, b.tx))
			h.add(b.tx)
		}
		if tampered {
			_, err := g.s.DB().ExecContext(ctx, `UPDATE jobs SET reason = 'nobody has said so'`)
			require.NoError(t, err)
		}
		require.NoError(t, g.close())
		m := p.moment(h, crash{boundary: 4}, Options{})
		m.compares = true
		e, err := play(ctx, store, m)
		require.NoError(t, err)
		row := m.judge(e)
		require.Equal(t, tampered, row.differs, row.Problems)
		require.Equal(t, !tampered, row.Verdict.Good())
		if tampered {
			require.Contains(t, row.Problems[0], "I-26: the views are not the fold of the log: table jobs")
		}
	}
}

// SC-372: bugs of one line in the engine, each of which a matrix must show.
func TestTheMatrixFindsPlantedBugs(t *testing.T) {
	if !*mutants {
		t.Skip("it compiles the engine once per bug: run with -mutants")
	}
	for _, m := range []struct{ name, file, old, new, test, finds string }{
		{
			name: "the claim of a gone incarnation is not released", file: "recover.go",
			old: "gone := t.Gone(r.Claim.Node)", new: "gone := false", finds: "passed without work behind the restart",
		},
		{
			name: "a mark drops the waiting number", file: "decider/register.go",
			old: "(O-12)\n\t}\n\treturn r.advanced()", new: "(O-12)\n\t}\n\tr.Next, r.NextAt = 0, 0\n\treturn r.advanced()", finds: "I-11",
		},
		{
			name: "a lease never ends", file: "decider/unit_expire.go",
			old: "u.LeaseLive(c.At, c.NodeGone, c.Grace)", new: "u.Attempt > 0",
			test:  "TestADeathInAUnit", // one crash: nothing is slower than a world in which nothing ends
			finds: "is stranded in a case",
		},
		{
			name: "the settle of the last open unit does not arm finalize", file: "decider/react.go",
			old: "if f.OpenUnits(run) > 0 {", new: "if f.OpenUnits(run) >= 0 {", finds: "I-9",
		},
		{
			name: "a message that died in the memory of a process is not armed again", file: "relay/messages.go",
			old:   "func (r *Relay) materializeMessages(ctx context.Context, report *Report) error {",
			new:   "func (r *Relay) materializeMessages(ctx context.Context, report *Report) error {\n\tif ctx != nil {\n\t\treturn nil\n\t}",
			finds: "M-4: message",
		},
		{
			name: "a view has another time than its log", file: "projections/jobs.go",
			old: "e.Cancelled, int64(j.ClosedAt))", new: "e.Cancelled, int64(j.ClosedAt)+1)", finds: "I-26",
		},
	} {
		t.Run(m.name, func(t *testing.T) {
			out, err := runMutant(t, m.file, m.old, m.new, cmp.Or(m.test, "TestEveryBoundaryOfARun"))
			var failed *exec.ExitError
			require.ErrorAs(t, err, &failed, "the matrix is good with the bug in the engine:\n%s", out)
			require.Contains(t, out, m.finds)
		})
	}
}

// runMutant makes the matrix with one text of one file replaced, by an overlay: the tree is not touched.
func runMutant(t *testing.T, file, old, replacement, test string) (string, error) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", filepath.FromSlash(file)))
	require.NoError(t, err)
	source, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(source), old), "%s has changed: where is %q now?", file, old)
	mutant := filepath.Join(t.TempDir(), "mutant.go")
	require.NoError(t, os.WriteFile(mutant, []byte(strings.Replace(string(source), old, replacement, 1)), 0o644))
	return goWith(t, map[string]string{path: mutant}, "test", "-count=1", "-run", "^"+test+"$", ".")
}

// goWith runs the go command with other files in the place of some of the tree.
func goWith(t *testing.T, replace map[string]string, args ...string) (string, error) {
	t.Helper()
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "overlay.json")
	require.NoError(t, os.WriteFile(file, overlay, 0o644))
	out, err := exec.CommandContext(t.Context(), "go", append([]string{args[0], "-overlay", file}, args[1:]...)...).CombinedOutput()
	return string(out), err
}

// What panics in a world is the end of that world, and a sentence of its row.
func TestAPanicIsASentence(t *testing.T) {
	require.EqualError(t, guarded(func() error { panic("it cannot be\ngoroutine 1") }), "panic: it cannot be")
	require.NoError(t, guarded(func() error { return nil }))
}
