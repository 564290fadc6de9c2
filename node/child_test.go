//go:build unix

package node_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/sink"
)

// childVariable makes the test binary a process of Towline, on the store that it names.
const childVariable = "NODE_TEST_STORE"

// The words that parent and child say to each other.
const (
	saysWorking = "working" // a provider was called
	saysPlanned = "planned"
	saysEnded   = "ended"
)

// childSync is what both processes have configured. With retry a lost worker is tried again a second later.
func childSync(retry bool, does provider.Func) node.Sync {
	s := works(does)
	s.PostSync = towline.PostSync{}
	if retry {
		s.Datasets[0].Retry = towline.Retry{Max: 1, Backoff: time.Second}
	}
	return s
}

func childKnobs() towline.Knobs {
	return towline.Knobs{Lease: 3 * time.Second, MaxLifetime: time.Minute, ReconcileInterval: time.Second,
		BackfillChunk: day}
}

// child is the other process: it plans a run of two units, says so, works on the first at once, and hangs in the second
// until it is told to go on.
func child() int {
	if role := os.Getenv(messageRole); role != "" {
		return messageChild(role)
	}
	if os.Getenv(pruneRole) != "" {
		return pruneChild()
	}
	in := bufio.NewScanner(os.Stdin)
	told := make(chan struct{}, 1)
	go func() {
		for in.Scan() {
			told <- struct{}{}
		}
	}()
	s := childSync(os.Getenv("NODE_TEST_RETRY") != "", func(ctx context.Context, u provider.Unit,
		_ sink.Sink) (provider.Result, error) {
		fmt.Println(saysWorking, u.ID, u.Attempt)
		if u.Window.To.Equal(before) && u.Attempt == 1 {
			select {
			case <-told:
			case <-ctx.Done():
				return provider.Result{}, context.Cause(ctx)
			}
		}
		return provider.Result{}, nil
	})
	ctx := context.Background()
	n, err := node.Open(ctx, node.Config{
		Store: os.Getenv(childVariable), Syncs: []node.Sync{s}, Knobs: childKnobs(), Logger: quiet(), Unsynced: true,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- n.Run(running) }()
	p, err := n.Engine().Plan(ctx, spec(2))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(saysPlanned, p.Run)
	run, err := n.Engine().Wait(ctx, p.Run)
	fmt.Println(saysEnded, run.Status, err)
	stop()
	if err := <-done; err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// process is a child, seen from its parent.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    *os.File
	lines chan string
	path  string
}

func spawn(t *testing.T, retry bool) *process {
	t.Helper()
	if retry {
		return spawnWith(t, "NODE_TEST_RETRY=yes")
	}
	return spawnWith(t)
}

func spawnWith(t *testing.T, environment ...string) *process {
	t.Helper()
	p := &process{t: t, path: filepath.Join(t.TempDir(), "towline.db"), lines: make(chan string, 100)}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(append(os.Environ(), childVariable+"="+p.path), environment...)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	p.cmd.Stdin, p.in = read, write
	require.NoError(t, p.cmd.Start())
	require.NoError(t, read.Close())
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // if it is still there
		_, _ = p.cmd.Process.Wait()
		for range p.lines {
		}
		require.NoError(t, p.in.Close())
	})
	return p
}

// hear waits for a line, and returns what follows its first word.
func (p *process) hear(word string) []string {
	p.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case line, ok := <-p.lines:
			require.True(p.t, ok, "it ended without saying %q", word)
			if fields := strings.Fields(line); fields[0] == word {
				return fields[1:]
			}
		case <-deadline:
			p.t.Fatalf("it did not say %q", word)
		}
	}
}

