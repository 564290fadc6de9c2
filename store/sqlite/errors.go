package sqlite

import (
	"errors"
	"fmt"

	modernc "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// Errors of SQLite are told apart by their result code, and only in this file; no text is ever looked at.
// The low byte of a code is the kind, the whole of it the exact reason.

// code is the result code of an error, 0 if it does not come from SQLite.
func code(err error) int {
	if e, ok := errors.AsType[*modernc.Error](err); ok {
		return e.Code()
	}
	return 0
}

func isBusy(err error) bool         { return code(err)&0xff == lib.SQLITE_BUSY }
func isCorrupt(err error) bool      { return code(err)&0xff == lib.SQLITE_CORRUPT }
func isNotADatabase(err error) bool { return code(err)&0xff == lib.SQLITE_NOTADB }
func isNotAllowed(err error) bool   { return code(err)&0xff == lib.SQLITE_AUTH }

// isTaken says that an insert into the log met the unique index: the version, or the position, exists.
func isTaken(err error) bool {
	switch code(err) {
	case lib.SQLITE_CONSTRAINT_UNIQUE, lib.SQLITE_CONSTRAINT_PRIMARYKEY, lib.SQLITE_CONSTRAINT_ROWID, lib.SQLITE_CONSTRAINT_TRIGGER:
		return true
	}
	return false
}

// isHarmless says that SQLite undid the statement that failed and nothing else, unless the statement itself asked for
// more (tx.fault). After any other failure the whole transaction may be gone, and the next statement would run outside
// of one.
func isHarmless(err error) bool {
	switch code(err) & 0xff {
	case 0, lib.SQLITE_CONSTRAINT, lib.SQLITE_ERROR, lib.SQLITE_MISMATCH, lib.SQLITE_TOOBIG, lib.SQLITE_RANGE, lib.SQLITE_AUTH:
		return true
	}
	return false
}

// classify makes an ErrUnavailable of an error that the same call may not meet again.
func classify(err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return err
	}
	switch code(err) & 0xff {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL, lib.SQLITE_FULL, lib.SQLITE_IOERR, lib.SQLITE_READONLY, lib.SQLITE_CANTOPEN, lib.SQLITE_NOMEM:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}

// doing says what was being done when err came. An event that cannot be read says enough itself.
func doing(err error, format string, args ...any) error {
	if _, ok := errors.AsType[*events.DecodeError](err); ok || err == nil {
		return err
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
