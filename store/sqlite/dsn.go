package sqlite

import (
	"fmt"
	"net/url"
	"strings"
)

const (
	busyTimeout     = 5000     // milliseconds that a connection waits for the lock of another, if Options say nothing
	checkpointPages = 8000     // of the WAL, about 32 MiB: larger is faster, and then takes longer to recover
	walKeep         = 33 << 20 // bytes that a WAL file keeps when it starts over; what a slow reader added goes back
)

// dsn makes the data source names, and with them every pragma: one that is sent through a pool would reach one of its
// connections and none of those that the pool opens later.
type dsn struct {
	path        string
	journal     string // wal, or delete where a WAL cannot work
	synchronous string // full or normal
	busyTimeout int    // milliseconds
}

// writer is for connections that write. A transaction takes the write lock when it begins: one that upgrades later
// may be refused at once (SQLITE_BUSY_SNAPSHOT), however long the timeout. With recursive triggers a REPLACE meets those
// that keep the log append-only (L-1); without, it would delete the old row past them.
func (d dsn) writer() string {
	return d.build("rw", "_txlock=immediate", d.pragma("journal_mode", d.journal), d.pragma("synchronous", d.synchronous),
		d.pragma("fullfsync", 1), d.pragma("checkpoint_fullfsync", 1), d.pragma("foreign_keys", 1), d.pragma("recursive_triggers", 1),
		d.pragma("wal_autocheckpoint", checkpointPages), d.pragma("journal_size_limit", walKeep))
}

// reader is for connections that only read, on one snapshot per transaction.
func (d dsn) reader() string { return d.build("rw", d.pragma("query_only", 1)) }

// stamp is for the connection that makes a new file. The journal mode is not its business: the header is written
// before there is a WAL, so that it can be read without one.
func (d dsn) stamp() string { return d.build("rwc", d.pragma("synchronous", "full")) }

// peek is for looking at a file that may not be ours.
func (d dsn) peek() string { return d.build("ro") }

// visitor is for connections that read a file which may be another process's, and may not be written: not the WAL either,
// which SQLite copies to the database when the last connection that may write goes.
func (d dsn) visitor() string { return d.build("ro", d.pragma("query_only", 1)) }

// still is the same for a file that nobody has open. SQLite takes no lock and makes no file beside it, as it would for a
// WAL, and sees no change: whoever uses it finds out whether there was one.
func (d dsn) still() string { return d.build("ro", "immutable=1", d.pragma("query_only", 1)) }

func (d dsn) pragma(name string, value any) string { return fmt.Sprintf("_pragma=%s(%v)", name, value) }

func (d dsn) build(mode string, params ...string) string {
	params = append([]string{"mode=" + mode, d.pragma("busy_timeout", d.busyTimeout), d.pragma("temp_store", "memory")}, params...)
	u := url.URL{Scheme: "file", Path: d.path, RawQuery: strings.Join(params, "&")}
	return u.String()
}
