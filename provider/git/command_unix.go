//go:build unix

package git

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// groupOfItsOwn makes the end of the context reach everything that git starts. SIGKILL is no risk to a program that
// only reads and takes no lock. No Pdeathsig: git dies of the closed pipe when this process does, and the signal would
// come as soon as the thread that started git ends.
func groupOfItsOwn(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}
