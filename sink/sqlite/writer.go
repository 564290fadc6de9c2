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

	"github.com/towline-dev/towline/events"
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

// checkFence compares the stored fence of the scope with that of the attempt. An equal one is this attempt itself.
func (w *writer) checkFence() error {
	stored, err := w.storedFence(w.conn)
	if err != nil {
		return err
	}
	if stored.fence > w.scope.Fence {
		return fmt.Errorf("%s/%s/%s in %s: %w: unit %s, attempt %d, at %s",
			w.scope.Source, w.scope.Dataset, w.window, w.d.path, sink.ErrFenced, stored.unit, stored.attempt, stored.at)
	}
	return nil
}

type fenceRow struct {
	fence   events.Fence
	unit    string
	attempt int
	at      string
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// storedFence is zero if nothing was committed at the scope yet.
func (w *writer) storedFence(q querier) (fenceRow, error) {
	var r fenceRow
	err := q.QueryRowContext(context.Background(), `
SELECT fence, unit, attempt, committed_at
FROM _towline_fence
WHERE source = $1 AND dataset = $2 AND window = $3`,
		w.scope.Source, w.scope.Dataset, w.window).Scan(&r.fence, &r.unit, &r.attempt, &r.at)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fenceRow{}, fmt.Errorf("read the fence in %s: %w", w.d.path, err)
	}
	return r, nil
}

var errEnded = errors.New("the attempt was committed or aborted")

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
	if w.conn == nil {
		return errEnded
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
	return exec(w.conn, `COMMIT`)
}

func (w *writer) Progress(int64, int64) {} // shown by whoever wraps the writer

func (w *writer) State(s json.RawMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = slices.Clone(s)
}

// Commit makes the attempt visible. It may be repeated after an error that was not ErrFenced, and after a success it
// does nothing. Once it waits no longer for its turn, ctx does not interrupt it.
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
	if w.conn == nil {
		return errEnded
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
	if err := exec(w.conn, `
INSERT INTO _towline_fence (source, dataset, window, fence, run, unit, attempt, committed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (source, dataset, window)
DO UPDATE SET fence = excluded.fence, run = excluded.run, unit = excluded.unit, attempt = excluded.attempt, committed_at = excluded.committed_at`,
		w.scope.Source, w.scope.Dataset, w.window, string(w.scope.Fence),
		w.scope.Run.String(), w.scope.Unit.String(), w.scope.Attempt, at); err != nil {
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
	if w.state == nil {
		return nil
	}
	// Two windows of a dataset may commit in any order. The state of the newer attempt stays.
	if err := exec(w.conn, `
INSERT INTO _towline_state (source, dataset, state, fence, committed_at)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (source, dataset)
DO UPDATE SET state = excluded.state, fence = excluded.fence, committed_at = excluded.committed_at
WHERE excluded.fence >= _towline_state.fence`,
		w.scope.Source, w.scope.Dataset, string(w.state), string(w.scope.Fence), at); err != nil {
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

// own refuses a second dataset in a table whose windows are replaced: each would remove the rows of the other.
func (w *writer) own(surface string) error {
	if err := exec(w.conn, `
INSERT INTO _towline_surfaces (surface, dataset)
VALUES ($1, $2)
ON CONFLICT DO NOTHING`, surface, w.scope.Dataset); err != nil {
		return err
	}
	var dataset string
	if err := w.conn.QueryRowContext(context.Background(), `
SELECT dataset
FROM _towline_surfaces
WHERE surface = $1`, surface).Scan(&dataset); err != nil {
		return err
	}
	if dataset != w.scope.Dataset {
		return fmt.Errorf("dataset %s would replace rows of dataset %s: give it a surface of its own, use mode %q, or, if it was renamed, delete the row of the surface in _towline_surfaces",
			w.scope.Dataset, dataset, Upsert)
	}
	return nil
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
	_ = conn.Close()
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
