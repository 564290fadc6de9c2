package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"github.com/towline-dev/towline/events"
)

// Info is what a store says of itself to whoever only reads it.
type Info struct {
	Copy            // how far it is; Bytes is the file without its WAL
	WAL     int64   `json:"wal"` // bytes of the WAL; 0: there is none
	Used    int64   // bytes that hold something, also those that only the WAL has (DUR-6)
	Free    int64   // bytes that hold nothing any more
	Tables  []Table // the largest first
	Archive Segments
	Writes  int // the highest format level to which this release can raise it
	Release int // the highest that this release reads
}

// Segments are what was archived.
type Segments struct {
	Count  int
	Events int
	Plain  int64         // bytes of the events
	Bytes  int64         // bytes that they take
	Newest events.Micros // when the newest was sealed; 0: there is none
}

// Table is how much room a table takes, with its indexes.
type Table struct {
	Name  string
	Bytes int64
}

// Look says what a store at a path holds. It changes nothing, keeps nobody from opening the store, and works beside a running
// engine. Errors: as those of OpenReadOnly; store.ErrUnavailable also when an engine has begun to write meanwhile: look again.
func Look(ctx context.Context, path string) (i Info, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("look at the store: %w", classify(err))
		}
	}()
	if path, err = resolve(path); err != nil {
		return i, err
	}
	s := &ReadOnly{path: path, networkFS: networkFS}
	if err := s.open(ctx); err != nil {
		return i, err
	}
	before, err := s.look()
	if err != nil {
		return i, err
	}
	db, err := sql.Open(driverName, before.name(path))
	if err != nil {
		return i, err
	}
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(s.unchanged(before), err, db.Close()) }()
	h, err := readHeader(ctx, path, db)
	if err != nil {
		return i, err
	}
	i.Path, i.Level = path, int(h.level)
	i.Release, i.Writes = Levels()
	if i.Epoch, err = readEpoch(ctx, db); err != nil {
		return i, err
	}
	const newest = `SELECT position, at FROM events ORDER BY position DESC LIMIT 1`
	if err := db.QueryRowContext(ctx, newest).Scan(&i.Head, &i.At); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return i, err
	}
	if err := i.measure(ctx, db); err != nil {
		return i, err
	}
	if err := i.countSegments(ctx, db); err != nil {
		return i, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return i, err
	}
	i.Bytes = info.Size()
	if wal, err := os.Stat(path + "-wal"); err == nil {
		i.WAL = wal.Size()
	}
	return i, nil
}

// countSegments counts what was archived; a store of an older release has no table for it.
func (i *Info) countSegments(ctx context.Context, db *sql.DB) error {
	made := false
	const table = `SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'segments')`
	if err := db.QueryRowContext(ctx, table).Scan(&made); err != nil || !made {
		return err
	}
	const sum = `
		SELECT count(*), coalesce(sum(events), 0), coalesce(sum(plain), 0), coalesce(sum(length(data)), 0),
		       coalesce((SELECT at FROM events WHERE position = (SELECT max(id) FROM segments)), 0)
		FROM segments`
	a := &i.Archive
	return db.QueryRowContext(ctx, sum).Scan(&a.Count, &a.Events, &a.Plain, &a.Bytes, &a.Newest)
}

// measure counts the pages of each table, which reads all of them.
func (i *Info) measure(ctx context.Context, db *sql.DB) (err error) {
	const pages = `
		SELECT freelist_count * page_size, (page_count - freelist_count) * page_size
		FROM pragma_freelist_count, pragma_page_count, pragma_page_size`
	if err := db.QueryRowContext(ctx, pages).Scan(&i.Free, &i.Used); err != nil {
		return err
	}
	const sizes = `
		SELECT s.tbl_name, sum(d.pgsize)
		FROM dbstat AS d
		JOIN sqlite_schema AS s ON s.name = d.name
		WHERE d.aggregate = TRUE
		GROUP BY s.tbl_name
		ORDER BY 2 DESC, 1`
	rows, err := db.QueryContext(ctx, sizes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var t Table
		if err := rows.Scan(&t.Name, &t.Bytes); err != nil {
			return err
		}
		i.Tables = append(i.Tables, t)
	}
	return rows.Err()
}
