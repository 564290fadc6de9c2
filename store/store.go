// Package store is the port to the log: an append-only sequence of events, and tables beside it that change in the
// same transaction. It knows no SQL dialect and no rule.
//
// Words: a transaction is one caller's request, all or nothing; a commit is one physical write that holds one or more
// transactions (L-2). Positions are dense and in commit order (L-6).
package store

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/towline-dev/towline/events"
)

// Store is a log with its tables. All implementations pass storetest.
type Store interface {
	// Write runs fn as one transaction inside the single writer. It may share a commit with others, and is still all
	// or nothing: an error from fn undoes fn and nobody else. When Write returns nil, fn is on disk (DUR-1).
	//
	// fn must not block, call a port, start a goroutine or keep Tx. It may run twice, so it must have no effects
	// outside Tx but for caches that Hooks.OnVoid empties.
	//
	// ctx bounds the wait in the queue, never the work: once the writer has taken the transaction, Write stays for its
	// result, whatever ctx does. So ctx's error always means that fn did not run and never will (L-11). The relay rests
	// on it: a post_sync whose mark might be on disk could neither be published nor be marked again (O-12).
	//
	// Errors: what fn returned; ctx's error; a *ConflictError; ErrClosed; one that wraps ErrUnavailable when the store
	// cannot write now, ErrMoved, or ErrRolledBack. Nothing of fn is kept after any of them.
	// A panic of fn is raised again in the caller, after its transaction was undone.
	Write(ctx context.Context, fn func(Tx) error) error
	// Read runs fn on one snapshot, for a bounded time. It never blocks the writer (DUR-4).
	Read(ctx context.Context, fn func(Reader) error) error
	// Attach sets the hooks. It is called once, before the first Write.
	Attach(Hooks)
	// Exclusive reports that no other process can write while this store is open (N-2).
	Exclusive() bool
	// Close waits for the commit in progress. A Write after it returns ErrClosed.
	Close() error
}

// Hooks are what an engine ties to its store: its clock, and the two moments of a commit that its caches must see.
type Hooks struct {
	// Now is the clock of all transactions from here on, so that a store and its engine cannot have two of them
	// (CLK-1). nil: the store keeps its own. It is called by the goroutine that writes.
	Now func() events.Micros
	// BeforeCommit runs as the last transaction of every commit that appended an event.
	BeforeCommit func(Tx) error
	// OnVoid runs after a commit failed as a whole, before any of its callers is answered.
	OnVoid func()
}

// ReadTx is what can be asked inside a transaction as well as of a snapshot.
type ReadTx interface {
	// Stream is the whole history of a stream, oldest first; empty if nothing has happened.
	Stream(events.StreamID) ([]events.Envelope, error)
	// After is one page of the log: at most limit events behind p.
	After(p events.Position, limit int) ([]events.Envelope, error)
	// Head is the position and time of the newest event; zero in an empty log.
	Head() (events.Position, events.Micros, error)
	// Query calls scan for each row, with $1 placeholders in query. scan must only scan: no query runs while the
	// rows of another are open. Collect, return, then act.
	Query(scan func(Row) error, query string, args ...any) error
}

// Row is one row of a query.
type Row interface {
	Scan(dest ...any) error
}

// Reader is one snapshot.
type Reader interface {
	ReadTx
	// Log is the whole log behind a position. It reads pages, so it holds no snapshot longer than a page takes.
	Log(ctx context.Context, after events.Position) iter.Seq2[events.Envelope, error]
}

// Tx is one transaction. It has no context: what it does is short and is not interrupted.
type Tx interface {
	ReadTx
	// Now is the one time of the transaction, never before the newest event (CLK-1). That it does not stand still when
	// a wall clock is set back is the business of the clock (CLK-2).
	Now() events.Micros
	// Version is at which version a stream is, without its history; 0 if nothing has happened. It is for streams that are
	// too long to be read.
	Version(events.StreamID) (events.Version, error)
	// Append adds events to a stream whose version the caller believes to be expected; 0 means that the stream is
	// empty. A wrong belief is a *ConflictError, now or at the commit, and appends nothing of this transaction.
	Append(id events.StreamID, expected events.Version, m events.Meta, evs ...events.Event) ([]events.Envelope, error)
	// Exec changes a table, with $1 placeholders in query. The log is out of its reach.
	Exec(query string, args ...any) error
}

// ConflictError says that a stream was not at the version that an append expected.
type ConflictError struct {
	Stream   events.StreamID
	Expected events.Version
	Actual   events.Version // -1: not known
}

func (e *ConflictError) Error() string {
	if e.Actual < 0 {
		return fmt.Sprintf("stream %s is not at version %d", e.Stream, e.Expected)
	}
	return fmt.Sprintf("stream %s is at version %d, not %d", e.Stream, e.Actual, e.Expected)
}

var (
	// ErrUnavailable: the store cannot write now (disk full, locked by another program, closed device). Nothing of the
	// transaction is kept; the same call may succeed later.
	ErrUnavailable = errors.New("store unavailable")
	// ErrRolledBack: a statement of this transaction ended the whole commit, as INSERT OR ROLLBACK and RAISE(ROLLBACK)
	// do. Nothing of the transaction is kept, and the others of its commit are not touched (L-9).
	ErrRolledBack = errors.New("a statement rolled the commit back")
	// ErrMoved: the file of the store was deleted, moved or replaced while it was open. What is written now would be lost,
	// so nothing is acknowledged any more. Stop the process, and put the file back before the next start.
	ErrMoved = errors.New("the store's file is no longer where it was opened")
	// ErrReadOnly: the store was opened to be read. Nothing was written.
	ErrReadOnly = errors.New("the store is open for reading only")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
	// ErrLocked: somebody has the store open in a mode that excludes this one (N-2): another process, or this one, which
	// has opened it before.
	ErrLocked = errors.New("store is in use")
	// ErrInTransaction: the caller is inside a transaction of this store, which holds the write lock, so that a Write would
	// wait for itself. Nothing was written.
	ErrInTransaction = errors.New("called inside a transaction of the store, which the engine would wait for: do it after the commit, or give the target a DB of its own")
	// ErrNoMessage: no relay has taken a message of that id: there is none, or it was never published (M-9).
	ErrNoMessage = errors.New("no such message")
	// ErrFormat: the file is no store of Towline, or its format level is one that this release cannot read (DUR-3).
	ErrFormat = errors.New("store format")
	// ErrNetworkFS: the file lies on a network file system, whose locks are not to be relied upon (DUR-3).
	ErrNetworkFS = errors.New("a network file system")
)
