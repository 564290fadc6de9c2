package projections

import (
	"cmp"
	"slices"
	"strings"

	"github.com/towline-dev/towline/store"
)

// A register that was parked when its run ended, its message was settled or its post_sync was done is parked for ever, and
// waits for nobody (O-15). So the parked ones that do are found from what is open, and not among all that are parked: else
// the cost would grow with history.

// heldPart is SQL for some of the registers o that are held: a FROM, and the order of owner and kind in which an index has
// them.
type heldPart struct{ from, order string }

var (
	heldMarked     = heldPart{`outbox o WHERE ` + held + ` AND o.status = 'marked'`, `o.owner, o.kind`}
	heldUnresolved = heldPart{`outbox o WHERE ` + held + ` AND o.status = 'unresolved'`, `o.owner, o.kind`}
	// of an open run; of a post_sync that is to be done exactly once, and is not; of a message that nobody has settled
	heldParked = []heldPart{
		{`runs r INDEXED BY runs_open CROSS JOIN outbox o WHERE r.completed_at IS NULL AND o.owner = r.run_id AND o.status = 'parked'`, `r.run_id, o.kind`},
		{`runs r CROSS JOIN outbox o WHERE r.effects = 'open' AND o.owner = r.run_id AND o.kind = 'post_sync' AND o.status = 'parked'`, `r.run_id`},
		{`runs r CROSS JOIN outbox o WHERE r.effects = 'held' AND o.owner = r.run_id AND o.kind = 'post_sync' AND o.status = 'parked'`, `r.run_id`},
		{`messages m CROSS JOIN outbox o WHERE m.parked = 1 AND o.owner = m.message_id AND o.kind = 'message'`, `m.message_id`},
	}
)

// Held counts what waits for a person: parked registers of which something is owed, marked ones of which an outcome is
// unknown (REC-12), and runs whose effects have failed too often (REC-10). Its cost grows with what is open.
func (v View) Held() (n int, err error) {
	counts := []string{`(SELECT count(*) FROM runs WHERE effects = 'held')`}
	for _, p := range slices.Concat(heldParked, []heldPart{heldUnresolved}) {
		counts = append(counts, `(SELECT count(*) FROM `+p.from+`)`)
	}
	err = v.tx.Query(func(r store.Row) error { return r.Scan(&n) }, `SELECT `+strings.Join(counts, "\n\t\t+ "))
	return n, err
}

// HeldRegisters lists the registers that wait for a person or for an outcome: marked, parked and unresolved ones, in this
// order, and each by owner and kind, at most limit of them. A parked one to which nothing is owed any more, because its run
// has ended, its message is settled or its post_sync is done, waits for nobody (O-15).
func (v View) HeldRegisters(limit int) ([]Register, error) {
	var keys []Key
	for _, parts := range [][]heldPart{{heldMarked}, heldParked, {heldUnresolved}} {
		var some []Key
		for _, p := range parts {
			found, err := v.keys(`SELECT o.owner, o.kind FROM `+p.from+` ORDER BY `+p.order+` LIMIT $1`, limit)
			if err != nil {
				return nil, err
			}
			some = append(some, found...)
		}
		slices.SortFunc(some, func(a, b Key) int {
			return cmp.Or(a.Owner.Compare(b.Owner), cmp.Compare(a.Kind, b.Kind))
		})
		keys = append(keys, some...)
	}
	out := make([]Register, 0, min(len(keys), max(limit, 0)))
	for _, k := range keys[:cap(out)] {
		r, err := v.registers(`SELECT `+registerColumns+` FROM outbox WHERE owner = $1 AND kind = $2`, k.Owner[:], string(k.Kind))
		if err != nil {
			return nil, err
		}
		out = append(out, r...)
	}
	return out, nil
}
