package towlinetest

import (
	"cmp"
	"flag"
	"fmt"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
)

// The flags of a test binary that imports this package. A report says which of them show a failure again.
var (
	seedFlag   = flag.Uint64("towline.seed", 0, "seed of towlinetest: of who moves next, of ids, of when processes are killed; 0: as the test has it")
	windowFlag = flag.Int("towline.window", 0, "window of towlinetest.CrashMatrix that is played alone; 0: all")
)

// seedOf is the seed that the command line gives, or the one of the test.
func seedOf(own uint64) uint64 { return cmp.Or(*seedFlag, own) }

// again is the command that runs a test alone.
func again(name string, flags ...string) string {
	words := []string{"go", "test"}
	if info, ok := debug.ReadBuildInfo(); ok {
		if pkg, isTest := strings.CutSuffix(info.Path, ".test"); isTest {
			words = append(words, pkg)
		}
	}
	words = append(words, "-run", "'"+pattern(name)+"'")
	return strings.Join(append(words, flags...), " ")
}

// pattern is what -run wants for one test, which may be a test of a test.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = fmt.Sprintf("^%s$", regexp.QuoteMeta(p))
	}
	return strings.Join(parts, "/")
}

func seedText(seed uint64) string { return strconv.FormatUint(seed, 10) }