// atWork waits until the unit that hangs is at work.
func (p *process) atWork() events.RunID {
	p.t.Helper()
	id, err := events.ParseRunID(p.hear(saysPlanned)[0])
	require.NoError(p.t, err)
	for range 2 { // of two units, in any order
		p.hear(saysWorking)
	}
	return id
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// C-13, C-14, N-3, N-4, HC-02, HC-11, SC-171, SC-251: a process that is killed in the middle of a unit is recovered by
// the next start at once, without waiting for a lease: a unit with a retry policy goes on behind its backoff, another
// fails as lost; the run ends once, and more passes change nothing.
func TestAKilledProcessIsRecoveredAtOnce(t *testing.T) {
	for _, retry := range []bool{true, false} {
		t.Run(fmt.Sprintf("retry=%v", retry), func(t *testing.T) {
			p := spawn(t, retry)
			id := p.atWork()
			p.signal(syscall.SIGKILL)
			_, err := p.cmd.Process.Wait()
			require.NoError(t, err)

			calls := make(chan int, 10)
			n := open(t, node.Config{Store: p.path, Knobs: childKnobs(), Syncs: []node.Sync{childSync(retry,
				func(_ context.Context, u provider.Unit, _ sink.Sink) (provider.Result, error) {
					calls <- u.Attempt
					return provider.Result{}, nil
				})}})
			recovered := enginetest.Only[events.NodeRecovered](logOf(t, n))
			require.Equal(t, 1, recovered[len(recovered)-1].GoneIncarnations)
			expired := enginetest.Only[events.UnitLeaseExpired](logOf(t, n))
			require.NotEmpty(t, expired)
			for _, x := range expired {
				require.Equal(t, events.LeaseIncarnationGone, x.Cause)
			}
			r := start(t, n)
			run, err := n.Engine().Wait(t.Context(), id)
			require.NoError(t, err)
			close(calls)
			if retry {
				require.Equal(t, events.RunSucceeded, run.Status)
				for attempt := range calls {
					require.Equal(t, 2, attempt)
				}
			} else {
				require.NotEqual(t, events.RunSucceeded, run.Status)
				require.Empty(t, calls, "RW-1: nobody works on it again")
				lost := 0
				for _, u := range units(t, n, id) {
					if u.ErrorCategory == events.WorkerLost {
						require.Equal(t, 1, u.Attempt)
						lost++
					}
				}
				require.Positive(t, lost)
			}
			require.Len(t, enginetest.Only[events.RunFinalized](logOf(t, n)), 1)
			requireGood(t, n)
			r.end()
		})
	}
}

// HC-06, C-17, U-19: a process that was suspended beyond the lease of its unit, with nobody else running, comes back to
// one orderly end of it: it is lost or tried again once, its late result is refused, and no unit succeeds twice.
func TestASuspendedProcessComesBackInOrder(t *testing.T) {
	for _, retry := range []bool{true, false} {
		t.Run(fmt.Sprintf("retry=%v", retry), func(t *testing.T) {
			t.Parallel() // it waits for the operating system most of the time
			p := spawn(t, retry)
			id := p.atWork()
			p.signal(syscall.SIGSTOP)
			<-time.After(3500 * time.Millisecond) // longer than the lease; this is about signals, so the time is real
			p.signal(syscall.SIGCONT)
			_, err := p.in.WriteString("go on\n")
			require.NoError(t, err)
			ended := p.hear(saysEnded)
			state, err := p.cmd.Process.Wait()
			require.NoError(t, err)
			require.True(t, state.Success())

			n := open(t, node.Config{Store: p.path, Knobs: childKnobs(), Syncs: []node.Sync{childSync(retry, nothingToDo)}})
			all := logOf(t, n)
			settled, expired := map[events.UnitID]int{}, map[events.UnitID]int{}
			for _, e := range all {
				unit, _ := e.Stream.Unit()
				switch e.Event.(type) {
				case events.UnitSucceeded, events.UnitFailed:
					settled[unit]++
				case events.UnitLeaseExpired:
					expired[unit]++
				}
			}
			for _, u := range units(t, n, id) {
				require.Equal(t, 1, settled[u.Unit], "each unit ends once")
				require.LessOrEqual(t, u.Attempt, 2)
				lost := u.Attempt == 2 || u.ErrorCategory == events.WorkerLost
				require.Equal(t, lost, expired[u.Unit] == 1)
			}
			if retry {
				require.Equal(t, string(events.RunSucceeded), ended[0])
			}
			require.Len(t, enginetest.Only[events.RunFinalized](all), 1)
			requireGood(t, n)
			require.NoError(t, n.Close())
		})
	}
}
