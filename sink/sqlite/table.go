package sqlite

import (
	"fmt"
	"slices"
	"strings"
)

// Mode says what a commit does with the rows of the window that are there already. A file format: it is written in
// configurations.
type Mode string

const (
	// ReplaceWindow removes the rows of the unit's source and window that the attempt did not put. A unit without a
	// window start, which reads all there is, replaces the whole source.
	ReplaceWindow Mode = "replace_window"
	// Upsert keeps every row and overwrites those with the same key.
	Upsert Mode = "upsert"
)

func (m Mode) known() bool { return m == ReplaceWindow || m == Upsert }

func unknownMode(m Mode) error {
	return fmt.Errorf("mode %q is not known: use %q or %q", m, ReplaceWindow, Upsert)
}

// Column is a field of the row and its type: TEXT, INTEGER, REAL, BLOB or ANY.
// It is an alias, so that a provider can describe its columns without importing this package.
type Column = struct{ Name, Type string }

// Table is the shape of one surface.
//
// A row that is put must encode as a JSON object with exactly the fields of Columns. The columns Source and Window are
// filled in by the sink and come first and last in the table. Two rows with the same key are one row, and the later
// one counts: within an attempt the later Put, between attempts the later commit. So a row that moves to another
// window belongs to the one that was committed last, and replacing its old window does not remove it.
//
// A value that its column cannot hold is an error of the Put. Text that is not valid UTF-8 gets U+FFFD in its place, as
// encoding/json does it; in a column of the key it is refused, since two keys could become one.
type Table struct {
	Name    string   // of the surface and of the table
	Columns []Column // without Source and Window
	Key     []string // primary key; must hold Source and at least one of Columns
	Source  string   // column that holds the source
	Window  string   // column that holds the name of the window; empty: the table takes units without a window only
	Mode    Mode     // empty: that of the destination
}

// genericTable is the shape of a surface that was not declared.
func genericTable(surface string) Table {
	return Table{
		Name: surface, Source: "source", Key: []string{"source", "key"}, Window: "window",
		Columns: []Column{{"key", "TEXT"}, {"data", "TEXT"}},
	}
}

// table is a Table with its SQL.
type table struct {
	Table
	generic bool           // the row goes to one column, as it is
	index   map[string]int // of Columns, by name
	keyed   []bool         // of Columns: it is part of the key

	create     []string // the table and its index, if they are not there
	stage      string   // the temporary table of an attempt
	unstage    string   // drops it
	insert     string   // into it
	count      string   // of its rows
	merge      string   // from it: $1 source, $2 window
	dropWindow string   // rows of the window that are not staged: $1 source, $2 window
	dropSource string   // rows of the source that are not staged: $1 source
}

// reserved reports a table name that is not the user's to choose.
func reserved(name string) bool {
	return ofSink(name) || strings.HasPrefix(strings.ToLower(name), "sqlite_")
}

// fold gives two names one value if SQLite takes them for one table: it does not tell the cases of ASCII apart.
func fold(name string) string {
	folded := []byte(name)
	for i, c := range folded {
		if 'A' <= c && c <= 'Z' {
			folded[i] = c + 'a' - 'A'
		}
	}
	return string(folded)
}

func oneTable(a, b string) error {
	return fmt.Errorf("surfaces %q and %q are one table to SQLite, which does not tell upper and lower case apart: write the name in one way, or choose another", a, b)
}

var columnTypes = []string{"TEXT", "INTEGER", "REAL", "BLOB", "ANY"}

func (t Table) check() error {
	if t.Name == "" || reserved(t.Name) || strings.ContainsRune(t.Name, 0) {
		return fmt.Errorf("surface %q cannot be a table: choose a name that does not start with _towline or sqlite_", t.Name)
	}
	if t.Mode != "" && !t.Mode.known() {
		return unknownMode(t.Mode)
	}
	names := t.all()
	seen := make(map[string]bool, len(names)) // SQLite does not tell cases apart
	for _, n := range names {
		lower := strings.ToLower(n)
		if n == "" || seen[lower] || strings.ContainsRune(n, 0) {
			return fmt.Errorf("column %q is empty or named twice", n)
		}
		seen[lower] = true
	}
	for _, c := range t.Columns {
		if !slices.Contains(columnTypes, c.Type) {
			return fmt.Errorf("column %s has type %q: use one of %q", c.Name, c.Type, columnTypes)
		}
	}
	for _, k := range t.Key {
		if !slices.Contains(names, k) {
			return fmt.Errorf("key column %s is none of %q", k, names)
		}
	}
	if !slices.Contains(t.Key, t.Source) {
		return fmt.Errorf("the key %q must hold the source column %q, else two sources overwrite each other", t.Key, t.Source)
	}
	if len(t.stageKey()) == 0 {
		return fmt.Errorf("the key %q must hold a column of the row", t.Key)
	}
	return nil
}

// all are the columns in the order of the table.
func (t Table) all() []string {
	names := []string{t.Source}
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	if t.Window != "" {
		names = append(names, t.Window)
	}
	return names
}

// stageKey is the key within one source and window.
func (t Table) stageKey() []string {
	return slices.DeleteFunc(slices.Clone(t.Key), func(k string) bool { return k == t.Source || k == t.Window })
}

// byWindow ends the name of the index that finds the rows of a window.
const byWindow = "_by_window"

