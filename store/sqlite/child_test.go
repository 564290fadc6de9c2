package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// Locks, kills and races between processes are tested with real ones: this test binary, run again in another role.

const roleVariable = "TOWLINE_SQLITE_TEST_ROLE"

func TestMain(m *testing.M) {
	given := os.Getenv(roleVariable)
	if given == "" {
		os.Exit(m.Run())
	}
	role, path, _ := strings.Cut(given, " ")
	if err := roles[role](path); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	os.Exit(0)
}

var roles = map[string]func(path string) error{
	// open holds the store until standard input ends.
	"open":        func(path string) error { return holdStore(path, Options{}) },
	"open-shared": func(path string) error { return holdStore(path, Options{Shared: true}) },
	// once opens the shared store, appends its process id and leaves.
	"once": func(path string) error {
		s, err := Open(context.Background(), path, Options{Shared: true})
		if err != nil {
			return err
		}
		if err := appendNext(s, os.Getpid()); err != nil {
			return err
		}
		return s.Close()
	},
	// race appends a hundred events to one stream, against others who do the same.
	"race": func(path string) error {
		s, err := Open(context.Background(), path, Options{Shared: true})
		if err != nil {
			return err
		}
		for n := range 100 {
			if err := appendNext(s, n); err != nil {
				return err
			}
		}
		return s.Close()
	},
	// write appends for ever and prints every position that it was told is on disk.
	"write": func(path string) error {
		s, err := Open(context.Background(), path, Options{})
		if err != nil {
			return err
		}
		out := bufio.NewWriter(os.Stdout)
		for n := 0; ; n++ {
			if err := appendNext(s, n); err != nil {
				return err
			}
			fmt.Fprintln(out, n+1)
			if err := out.Flush(); err != nil {
				return err
			}
		}
	},
	// append appends one event, says how many there are, and one more for each line of standard input.
	"append": func(path string) error {
		s, err := Open(context.Background(), path, Options{})
		if err != nil {
			return err
		}
		told := bufio.NewScanner(os.Stdin)
		for n := 1; ; n++ {
			if err := appendNext(s, n); err != nil {
				return err
			}
			fmt.Println(n)
			if !told.Scan() {
				return s.Close()
			}
		}
	},
	"read":    readHead,
	"archive": archiveForEver,
	// submit commits a message of an application, and stays in the transaction of the next.
	"submit": submitAndHang,
	// lock is another program that holds the write lock until standard input ends.
	"lock": func(path string) error {
		db, err := sql.Open(driverName, "file:"+path+"?_txlock=immediate")
		if err != nil {
			return err
		}
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		return holdUntilEOF(tx.Rollback)
	},
	// raise gives the file a newer format level, in a WAL that nobody copies back.
	"raise": func(path string) error {
		db, err := sql.Open(driverName, "file:"+path)
		if err != nil {
			return err
		}
		if _, err := db.Exec("PRAGMA user_version = 7"); err != nil {
			return err
		}
		return holdUntilEOF(db.Close)
	},
}

func holdStore(path string, o Options) error {
	s, err := Open(context.Background(), path, o)
	if err != nil {
		return err
	}
	return holdUntilEOF(s.Close)
}

func holdUntilEOF(end func() error) error {
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return end()
}

// appendNext appends one event to unit 1, at whatever version it is.
func appendNext(s *Store, n int) error {
	return s.Write(context.Background(), func(tx store.Tx) error {
		history, err := tx.Stream(unit(1))
		if err != nil {
			return err
		}
		_, err = tx.Append(unit(1), events.Version(len(history)), events.Meta{}, renewed(n))
		return err
	})
}

// child is another process.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

func start(t *testing.T, role, path string) *child {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return startProgram(t, exe, role, path, nil)
}

func startProgram(t *testing.T, exe, role, path string, attributes *syscall.SysProcAttr) *child {
	t.Helper()
	cmd := exec.Command(exe, "-test.run=^$")
	cmd.SysProcAttr = attributes
	cmd.Env = append(os.Environ(), roleVariable+"="+role+" "+path)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c := &child{cmd, stdin, bufio.NewScanner(stdout)}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return c
}

// say sends a line.
func (c *child) say(t *testing.T) {
	t.Helper()
	_, err := fmt.Fprintln(c.stdin)
	require.NoError(t, err)
}

// line is the next line that it prints.
func (c *child) line(t *testing.T) string {
	t.Helper()
	require.True(t, c.lines.Scan(), "the child printed nothing: %v", c.lines.Err())
	return c.lines.Text()
}

// end closes its standard input and waits for it; the rest that it printed is returned.
func (c *child) end(t *testing.T) (rest string, ok bool) {
	t.Helper()
	require.NoError(t, c.stdin.Close())
	for c.lines.Scan() {
		rest = c.lines.Text()
	}
	return rest, c.cmd.Wait() == nil
}

func (c *child) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGKILL))
}

// drain is the last number that a killed child printed.
func (c *child) drain(t *testing.T, last int) int {
	t.Helper()
	for c.lines.Scan() {
		n, err := strconv.Atoi(c.lines.Text())
		if err != nil {
			break // it was killed in the middle of a line
		}
		last = n
	}
	require.Error(t, c.cmd.Wait())
	return last
}

func unit(n byte) events.StreamID { return events.UnitStream(events.UnitID{15: n}) }

func renewed(n int) events.Event { return events.UnitLeaseRenewed{Attempt: n, Token: "t"} }

func appendTo(id events.StreamID, expected events.Version, evs ...events.Event) func(store.Tx) error {
	return func(tx store.Tx) error {
		_, err := tx.Append(id, expected, events.Meta{}, evs...)
		return err
	}
}

func open(t testing.TB, path string, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), path, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// readAll is the log, after the checks that hold of every log (I-1).
func readAll(t *testing.T, s store.Store) (log []events.Envelope) {
	t.Helper()
	require.NoError(t, s.Read(context.Background(), func(r store.Reader) error {
		versions := map[events.StreamID]events.Version{}
		for e, err := range r.Log(context.Background(), 0) {
			require.NoError(t, err)
			log = append(log, e)
			versions[e.Stream]++
			require.EqualValues(t, len(log), e.Position)
			require.Equal(t, versions[e.Stream], e.Version)
		}
		return nil
	}))
	return log
}
