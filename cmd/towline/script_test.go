//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/towline-dev/towline/provider/git"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"towline": main}) }

// Each command in real processes: HC-59, and the sentences of the surfaces that a script cites at its head.
func TestScripts(t *testing.T) {
	examples, err := filepath.Abs(filepath.Join("..", "..", "examples"))
	if err != nil {
		t.Fatal(err)
	}
	commands := map[string]func(*testscript.TestScript, bool, []string){
		"repo": repo, "start": start, "await": await, "end": end, "hangup": hangup, "code": code,
		"freeze": freeze, "thaw": thaw,
		"ask": ask, "until": until, "worker": pythonWorker, "page": page,
	}
	maps.Copy(commands, commandsOfClients)
	maps.Copy(commands, commandsOffline)
	maps.Copy(commands, commandsOfManagers)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Cmds:                commands,
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars, "EXAMPLES="+examples, "TERM=dumb", "HOME="+e.WorkDir+"/home", "XDG_CONFIG_HOME=")
			e.Vars = append(e.Vars, "TOWLINE_API_LISTEN=unix:"+filepath.Join(e.WorkDir, socket)) // scripts run side by side
			return os.Mkdir(filepath.Join(e.WorkDir, "home"), 0o755)
		},
	})
}

// repo DIR makes a repository with commits in three months.
func repo(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	gitIn(ts, dir, "", "init", "-q")
	for _, month := range []string{"2024-01", "2024-02", "2024-05"} {
		commitIn(ts, dir, month)
	}
}

// commitIn makes a commit of a month.
func commitIn(ts *testscript.TestScript, dir, month string) {
	file, err := os.OpenFile(filepath.Join(dir, "file"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	_, err = fmt.Fprintln(file, month)
	ts.Check(err)
	ts.Check(file.Close())
	gitIn(ts, dir, month+"-03T12:00:00Z", "add", "file")
	gitIn(ts, dir, month+"-03T12:00:00Z", "commit", "-q", "-m", month)
}

func gitIn(ts *testscript.TestScript, dir, date string, args ...string) {
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=ada", "-c", "user.email=ada@example.org"}, args...)...)
	cmd.Env = append(git.Environment(), "GIT_COMMITTER_DATE="+date, "GIT_AUTHOR_DATE="+date)
	out, err := cmd.CombinedOutput()
	if err != nil {
		ts.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// child is a towline that runs beside the script.
type child struct {
	cmd   *exec.Cmd
	lines chan string // of standard error
	all   strings.Builder
}

// patience bounds every wait for a child; nothing depends on how long it is.
const patience = 2 * time.Minute

// running are the children of each script, by name.
type runningOf struct {
	mu sync.Mutex
	by map[*testscript.TestScript]map[string]*child
}

var running = runningOf{by: map[*testscript.TestScript]map[string]*child{}}

// of is that of a script; its children die with it.
func (r *runningOf) of(ts *testscript.TestScript) map[string]*child {
	r.mu.Lock()
	defer r.mu.Unlock()
	mine := r.by[ts]
	if mine == nil {
		mine = map[string]*child{}
		r.by[ts] = mine
		ts.Defer(func() {
			for _, c := range mine {
				_ = c.cmd.Process.Kill()
				for range c.lines { // the pipe is read to its end before Wait
				}
				_ = c.cmd.Wait()
			}
		})
	}
	return mine
}

// start NAME ARGS… runs towline in the background.
func start(ts *testscript.TestScript, _ bool, args []string) {
	cmd := exec.Command("towline", args[1:]...)
	path, err := exec.LookPath(filepath.Join(strings.Split(ts.Getenv("PATH"), string(os.PathListSeparator))[0], "towline"))
	ts.Check(err)
	cmd.Path, cmd.Err = path, nil
	for _, name := range []string{"HOME", "PATH", "TERM", "TZ", "TOWLINE_CONFIG", "TOWLINE_API_LISTEN", "XDG_CONFIG_HOME", "NOTIFY_SOCKET", "WATCHDOG_USEC", "STATE_DIRECTORY", "CREDENTIALS_DIRECTORY"} {
		if value := ts.Getenv(name); value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	begin(ts, args[0], cmd)
}

// begin lets a program run beside the script under a name.
func begin(ts *testscript.TestScript, name string, cmd *exec.Cmd) {
	cmd.Dir = ts.MkAbs(".")
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	c := &child{cmd: cmd, lines: make(chan string)}
	go read(stderr, c.lines)
	running.of(ts)[name] = c
}

func read(r io.Reader, lines chan<- string) {
	defer close(lines)
	for s := bufio.NewScanner(r); s.Scan(); {
		lines <- s.Text()
	}
}

// await NAME PATTERN reads its standard error until a line fits.
func await(ts *testscript.TestScript, _ bool, args []string) {
	c, pattern := running.of(ts)[args[0]], regexp.MustCompile(args[1])
	for over := time.After(patience); ; {
		select {
		case line, ok := <-c.lines:
			if !ok {
				ts.Fatalf("%s has ended without %q:\n%s", args[0], args[1], c.all.String())
			}
			fmt.Fprintln(&c.all, line)
			if pattern.MatchString(line) {
				return
			}
		case <-over:
			ts.Fatalf("%s does not say %q:\n%s", args[0], args[1], c.all.String())
		}
	}
}

// end NAME SIGNAL CODE sends a signal and waits; a CODE of -1 is death by the signal.
func end(ts *testscript.TestScript, _ bool, args []string) {
	c := running.of(ts)[args[0]]
	delete(running.of(ts), args[0])
	ts.Check(c.cmd.Process.Signal(signals[args[1]]))
	for line := range c.lines {
		fmt.Fprintln(&c.all, line)
	}
	_ = c.cmd.Wait() // the state says it
	ts.Logf("%s", c.all.String())
	if got := fmt.Sprint(c.cmd.ProcessState.ExitCode()); got != args[2] {
		ts.Fatalf("%s ended with %s, want %s:\n%s", args[0], got, args[2], c.all.String())
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".err"), []byte(c.all.String()), 0o600))
}

// hangup NAME asks it to reload.
func hangup(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(running.of(ts)[args[0]].cmd.Process.Signal(syscall.SIGHUP))
}

// freeze NAME stops it where it stands, as a machine that sleeps does; thaw NAME lets it go on.
func freeze(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(running.of(ts)[args[0]].cmd.Process.Signal(syscall.SIGSTOP))
}

func thaw(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(running.of(ts)[args[0]].cmd.Process.Signal(syscall.SIGCONT))
}

var signals = map[string]os.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}

// code N ARGS… runs towline and wants this exit code.
func code(ts *testscript.TestScript, _ bool, args []string) {
	got := "0"
	if err := ts.Exec("towline", args[1:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("towline %v: %v", args[1:], err)
		}
		got = fmt.Sprint(exit.ExitCode())
	}
	if got != args[0] {
		ts.Fatalf("towline %v ended with %s, want %s", args[1:], got, args[0])
	}
}
