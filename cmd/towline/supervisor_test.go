//go:build unix

package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// N-7: the watchdog hears of passes of the writer, one word for each, and of nothing else; a pass that was refused is one.
func TestTheWatchdogIsFedByPassesOnly(t *testing.T) {
	at := filepath.Join(t.TempDir(), "s")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	require.NoError(t, err)
	defer socket.Close()
	heard := func(deadline time.Time) string {
		require.NoError(t, socket.SetReadDeadline(deadline))
		buf := make([]byte, 100)
		n, err := socket.Read(buf)
		if err != nil {
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		}
		return string(buf[:n])
	}

	s := newSupervisor(environment("NOTIFY_SOCKET", at, "WATCHDOG_USEC", "2000", "WATCHDOG_PID", "7"), 7, slog.New(slog.DiscardHandler))
	require.Equal(t, 2*time.Millisecond, s.within)
	ctx, stop := context.WithCancel(context.Background())
	passes, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		s.watch(ctx, func(ctx context.Context) error {
			select {
			case err := <-passes:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	for _, answer := range []error{nil, errors.New("the disk is full"), nil} {
		passes <- answer
		require.Equal(t, fed, heard(time.Now().Add(patience)))
	}
	stop() // while the writer is stuck
	<-ended
	require.Empty(t, heard(time.Now()), "a word without a pass")
}

// Without a manager nothing is told and nobody is asked; a watchdog of another process is none of this one.
func TestNobodyAsks(t *testing.T) {
	for name, s := range map[string]supervisor{
		"no manager":               newSupervisor(environment("WATCHDOG_USEC", "2000"), 7, nil),
		"no watchdog":              newSupervisor(environment("NOTIFY_SOCKET", "/s"), 7, nil),
		"of another process":       newSupervisor(environment("NOTIFY_SOCKET", "/s", "WATCHDOG_USEC", "2000", "WATCHDOG_PID", "8"), 7, nil),
		"a word that is no number": newSupervisor(environment("NOTIFY_SOCKET", "/s", "WATCHDOG_USEC", "soon"), 7, nil),
	} {
		s.watch(t.Context(), func(context.Context) error {
			t.Error(name)
			return nil
		})
	}
	s := newSupervisor(environment(), 7, nil)
	s.ready("ready") // it would need a logger
	s.reloading()
	s.stopping()
}

// environment is one of names and values.
func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}
