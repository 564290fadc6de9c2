package sim_test

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"testing"
)

var (
	all     = flag.Bool("all", false, "enumerate every window where the usual run takes a sample; it takes minutes")
	mutants = flag.Bool("mutants", false, "run the suite on one-line bugs, each of which it must find; it takes more than an hour, so add -timeout 0")
	soak    = flag.Duration("soak", 0, "how long TestSoak runs; 0: not at all")
	seed    = flag.Uint64("seed", 0, "of ids and of who moves next; 0: that of the golden files")
	second  = flag.Int("second", 0, "of the crashes during a recovery, only those at this boundary; 0: all")
	window  = flag.Int("window", 0, "enumerate only the crash at this boundary; 0: all")
)

// thin is the part of the places that the enumerations take whose kind of window another one takes in full.
func thin() int {
	if *all {
		return 1
	}
	return 7 // odd: places before and behind a call are both in it
}

// rewriting: golden files are to be written anew. The flag is that of package datadriven, whose files are among them.
func rewriting() bool { return flag.Lookup("rewrite").Value.String() == "true" }

// newSchedules are how many the swarm draws anew in a usual run.
const newSchedules = "40"

// Worlds make much garbage and keep little.
const gcPercent = 400

// TestMain runs the tests, and when all of them have run, looks at what they have reached.
func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(gcPercent)
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(newSchedules)
	}
	code := m.Run()
	if code == 0 && everything() {
		code = gate()
	}
	os.Exit(code)
}

// everything: nothing was left out.
func everything() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return !testing.Short() && sample == 1 && *seed == 0 && *window == 0 && *second == 0
}

func gate() int {
	problems, err := unreached()
	if err != nil {
		problems = append(problems, err.Error())
	}
	fmt.Printf("reached: %d things that can happen\n", len(reached.n))
	for _, p := range problems {
		fmt.Println(p)
	}
	return min(len(problems), 1)
}
