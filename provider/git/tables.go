package git

// Column is a column and its SQL type. It is an alias of a plain struct, as that of sink/sqlite is, so that columns
// can be handed from one to the other and neither package knows the other.
type Column = struct{ Name, Type string }

// Table describes the table of a surface for a destination that has tables. The sink fills in Source and Window; the
// rows that are put have exactly the Columns.
type Table struct {
	Name    string
	Columns []Column
	Key     []string
	Source  string
	Window  string // empty: the table holds one snapshot of each source
}

// Tables are the tables of all surfaces. Times are fixed-width UTC text; encoding_repaired is 1 where a byte that was
// not UTF-8 was written as \xNN, or in a path a backslash as \x5c because it would have read so.
func Tables() []Table {
	return []Table{
		{
			Name: Commits, Source: "repo", Window: "window", Key: []string{"repo", "sha"},
			Columns: []Column{
				{"sha", "TEXT"}, {"parents", "TEXT"}, {"author_name", "TEXT"}, {"author_email", "TEXT"}, {"author_time", "TEXT"},
				{"committer_time", "TEXT"}, {"subject", "TEXT"}, {"encoding_repaired", "INTEGER"},
			},
		},
		{
			Name: Changes, Source: "repo", Window: "window", Key: []string{"repo", "sha", "path"},
			Columns: []Column{
				{"sha", "TEXT"}, {"path", "TEXT"}, {"added", "INTEGER"}, {"deleted", "INTEGER"}, {"encoding_repaired", "INTEGER"},
			},
		},
		{
			Name: Refs, Source: "repo", Key: []string{"repo", "name"},
			Columns: []Column{{"name", "TEXT"}, {"target", "TEXT"}, {"encoding_repaired", "INTEGER"}},
		},
		{
			Name: Files, Source: "repo", Key: []string{"repo", "path"},
			Columns: []Column{{"path", "TEXT"}, {"size", "INTEGER"}, {"blob", "TEXT"}, {"encoding_repaired", "INTEGER"}},
		},
	}
}
