package git_test

import (
	"fmt"

	"github.com/towline-dev/towline/provider/git"
	"github.com/towline-dev/towline/sink/sqlite"
)

// The tables of the provider, as the SQLite sink takes them.
func ExampleTables() {
	var tables []sqlite.Table
	for _, t := range git.Tables() {
		tables = append(tables, sqlite.Table{Name: t.Name, Columns: t.Columns, Key: t.Key, Source: t.Source, Window: t.Window})
	}
	history := sqlite.File("history.db", sqlite.Tables(tables...))
	defer history.Close()
	for _, t := range tables {
		fmt.Println(t.Name, t.Key)
	}
	// Output:
	// commits [repo sha]
	// changes [repo sha path]
	// refs [repo name]
	// files [repo path]
}

// Two sides that list the same commits, in any order, have the same fingerprint.
func ExampleDigest() {
	var d git.Digest
	fmt.Printf("%q\n", d.String())
	_ = d.Add("00000000000000000000000000000000000000f0")
	_ = d.Add("000000000000000000000000000000000000000f")
	fmt.Println(d.String())
	// Output:
	// ""
	// 2:00000000000000000000000000000000000000ff
}