func (t Table) compile(generic bool) (*table, error) {
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("table %s: %w", t.Name, err)
	}
	c := &table{Table: t, generic: generic, index: make(map[string]int, len(t.Columns))}
	name, stage := quote(t.Name), "temp."+quote("_towline_stage_"+t.Name)

	columns := []string{quote(t.Source) + " TEXT NOT NULL"}
	var staged, names []string
	for i, col := range t.Columns {
		c.index[col.Name] = i
		c.keyed = append(c.keyed, slices.Contains(t.Key, col.Name))
		def := quote(col.Name) + " " + col.Type
		if c.keyed[i] {
			def += " NOT NULL"
		}
		columns, staged, names = append(columns, def), append(staged, def), append(names, quote(col.Name))
	}
	if t.Window != "" {
		columns = append(columns, quote(t.Window)+" TEXT NOT NULL")
	}
	// With rowids: a window's rows lie together, and only the small index takes the random order of ids. Without them
	// the commits of a history of sixty thousand cost a third more, for four per cent less file.
	c.create = []string{fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (%s, PRIMARY KEY (%s)) STRICT`,
		name, strings.Join(columns, ", "), list(t.Key))}
	switch {
	case t.Window != "":
		c.create = append(c.create, fmt.Sprintf(`CREATE INDEX IF NOT EXISTS %s ON %s (%s, %s)`,
			quote(t.Name+byWindow), name, quote(t.Source), quote(t.Window)))
	case t.Key[0] != t.Source:
		c.create = append(c.create, fmt.Sprintf(`CREATE INDEX IF NOT EXISTS %s ON %s (%s)`,
			quote(t.Name+"_by_source"), name, quote(t.Source)))
	}

	c.stage = fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (%s, PRIMARY KEY (%s)) STRICT, WITHOUT ROWID`,
		stage, strings.Join(staged, ", "), list(t.stageKey()))
	c.unstage = `DROP TABLE IF EXISTS ` + stage
	c.insert = fmt.Sprintf(`INSERT OR REPLACE INTO %s VALUES (%s)`, stage, placeholders(len(names)))
	c.count = `SELECT count(*) FROM ` + stage

	windowName, windowValue := "", ""
	if t.Window != "" {
		windowName, windowValue = ", "+quote(t.Window), ", $2"
	}
	c.merge = fmt.Sprintf("INSERT INTO %s (%s, %s%s)\nSELECT $1, %s%s\nFROM %s\nWHERE true\nON CONFLICT (%s)\n%s",
		name, quote(t.Source), strings.Join(names, ", "), windowName,
		strings.Join(names, ", "), windowValue, stage, list(t.Key), t.onConflict())

	var same []string
	for _, k := range t.stageKey() {
		same = append(same, fmt.Sprintf("s.%s = t.%s", quote(k), quote(k)))
	}
	staying := fmt.Sprintf("(SELECT 1 FROM %s AS s WHERE %s)", stage, strings.Join(same, " AND "))
	c.dropSource = fmt.Sprintf("DELETE FROM %s AS t\nWHERE %s = $1\nAND NOT EXISTS %s", name, quote(t.Source), staying)
	if t.Window != "" {
		// Left alone, the planner takes the primary key and walks the whole source for every window.
		c.dropWindow = fmt.Sprintf("DELETE FROM %s AS t INDEXED BY %s\nWHERE %s = $1\nAND %s = $2\nAND NOT EXISTS %s",
			name, quote(t.Name+byWindow), quote(t.Source), quote(t.Window), staying)
	}
	return c, nil
}

// onConflict overwrites what changed and leaves the rest alone: an unchanged window costs no write.
func (t Table) onConflict() string {
	var sets, old, excluded []string
	for _, n := range t.all() {
		if slices.Contains(t.Key, n) {
			continue
		}
		sets = append(sets, fmt.Sprintf("%s = excluded.%s", quote(n), quote(n)))
		old = append(old, quote(t.Name)+"."+quote(n))
		excluded = append(excluded, "excluded."+quote(n))
	}
	if len(sets) == 0 {
		return "DO NOTHING"
	}
	return fmt.Sprintf("DO UPDATE SET %s\nWHERE (%s) IS NOT (%s)",
		strings.Join(sets, ", "), strings.Join(old, ", "), strings.Join(excluded, ", "))
}

// takes answers whether the table can hold rows of a window.
func (t *table) takes(window string) error {
	if t.Window == "" && t.Mode == ReplaceWindow && window != snapshotWindow {
		return fmt.Errorf("table %s keeps no window, so it cannot replace the window %s: give it a Window column, or mode %q",
			t.Name, window, Upsert)
	}
	return nil
}

// snapshotWindow is the name of a window with an open start: all there is.
const snapshotWindow = "-"

// checkShape compares the table in the file with the declared one. More columns than declared are allowed: they stay
// NULL, or keep their default.
func (t *table) checkShape(path string, found []foundColumn) error {
	if len(found) == 0 {
		return nil // it is created by the commit
	}
	types := map[string]string{t.Source: "TEXT"}
	if t.Window != "" {
		types[t.Window] = "TEXT"
	}
	for _, c := range t.Columns {
		types[c.Name] = c.Type
	}
	var key []string
	for _, c := range found {
		if want, ok := types[c.name]; ok && want == c.kind {
			delete(types, c.name)
		}
		if c.key > 0 {
			key = append(key, c.name)
		}
	}
	slices.Sort(key)
	if len(types) == 0 && slices.Equal(key, slices.Sorted(slices.Values(t.Key))) {
		return nil
	}
	return fmt.Errorf("table %s of %s has another shape than (%s) with key (%s): rename or drop it, or declare it as it is",
		t.Name, path, strings.Join(t.all(), ", "), strings.Join(t.Key, ", "))
}

type foundColumn struct {
	name, kind string
	key        int // place in the primary key; 0: not in it
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func list(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = quote(n)
	}
	return strings.Join(quoted, ", ")
}

func placeholders(n int) string {
	p := make([]string, n)
	for i := range p {
		p[i] = fmt.Sprintf("$%d", i+1)
	}
	return strings.Join(p, ", ")
}
