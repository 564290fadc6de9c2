//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// stopSignals end up and serve cleanly.
var stopSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// onReload passes SIGHUP on.
func onReload(c chan<- os.Signal) { signal.Notify(c, syscall.SIGHUP) }

// keepOnWithoutReader keeps a reader of the output that has gone from ending the process in the middle of its units: the write fails
// instead. It is taken, and not ignored, for what is ignored stays so in the commands of providers.
func keepOnWithoutReader() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// terminalWidth is the width of the terminal behind f, and false if there is none. The question is one that only a
// terminal answers; /dev/null is a character device too.
func terminalWidth(f *os.File) (int, bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	return int(size.Col), true
}
