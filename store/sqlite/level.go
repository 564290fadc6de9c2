package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/towline-dev/towline/store"
)

// The two numbers of the header by which a file is known as a store. They are a file format.
const (
	applicationID = 0x544F574C // "TOWL"
	newestLevel   = 2          // the highest format level that this release reads
	writtenLevel  = 2          // the one that it gives a new store, and the highest that Upgrade raises a store to
)

// levels are the format levels of a release. A level is read by one release before the next one writes it (DUR-7).
type levels struct{ newest, written int64 }

// ours are those of this release; a test of the next one has others.
var ours = levels{newestLevel, writtenLevel}

// header is what a file says of itself. The zero header is that of an empty or missing file.
type header struct {
	application int64
	level       int64
	pages       int64
}

func (h header) fresh() bool { return h == header{} }

// check refuses what this release must not touch, in one sentence (DUR-3, DUR-7).
func (h header) check(path string) error {
	switch {
	case h.fresh():
		return nil
	case h.application == 0:
		return fmt.Errorf("%w: %s is an SQLite database, but not a store of Towline", store.ErrFormat, path)
	case h.application != applicationID:
		return fmt.Errorf("%w: %s belongs to another program (application id %#x)", store.ErrFormat, path, h.application)
	case h.level < 1 || h.level > ours.newest:
		return fmt.Errorf("%w: %s has format level %d, and this release reads levels 1 to %d: open it with a newer release", store.ErrFormat, path, h.level, ours.newest)
	}
	return nil
}

// peek reads the header of a file and leaves the file as it is. Without a WAL it needs no SQLite: any connection to
// a file in WAL mode, a reading one too, would make a WAL beside it. With one, the newest header may be in there.
func peek(ctx context.Context, d dsn) (header, error) {
	if _, err := os.Stat(d.path + "-wal"); err == nil {
		return peekSQL(ctx, d)
	}
	f, err := os.Open(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return header{}, nil
	}
	if err != nil {
		return header{}, err
	}
	defer f.Close()
	// https://www.sqlite.org/fileformat2.html#the_database_header
	var b [100]byte
	switch _, err := io.ReadFull(f, b[:]); {
	case errors.Is(err, io.EOF):
		return header{}, nil
	case errors.Is(err, io.ErrUnexpectedEOF), err == nil && !bytes.HasPrefix(b[:], []byte("SQLite format 3\x00")):
		return header{}, notSQLite(d.path)
	case err != nil:
		return header{}, err
	}
	return header{
		application: int64(binary.BigEndian.Uint32(b[68:])),
		level:       int64(binary.BigEndian.Uint32(b[60:])),
		pages:       1,
	}, nil
}

func peekSQL(ctx context.Context, d dsn) (h header, err error) {
	db, err := sql.Open(driverName, d.peek())
	if err != nil {
		return header{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return readHeader(ctx, d.path, db)
}

// stamp gives a new file its header, and returns the one in force. Caller holds the setup lock.
func stamp(ctx context.Context, d dsn) (h header, err error) {
	if h, err = peek(ctx, d); err != nil || !h.fresh() {
		return h, err
	}
	db, err := sql.Open(driverName, d.stamp())
	if err != nil {
		return header{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	if h, err = readHeader(ctx, d.path, db); err != nil || !h.fresh() {
		return h, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return header{}, err
	}
	defer tx.Rollback()
	for _, set := range []string{
		fmt.Sprintf("PRAGMA application_id = %d", applicationID),
		fmt.Sprintf("PRAGMA user_version = %d", ours.written),
	} {
		if _, err := tx.ExecContext(ctx, set); err != nil {
			return header{}, err
		}
	}
	if err := tx.Commit(); err != nil {
		return header{}, err
	}
	return readHeader(ctx, d.path, db)
}

func readHeader(ctx context.Context, path string, db *sql.DB) (h header, err error) {
	const query = `
		SELECT (SELECT application_id FROM pragma_application_id),
		       (SELECT user_version FROM pragma_user_version),
		       (SELECT page_count FROM pragma_page_count)`
	err = db.QueryRowContext(ctx, query).Scan(&h.application, &h.level, &h.pages)
	if isNotADatabase(err) {
		return header{}, notSQLite(path)
	}
	return h, err
}

func notSQLite(path string) error {
	return fmt.Errorf("%w: %s is not an SQLite database", store.ErrFormat, path)
}
