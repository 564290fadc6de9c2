package projections

import "github.com/towline-dev/towline/store"

// Comparable reports that the tables of a store are those of this release, so that they can be compared with a fold.
func Comparable(tx store.ReadTx) (bool, error) {
	revisions := map[string]int{}
	there := 0
	err := tx.Query(func(r store.Row) error { return r.Scan(&there) },
		`SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'projection'`)
	if err != nil || there == 0 {
		return false, err
	}
	err = tx.Query(func(r store.Row) error {
		var name string
		var revision int
		err := r.Scan(&name, &revision)
		revisions[name] = revision
		return err
	}, `SELECT name, revision FROM projection`)
	if err != nil {
		return false, err
	}
	for _, p := range All() {
		if revisions[p.Name()] != p.Revision() {
			return false, nil
		}
	}
	return true, nil
}
