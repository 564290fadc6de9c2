package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	sqlite "modernc.org/sqlite"
)

// Script runs a SQL script of any number of statements in one transaction; it is what a post_sync action does. Every
// statement sees all args, so named ones serve best: sql.Named("run", …) is :run.
//
// The script may read the tables of the sink and not change them, also not through a trigger that it leaves behind. It
// must not end the transaction, attach another file, or set what reaches beyond the transaction.
func (d *Destination) Script(ctx context.Context, script string, args ...any) error {
	return d.inScript(ctx, func(conn *sql.Conn) error { return runScript(conn, script, args) })
}

// inScript runs fn in one transaction of a connection of its own.
func (d *Destination) inScript(ctx context.Context, fn func(*sql.Conn) error) error {
	if d.broken != nil {
		return d.broken
	}
	file, err := d.setup(ctx)
	if err != nil {
		return err
	}
	conn, err := d.conn(ctx)
	if err != nil {
		return err
	}
	// The script may have left anything behind, temporary tables too: its connection is never used again.
	defer discard(conn)
	err = d.transact(ctx, conn, func() error {
		if err := d.unmoved(file); err != nil {
			return err
		}
		return fn(conn)
	})
	if err != nil {
		return fmt.Errorf("script on %s: %w", d.path, err)
	}
	return nil
}

// runScript runs the statements under the eyes of the authorizer, and then looks at what they have left.
func runScript(conn *sql.Conn, script string, args []any) error {
	before, err := sinkSchema(conn)
	if err != nil {
		return err
	}
	var refused error
	if err := authorize(conn, func(a action) bool {
		err := a.scriptError()
		if refused == nil {
			refused = err
		}
		return err == nil
	}); err != nil {
		return err
	}
	_, err = conn.ExecContext(context.Background(), script, args...)
	if err == nil {
		err = fireTriggers(conn)
	}
	err = errors.Join(err, authorize(conn, nil)) // before the transaction ends, which a script may not do
	if refused != nil {
		return refused
	}
	if err != nil {
		return err
	}
	after, err := sinkSchema(conn)
	if err == nil && after != before {
		err = errors.New("a script may not make or change tables whose names start with _towline")
	}
	return err
}

// sinkSchema is all that SQLite knows of the tables of the sink, as text. It says a second time what scriptError says,
// and finds what the authorizer is not told: the new name of a table that is renamed.
func sinkSchema(conn *sql.Conn) (schema string, err error) {
	err = conn.QueryRowContext(context.Background(), `
SELECT coalesce(group_concat(name || ' ' || tbl_name || ' ' || sql, char(10) ORDER BY name), '')
FROM sqlite_schema
WHERE lower(name) GLOB '_towline*' OR lower(tbl_name) GLOB '_towline*'`).Scan(&schema)
	return schema, err
}

// fireTriggers compiles, and does not run, a statement of each kind on each table that has triggers. So the authorizer
// sees what the triggers would do when an attempt or another script fires them: it is not asked when they are made.
func fireTriggers(conn *sql.Conn) error {
	tables, err := triggered(conn)
	if err != nil {
		return err
	}
	for _, name := range tables {
		columns, err := shape(conn, name)
		if err != nil {
			return err
		}
		sets := make([]string, len(columns))
		for i, c := range columns {
			sets[i] = quote(c.name) + " = NULL"
		}
		// A view has no triggers of some kinds, and a trigger may name what is not there yet: neither can change anything.
		_ = exec(conn, `EXPLAIN INSERT INTO `+quote(name)+` DEFAULT VALUES`)
		_ = exec(conn, `EXPLAIN DELETE FROM `+quote(name))
		_ = exec(conn, `EXPLAIN UPDATE `+quote(name)+` SET `+strings.Join(sets, ", "))
	}
	return nil
}

// triggered are the tables and views with triggers, but for those of the sink.
func triggered(conn *sql.Conn) ([]string, error) {
	rows, err := conn.QueryContext(context.Background(), `
SELECT DISTINCT tbl_name
FROM sqlite_schema
WHERE type = 'trigger' AND lower(tbl_name) NOT GLOB '_towline*'`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// action is what a statement asks SQLite for.
type action struct {
	code    sqlite.AuthorizerActionCode
	subject string // the table or view; of a pragma, its name
	arg     string // of a pragma
	by      string // the trigger or view that asks; empty: the statement itself
}

// scriptPragmas may have an argument. They read, or what they set is part of the transaction. SQLite itself uses the
// first when it adds a column.
var scriptPragmas = map[string]bool{
	"quick_check": true, "integrity_check": true, "foreign_key_check": true, "foreign_key_list": true,
	"table_info": true, "table_xinfo": true, "table_list": true, "index_list": true, "index_info": true, "index_xinfo": true,
	"user_version": true, "application_id": true, "defer_foreign_keys": true, "optimize": true,
}

func (a action) scriptError() error {
	switch a.code {
	case sqlite.AuthSelect, sqlite.AuthRead, sqlite.AuthFunction, sqlite.AuthRecursive, sqlite.AuthSavepoint,
		sqlite.AuthAnalyze, sqlite.AuthReindex:
		return nil
	case sqlite.AuthTransaction:
		return errors.New("the script runs in one transaction already: remove BEGIN, COMMIT and ROLLBACK from it")
	case sqlite.AuthAttach, sqlite.AuthDetach:
		return errors.New("a script cannot attach another file: one transaction over two files is not all or nothing")
	case sqlite.AuthPragma:
		if a.arg == "" || scriptPragmas[strings.ToLower(a.subject)] {
			return nil
		}
		return fmt.Errorf("a script cannot set PRAGMA %s, which is no part of its transaction: remove it", a.subject)
	}
	if !ofSink(a.subject) {
		return nil
	}
	if a.by != "" {
		return fmt.Errorf("a script may read %s and not change it, as the trigger or view %s would", a.subject, a.by)
	}
	return fmt.Errorf("a script may read %s and not change it", a.subject)
}

// ofSink reports a table of the sink, or a name that is kept for one.
func ofSink(name string) bool { return strings.HasPrefix(strings.ToLower(name), "_towline") }

// authorize asks allow about every action that the connection compiles from now on; nil ends it. SQLite itself knows
// what a statement does, so no text is searched for words.
func authorize(conn *sql.Conn, allow func(action) bool) error {
	return conn.Raw(func(c any) error {
		r, ok := c.(sqlite.AuthorizerRegisterer)
		if !ok {
			return fmt.Errorf("driver %T has no authorizer", c)
		}
		if allow == nil {
			return r.RegisterAuthorizer(nil)
		}
		return r.RegisterAuthorizer(func(code sqlite.AuthorizerActionCode, arg1, arg2, _, by string) sqlite.AuthorizerReturnCode {
			if allow(asked(code, arg1, arg2, by)) {
				return sqlite.AuthorizerOK
			}
			return sqlite.AuthorizerDeny
		})
	})
}

// asked gives the arguments of the authorizer their names; SQLite passes the table in one place or the other.
func asked(code sqlite.AuthorizerActionCode, arg1, arg2, by string) action {
	switch code {
	case sqlite.AuthCreateIndex, sqlite.AuthDropIndex, sqlite.AuthCreateTrigger, sqlite.AuthDropTrigger,
		sqlite.AuthCreateTempIndex, sqlite.AuthDropTempIndex, sqlite.AuthCreateTempTrigger, sqlite.AuthDropTempTrigger,
		sqlite.AuthAlterTable:
		return action{code: code, subject: arg2, by: by}
	}
	return action{code: code, subject: arg1, arg: arg2, by: by}
}
