package sqlite

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// C-43, DUR-1: when a caller is told that its transaction is done, all that SQLite has written of it is on the disk, not
// in the memory of the kernel: a power cut behind it takes nothing. The kernel is asked, through strace. With
// synchronous normal the same test finds that it is not so (DUR-2), which proves that it looks.
func TestWhatIsAcknowledgedIsSynced(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil && os.Getenv("TOWLINE_TEST_SERVICES") != "require" {
		t.Skip("strace is not installed")
	}
	require.NoError(t, err)
	const transactions = 50
	require.Equal(t, acks{all: transactions}, traceAcks(t, strace, "write-few", transactions))
	require.Equal(t, acks{all: transactions, unsynced: transactions}, traceAcks(t, strace, "write-few-normal", transactions))
}

func init() {
	few := func(synchronous string) func(string) error {
		return func(args string) error {
			n, path, _ := strings.Cut(args, " ")
			count, err := strconv.Atoi(n)
			if err != nil {
				return err
			}
			s, err := Open(context.Background(), path, Options{Synchronous: synchronous})
			if err != nil {
				return err
			}
			for i := range count {
				if err := appendNext(s, i); err != nil {
					return err
				}
				if _, err := os.Stdout.WriteString("done\n"); err != nil {
					return err
				}
			}
			return s.Close()
		}
	}
	roles["write-few"], roles["write-few-normal"] = few("full"), few("normal")
}

// acks counts what a process told its callers, and how much of it while the log had bytes that were not synced.
type acks struct{ all, unsynced int }

// call is a line of strace: the thread, the call, the file of its first argument. A call that another thread interrupts
// has two lines; a write counts from the first, and a sync from the second.
var call = regexp.MustCompile(`^\d+ +(?:<\.\.\. )?(\w+)(?:\(\d+<([^>]*)>(.*)| resumed>)`)

func traceAcks(t *testing.T, strace, role string, n int) (found acks) {
	t.Helper()
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace")
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(strace, "-f", "-y", "-e", "trace=write,pwrite64,fsync,fdatasync", "-o", trace, exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), roleVariable+"="+role+" "+strconv.Itoa(n)+" "+filepath.Join(dir, "towline.db"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)

	f, err := os.Open(trace)
	require.NoError(t, err)
	defer f.Close()
	dirty, syncing := false, false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		m := call.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		name, wal := m[1], strings.HasSuffix(m[2], "-wal")
		begun := strings.Contains(lines.Text(), "<unfinished")
		switch {
		case name == "pwrite64" && wal, name == "write" && wal:
			dirty = true
		case strings.HasSuffix(name, "sync") && wal && begun:
			syncing = true
		case strings.HasSuffix(name, "sync") && (wal || syncing):
			dirty, syncing = false, false
		case name == "write" && strings.Contains(m[3], `"done\n"`):
			found.all++
			if dirty {
				found.unsynced++
			}
		}
	}
	return found
}
