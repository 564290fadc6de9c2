package sink

import "context"

// Scripter is a destination that runs SQL: for the sql action of post_sync.
type Scripter interface {
	// Script runs the statements of a script in one transaction. args are those of database/sql; a post_sync passes
	// sql.Named("run", …), which is :run, and sql.Named("generation", …).
	Script(ctx context.Context, script string, args ...any) error
}
