//go:build unix

package towlinetest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// calls counts the calls of each test, for a test may call CrashProcesses more than once.
var calls struct {
	sync.Mutex
	of   map[string]int
	dirs map[string]string
}

// Dir is a folder that a test and the processes which it kills have in common: in the test it is like t.TempDir, but the same
// at each call; in the other processes it is that of the test.
func Dir(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(dirVariable); dir != "" {
		return dir
	}
	calls.Lock()
	defer calls.Unlock()
	dir := calls.dirs[t.Name()]
	if dir == "" {
		dir = t.TempDir()
		if calls.dirs == nil {
			calls.dirs = map[string]string{}
		}
		calls.dirs[t.Name()] = dir
		t.Cleanup(func() {
			calls.Lock()
			defer calls.Unlock()
			delete(calls.dirs, t.Name())
		})
	}
	return dir
}

// callOf names this call of a test.
func callOf(t testing.TB) string {
	calls.Lock()
	defer calls.Unlock()
	if calls.of == nil {
		calls.of = map[string]int{}
	}
	if calls.of[t.Name()]++; calls.of[t.Name()] == 1 {
		t.Cleanup(func() {
			calls.Lock()
			defer calls.Unlock()
			delete(calls.of, t.Name())
		})
	}
	return fmt.Sprintf("%s %d", t.Name(), calls.of[t.Name()])
}

// Run kills the processes.
func (p Processes) Run(t testing.TB) {
	t.Helper()
	call := callOf(t)
	switch mine := os.Getenv(callVariable); mine {
	case "":
		p.withDefaults().killAll(t, call)
	case call:
		p.child(t)
	default: // the process is for another call of the same test
	}
}

// kill ends the process as if it were killed from outside, but in time: on a busy machine its work may be over before a
// parent has its turn.
func kill() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }

// The words of a process to its parent.
const (
	saysPoint = "point"
	saysEnded = "ended"
)

// child is the process that is to be killed.
func (p Processes) child(t testing.TB) {
	t.Helper()
	go func() { // nobody is to outlive the test
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	after, err := time.ParseDuration(os.Getenv(afterVariable))
	if err != nil {
		t.Fatalf("towlinetest: %s: %v", afterVariable, err)
	}
	time.AfterFunc(after, kill)
	if err := p.Work(t.Context()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	say(saysEnded)
	os.Exit(0)
}

// parent is the pipe that the parent reads to its end, so no program that run starts may hold it.
var parent = sync.OnceValue(func() *os.File {
	const pipe = 3
	syscall.CloseOnExec(pipe)
	return os.NewFile(pipe, "parent")
})

func say(words ...string) { fmt.Fprintln(parent(), strings.Join(words, " ")) }

var points struct {
	sync.Mutex
	passed int
}

// killAtPoint kills the process if it is to die at this point.
func killAtPoint(name string) {
	die, err := strconv.Atoi(os.Getenv(pointVariable))
	if err != nil {
		return
	}
	points.Lock()
	defer points.Unlock()
	if points.passed++; points.passed != die {
		return
	}
	say(saysPoint, name)
	kill()
	select {} // the signal is on its way
}

func (p Processes) killAll(t testing.TB, call string) {
	t.Helper()
	seed := seedOf(p.Seed)
	if seed == 0 {
		seed = rand.Uint64()
	}
	chance := rand.New(rand.NewPCG(seed, 0))
	command := again(t.Name(), "-towline.seed="+seedText(seed))
	t.Logf("towlinetest: again, with the same delays: %s", command)
	over := time.Now().Add(p.Limit)
	within, kills := p.First, 0
	for {
		o := order{call: call, dir: Dir(t), after: time.Until(over)}
		last := kills == p.Kills
		if !last {
			o.after = min(o.after, time.Duration(chance.Int64N(int64(within))))
			if kills%2 == 1 { // it shall come there
				o.point, o.after = 1+chance.IntN(1+kills/2), min(time.Until(over), 4*within)
			}
		}
		died, err := o.start(t)
		switch {
		case err != nil:
			t.Fatalf("towlinetest: process %d has ended by itself, and not well: %v\nagain: %s", kills+1, err, command)
		case died == "" && kills == 0:
			t.Fatalf("towlinetest: the first process had ended before it was killed, within %s: nothing was tested. Give it more to do, or set First.\nagain: %s", o.after, command)
		case died == "":
			t.Logf("towlinetest: %s killed; the next has ended by itself", count(kills, "process"))
			p.Oracle(t)
			return
		case time.Now().After(over):
			t.Fatalf("towlinetest: after %s, of which %d were killed, none has ended within %s\nagain: %s", count(kills+1, "process"), kills, p.Limit, command)
		}
		kills++
		t.Logf("towlinetest: process %d was killed %s", kills, died)
		within += within / 4
	}
}

// order is what is to happen to one process.
type order struct {
	call, dir string
	after     time.Duration // it is killed so long behind its begin
	point     int           // or at this one of the points that it comes to; 0: at none
}

// start starts a process and waits for its end. died says how it was killed; empty: it has ended well.
func (o order) start(t testing.TB) (died string, err error) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"-test.run=" + pattern(t.Name()), "-test.count=1"}, ownFlags(os.Args[1:])...)...)
	cmd.Env = append(os.Environ(), callVariable+"="+o.call, dirVariable+"="+o.dir, afterVariable+"="+o.after.String(), pointVariable+"=")
	if o.point > 0 {
		cmd.Env = append(cmd.Env, pointVariable+"="+strconv.Itoa(o.point))
	}
	var said tail
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = time.Second // of what it has started, and what still holds them
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	defer func() { _ = stdin.Close() }() // Wait has closed it
	read, write, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer read.Close()
	cmd.ExtraFiles = []*os.File{write}
	err = cmd.Start()
	_ = write.Close() // the process has its own
	if err != nil {
		return "", err
	}
	died, ended := o.watch(cmd, read)
	err = cmd.Wait()
	switch {
	case ended && err == nil:
		return "", nil
	case killed(err):
		return died, nil
	case err == nil:
		err = errors.New("it does not come to this call of CrashProcesses: what stands before it differs in the other process")
	}
	return "", fmt.Errorf("%w\n%s", err, said.String())
}

// watch listens to a process until it ends. One that does not kill itself in time is killed, too: it hangs before its begin.
func (o order) watch(cmd *exec.Cmd, pipe io.Reader) (died string, ended bool) {
	const patience = time.Minute
	timer := time.AfterFunc(patience+o.after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	died = fmt.Sprintf("%s after its begin", o.after.Round(10*time.Microsecond))
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case saysPoint:
			died = "at point " + rest
		case saysEnded:
			ended = true
		}
	}
	return died, ended
}

// killed reports the end by SIGKILL.
func killed(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// ownFlags are those of the test, without those of package testing, which are about this process.
func ownFlags(args []string) (own []string) {
	for _, a := range args {
		if !strings.HasPrefix(a, "-test.") {
			own = append(own, a)
		}
	}
	return own
}

// tail keeps the end of what a process writes.
type tail struct {
	mu  sync.Mutex
	end []byte
}

const tailBytes = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	if n := len(t.end); n > tailBytes {
		t.end = t.end[n-tailBytes:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.end))
}
