package projections

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// Traced is one event and what it changed in the tables.
type Traced struct {
	Event   events.Envelope
	Changes []Change // in the order in which the rows were first touched
}

// Change is what one event did to one row.
type Change struct {
	Table   string
	Key     RowKey
	Op      ChangeOp
	Columns []ColumnChange // in the order of the table, without those of the key
	// Shared: other streams write the row too, and they were not folded. So Before is what the traced streams had made of
	// it, and a New row may have been there.
	Shared bool
}

// ChangeOp says what became of a row.
type ChangeOp string

const (
	RowNew     ChangeOp = "new"     // Columns are those that are set
	RowChanged ChangeOp = "changed" // Columns are those whose value is another
	RowGone    ChangeOp = "gone"    // Columns are those that were set
)

// ColumnChange is a column before and after an event: nil for NULL, else an int64, a string or a []byte.
type ColumnChange struct {
	Name          string
	Before, After any

	place int // in the table
}

// note adds a column. An event may write a row twice; then it goes from what it was at first to what it is at last.
func (c *Change) note(column ColumnChange) {
	i := slices.IndexFunc(c.Columns, func(k ColumnChange) bool { return k.place >= column.place })
	switch {
	case i < 0:
		c.Columns = append(c.Columns, column)
	case c.Columns[i].place > column.place:
		c.Columns = slices.Insert(c.Columns, i, column)
	default:
		c.Columns[i].After = column.After
		if reflect.DeepEqual(c.Columns[i].Before, column.After) {
			c.Columns = slices.Delete(c.Columns, i, i+1)
		}
	}
}

// isNone reports an update that has changed nothing.
func (c Change) isNone() bool { return c.Op == RowChanged && len(c.Columns) == 0 }

// own are the tables of which each row is made by the streams of one group (extent.groups): whoever folds those has its
// rows as they are. Every other table is taken for one that many streams write.
var own = map[string]bool{"runs": true, "units": true, "outbox": true, "jobs": true}

// tracePage bounds how many events a trace holds.
const tracePage = 200

