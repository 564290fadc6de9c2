//go:build unix

package exec_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // to look into the sink

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/provider/exec"
	"github.com/towline-dev/towline/sink"
	"github.com/towline-dev/towline/sink/sqlite"
)

var before = time.Date(2024, 3, 11, 0, 0, 0, 0, time.UTC)

// works is an engine in a folder, whose one sync runs a script there.
type works struct {
	script   string
	retry    towline.Retry
	unfenced bool
	snapshot bool
	stall    time.Duration
	knobs    towline.Knobs
	log      *enginetest.Log
}

func (w works) open(ctx context.Context, dir string) (*node.Node, *sqlite.Destination, error) {
	o := sh(w.script)
	o.Dir, o.Folder, o.StallTimeout = dir, filepath.Join(dir, "attempts"), w.stall
	o.Logger = slog.New(slog.DiscardHandler)
	p, err := exec.New(o)
	if err != nil {
		return nil, nil, err
	}
	destination := sqlite.File(filepath.Join(dir, "sink.db"))
	var opener sink.Opener = destination
	if w.unfenced {
		opener = sink.Discard
	}
	k := w.knobs
	k.ReconcileInterval, k.BackfillChunk = time.Second, 24*time.Hour
	logger := slog.New(slog.DiscardHandler)
	if w.log != nil {
		logger = slog.New(slog.NewTextHandler(w.log, nil))
	}
	n, err := node.Open(ctx, node.Config{
		Store: filepath.Join(dir, "towline.db"), Knobs: k, Logger: logger, Unsynced: true,
		Syncs: []node.Sync{{
			Name: "numbers", ProviderName: exec.Name, Sources: []string{"north"}, Provider: p, Sink: opener,
			Datasets: []towline.Dataset{{Name: "numbers", Retry: w.retry, Snapshot: w.snapshot}},
		}},
	})
	return n, destination, err
}

// session is a running engine.
type session struct {
	*node.Node
	t    *testing.T
	sink *sqlite.Destination
	dir  string
	stop context.CancelFunc
	done chan error
}

func (w works) start(t *testing.T, dir string) *session {
	t.Helper()
	n, d, err := w.open(t.Context(), dir)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	s := &session{Node: n, t: t, sink: d, dir: dir, stop: cancel, done: make(chan error, 1)}
	go func() { s.done <- n.Run(ctx) }()
	t.Cleanup(cancel)
	return s
}

// end stops it in order.
func (s *session) end() {
	s.t.Helper()
	s.stop()
	require.NoError(s.t, <-s.done)
	require.NoError(s.t, s.sink.Close())
}

func (s *session) plan(units int) events.RunID {
	s.t.Helper()
	p, err := s.Engine().Plan(s.t.Context(), towline.RunSpec{
		Sync: "numbers", Mode: towline.Backfill, Since: before.AddDate(0, 0, -units), Before: before,
	})
	require.NoError(s.t, err)
	return p.Run
}

func (s *session) wait(id events.RunID) projections.SyncRun {
	s.t.Helper()
	run, err := s.Engine().Wait(s.t.Context(), id)
	require.NoError(s.t, err)
	return run
}

func (s *session) units(id events.RunID) (all []projections.SyncRunUnit) {
	s.t.Helper()
	require.NoError(s.t, s.Engine().View(s.t.Context(), func(v projections.View) (err error) {
		all, err = v.Units(id, 0, 1000)
		return err
	}))
	return all
}

func (s *session) requireGood() {
	s.t.Helper()
	v, err := s.Verify(s.t.Context())
	require.NoError(s.t, err)
	require.Empty(s.t, v.Violations)
	require.Empty(s.t, v.Differences)
}

// stored asks the sink.
func stored(t *testing.T, dir, query string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "sink.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, db.QueryRow(query).Scan(&n))
	return n
}

