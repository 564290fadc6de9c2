//go:build linux

package exec_test

import (
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/provider"
	"github.com/towline-dev/towline/provider/exec"
)

// stray is a process group of the test's own, which something may take for an orphan.
type stray struct {
	*osexec.Cmd
	pid int
}

func startStray(t *testing.T, script string, env ...string) stray {
	t.Helper()
	cmd := osexec.Command("/bin/sh", "-c", script)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	reaped := make(chan struct{})
	go func() {
		defer close(reaped)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-reaped
	})
	return stray{cmd, cmd.Process.Pid}
}

// started is field 22 of the stat of a process.
func started(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	return strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))[19]
}

// plant writes what a killed engine has left of an attempt.
func plant(t *testing.T, folder, group string) {
	t.Helper()
	dir := filepath.Join(folder, unit().ID.String()+"-2-123")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "group"), []byte(group), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "unit.json"), []byte("{}"), 0o600))
}

// ownGroupStarted is when the leader of the test's own group began; whoever leads it may be gone.
func ownGroupStarted(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/stat", syscall.Getpgrp())); err != nil {
		return "1"
	}
	return started(t, syscall.Getpgrp())
}

// EX-7: a group is ended only if it surely is the one that an attempt has left: numbers are used again, also behind a restart of the
// system. What is not sure is left alone, and its record goes.
func TestOnlyOrphansAreEnded(t *testing.T) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	require.NoError(t, err)
	boot := strings.TrimSpace(string(b))
	u := unit()
	marks := []string{"TOWLINE_UNIT_ID=" + u.ID.String(), "TOWLINE_FENCE=" + string(u.Fence)}
	head := fmt.Sprintf(`{"unit":%q,"fence":%q,"boot":%q}`+"\n", u.ID, u.Fence, boot)
	group := func(pid int, start, boot string) string {
		return fmt.Sprintf(`{"unit":%q,"fence":%q,"group":%d,"started":%s,"boot":%q}`+"\n", u.ID, u.Fence, pid, start, boot)
	}
	for name, c := range map[string]struct {
		script string
		env    []string
		record func(pid int) string
		ends   bool
	}{
		"the group":               {"exec sleep 70", nil, func(pid int) string { return head + group(pid, started(t, pid), boot) }, true},
		"one that ignores TERM":   {"trap '' TERM; while :; do sleep 1; done", nil, func(pid int) string { return head + group(pid, started(t, pid), boot) }, true},
		"another of its number":   {"exec sleep 70", marks, func(pid int) string { return head + group(pid, "1", boot) }, false},
		"before a restart":        {"exec sleep 70", nil, func(pid int) string { return head + group(pid, started(t, pid), "another") }, false},
		"died before its number":  {"exec sleep 70", marks, func(int) string { return head }, true},
		"died within its number":  {"exec sleep 70", marks, func(pid int) string { return head + group(pid, "1", boot)[:90] }, true},
		"no number, not its own":  {"exec sleep 70", marks[:1], func(int) string { return head }, false},
		"an empty record":         {"exec sleep 70", marks, func(int) string { return "" }, false},
		"a record of nonsense":    {"exec sleep 70", marks, func(int) string { return "\x00\x00" }, false},
		"everything there is":     {"exec sleep 70", nil, func(int) string { return head + group(-1, "1", boot) }, false},
		"the first of the system": {"exec sleep 70", nil, func(int) string { return head + group(1, started(t, 1), boot) }, false},
		"the test itself":         {"exec sleep 70", nil, func(int) string { return head + group(syscall.Getpgrp(), ownGroupStarted(t), boot) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			s := startStray(t, c.script, c.env...)
			eventually(t, "it has become the program", func() bool {
				env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.pid))
				return err == nil && len(env) > 0
			})
			plant(t, folder, c.record(s.pid))
			p, err := exec.New(exec.Options{Command: []string{"/bin/true"}, Folder: folder})
			require.NoError(t, err)
			require.NoError(t, p.Start(t.Context()))
			require.Equal(t, !c.ends, lives(s.pid))
			requireEmpty(t, folder)
		})
	}
}

// EX-7: the attempts of an engine that lives are left alone, by another engine with the same folder too.
func TestTheProgramsOfALivingEngineAreLeftAlone(t *testing.T) {
	o := sh(`echo $$ >self; : >ready; until [ -e go ]; do sleep 0.02; done; echo '{"a":1}'`)
	o.Folder = filepath.Join(t.TempDir(), "attempts")
	b := begin(t, o, unit())
	other, _ := newProvider(t, o)
	require.NoError(t, other.Start(t.Context()))
	require.True(t, lives(number(t, b.file("self"))))
	require.NoError(t, os.WriteFile(b.file("go"), nil, 0o600))
	require.NoError(t, <-b.done)
	require.Len(t, b.sink.Rows(), 1)
}

// EX-7: the folder is one of the user alone, and one that cannot be used is named.
func TestTheFolderOfAttempts(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ours := filepath.Join(temp, fmt.Sprintf("towline-exec-%d", os.Geteuid()))
	p, err := exec.New(sh(`:`))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	require.DirExists(t, ours)
	require.NoError(t, os.Chmod(ours, 0o777)) //nolint:gosec // that is what is refused
	require.ErrorContains(t, p.Start(t.Context()), "is not a folder of this user alone")

	file := filepath.Join(temp, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	p, err = exec.New(exec.Options{Command: []string{"/bin/true"}, Folder: filepath.Join(file, "x")})
	require.NoError(t, err)
	require.ErrorContains(t, p.Start(t.Context()), "set folder to one that can be written")
}

// EX-6: an attempt that is stopped while it looks for what a killed engine has left ends for the cause of the stop.
func TestAnAttemptThatIsStoppedInItsSweepSaysTheCause(t *testing.T) {
	o := sh("exit 0")
	o.Folder = filepath.Join(t.TempDir(), "attempts")
	plant(t, o.Folder, "{}\n")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(provider.ErrStopping)
	got := runUnit(ctx, t, o, unit())
	require.ErrorIs(t, got.err, provider.ErrStopping)
}
