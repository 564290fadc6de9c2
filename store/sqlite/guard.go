package sqlite

import modernc "modernc.org/sqlite"

// permission is what the statement that is being prepared may do.
type permission int

const (
	mayAll    permission = iota // statements of this package
	mayChange                   // Tx.Exec: tables, but neither the log nor the transaction
	mayRead                     // Tx.Query
)

// protected are the tables and views of the log. Exec cannot reach them (L-1).
var protected = map[string]bool{
	"events": true, "event_types": true, "stream_families": true, "ulid_digits": true, "log": true, migrationsTable: true,
	"feed_groups": true, "feed_groups_view": true, "restores": true, "restores_view": true,
	"segments": true, "archived_streams": true, "segment_pages": true,
}

// readingPragmas take the name of a table or an index. SQLite itself uses the first when it adds a column.
var readingPragmas = map[string]bool{
	"quick_check": true, "integrity_check": true, "foreign_key_check": true, "foreign_key_list": true,
	"table_info": true, "table_xinfo": true, "table_list": true, "index_list": true, "index_info": true, "index_xinfo": true,
}

// guard decides what the statements of callers may do. SQLite asks it when it prepares a statement, also again after
// a change of the schema, and never when it runs one, so it costs nothing where it counts.
type guard struct{ may permission }

// lend sets what is allowed until the function that it returns is called.
func (g *guard) lend(p permission) (back func()) {
	g.may = p
	return func() { g.may = mayAll }
}

func (g *guard) authorize(action modernc.AuthorizerActionCode, arg1, arg2, _, _ string) modernc.AuthorizerReturnCode {
	if g.may == mayAll {
		return modernc.AuthorizerOK
	}
	switch action {
	case modernc.AuthSelect, modernc.AuthRead, modernc.AuthFunction, modernc.AuthRecursive:
		return modernc.AuthorizerOK
	case modernc.AuthTransaction, modernc.AuthSavepoint, modernc.AuthAttach, modernc.AuthDetach:
		return modernc.AuthorizerDeny
	case modernc.AuthPragma: // with an argument, most of them set something
		if arg2 == "" || readingPragmas[arg1] {
			return modernc.AuthorizerOK
		}
		return modernc.AuthorizerDeny
	}
	if g.may == mayRead || protected[subject(action, arg1, arg2)] {
		return modernc.AuthorizerDeny
	}
	return modernc.AuthorizerOK
}

// subject is the table or view that an action is about; SQLite passes it in one place or the other.
func subject(action modernc.AuthorizerActionCode, arg1, arg2 string) string {
	switch action {
	case modernc.AuthCreateIndex, modernc.AuthDropIndex, modernc.AuthCreateTrigger, modernc.AuthDropTrigger,
		modernc.AuthCreateTempIndex, modernc.AuthDropTempIndex, modernc.AuthCreateTempTrigger, modernc.AuthDropTempTrigger,
		modernc.AuthAlterTable:
		return arg2
	}
	return arg1
}
