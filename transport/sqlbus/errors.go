package sqlbus

import (
	"errors"
	"fmt"

	modernc "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/transport"
)

var (
	// ErrClosed: the bus is closed.
	ErrClosed = errors.New("the bus is closed")
	// ErrMoved: the file of the bus was deleted, moved or replaced while this process used it.
	ErrMoved = errors.New("the file of the bus was deleted, moved or replaced: put it back, or remove its -wal as well, and start its processes again")
	// ErrFull: the messages of the bus have reached Options.MaxBytes.
	ErrFull = errors.New("the bus is full")
)

// unknownError says that a transaction may have been committed.
type unknownError struct{ err error }

func (e *unknownError) Error() string { return e.err.Error() }
func (e *unknownError) Unwrap() error { return e.err }

// messageError says what is wrong with a message: it will never be taken.
type messageError struct{ err error }

func (e *messageError) Error() string { return e.err.Error() }
func (e *messageError) Unwrap() error { return e.err }

// receipt is what an error of a publish means. Nothing but an error of the commit itself leaves open what happened, or a
// deadline that came while it ran: all before it is surely undone. Where the file is at fault, no attempt is counted (B-8).
func receipt(err error) transport.Receipt {
	if err == nil {
		return transport.Accepted("committed")
	}
	if _, unknown := errors.AsType[*unknownError](err); unknown {
		return transport.Unknown(err)
	}
	if _, never := errors.AsType[*messageError](err); never {
		return transport.Receipt{Outcome: events.Refused, Permanent: true, Err: err}
	}
	return transport.NotBegun(err)
}

func code(err error) int {
	if e, ok := errors.AsType[*modernc.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// commitError is what a COMMIT that failed leaves. Without the lock, or without room for its pages, no commit record was
// written. Behind another error, as that of a sync, the record may be in the file.
func commitError(err error) error {
	switch code(err) {
	case lib.SQLITE_BUSY, lib.SQLITE_FULL:
		return fmt.Errorf("commit: %w", err)
	}
	return &unknownError{fmt.Errorf("commit: %w", err)}
}