// Trace folds the events of some streams up to the position, one after the other, and says of each which rows it changed:
// not by a description of the tables, but by watching them. nil: of every stream. It reads a page of events at a time, so
// its memory grows with the number of events and not with what they hold.
//
// A stream that a group of several belongs to is traced with all of them or not at all: a run with its post_sync register.
//
// The tables of the Past are the trace's until it ends: a query that needs them gets an error meanwhile.
func (p *Past) Trace(ctx context.Context, streams []events.StreamID) iter.Seq2[Traced, error] {
	return func(yield func(Traced, error) bool) {
		t, err := p.beginTrace(ctx, streams)
		if err != nil {
			yield(Traced{}, err)
			return
		}
		defer p.endTrace()
		for {
			page, err := t.next(ctx)
			if err != nil {
				yield(Traced{}, err)
				return
			}
			if len(page) == 0 {
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// trace is where a Trace stands.
type trace struct {
	p         *Past
	watch     watch
	every     bool              // all streams
	at        events.Position   // the last event, of every stream
	positions []events.Position // those of some streams that are still to come
}

func (p *Past) beginTrace(ctx context.Context, streams []events.StreamID) (*trace, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tracing {
		return nil, errTraced
	}
	t := &trace{p: p, every: streams == nil}
	var err error
	if !t.every {
		if t.positions, err = p.positions(ctx, streams); err != nil {
			return nil, err
		}
	}
	if err := p.empty(ctx); err != nil {
		return nil, err
	}
	if t.watch, err = newWatch(ctx, p.scratch); err != nil {
		return nil, err
	}
	p.tracing = true
	return t, nil
}

// endTrace leaves tables that nobody else can use.
func (p *Past) endTrace() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tracing, p.tables = false, nil
}

// positions lists the events of streams, in the order of the log.
func (p *Past) positions(ctx context.Context, streams []events.StreamID) (out []events.Position, err error) {
	for some := range slices.Chunk(streams, streamsPerRead) {
		from := len(out)
		err := p.log.Read(ctx, func(r store.Reader) error {
			out = out[:from]
			for _, id := range some {
				history, err := pastReader{r, p.position}.Stream(id)
				if err != nil {
					return err
				}
				for _, env := range history {
					out = append(out, env.Position)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// next folds a page; none: the trace is over.
func (t *trace) next(ctx context.Context) ([]Traced, error) {
	page, err := t.page(ctx)
	if err != nil || len(page) == 0 {
		return nil, err
	}
	steps, err := t.p.tables.steps(page)
	if err != nil {
		return nil, err
	}
	var out []Traced
	err = t.p.scratch.Write(ctx, func(tx store.Tx) error {
		out = make([]Traced, len(steps))
		for i, s := range steps {
			if err := s.apply(tx); err != nil {
				return err
			}
			changes, err := t.watch.take(tx)
			if err != nil {
				return err
			}
			for j := range changes {
				changes[j].Shared = !t.every && !own[changes[j].Table]
			}
			out[i] = Traced{s.env, changes}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	return out, nil
}

// page reads the next events. Those of a transaction often stand side by side, and are then one reading.
func (t *trace) page(ctx context.Context) (out []events.Envelope, err error) {
	if t.every {
		out, err = pastTx{p: t.p, ctx: ctx}.After(t.at, tracePage)
		if n := len(out); n > 0 {
			t.at = out[n-1].Position
		}
		return out, err
	}
	some := t.positions[:min(len(t.positions), tracePage)]
	err = t.p.log.Read(ctx, func(r store.Reader) error {
		out = nil
		for left := some; len(left) > 0; {
			n := 1
			for n < len(left) && left[n] == left[0]+events.Position(n) {
				n++
			}
			page, err := r.After(left[0]-1, n)
			if err != nil {
				return err
			}
			out, left = append(out, page...), left[n:]
		}
		return nil
	})
	t.positions = t.positions[len(some):]
	return out, err
}

// watch notes each change of a row, by triggers: what it finds is what happened, whatever Apply is thought to do.
type watch struct{ keys map[string]int } // how many columns the key of a table has

const watchTable = `
CREATE TABLE IF NOT EXISTS row_change (
  n         INTEGER PRIMARY KEY,
  tab       TEXT NOT NULL,
  op        TEXT NOT NULL,
  ` + watchKeys + `,
  col       INTEGER NOT NULL,
  name      TEXT,
  value_was ANY,
  value_is  ANY
) STRICT`

// maxKey is how many columns a key has at most.
const maxKey = 4

const watchKeys = `k1 ANY, k2 ANY, k3 ANY, k4 ANY`

func newWatch(ctx context.Context, scratch store.Store) (watch, error) {
	w := watch{keys: map[string]int{}}
	err := scratch.Write(ctx, func(tx store.Tx) error {
		for _, q := range []string{watchTable, `DELETE FROM row_change`} {
			if err := tx.Exec(q); err != nil {
				return err
			}
		}
		for _, t := range Tables() {
			w.keys[t.Name] = len(t.columns())
			if err := watchRows(tx, t); err != nil {
				return fmt.Errorf("watch table %s: %w", t.Name, err)
			}
		}
		return nil
	})
	return w, err
}

// watchRows makes the triggers of a table. Each writes one row for the row that it has seen, and one for each column of
// it that is another one now.
func watchRows(tx store.Tx, t Table) error {
	columns, err := columnsOf(tx, t)
	if err != nil {
		return err
	}
	key := t.columns()
	if len(key) > maxKey {
		return fmt.Errorf("its key has %d columns, at most %d can be noted", len(key), maxKey)
	}
	for _, op := range []struct {
		name     ChangeOp
		verb     string
		row      string
		was, now string
	}{
		{RowNew, "INSERT", "NEW", "NULL", "NEW."},
		{RowChanged, "UPDATE", "NEW", "OLD.", "NEW."},
		{RowGone, "DELETE", "OLD", "OLD.", "NULL"},
	} {
		values := []string{`SELECT 0 AS col, NULL AS name, 1 AS value_was, 0 AS value_is`}
		for i, c := range columns {
			if slices.Contains(key, c) {
				continue
			}
			values = append(values, fmt.Sprintf(`SELECT %d, '%s', %s, %s`, i+1, c, side(op.was, c), side(op.now, c)))
		}
		keys := make([]string, maxKey)
		for i := range keys {
			keys[i] = "NULL"
			if i < len(key) {
				keys[i] = op.row + `."` + key[i] + `"`
			}
		}
		err := tx.Exec(fmt.Sprintf(`CREATE TRIGGER "watch_%[1]s_%[2]s" AFTER %[3]s ON "%[1]s" BEGIN
			INSERT INTO row_change (tab, op, k1, k2, k3, k4, col, name, value_was, value_is)
			SELECT '%[1]s', '%[2]s', %[4]s, x.* FROM (%[5]s) AS x WHERE x.value_was IS NOT x.value_is ORDER BY x.col; END`,
			t.Name, op.name, op.verb, strings.Join(keys, ", "), strings.Join(values, " UNION ALL ")))
		if err != nil {
			return err
		}
	}
	return nil
}

// side is a column in the row of a trigger, or NULL where the trigger has no such row.
func side(row, column string) string {
	if row == "NULL" {
		return row
	}
	return row + `"` + column + `"`
}

// take returns what has changed since it was asked last.
func (w watch) take(tx store.Tx) ([]Change, error) {
	var out []Change
	err := tx.Query(func(r store.Row) error {
		var table, op string
		key := make(RowKey, maxKey)
		var column int
		var name *string
		var was, is any
		if err := r.Scan(&table, &op, &key[0], &key[1], &key[2], &key[3], &column, &name, &was, &is); err != nil {
			return err
		}
		key = key[:w.keys[table]]
		i := slices.IndexFunc(out, func(c Change) bool { return c.Table == table && compareKeys(c.Key, key) == 0 })
		if i < 0 {
			i = len(out)
			out = append(out, Change{Table: table, Key: key, Op: ChangeOp(op)})
		}
		if name != nil {
			out[i].note(ColumnChange{Name: *name, Before: was, After: is, place: column})
		}
		return nil
	}, `SELECT tab, op, k1, k2, k3, k4, col, name, value_was, value_is FROM row_change ORDER BY n`)
	if err != nil || len(out) == 0 {
		return nil, err
	}
	return slices.DeleteFunc(out, Change.isNone), tx.Exec(`DELETE FROM row_change`)
}