// EX-4, EX-5, RL-2, U-9, U-10, E-2: of a program that has ended badly a rate limit is tried again by itself, another category if it is
// declared; what it said on standard error stands in the events.
func TestHowAProgramEndsIsOnRecord(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		on     []events.Category
		status events.RunStatus
		cause  events.Category // of the retry
		failed events.Category
	}{
		"rate limit":        {script: `echo '{"towline":"retry_after","seconds":0.05}'; echo "429" >&2; exit 75`, status: events.RunSucceeded, cause: events.RateLimit},
		"network, declared": {script: `echo "429" >&2; exit 69`, on: []events.Category{events.Network}, status: events.RunSucceeded, cause: events.Network},
		"network":           {script: `echo "429" >&2; exit 69`, status: events.RunFailed, failed: events.Network},
		"killed":            {script: `echo "429" >&2; kill -9 $$`, status: events.RunFailed, failed: events.ProviderError},
	} {
		t.Run(name, func(t *testing.T) {
			w := works{script: `echo '{"towline":"record","data":{}}'; [ "$TOWLINE_ATTEMPT" != 1 ] || { ` + c.script + `; }`}
			if c.on != nil {
				w.retry = towline.Retry{Max: 1, Backoff: time.Millisecond, On: c.on}
			}
			s := w.start(t, t.TempDir())
			id := s.plan(1)
			require.Equal(t, c.status, s.wait(id).Status)
			log := enginetest.Since(t, s.Engine(), 0)
			var d exec.Detail
			if c.failed != "" {
				failed := enginetest.Only[events.UnitFailed](log)
				require.Len(t, failed, 1)
				require.Equal(t, c.failed, failed[0].Category)
				require.NoError(t, json.Unmarshal(failed[0].Result.Detail, &d))
				require.Contains(t, string(s.units(id)[0].Result.Detail), "429")
			} else {
				retried := enginetest.Only[events.UnitRetryScheduled](log)
				require.Len(t, retried, 1)
				require.Equal(t, c.cause, retried[0].Cause)
				require.NoError(t, json.Unmarshal(retried[0].Result.Detail, &d))
				require.Equal(t, 1, stored(t, s.dir, `SELECT count(*) FROM numbers`))
			}
			require.Equal(t, "429\n", d.Stderr)
			s.requireGood()
			s.end()
		})
	}
}

