//go:build unix && !linux

package exec

import (
	osexec "os/exec"
	"syscall"
)

// ownGroup gives the program a process group of its own. There is no signal here that would end it with the engine.
func ownGroup(cmd *osexec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// awaitEnd waits until the program has ended. It is reaped here, so for a moment the number of a group in which nobody is left
// is free.
func awaitEnd(cmd *osexec.Cmd) { _ = cmd.Wait() }

// outOfMemoryKills is not known.
func outOfMemoryKills() int { return 0 }
