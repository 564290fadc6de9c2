package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// supervisor is a service manager that has started this process and asks how it is, by the protocol of sd_notify(3): systemd,
// or whatever speaks it. Where there is none, every method does nothing. The protocol is a datagram of a few words, so it
// needs no library.
//
// A message that cannot be sent is logged and costs nothing else: the manager does what it does when it hears nothing.
type supervisor struct {
	socket string        // $NOTIFY_SOCKET, a path or @name of the abstract namespace; empty: nobody asks
	within time.Duration // a word is wanted at least so often; 0: no watchdog
	logger *slog.Logger
}

func newSupervisor(getenv func(string) string, pid int, logger *slog.Logger) supervisor {
	s := supervisor{socket: getenv("NOTIFY_SOCKET"), logger: logger}
	if s.socket == "" {
		return s
	}
	if of := getenv("WATCHDOG_PID"); of != "" && of != strconv.Itoa(pid) {
		return s // the watchdog is for the process that has started this one
	}
	if micros, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64); err == nil && micros > 0 {
		s.within = time.Duration(micros) * time.Microsecond
	}
	return s
}

// ready says that the engine works: what a crash has left behind is decided, and the addresses are bound.
func (s supervisor) ready(status string) { s.tell("READY=1", "STATUS="+status) }

// reloading says that the configuration is read again. ready ends it, also when the reload was refused.
func (s supervisor) reloading() {
	if now, ok := monotonicMicros(); ok {
		s.tell("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now))
	}
}

// stopping says that a stop has begun, whoever wanted it.
func (s supervisor) stopping() {
	s.tell("STOPPING=1", "STATUS=stopping: running units may finish within shutdown.grace")
}

// watch feeds the watchdog until ctx ends. pass asks the writer of the store for a pass, and returns when it has made one; a
// writer that is stuck never returns, and is not spoken for. A pass that was refused is one all the same: a disk that is full
// stays so over a restart, and /readyz says it.
func (s supervisor) watch(ctx context.Context, pass func(context.Context) error) {
	if s.within == 0 {
		return
	}
	ticker := time.NewTicker(s.within / 2) // as sd_watchdog_enabled(3) advises
	defer ticker.Stop()
	for {
		_ = pass(ctx) // see above
		if ctx.Err() != nil {
			return
		}
		s.tell("WATCHDOG=1")
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// tellTime bounds the send of a message to a manager that does not read.
const tellTime = 5 * time.Second

func (s supervisor) tell(words ...string) {
	if s.socket == "" {
		return
	}
	for i, w := range words {
		words[i] = strings.ReplaceAll(w, "\n", "; ") // a line is a word
	}
	if err := s.send(strings.Join(words, "\n")); err != nil {
		s.logger.Warn("tell the service manager", "what", words[0], "error", err)
	}
}

// send opens the socket anew: the manager may have started again meanwhile.
func (s supervisor) send(message string) error {
	if !strings.HasPrefix(s.socket, "/") && !strings.HasPrefix(s.socket, "@") {
		return fmt.Errorf("$NOTIFY_SOCKET is %q: want a path, or @ and a name", s.socket)
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	if err = conn.SetWriteDeadline(time.Now().Add(tellTime)); err == nil {
		_, err = conn.Write([]byte(message))
	}
	return errors.Join(err, conn.Close())
}

// supervised is the manager of this process.
func supervised(logger *slog.Logger) supervisor { return newSupervisor(os.Getenv, os.Getpid(), logger) }
