package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationsTable is where goose keeps which migrations were applied.
const migrationsTable = "schema_migrations"

// migrate brings the tables of the log to this release. Migrations only add, so the level does not rise with them,
// and a version that is unknown here, left by a newer release of the same level, is no error (DUR-7). A process that
// dies between two of them leaves a store that the next one finishes. Caller holds the setup lock.
func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithTableName(migrationsTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", classify(err))
	}
	return nil
}

// tablesMade reports that every migration of this release was applied and every name of its log is there, so that migrate and
// fillNames would change nothing.
func tablesMade(s *session) (bool, error) {
	defer func(ran int64) { s.ran = ran }(s.ran) // what is counted are the statements of transactions
	ctx := context.Background()                  // of the writer: see session
	applied := map[int64]bool{}
	migrated := false
	const table = `SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = $1`
	if err := s.query(ctx, func(store.Row) error { migrated = true; return nil }, table, migrationsTable); err != nil || !migrated {
		return false, err
	}
	err := s.query(ctx, func(row store.Row) error {
		var version int64
		err := row.Scan(&version)
		applied[version] = true
		return err
	}, `SELECT version_id FROM `+migrationsTable+` WHERE is_applied`)
	if err != nil {
		return false, err
	}
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return false, err
	}
	for _, f := range files {
		version, err := goose.NumericComponent(f)
		if err != nil || !applied[version] {
			return false, err
		}
	}
	known := 0
	err = s.query(ctx, func(row store.Row) error { return row.Scan(&known) }, countNames)
	return known >= len(events.Types())+len(families()), err
}