// EX-3, HU-5: state moves with the rows and the fence in one transaction of the sink, and with nothing else: what an attempt has
// left that then failed is seen by nobody.
func TestStateMovesOnlyWithTheData(t *testing.T) {
	w := works{snapshot: true, script: `cat "$TOWLINE_STATE_FILE" >>states; echo >>states
		echo '{"towline":"record","key":"a","data":{"n":9007199254740993}}'
		echo '{"towline":"state","state":{"after":'$TOWLINE_ATTEMPT', "id": 9007199254740993}}'
		[ ! -e fail ] || { rm fail; exit 1; }`}
	dir := t.TempDir()
	s := w.start(t, dir)
	once := func() events.RunStatus {
		p, err := s.Engine().Plan(t.Context(), towline.RunSpec{Sync: "numbers"})
		require.NoError(t, err)
		return s.wait(p.Run).Status
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fail"), nil, 0o600))
	require.Equal(t, events.RunFailed, once())
	require.Equal(t, events.RunSucceeded, once())
	require.Equal(t, events.RunSucceeded, once())
	states, err := os.ReadFile(filepath.Join(dir, "states"))
	require.NoError(t, err)
	require.Equal(t, "null\nnull\n"+`{"after":1,"id":9007199254740993}`+"\n", string(states))
	s.end()
	require.Equal(t, 9007199254740993, stored(t, dir, `SELECT json_extract(data, '$.n') FROM numbers`))
	require.Equal(t, 9007199254740993, stored(t, dir, `SELECT json_extract(state, '$.id') FROM _towline_state`))
}

// EX-6, U-16, N-6, SC-360, HC-52: a unit whose program our own stop has ended is handed back without using a count, if its sink is fenced: it may
// not even have a retry. Behind another sink nobody knows what the program has done, so it is left to recovery.
func TestAStopHandsAProgramBack(t *testing.T) {
	for name, unfenced := range map[string]bool{"fenced": false, "unfenced": true} {
		t.Run(name, func(t *testing.T) {
			w := works{unfenced: unfenced, knobs: towline.Knobs{ShutdownGrace: time.Millisecond}, script: `
				echo '{"towline":"record","data":{}}'
				[ "$TOWLINE_ATTEMPT" != 1 ] || { trap 'exit 0' TERM; : >ready; while :; do sleep 0.02; done; }`}
			dir := t.TempDir()
			s := w.start(t, dir)
			id := s.plan(1)
			eventually(t, "at work", exists(filepath.Join(dir, "ready")))
			s.end()
			s = w.start(t, dir)
			run := s.wait(id)
			retried := enginetest.Only[events.UnitRetryScheduled](enginetest.Since(t, s.Engine(), 0))
			if unfenced {
				require.Equal(t, events.RunFailed, run.Status)
				require.Equal(t, events.WorkerLost, s.units(id)[0].ErrorCategory)
				require.Empty(t, retried)
			} else {
				require.Equal(t, events.RunSucceeded, run.Status)
				require.Len(t, retried, 1)
				require.Equal(t, events.HandedBack, retried[0].Cause)
				require.Equal(t, 1, stored(t, dir, `SELECT count(*) FROM numbers`))
			}
			s.requireGood()
			s.end()
			requireEmpty(t, filepath.Join(dir, "attempts"))
		})
	}
}

// EX-6, X-1: a cancelled unit ends its program.
func TestACancelEndsAProgram(t *testing.T) {
	w := works{script: `echo $$ >self; while :; do sleep 1; done`}
	dir := t.TempDir()
	s := w.start(t, dir)
	id := s.plan(1)
	self := number(t, filepath.Join(dir, "self"))
	require.NoError(t, s.Engine().CancelRun(t.Context(), id, towline.Actor{Name: "ada", Reason: "wrong window"}))
	requireGone(t, self)
	require.Equal(t, events.RunIsCancelled, s.wait(id).Status)
	s.end()
}

// EX-8, WHY-1: a program that says nothing is shown as stalled, beside the one reason; any sign of life ends that.
func TestASilentProgramIsStalled(t *testing.T) {
	w := works{stall: 100 * time.Millisecond, script: `until [ -e speak ]; do sleep 0.02; done
		until [ -e go ]; do echo alive >&3; sleep 0.02; done`}
	dir := t.TempDir()
	s := w.start(t, dir)
	id := s.plan(1)
	remark := func() string {
		why, err := s.Why(t.Context(), s.units(id)[0].Unit.String())
		require.NoError(t, err)
		if why.Remark != "" {
			require.EqualValues(t, "running", why.Reason.Why)
		}
		return why.Remark
	}
	eventually(t, "it is stalled", func() bool { return remark() != "" })
	require.Contains(t, remark(), "stalled: no word of its provider since 20")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "speak"), nil, 0o600))
	eventually(t, "it is no more", func() bool { return remark() == "" })
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	require.Equal(t, events.RunSucceeded, s.wait(id).Status)
	require.Empty(t, remark())
	s.end()
}

// killed is what the engines run that are killed: a program that starts another, which holds on when both its parents die.
var killed = works{
	retry: towline.Retry{Max: 1000, Backoff: time.Millisecond},
	script: `
		(trap '' TERM; echo $TOWLINE_UNIT_ID >>begun; i=0; while [ $i -lt 20 ]; do echo '{"n":'$i'}'; i=$((i+1)); done; sleep 0.05; echo >>over) &
		wait`,
}

// stubborn is an engine whose program has a child that holds on: it ignores all that can be ignored.
var stubborn = works{script: `
	[ "$TOWLINE_ATTEMPT" = 1 ] || exit 0
	(trap '' TERM HUP INT; exec </dev/null >/dev/null 2>&1 3>&-; while :; do sleep 1; done) & echo $! >child; echo $$ >self; wait`}

