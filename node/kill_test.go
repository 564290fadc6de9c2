//go:build unix

package node_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	sinks "github.com/towline-dev/towline/sink/sqlite"
)

// killVariable makes the test binary a process whose effects are interrupted, in the folder that it names.
const killVariable = "NODE_TEST_EFFECTS"

var killSeed = flag.Uint64("kill.seed", 0, "of the test that kills processes around their effects; 0: a new one")

// saysEffect says that an effect is about to happen.
const saysEffect = "effect"

// effects is a process with two syncs, of which each run is followed by three effects, in the sink, in a database of the
// program, and in the store: of one exactly once, of the other at most once. No table of an effect is unique, so what
// happens twice is there twice.
type effects struct {
	*node.Node
	own  *sql.DB
	sink *sinks.Destination
}

var modes = map[string]events.DeliveryMode{"exactly": towline.ExactlyOnce, "most": towline.AtMostOnce}

func openEffects(ctx context.Context, dir string, say func()) (*effects, error) {
	return openEffectsOn(ctx, filepath.Join(dir, "towline.db"), dir, say)
}

// openEffectsOn has its store elsewhere than its effects.
func openEffectsOn(ctx context.Context, store, dir string, say func()) (*effects, error) {
	own, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "own.db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	e := &effects{own: own, sink: sinks.File(filepath.Join(dir, "sink.db"))}
	insert := func(ctx context.Context, tx *sql.Tx, p towline.Post) error {
		say()
		_, err := tx.ExecContext(ctx, `INSERT INTO effects VALUES ($1)`, p.Run.String())
		return err
	}
	var syncs []node.Sync
	for name, mode := range modes {
		s := works(nothingToDo)
		s.Name, s.Sources, s.Sink = name, []string{"source of " + name}, e.sink
		s.PostSync = towline.PostSync{Mode: mode, Targets: []towline.Target{
			{Name: "sink", SQL: `CREATE TABLE IF NOT EXISTS effects (run TEXT); INSERT INTO effects VALUES (:run)`},
			{Name: "own", Func: insert, DB: own}, {Name: "store", Func: insert},
		}}
		syncs = append(syncs, s)
	}
	e.Node, err = node.Open(ctx, node.Config{
		Store: store, Syncs: syncs, Logger: quiet(), Unsynced: true,
		Knobs: towline.Knobs{ReconcileInterval: time.Second, BackfillChunk: day},
	})
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	for _, db := range []*sql.DB{own, e.DB()} {
		_, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS effects (run TEXT)`)
		if err != nil {
			return nil, errors.Join(err, e.Close(), e.close())
		}
	}
	return e, nil
}

// effectsChild runs one run of each sync after the other, and says of every function when it is called.
func effectsChild() int {
	ctx := context.Background()
	e, err := openEffects(ctx, os.Getenv(killVariable), func() { fmt.Println(saysEffect) })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	err = e.RunWhile(ctx, func(ctx context.Context) error {
		for {
			var runs []events.RunID
			for name := range modes {
				s := spec(1)
				s.Sync = name
				p, err := e.Engine().Plan(ctx, s)
				if err != nil {
					return err
				}
				runs = append(runs, p.Run)
			}
			for _, id := range runs {
				if _, err := e.Engine().WaitPostSync(ctx, id); err != nil {
					return err
				}
			}
		}
	})
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// killOnce starts a process, lets it begin some effects, and kills it a moment later.
func killOnce(t *testing.T, dir string, begun int, later time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killVariable+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	for begun > 0 && lines.Scan() {
		if lines.Text() == saysEffect {
			begun--
		}
	}
	timer := time.NewTimer(later) // the moment of the kill is what is random here; nothing is asserted of it
	<-timer.C
	require.NoError(t, cmd.Process.Kill())
	for lines.Scan() {
	}
	_ = cmd.Wait() // killed
	require.Zero(t, begun, "the process ended by itself")
}

// K-6, HP-2 to HP-4, C-22 to C-26, C-46: processes are killed at random around their effects. In exactly_once mode every
// effect is there once; in at_most_once mode, under the same kills, none is there twice, and each that is not there shows
// as unknown, refused or unconfirmed.
func TestEffectsUnderKills(t *testing.T) {
	kills := 200
	if testing.Short() {
		kills = 20
	}
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-kill.seed=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	for range kills {
		killOnce(t, dir, 1+random.IntN(6), time.Duration(random.IntN(4000))*time.Microsecond)
	}

	e, err := openEffects(t.Context(), dir, func() {})
	require.NoError(t, err)
	r := start(t, e.Node)
	var runs []projections.SyncRun
	waitFor(t, e.Node, func() bool {
		var still []projections.Register
		runs = nil
		require.NoError(t, e.Engine().View(t.Context(), func(v projections.View) (err error) {
			if runs, err = v.Runs(events.RunID{}, 100_000); err == nil {
				still, err = v.OpenRegisters(10)
			}
			return err
		}))
		for _, run := range runs {
			if !run.Status.Terminal() || run.Sync == "exactly" && run.PostSync.Effects != decider.EffectsDone && run.PostSync.Owed {
				return false
			}
		}
		return len(still) == 0
	})
	r.end() // what it has accepted is done
	require.NoError(t, e.close())
	requireEffects(t, dir, kills)
}

// close closes what the node does not.
func (e *effects) close() error { return errors.Join(e.own.Close(), e.sink.Close()) }

func requireEffects(t *testing.T, dir string, kills int) {
	t.Helper()
	e, err := openEffects(t.Context(), dir, func() {})
	require.NoError(t, err)
	requireGood(t, e.Node)
	inSink, err := e.sink.DB(t.Context())
	require.NoError(t, err)
	happened := map[string]map[string]int{"sink": tally(t, inSink), "own": tally(t, e.own), "store": tally(t, e.DB())}
	var runs []projections.SyncRun
	require.NoError(t, e.Engine().View(t.Context(), func(v projections.View) (err error) {
		runs, err = v.Runs(events.RunID{}, 100_000)
		return err
	}))
	done, lost, owed := 0, 0, 0
	for _, run := range runs {
		for _, target := range run.PostSync.Targets {
			n := happened[target.Target][run.Run.String()]
			name := fmt.Sprintf("%s of run %s (%s)", target.Target, run.Run, run.Sync)
			owed++
			switch {
			case run.Sync == "exactly":
				require.Equal(t, 1, n, name)
				require.Equal(t, decider.PostCompleted, target.Effect, name)
			case n == 0:
				lost++
				shown := target.Unconfirmed || target.Outcome == events.Refused || target.Outcome == events.Unknown || target.Effect == decider.PostFailed
				require.True(t, shown, "%s is lost, and looks like %+v", name, target)
			default:
				require.Equal(t, 1, n, name)
				done++
				require.True(t, target.Effect == decider.PostCompleted || target.Unconfirmed, name)
			}
		}
	}
	require.Greater(t, owed, 3*kills, "each process came to some effects")
	require.Positive(t, done)
	t.Logf("%d kills, %d runs; of the effects at most once %d happened and %d were lost", kills, len(runs), done, lost)
	require.NoError(t, errors.Join(e.Close(), e.close()))
}

// tally counts the effects of each run in one place.
func tally(t *testing.T, db *sql.DB) map[string]int {
	t.Helper()
	rows, err := db.Query(`SELECT run, count(*) FROM effects GROUP BY run`)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	counts := map[string]int{}
	for rows.Next() {
		var run string
		var n int
		require.NoError(t, rows.Scan(&run, &n))
		counts[run] = n
	}
	require.NoError(t, rows.Err())
	return counts
}
