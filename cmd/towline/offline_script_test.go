//go:build unix

package main

import (
	"database/sql"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite" // scripts change files as somebody else would
)

// commandsOffline are those of scripts about commands that look at files.
var commandsOffline = map[string]func(*testscript.TestScript, bool, []string){
	"sql": runSQL, "commit": commit, "copydb": copyDB,
}

// commit DIR MONTH adds one to a repository.
func commit(ts *testscript.TestScript, _ bool, args []string) {
	commitIn(ts, ts.MkAbs(args[0]), args[1])
}

// runSQL FILE STATEMENT changes an SQLite file behind the back of whoever owns it.
func runSQL(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", "file:"+ts.MkAbs(args[0])+"?_pragma=busy_timeout(10000)")
	ts.Check(err)
	defer db.Close()
	_, err = db.Exec(args[1])
	ts.Check(err)
}

// copyDB FROM TO makes a copy of a store, which may be in use, in one piece.
func copyDB(ts *testscript.TestScript, _ bool, args []string) {
	runSQL(ts, false, []string{args[0], "VACUUM INTO '" + ts.MkAbs(args[1]) + "'"})
}
