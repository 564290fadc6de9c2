//go:build unix

package main

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite" // to hold the lock of a store
)

var commandsOfManagers = map[string]func(*testscript.TestScript, bool, []string){
	"supervise": supervise, "told": told, "starve": starve,
}

// manager is what a service manager has heard of the towline that it has started.
type manager struct {
	socket *net.UnixConn
	within time.Duration
	heard  []string
}

// managers are those of the scripts; each script has one.
var managers sync.Map

func managerOf(ts *testscript.TestScript) *manager {
	m, ok := managers.Load(ts)
	if !ok {
		ts.Fatalf("there is no service manager: begin with supervise")
	}
	return m.(*manager)
}

// supervise WITHIN listens as a service manager does, with a watchdog that wants a word so often.
func supervise(ts *testscript.TestScript, _ bool, args []string) {
	within, err := time.ParseDuration(args[0])
	ts.Check(err)
	dir, err := os.MkdirTemp("", "") // the path of a socket is short
	ts.Check(err)
	at := filepath.Join(dir, "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	ts.Check(err)
	ts.Defer(func() {
		managers.Delete(ts)
		_ = socket.Close()
		_ = os.RemoveAll(dir)
	})
	managers.Store(ts, &manager{socket: socket, within: within})
	ts.Setenv("NOTIFY_SOCKET", at)
	ts.Setenv("WATCHDOG_USEC", fmt.Sprint(within.Microseconds()))
}

// next waits for the next message.
func (m *manager) next(ts *testscript.TestScript, what string) string {
	ts.Check(m.socket.SetReadDeadline(time.Now().Add(patience)))
	buf := make([]byte, 4096)
	n, err := m.socket.Read(buf)
	if err != nil {
		ts.Fatalf("%s was not told: %v\nheard:\n%s", what, err, strings.Join(m.heard, "\n"))
	}
	message := strings.ReplaceAll(string(buf[:n]), "\n", " ")
	m.heard = append(m.heard, message)
	return message
}

const fed = "WATCHDOG=1"

// told PATTERN… wants these messages next, in this order. Words for the watchdog may come between, unless they are wanted.
func told(ts *testscript.TestScript, _ bool, args []string) {
	m := managerOf(ts)
	for _, text := range args {
		pattern := regexp.MustCompile("^" + text + "$")
		for {
			message := m.next(ts, text)
			if pattern.MatchString(message) {
				break
			}
			if message != fed {
				ts.Fatalf("told %q, want %q\nheard:\n%s", message, text, strings.Join(m.heard, "\n"))
			}
		}
	}
}

// starve STORE holds the write lock of a store, so that its writer is stuck, and wants the watchdog to miss its word for
// longer than it waits. It lets go then.
func starve(ts *testscript.TestScript, _ bool, args []string) {
	m := managerOf(ts)
	db, err := sql.Open("sqlite", "file:"+ts.MkAbs(args[0])+"?_txlock=immediate&_pragma=busy_timeout(60000)")
	ts.Check(err)
	defer db.Close()
	tx, err := db.BeginTx(context.Background(), nil)
	ts.Check(err)
	defer func() { _ = tx.Rollback() }() // nothing was written
	const most = 100
	for last, n := time.Now(), 0; ; n++ {
		if n == most {
			ts.Fatalf("the writer is stuck, and the watchdog was fed %d times", n)
		}
		if message := m.next(ts, fed); message != fed {
			ts.Fatalf("told %q, want only the watchdog", message)
		}
		silent := time.Since(last)
		if last = time.Now(); silent > m.within {
			return
		}
	}
}
