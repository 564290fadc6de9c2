package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	sqlite "modernc.org/sqlite"

	"github.com/towline-dev/towline/sink"
)

// writer is one attempt.
//
//	open ──Put──► staging ──Commit──► committed
//	  └────────────┴──Abort──► aborted
//
// The connection belongs to the attempt. While it stages, a transaction is open on it that touches temporary tables
// only, so it holds no lock and no snapshot of the destination.
type writer struct {
	d      *Destination
	scope  sink.Scope
	window string
	file   os.FileInfo

	mu        sync.Mutex // a provider may put from several goroutines
	conn      *sql.Conn  // nil: committed or aborted
	dirty     bool       // conn is not fit for another attempt
	fault     error      // of the staging, which has lost rows that were put; every later call answers with it
	inTx      bool       // of the temporary tables
	stages    []*stage   // of the surfaces that the unit declares
	encoder   encoder
	rows      int
	state     json.RawMessage
	committed bool
}

// stage is the temporary table of one surface.
type stage struct {
	table  *table
	insert *sql.Stmt // nil: nothing was put
}

// fenceEvery is after how many rows a running attempt looks whether it was overtaken, so that a zombie does not read
// a whole history for nothing (I-29).
const fenceEvery = 10_000

// reuseBelow is up to how many staged rows a connection serves another attempt. More have grown its temporary file,
// which only shrinks when it is closed.
const reuseBelow = 10_000

// addStage adds a surface, unless it was named before.
func (w *writer) addStage(surface string) error {
	t, err := w.d.table(surface)
	if err != nil {
		return err
	}
	if err := t.takes(w.window); err != nil {
		return err
	}
	for _, s := range w.stages {
		if s.table.Name == surface {
			return nil
		}
		if fold(s.table.Name) == fold(surface) {
			return oneTable(s.table.Name, surface)
		}
	}
	w.stages = append(w.stages, &stage{table: t})
	return nil
}

// begin refuses early what Commit would refuse.
func (w *writer) begin() error {
	for _, s := range w.stages {
		found, err := shape(w.conn, s.table.Name)
		if err != nil {
			return fmt.Errorf("open %s: %w", w.d.path, err)
		}
		if err := s.table.checkShape(w.d.path, found); err != nil {
			return err
		}
	}
	return w.checkFence()
}

var errEnded = errors.New("the attempt was committed or aborted")

// usable answers whether the attempt can go on. After a fault of the staging it cannot, even if the provider looks away
// from the error of its Put: SQLite has rolled back, and what is left is a part of the rows.
func (w *writer) usable() error {
	if w.conn == nil {
		return errEnded
	}
	if w.fault != nil {
		return fmt.Errorf("rows that were put before are lost: %w", w.fault)
	}
	return nil
}

// ofRow reports that SQLite refused one row and kept the others.
func ofRow(err error) bool {
	const tooBig, constraint = 18, 19 // primary result codes
	var e *sqlite.Error
	return !errors.As(err, &e) || e.Code()&0xff == tooBig || e.Code()&0xff == constraint
}

func (w *writer) Put(ctx context.Context, surface, key string, row any) error {
	if err := w.scope.Declares(surface); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.put(ctx, surface, key, row); err != nil {
		return fmt.Errorf("put %s %q: %w", surface, key, err)
	}
	w.rows++
	return nil
}

func (w *writer) put(ctx context.Context, surface, key string, row any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.usable(); err != nil {
		return err
	}
	s := w.stages[slices.IndexFunc(w.stages, func(s *stage) bool { return s.table.Name == surface })]
	if err := w.stage(s); err != nil {
		return err
	}
	if err := w.startStaging(); err != nil {
		return err
	}
	values, err := w.encoder.values(s.table, key, row)
	if err != nil {
		return err
	}
	if _, err := s.insert.Exec(values...); err != nil {
		if !ofRow(err) {
			w.fault = err
		}
		return err
	}
	if w.rows%fenceEvery != fenceEvery-1 {
		return nil
	}
	// Outside the transaction of the temporary tables: inside it the read would hold a snapshot, and be repeated from
	// it the next time.
	if err := w.endStaging(); err != nil {
		return err
	}
	return w.checkFence()
}

// stage makes the temporary table of a surface, unless it is there.
func (w *writer) stage(s *stage) error {
	if s.insert != nil {
		return nil
	}
	if err := w.endStaging(); err != nil { // a table made in a batch would go with it
		return err
	}
	if err := exec(w.conn, s.table.stage); err != nil {
		return err
	}
	insert, err := w.conn.PrepareContext(context.Background(), s.table.insert)
	if err != nil {
		return err
	}
	s.insert = insert
	return nil
}

// startStaging opens the transaction without which every row would be one of its own.
func (w *writer) startStaging() error {
	if w.inTx {
		return nil
	}
	if err := exec(w.conn, `BEGIN`); err != nil {
		return err
	}
	w.inTx = true
	return nil
}

func (w *writer) endStaging() error {
	if !w.inTx {
		return nil
	}
	w.inTx = false
	w.fault = exec(w.conn, `COMMIT`)
	return w.fault
}

func (w *writer) Progress(int64, int64) {} // shown by whoever wraps the writer

func (w *writer) State(s json.RawMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = slices.Clone(s)
}

// Commit makes the attempt visible. It may be repeated after an error that was not ErrFenced or ErrForeign, and after a
// success it does nothing. Once it waits no longer for its turn, ctx does not interrupt it.
func (w *writer) Commit(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.committed && w.conn == nil {
		return nil
	}
	if err := w.commit(ctx); err != nil {
		return fmt.Errorf("commit %s/%s/%s to %s: %w", w.scope.Source, w.scope.Dataset, w.window, w.d.path, err)
	}
	w.committed = true
	w.release()
	return nil
}

