package projections

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/towline-dev/towline/store"
)

// Two stores are compared table by table and page by page (I-26). A page is read in one snapshot, so a snapshot is as
// short as a page is small (DUR-4), and two pages are all that is held, however long the history is.

// Tables lists the tables of all projections.
func Tables() []Table {
	var out []Table
	for _, p := range All() {
		out = append(out, p.Tables()...)
	}
	return out
}

// RowKey is the key of a row: an int64, a string or a []byte for each column of Table.Key.
type RowKey []any

// HashedRow stands for a row. It is small, however much the row holds.
type HashedRow struct {
	Key  RowKey
	Hash uint64 // FNV-1a of all columns
}

// Page is a part of a table in the order of its key.
type Page struct {
	Rows []HashedRow
	More bool // it ended at its limit, and not with the table
}

// ReadPage reads at most limit rows of a table behind a key; nil: from its beginning. limit is at least 1.
func ReadPage(tx store.ReadTx, t Table, after RowKey, limit int) (Page, error) {
	row, err := rowText(tx, t)
	if err != nil {
		return Page{}, err
	}
	behind := ``
	if after != nil {
		behind = ` WHERE ` + t.is(`>`)
	}
	columns := len(t.columns())
	var p Page
	err = tx.Query(func(r store.Row) error {
		h, err := scanHashed(r, columns)
		p.Rows = append(p.Rows, h)
		return err
	}, fmt.Sprintf(`SELECT %s, %s FROM "%s"%s ORDER BY %s LIMIT %d`, t.Key, row, t.Name, behind, t.Key, limit), after...)
	if err != nil {
		return Page{}, fmt.Errorf("read table %s: %w", t.Name, err)
	}
	p.More = len(p.Rows) == limit
	return p, nil
}

func scanHashed(r store.Row, columns int) (HashedRow, error) {
	h := HashedRow{Key: make(RowKey, columns)}
	var text string
	var into []any
	for i := range h.Key {
		into = append(into, &h.Key[i])
	}
	if err := r.Scan(append(into, &text)...); err != nil {
		return h, err
	}
	hash := fnv.New64a()
	hash.Write([]byte(text))
	h.Hash = hash.Sum64()
	return h, nil
}

// Difference is a row in which a table differs from the fold of the log.
type Difference struct {
	Key  RowKey
	Has  bool // the table has the row
	Want bool // the fold has it
}

// Compare holds a page of a table against the page of the fold that begins at the same place. It goes as far as both
// are known, which is to the smaller of their last keys; the next pages begin behind end. nil: both tables have ended.
func Compare(live, folded Page) (found []Difference, end RowKey) {
	end = earlier(live.end(), folded.end())
	a, b := live.upTo(end), folded.upTo(end)
	for len(a) > 0 || len(b) > 0 {
		switch first := compareFirst(a, b); {
		case first < 0:
			found = append(found, Difference{Key: a[0].Key, Has: true})
			a = a[1:]
		case first > 0:
			found = append(found, Difference{Key: b[0].Key, Want: true})
			b = b[1:]
		default:
			if a[0].Hash != b[0].Hash {
				found = append(found, Difference{Key: a[0].Key, Has: true, Want: true})
			}
			a, b = a[1:], b[1:]
		}
	}
	return found, end
}

// end is the last key that a page can speak of; nil: it speaks of all that follow.
func (p Page) end() RowKey {
	if !p.More {
		return nil
	}
	return p.Rows[len(p.Rows)-1].Key
}

func earlier(a, b RowKey) RowKey {
	if b == nil || a != nil && compareKeys(a, b) < 0 {
		return a
	}
	return b
}

// upTo are the rows up to a key, and with it; nil: all.
func (p Page) upTo(end RowKey) []HashedRow {
	if end == nil {
		return p.Rows
	}
	n := slices.IndexFunc(p.Rows, func(r HashedRow) bool { return compareKeys(r.Key, end) > 0 })
	if n < 0 {
		return p.Rows
	}
	return p.Rows[:n]
}

// compareFirst says which of two lists, of which one may be empty, begins with the smaller key.
func compareFirst(a, b []HashedRow) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return compareKeys(a[0].Key, b[0].Key)
}

// compareKeys orders the keys of a table as SQLite does: a column holds one type (STRICT), and text is compared by its
// bytes.
func compareKeys(a, b RowKey) int {
	for i := range a {
		if c := compareValues(a[i], b[i]); c != 0 {
			return c
		}
	}
	return 0
}

func compareValues(a, b any) int {
	switch a := a.(type) {
	case int64:
		return cmp.Compare(a, b.(int64))
	case string:
		return cmp.Compare(a, b.(string))
	case []byte:
		return bytes.Compare(a, b.([]byte))
	}
	panic(fmt.Sprintf("projections: the key of a table holds %T", a))
}

// Explain says in one sentence what is wrong with a row. tx reads the fold, at the position of the comparison.
func (d Difference) Explain(tx store.ReadTx, t Table) (string, error) {
	name := fmt.Sprintf("table %s, row %s", t.Name, t.literal(d.Key))
	if !d.Want {
		return name + " should not be there", nil
	}
	row, err := rowText(tx, t)
	if err != nil {
		return "", err
	}
	want := ""
	err = tx.Query(func(r store.Row) error { return r.Scan(&want) },
		`SELECT `+row+` FROM "`+t.Name+`" WHERE `+t.is(`=`), d.Key...)
	if err != nil {
		return "", fmt.Errorf("read table %s: %w", t.Name, err)
	}
	if !d.Has {
		return name + " is missing; it should be: " + want, nil
	}
	return name + " should be: " + want, nil
}

func (t Table) columns() []string { return strings.Split(t.Key, ", ") }

// is compares the key with as many arguments, from $1.
func (t Table) is(operator string) string {
	var args []string
	for i := range t.columns() {
		args = append(args, fmt.Sprintf("$%d", i+1))
	}
	return `(` + t.Key + `) ` + operator + ` (` + strings.Join(args, ", ") + `)`
}

// literal is a key as a condition of SQL, so that whoever reads it can look the row up.
func (t Table) literal(k RowKey) string {
	var terms []string
	for i, column := range t.columns() {
		switch x := k[i].(type) {
		case []byte:
			terms = append(terms, fmt.Sprintf("%s = X'%X'", column, x))
		case string:
			terms = append(terms, column+" = '"+strings.ReplaceAll(x, "'", "''")+"'")
		default:
			terms = append(terms, fmt.Sprintf("%s = %d", column, x))
		}
	}
	return strings.Join(terms, " AND ")
}

// rowText is SQL for a whole row as one text.
func rowText(tx store.ReadTx, t Table) (string, error) {
	columns, err := columnsOf(tx, t)
	for i, name := range columns {
		columns[i] = `'` + name + `=' || quote("` + name + `")`
	}
	return strings.Join(columns, ` || ' ' || `), err
}

// columnsOf are the names of the columns of a table, in order.
func columnsOf(tx store.ReadTx, t Table) (columns []string, err error) {
	err = tx.Query(func(r store.Row) error {
		var name string
		err := r.Scan(&name)
		columns = append(columns, name)
		return err
	}, `SELECT name FROM pragma_table_info($1) ORDER BY cid`, t.Name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("columns of table %s: %w", t.Name, err)
	case len(columns) == 0:
		return nil, fmt.Errorf("there is no table %s", t.Name)
	}
	return columns, nil
}
