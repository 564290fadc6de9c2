//go:build unix

package docs_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// office is a folder in which the program of examples/outbox runs.
type office struct{ bin, dir string }

// seller is one process of it.
type seller struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func (o office) open(ctx context.Context, t *testing.T) seller {
	t.Helper()
	cmd := exec.CommandContext(ctx, o.bin)
	cmd.Dir, cmd.Stderr = o.dir, os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return seller{cmd, in, bufio.NewScanner(out)}
}

// sell asks for a seat and returns the answer.
func (s seller) sell(t *testing.T, seat string) string {
	t.Helper()
	_, err := fmt.Fprintln(s.in, seat)
	require.NoError(t, err)
	require.True(t, s.out.Scan(), "it has ended")
	return s.out.Text()
}

// sold is what the broker has, by message id: one line for each publish.
func (o office) sold(t *testing.T) map[string]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(o.dir, "sold.log"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	out := map[string]string{}
	for line := range strings.Lines(string(content)) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if known, twice := out[id]; twice {
			require.Equal(t, known, rest, "a message that comes twice comes under its id")
		}
		out[id] = rest
	}
	return out
}

// M-1, C-33, C-34, WMILL-3: the program of examples/outbox, killed with SIGKILL right behind a commit and started again,
// has published a message for each seat that it has sold, and for no other.
func TestTheOutboxIsKilledAndGoesOn(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	o := office{filepath.Join(t.TempDir(), "outbox"), t.TempDir()}
	build := exec.CommandContext(ctx, "go", "build", "-o", o.bin, ".")
	build.Dir = "../examples/outbox"
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	want := map[string]int{}
	for round := range 5 {
		s := o.open(ctx, t)
		for n := range 4 {
			seat := fmt.Sprintf("%d%c", round+1, 'A'+n)
			require.Equal(t, "sold "+seat, s.sell(t, seat))
			want[fmt.Sprintf(`booking.made {"seat":"%s"}`, seat)] = 1
		}
		require.Equal(t, "not sold 1A", s.sell(t, "1A"))
		require.NoError(t, s.cmd.Process.Signal(syscall.SIGKILL)) // somewhere on the way to the broker
		require.Error(t, s.cmd.Wait())
	}
	s := o.open(ctx, t)
	for len(o.sold(t)) < len(want) {
		select {
		case <-ctx.Done():
			t.Fatalf("the broker has %d of %d messages", len(o.sold(t)), len(want))
		case <-time.After(10 * time.Millisecond): // another process writes the file
		}
	}
	require.NoError(t, s.in.Close())
	require.NoError(t, s.cmd.Wait())
	got := map[string]int{}
	for _, body := range o.sold(t) {
		got[body]++
	}
	require.Equal(t, want, got)
}
