//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// commandsOfClients are those of scripts about commands that ask an engine.
var commandsOfClients = map[string]func(*testscript.TestScript, bool, []string){
	"id": id, "sees": sees, "says": says, "appears": appears, "follow": follow, "finish": finish,
}

// id SYNC sets ID to the newest run of a sync.
func id(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec("towline", "run", "list", "--where", "sync:"+args[0], "--limit", "1", "-o", "jsonl"))
	line, _, _ := strings.Cut(ts.ReadFile("stdout"), "\n")
	var run struct{ Alias string }
	if err := json.Unmarshal([]byte(line), &run); err != nil || run.Alias == "" {
		ts.Fatalf("there is no run of %s: %q", args[0], line)
	}
	ts.Setenv("ID", run.Alias)
}

// sees ARGS… runs a list of towline until it has a row.
func sees(ts *testscript.TestScript, _ bool, args []string) {
	retry(ts, strings.Join(args, " "), func() bool {
		ts.Check(ts.Exec("towline", append(args, "-o", "jsonl")...))
		return ts.ReadFile("stdout") != ""
	})
}

// says PATTERN ARGS… runs towline until its answer fits.
func says(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[0])
	retry(ts, strings.Join(args, " "), func() bool {
		ts.Check(ts.Exec("towline", args[1:]...))
		return pattern.MatchString(ts.ReadFile("stdout"))
	})
}

// appears FILE [PATTERN] waits for a file, and for a line in it.
func appears(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("")
	if len(args) > 1 {
		pattern = regexp.MustCompile("(?m)" + args[1])
	}
	retry(ts, strings.Join(args, " "), func() bool {
		b, err := os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && pattern.Match(b)
	})
}

// retry looks until something is so. Nothing tells a script from outside when another process has come so far.
func retry(ts *testscript.TestScript, what string, is func() bool) {
	const between = 20 * time.Millisecond
	for over := time.Now().Add(patience); !is(); time.Sleep(between) {
		if time.Now().After(over) {
			ts.Fatalf("it does not come to %s", what)
		}
	}
}

// follow NAME ARGS… runs towline in the background as start does, with its standard output in NAME.out.
func follow(ts *testscript.TestScript, _ bool, args []string) {
	path := filepath.Join(strings.Split(ts.Getenv("PATH"), string(os.PathListSeparator))[0], "towline")
	cmd := exec.Command(path, args[1:]...)
	for _, name := range []string{"HOME", "PATH", "TERM", "TOWLINE_API_LISTEN"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	out, err := os.Create(ts.MkAbs(args[0] + ".out"))
	ts.Check(err)
	defer out.Close()
	cmd.Stdout = out
	begin(ts, args[0], cmd)
}

// finish NAME CODE waits until it ends by itself, with this exit code.
func finish(ts *testscript.TestScript, _ bool, args []string) {
	c := running.of(ts)[args[0]]
	delete(running.of(ts), args[0])
	for line := range c.lines {
		fmt.Fprintln(&c.all, line)
	}
	_ = c.cmd.Wait() // the state says it
	if got := fmt.Sprint(c.cmd.ProcessState.ExitCode()); got != args[1] {
		ts.Fatalf("%s ended with %s, want %s:\n%s", args[0], got, args[1], c.all.String())
	}
}
