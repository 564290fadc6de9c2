//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// groupOfItsOwn keeps the Ctrl-C of a terminal from the child: only the parent decides when it dies.
func groupOfItsOwn(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// kill sends SIGKILL, which no process can catch, delay or clean up after. It goes through p, which knows a process that
// was waited for already: its number may be another's by now.
func kill(p *os.Process) error { return p.Signal(syscall.SIGKILL) }

// killed reports that a process died by SIGKILL, and by nothing else.
func killed(s *os.ProcessState) bool {
	status, ok := s.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// holdFile locks a file for the life of this process; the error says that another one holds it.
func holdFile(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return &argumentError{fmt.Sprintf("another demo is at work in %s: wait for it, or name another folder with -keep", filepath.Dir(f.Name()))}
	}
	return err
}

// terminalWidth is the width of the terminal behind f, and false if there is none. The question is one that only a
// terminal answers; /dev/null is a character device too.
func terminalWidth(f *os.File) (int, bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	return int(size.Col), true
}
