package store

import "github.com/towline-dev/towline/events"

// Archiver is a store that can seal streams of finished runs (L-1). It is no part of Store: a log can do without.
type Archiver interface {
	// CanArchive is an error that says what is missing: the format level of the store (DUR-7).
	CanArchive() error
}

// ArchiveTx is a Tx of an Archiver.
type ArchiveTx interface {
	// Archive moves all rows of some streams into a sealed segment. The caller appends RunsArchived right behind it, in the
	// same transaction: the segment has the position of that event as its name. Streams that have no row are left out; with
	// none left there is no segment, and the zero Sealed. A stream that this commit has appended to is a *ConflictError.
	Archive(streams []events.StreamID) (Sealed, error)
}

// Sealed is a segment.
type Sealed struct {
	Name   string // its name in RunsArchived
	Hash   string
	Events int
	Plain  int // bytes before they were compressed
	Bytes  int // bytes behind
}

// AsArchiver finds the Archiver in a store, which others may have wrapped; false: it has none.
func AsArchiver(s Store) (Archiver, bool) { return unwrapped[Archiver](s) }

// AsArchiveTx is the same for a transaction.
func AsArchiveTx(t Tx) (ArchiveTx, bool) { return unwrapped[ArchiveTx](t) }

func unwrapped[T, W any](x W) (found T, ok bool) {
	for {
		if found, ok = any(x).(T); ok {
			return found, true
		}
		w, wraps := any(x).(interface{ Unwrap() W })
		if !wraps {
			return found, false
		}
		x = w.Unwrap()
	}
}