func (w *writer) commit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.usable(); err != nil {
		return err
	}
	for _, s := range w.stages { // also of those to which nothing was put: they are replaced by nothing
		if err := w.stage(s); err != nil {
			return err
		}
	}
	if err := w.endStaging(); err != nil {
		return err
	}
	at := w.d.now().UTC().Format(timestamp)
	err := w.d.transact(ctx, w.conn, func() error { return w.merge(at) })
	var unproven *commitError
	if errors.As(err, &unproven) {
		return w.landed(at, err)
	}
	return err
}

// timestamp has a fixed width, so that it compares as text.
const timestamp = "2006-01-02T15:04:05.000000Z"

// merge is the transaction: everything of the attempt, or nothing.
func (w *writer) merge(at string) error {
	if err := w.d.unmoved(w.file); err != nil {
		w.dirty = true // nor is it known which file the connection leads to
		return fmt.Errorf("the file is not the one that the attempt began with: %w", err)
	}
	if err := w.checkFence(); err != nil {
		return err
	}
	total := 0
	for _, s := range w.stages {
		rows, err := w.mergeStage(s)
		if err != nil {
			return fmt.Errorf("table %s: %w", s.table.Name, err)
		}
		total += rows
	}
	if err := w.mergeFence(at); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	if err := exec(w.conn, `
INSERT INTO _towline_windows (source, dataset, window, rows, committed_at)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (source, dataset, window)
DO UPDATE SET rows = excluded.rows, committed_at = excluded.committed_at`,
		w.scope.Source, w.scope.Dataset, w.window, total, at); err != nil {
		return fmt.Errorf("window: %w", err)
	}
	if err := w.mergeState(at); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

// mergeStage moves the rows of one surface and returns how many there are.
func (w *writer) mergeStage(s *stage) (int, error) {
	t := s.table
	for _, statement := range t.create {
		if err := exec(w.conn, statement); err != nil {
			return 0, err
		}
	}
	if t.Mode == ReplaceWindow {
		if err := w.own(t.Name); err != nil {
			return 0, err
		}
		if err := w.dropOld(t); err != nil {
			return 0, fmt.Errorf("remove old rows: %w", err)
		}
	}
	args := []any{w.scope.Source}
	if t.Window != "" {
		args = append(args, w.window)
	}
	if err := exec(w.conn, t.merge, args...); err != nil {
		return 0, err
	}
	var rows int
	err := w.conn.QueryRowContext(context.Background(), t.count).Scan(&rows)
	return rows, err
}

func (w *writer) dropOld(t *table) error {
	if w.window == snapshotWindow || t.Window == "" {
		return exec(w.conn, t.dropSource, w.scope.Source)
	}
	return exec(w.conn, t.dropWindow, w.scope.Source, w.window)
}

// own refuses a second dataset in a table whose windows are replaced: each would remove the rows of the other. A table
// is one whatever the case of its name, and NOCASE tells names apart as SQLite does.
func (w *writer) own(surface string) error {
	var dataset string
	err := w.conn.QueryRowContext(context.Background(), `
SELECT dataset
FROM _towline_surfaces
WHERE surface = $1 COLLATE NOCASE AND dataset <> $2
LIMIT 1`, surface, w.scope.Dataset).Scan(&dataset)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return exec(w.conn, `
INSERT INTO _towline_surfaces (surface, dataset)
VALUES ($1, $2)
ON CONFLICT DO NOTHING`, surface, w.scope.Dataset)
	case err != nil:
		return err
	}
	return fmt.Errorf("dataset %s would replace rows of dataset %s: give it a surface of its own, use mode %q, or, if it was renamed, delete the row of the surface in _towline_surfaces",
		w.scope.Dataset, dataset, Upsert)
}

// landed finds out what became of a COMMIT that returned an error. It answers nil if the attempt is in the file. If
// that cannot be told, the attempt counts as committed, so that nobody hands its unit back as untouched (U-16).
func (w *writer) landed(at string, cause error) error {
	w.dirty = true
	stored, err := w.storedFence(w.d.pool)
	if err != nil {
		w.committed = true
		return errors.Join(cause, err)
	}
	if stored.fence == w.scope.Fence && stored.at == at {
		return nil
	}
	return cause
}

// Abort leaves nothing of the attempt.
func (w *writer) Abort() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.release()
	return nil
}

// release gives the connection back, or closes it if anything of the attempt would stay on it. Nothing of that was
// visible to anyone, so there is nothing to report.
func (w *writer) release() {
	conn := w.conn
	if conn == nil {
		return
	}
	w.conn = nil
	if err := w.unstage(conn); err != nil || w.dirty || w.rows >= reuseBelow {
		discard(conn)
		return
	}
	w.d.giveBack(conn, w.file)
}

func (w *writer) unstage(conn *sql.Conn) error {
	var err error
	if w.inTx {
		w.inTx = false
		err = exec(conn, `ROLLBACK`)
	}
	for _, s := range w.stages {
		if s.insert != nil {
			err = errors.Join(err, s.insert.Close())
			s.insert = nil
		}
		err = errors.Join(err, exec(conn, s.table.unstage))
	}
	return err
}

func (w *writer) Rows() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rows
}

func (w *writer) Left() json.RawMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.state)
}

func (w *writer) Committed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.committed
}