// stubbornVariable makes it that one.
const stubbornVariable = "EXEC_TEST_STUBBORN"

// engine is the process that is killed: it works on what there is until it is ended.
func engine(dir string) int {
	w := killed
	if os.Getenv(stubbornVariable) != "" {
		w = stubborn
	}
	n, _, err := w.open(context.Background(), dir)
	if err == nil {
		err = n.Run(context.Background())
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

var killSeed = flag.Uint64("kill.seed", 0, "of the test that kills engines; 0: a new one")

// EX-7, HU-5, N-3, C-13: engines are killed with SIGKILL at random while programs work. Their programs die with them, what those
// have started is found by the next start, before anything is claimed, and in the end every row is there once.
func TestKilledEnginesLoseAndDoubleNothing(t *testing.T) {
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-kill.seed=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	const units, kills = 40, 8
	n, d, err := killed.open(t.Context(), dir)
	require.NoError(t, err)
	id := (&session{Node: n, t: t}).plan(units)
	require.NoError(t, n.Close())
	require.NoError(t, d.Close())
	for range kills {
		cmd := osexec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), engineVariable+"="+dir)
		cmd.Stderr = os.Stderr
		at := begunIn(dir)
		require.NoError(t, cmd.Start())
		eventually(t, "a program has begun", func() bool { return begunIn(dir) > at || processed(cmd) })
		<-time.After(time.Duration(random.IntN(60)) * time.Millisecond) // the moment is what is random here
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // killed
	}
	s := killed.start(t, dir)
	require.Equal(t, events.RunSucceeded, s.wait(id).Status)
	s.requireGood()
	s.end()
	require.Equal(t, units*20, stored(t, dir, `SELECT count(*) FROM numbers`))
	require.Equal(t, units, stored(t, dir, `SELECT count(DISTINCT window) FROM numbers`))
	requireEmpty(t, filepath.Join(dir, "attempts"))
	lost := 0
	for _, u := range s.lastUnits(id) {
		lost += u.Attempt - 1
	}
	t.Logf("%d kills, %d attempts were lost", kills, lost)
	require.Positive(t, lost)
}

// EX-7, N-4: a program dies with its engine. What it has started, and what ignores every other signal, is gone when the next
// start has returned, before anything can be claimed.
func TestAStartEndsWhatAKilledEngineHasLeft(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux does a program die with its engine, and are orphans known for sure")
	}
	dir := t.TempDir()
	n, d, err := stubborn.open(t.Context(), dir)
	require.NoError(t, err)
	(&session{Node: n, t: t}).plan(1)
	require.NoError(t, n.Close())
	require.NoError(t, d.Close())
	cmd := osexec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), engineVariable+"="+dir, stubbornVariable+"=yes")
	require.NoError(t, cmd.Start())
	self, child := number(t, filepath.Join(dir, "self")), number(t, filepath.Join(dir, "child"))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	requireGone(t, self)
	require.True(t, lives(child))

	n, d, err = stubborn.open(t.Context(), dir)
	require.NoError(t, err)
	require.False(t, lives(child))
	requireEmpty(t, filepath.Join(dir, "attempts"))
	require.NoError(t, n.Close())
	require.NoError(t, d.Close())
}

func begunIn(dir string) int {
	b, _ := os.ReadFile(filepath.Join(dir, "begun")) // missing: none
	return len(b)
}

func processed(cmd *osexec.Cmd) bool { return cmd.ProcessState != nil }

// lastUnits opens the store once more to read the units.
func (s *session) lastUnits(id events.RunID) []projections.SyncRunUnit {
	s.t.Helper()
	n, d, err := killed.open(s.t.Context(), s.dir)
	require.NoError(s.t, err)
	defer func() {
		require.NoError(s.t, n.Close())
		require.NoError(s.t, d.Close())
	}()
	return (&session{Node: n, t: s.t}).units(id)
}

var _ provider.Starter = (*exec.Provider)(nil)
