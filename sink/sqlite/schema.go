package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// schema holds the tables of the sink. All of it is a file format; every statement may run again.
//
// The triggers say the rules of the fence a second time: whatever writes, a fence never falls, and is not overwritten
// by one of another store.
var schema = []string{
	`CREATE TABLE IF NOT EXISTS _towline_fence (
	source TEXT NOT NULL,
	dataset TEXT NOT NULL,
	window TEXT NOT NULL,
	fence TEXT NOT NULL CHECK (fence <> ''),
	run TEXT NOT NULL,
	unit TEXT NOT NULL,
	attempt INTEGER NOT NULL,
	committed_at TEXT NOT NULL,
	store TEXT NOT NULL DEFAULT '', -- that the fence belongs to; '': not known
	PRIMARY KEY (source, dataset, window)
) STRICT, WITHOUT ROWID`,
	`CREATE TRIGGER IF NOT EXISTS _towline_fence_never_falls
BEFORE UPDATE ON _towline_fence
WHEN NEW.fence < OLD.fence
BEGIN SELECT RAISE(ABORT, 'a fence never falls'); END`,
	`CREATE TRIGGER IF NOT EXISTS _towline_fence_keeps_its_store
BEFORE UPDATE ON _towline_fence
WHEN OLD.store <> '' AND NEW.store <> '' AND NEW.store <> OLD.store
BEGIN SELECT RAISE(ABORT, 'a fence keeps its store'); END`,
	`CREATE TABLE IF NOT EXISTS _towline_windows (
	source TEXT NOT NULL,
	dataset TEXT NOT NULL,
	window TEXT NOT NULL,
	rows INTEGER NOT NULL, -- of the last commit
	committed_at TEXT NOT NULL,
	PRIMARY KEY (source, dataset, window)
) STRICT, WITHOUT ROWID`,
	`CREATE TABLE IF NOT EXISTS _towline_state (
	source TEXT NOT NULL,
	dataset TEXT NOT NULL,
	state TEXT NOT NULL,
	fence TEXT NOT NULL,
	committed_at TEXT NOT NULL,
	store TEXT NOT NULL DEFAULT '', -- as in _towline_fence
	PRIMARY KEY (source, dataset)
) STRICT, WITHOUT ROWID`,
	once,
	`CREATE TABLE IF NOT EXISTS _towline_surfaces (
	surface TEXT NOT NULL PRIMARY KEY,
	dataset TEXT NOT NULL -- the one whose commits replace windows in it
) STRICT, WITHOUT ROWID`,
}

// addStore brings a file of the layout before the first release to this one. It noted no store, so none is known.
func addStore(conn *sql.Conn) error {
	for _, name := range []string{"_towline_fence", "_towline_state"} {
		columns, err := shape(conn, name)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(columns, func(c foundColumn) bool { return c.name == "store" }) {
			continue
		}
		if err := exec(conn, `ALTER TABLE `+name+` ADD COLUMN store TEXT NOT NULL DEFAULT ''`); err != nil {
			return err
		}
	}
	return exec(conn, `CREATE INDEX IF NOT EXISTS _towline_fence_stores ON _towline_fence (source, dataset, store)`)
}

// setup makes the tables of the sink, once for a file, and returns which file that is.
func (d *Destination) setup(ctx context.Context) (os.FileInfo, error) {
	if known := d.file.Load(); known != nil && d.unmoved(*known) == nil {
		return *known, nil
	}
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if known := d.file.Load(); known != nil {
		if d.unmoved(*known) == nil {
			return *known, nil // another caller was faster
		}
		// The file was deleted or replaced. Idle connections would go on with the old one, which no path leads to.
		d.closeIdle(d.pool)
		d.closeIdle(d.read)
	}
	if folder := filepath.Dir(d.path); !isDir(folder) {
		return nil, fmt.Errorf("set up %s: there is no folder %s: make it, or choose another path", d.path, folder)
	}
	conn, err := d.conn(ctx)
	if err != nil {
		return nil, err
	}
	err = d.transactInTurn(ctx, conn, func() error {
		for _, statement := range schema {
			if err := exec(conn, statement); err != nil {
				return err
			}
		}
		return addStore(conn)
	})
	if err != nil {
		discard(conn)
		return nil, fmt.Errorf("set up %s: %w", d.path, err)
	}
	info, err := os.Stat(d.path)
	if err != nil {
		discard(conn)
		return nil, fmt.Errorf("set up: %w", err)
	}
	d.giveBack(conn, info)
	d.file.Store(&info)
	d.seen.Store(&info)
	return info, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// unmoved returns an error if the path does not lead to the file any more. SQLite would not notice: it would commit
// into a file without a name.
func (d *Destination) unmoved(known os.FileInfo) error {
	info, err := os.Stat(d.path)
	if err != nil {
		return err
	}
	if !os.SameFile(info, known) {
		return fmt.Errorf("%s was replaced by another file", d.path)
	}
	return nil
}

// shape is the columns of a table in the file; none if there is no such table.
func shape(conn *sql.Conn, name string) ([]foundColumn, error) {
	rows, err := conn.QueryContext(context.Background(), `
SELECT name, type, pk
FROM pragma_table_info($1)`, name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []foundColumn
	for rows.Next() {
		var c foundColumn
		if err := rows.Scan(&c.name, &c.kind, &c.key); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, rows.Err()
}
