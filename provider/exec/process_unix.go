//go:build unix

package exec

import (
	"errors"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"syscall"
)

// moreDescriptors: a program can be given descriptor 3.
const moreDescriptors = true

func terminateGroup(cmd *osexec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // it may have ended
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGCONT) // one that is stopped would not hear of it
}

func killGroup(cmd *osexec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// signalName is that of the signal which has ended a process; empty: it has ended by itself.
func signalName(s *os.ProcessState) string {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return numbered(int(w.Signal()))
	}
	return ""
}

// numbered is a signal in words, as "9, killed"; empty: there is none of the number.
func numbered(n int) string {
	name := syscall.Signal(n).String()
	if strings.HasPrefix(name, "signal ") {
		return ""
	}
	return strconv.Itoa(n) + " (" + name + ")"
}

// killed reports an end by SIGKILL, of the program or of the command of a shell.
func killed(s *os.ProcessState) bool {
	w, ok := s.Sys().(syscall.WaitStatus)
	return ok && (w.Signaled() && w.Signal() == syscall.SIGKILL || w.ExitStatus() == shellSignal+int(syscall.SIGKILL))
}

// notRunnable reports that a file is missing, or is no program.
func notRunnable(err error) bool {
	for _, e := range []error{syscall.ENOENT, syscall.ENOTDIR, syscall.EACCES, syscall.ENOEXEC, syscall.EISDIR, syscall.ELOOP, syscall.E2BIG} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
