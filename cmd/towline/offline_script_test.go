//go:build unix

package main

import (
	"database/sql"
	"os"
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite" // scripts change files as somebody else would
)

// commandsOffline are those of scripts about commands that look at files.
var commandsOffline = map[string]func(*testscript.TestScript, bool, []string){
	"sql": runSQL, "commit": commit, "copydb": copyDB, "lastrun": spokenOf, "tear": tear,
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

// spokenOf NAME sets RUN to the newest run that this towline has spoken of.
func spokenOf(ts *testscript.TestScript, _ bool, args []string) {
	var said string
	if c := running.of(ts)[args[0]]; c != nil {
		said = c.all.String()
	} else {
		said = ts.ReadFile(args[0] + ".err")
	}
	found := regexp.MustCompile(`(?m)^run ([0-9A-Z]{6}) `).FindAllStringSubmatch(said, -1)
	if len(found) == 0 {
		ts.Fatalf("%s speaks of no run:\n%s", args[0], said)
	}
	ts.Setenv("RUN", found[len(found)-1][1])
}

// tear FILE TABLE spoils the first page of a table.
func tear(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", "file:"+ts.MkAbs(args[0]))
	ts.Check(err)
	var page, size int64
	ts.Check(db.QueryRow("SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = $1", args[1]).Scan(&page, &size))
	ts.Check(db.Close())
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY, 0)
	ts.Check(err)
	defer f.Close()
	_, err = f.WriteAt([]byte{0xAA, 0xAA, 0xAA, 0xAA}, (page-1)*size)
	ts.Check(err)
}
