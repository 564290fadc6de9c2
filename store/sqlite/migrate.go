package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
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
