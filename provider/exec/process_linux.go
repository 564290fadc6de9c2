package exec

import (
	"bytes"
	"errors"
	"os"
	osexec "os/exec"
	"strconv"
	"syscall"
	"unsafe"
)

// ownGroup gives the program a process group of its own, and the kernel the order to kill it when the thread ends that starts
// it: with the engine.
func ownGroup(cmd *osexec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitEnd waits until the program has ended, and leaves it to be reaped: until then the number of its group is its own.
func awaitEnd(cmd *osexec.Cmd) {
	const pid = 1           // P_PID
	var info [128]byte      // siginfo_t, of which nothing is read
	const wnowait = 1 << 24 // WNOWAIT
	for {
		_, _, err := syscall.Syscall6(syscall.SYS_WAITID, pid, uintptr(cmd.Process.Pid), uintptr(unsafe.Pointer(&info)), syscall.WEXITED|wnowait, 0, 0)
		if !errors.Is(err, syscall.EINTR) {
			return // whatever else it is, Wait says it again
		}
	}
}

// outOfMemoryKills is how many processes the kernel has killed for want of memory since it started; zero: not known.
func outOfMemoryKills() int {
	stat, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(stat) {
		if n, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("oom_kill ")); ok {
			kills, _ := strconv.Atoi(string(n)) // zero: not known
			return kills
		}
	}
	return 0
}
