package exec

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// An orphan has orphanGrace behind SIGTERM: nobody reads what it writes, and a start waits for it. Behind SIGKILL it has
// orphanEnd, which is long for a process that can end at all.
const (
	orphanGrace = time.Second
	orphanEnd   = 5 * time.Second
	orphanLook  = 20 * time.Millisecond
)

// task is a process as the kernel shows it.
type task struct {
	pid, group int
	dead       bool   // and not reaped yet
	start      uint64 // ticks since the system started
}

// tasks are all processes.
func tasks() []task {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []task
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if t, ok := taskOf(pid); ok {
			all = append(all, t)
		}
	}
	return all
}

func taskOf(pid int) (task, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return task{}, false
	}
	// pid (name) state parent group …; the name may hold anything, brackets and blanks too
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const state, group, start = 0, 2, 19
	if len(f) <= start {
		return task{}, false
	}
	t := task{pid: pid, dead: f[state] == "Z" || f[state] == "X"}
	t.group, _ = strconv.Atoi(f[group])
	t.start, _ = strconv.ParseUint(f[start], 10, 64)
	return t, true
}

// startOf is when a process started; zero: it is gone.
func startOf(pid int) uint64 {
	t, _ := taskOf(pid)
	return t.start
}

func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // empty: not known, and equal to no other
	return strings.TrimSpace(string(id))
}

// marked reports that a process has the environment that we gave to an attempt.
func marked(pid int, r record) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	env = append(append([]byte{0}, env...), 0)
	return bytes.Contains(env, []byte("\x00"+unitVariable+r.Unit+"\x00")) && bytes.Contains(env, []byte("\x00"+fenceVariable+r.Fence+"\x00"))
}

// groupOf is the process group that an attempt has left; zero: none that is surely its own. Numbers are used again, so it is
// known by the start of its first process, or by the environment of one that lives.
func groupOf(r record, all []task) int {
	if r.Boot == "" || r.Boot != bootID() || r.Unit == "" {
		return 0
	}
	for _, t := range all {
		if r.Group != 0 && t.pid == r.Group { // the first process, or one that has its number
			if t.start == r.Started {
				return r.Group
			}
			return 0
		}
	}
	for _, t := range all {
		if !t.dead && (r.Group == 0 || t.group == r.Group) && marked(t.pid, r) {
			return t.group
		}
	}
	return 0
}

// alive reports that a group has a process that is not dead.
func alive(group int, all []task) bool {
	for _, t := range all {
		if t.group == group && !t.dead {
			return true
		}
	}
	return false
}

// endOrphans ends what attempts have left, all at once, and returns the groups that do not end, by unit.
func endOrphans(ctx context.Context, found []*attemptPlace, logger *slog.Logger) (left map[string]int) {
	all := tasks()
	open := map[int]string{} // group → unit
	for _, at := range found {
		group := groupOf(at.record, all)
		if group > 1 && group != syscall.Getpgrp() && alive(group, all) {
			open[group] = at.record.Unit
			logger.Warn("a killed engine has left a program at work; it is ended", "unit", at.record.Unit, "group", group)
		}
	}
	for _, step := range []struct {
		signals []syscall.Signal
		most    time.Duration
	}{{[]syscall.Signal{syscall.SIGTERM, syscall.SIGCONT}, orphanGrace}, {[]syscall.Signal{syscall.SIGKILL}, orphanEnd}} {
		for group := range open {
			for _, s := range step.signals {
				_ = syscall.Kill(-group, s) // it may have ended
			}
		}
		awaitOrphans(ctx, open, step.most)
	}
	left = map[string]int{}
	for group, unit := range open {
		left[unit] = group
		logger.Error("a program of a killed engine does not end", "unit", unit, "group", group)
	}
	return left
}

// awaitOrphans waits for groups to end, for so long at most, and leaves in open those that have not.
func awaitOrphans(ctx context.Context, open map[int]string, most time.Duration) {
	over := time.NewTimer(most)
	defer over.Stop()
	look := time.NewTicker(orphanLook)
	defer look.Stop()
	for {
		all := tasks()
		for group := range open {
			if !alive(group, all) {
				delete(open, group)
			}
		}
		if len(open) == 0 {
			return
		}
		select {
		case <-look.C:
		case <-over.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
