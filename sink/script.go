package sink

import "context"

// Scripter is a destination that runs SQL: for the sql action of post_sync.
type Scripter interface {
	// Script runs the statements of a script in one transaction; :run and :generation stand for the arguments.
	Script(ctx context.Context, script string, args ScriptArgs) error
}

// ScriptArgs are what a script may refer to.
type ScriptArgs struct {
	Run        string // ULID of the run that ended
	Generation string // stable name of its post_sync (K-4)
}
