package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonicMicros is the clock by which systemd tells an old message about a reload from a new one.
func monotonicMicros() (int64, bool) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, false
	}
	return time.Duration(now.Nano()).Microseconds(), true
}
