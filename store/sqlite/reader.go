package sqlite

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

const (
	maxReadAge = 5 * time.Second // of a snapshot: while one is held the WAL cannot start over (DUR-4, HC-24)
	logPage    = 1000            // events that Log reads at a time
)

var (
	errReadTooLong = fmt.Errorf("the snapshot of a read is older than %s: read in pages", maxReadAge)
	errReadOver    = errors.New("the read is over")
)

// snapshots are what a store is read by.
type snapshots struct {
	readers    *pool // of snapshots
	pages      *pool // of Log
	nodes      nodeNames
	archive    archive
	maxReadAge time.Duration

	alive context.Context // ends with the store
}

func (s *snapshots) openPools(d dsn, name string) {
	s.readers, s.pages = newPool(d, name, maxReaders), newPool(d, name, maxPages)
}

// closePools closes what is not lent.
func (s *snapshots) closePools() error {
	var errs []error
	for _, p := range []*pool{s.readers, s.pages} {
		if p != nil {
			errs = append(errs, p.close())
		}
	}
	return errors.Join(errs...)
}

// reader is one Read. Its snapshot begins with the first thing that is asked of it and ends with the read, or when it
// is too old. Log does without: it holds none while its caller works on a page.
type reader struct {
	s        *snapshots
	ctx      context.Context
	scanning bool // the rows of a Query are open

	mu      sync.Mutex // held by whatever uses session
	session *session   // with the snapshot; nil: none yet, or none any more
	age     context.Context
	stop    func() // ends age, and the wait for its end
	closed  error  // why there is no snapshot any more
}

// read is Read of a store.
func (s *snapshots) read(ctx context.Context, fn func(store.Reader) error) error {
	ctx, cancel := s.whileOpen(ctx)
	defer cancel()
	if s.alive.Err() != nil {
		return store.ErrClosed
	}
	if ctx.Err() != nil {
		return cause(ctx)
	}
	r := &reader{s: s, ctx: ctx}
	defer r.close(errReadOver)
	return fn(r)
}

// snapshot runs fn on the session that holds the snapshot.
func (r *reader) snapshot(fn func(querier, *session) error) error {
	if r.scanning {
		panic("sqlite: a reader is used while the rows of its query are open")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.begin(); err != nil {
		return err
	}
	err := fn(func(scan func(store.Row) error, query string, args ...any) error {
		return r.session.query(r.age, scan, query, args...)
	}, r.session)
	if err != nil && r.age.Err() != nil {
		return cause(r.age) // the driver only knows that it was interrupted
	}
	return err
}

func (r *reader) begin() error {
	if r.closed != nil || r.session != nil {
		return r.closed
	}
	session, err := r.s.readers.take(r.ctx)
	if err != nil {
		return err
	}
	if err := session.exec("BEGIN"); err != nil {
		r.s.readers.give(session, false)
		return err
	}
	age, cancel := context.WithTimeoutCause(r.ctx, r.s.maxReadAge, errReadTooLong)
	forget := context.AfterFunc(age, func() { r.close(cause(age)) })
	r.session, r.age, r.stop = session, age, func() { forget(); cancel() }
	return nil
}

// close ends the snapshot. It waits for the query that runs, which has been interrupted if close comes from age.
func (r *reader) close(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed == nil {
		r.closed = why
	}
	if r.session != nil {
		r.stop()
		r.s.readers.give(r.session, r.session.exec("ROLLBACK") == nil)
		r.session = nil
	}
}

// Stream is the whole history of a stream in the snapshot.
func (r *reader) Stream(id events.StreamID) (out []events.Envelope, err error) {
	err = r.snapshot(func(q querier, _ *session) (err error) {
		rows, err := q.stream(&r.s.archive, id.Key())
		if err == nil {
			out, err = q.decode(rows, &r.s.nodes)
		}
		return err
	})
	return out, doing(err, "read stream %s", id)
}

// After is one page of the log in the snapshot.
func (r *reader) After(p events.Position, limit int) (out []events.Envelope, err error) {
	if limit <= 0 {
		return nil, nil
	}
	err = r.snapshot(func(q querier, _ *session) (err error) {
		rows, err := q.after(&r.s.archive, max(p, 0), limit)
		if err == nil {
			out, err = q.decode(rows, &r.s.nodes)
		}
		return err
	})
	return out, doing(err, "read the log")
}

// Head is the newest event of the snapshot.
func (r *reader) Head() (events.Position, events.Micros, error) {
	var h head
	err := r.snapshot(func(q querier, _ *session) (err error) {
		h, err = q.head()
		return err
	})
	return h.position, h.at, doing(err, "read the head of the log")
}

// Query reads only; a statement that changes something is refused.
func (r *reader) Query(scan func(store.Row) error, query string, args ...any) error {
	err := r.snapshot(func(_ querier, s *session) error {
		r.scanning = true
		defer func() { r.scanning = false }()
		return s.queryLent(r.age, scan, query, args...)
	})
	return doing(err, "query")
}

// Log reads the log as it is when each page is read, up to the end that it finds; it is not bound to the snapshot, nor
// to its age. The next page is fetched while the caller has the one before.
func (r *reader) Log(ctx context.Context, after events.Position) iter.Seq2[events.Envelope, error] {
	return func(yield func(events.Envelope, error) bool) {
		ctx, cancel := r.s.whileOpen(ctx)
		defer cancel()
		next := r.s.fetch(ctx, after)
		defer func() { cancel(); <-next }() // no page is left under way
		for {
			p := <-next
			next = nothing
			if n := len(p.rows); n == logPage {
				next = r.s.fetch(ctx, p.rows[n-1].position)
			}
			for i := range p.rows {
				var e events.Envelope
				err := r.s.page(ctx).decodeOne(&e, &p.rows[i], &r.s.nodes)
				if !yield(e, err) || err != nil {
					return
				}
			}
			if p.err != nil {
				yield(events.Envelope{}, fmt.Errorf("read the log: %w", p.err))
				return
			}
			if len(p.rows) < logPage {
				return
			}
		}
	}
}

// page is what fetch found of the log: fewer than logPage rows are the end of it.
type page struct {
	rows []stored
	err  error
}

// nothing is a fetch that has been waited for.
var nothing = func() chan page { c := make(chan page); close(c); return c }()

func (s *snapshots) fetch(ctx context.Context, after events.Position) chan page {
	out := make(chan page, 1)
	go func() {
		rows, err := s.page(ctx).after(&s.archive, max(after, 0), logPage)
		out <- page{rows, err}
	}()
	return out
}

// page queries on a connection for pages: each query is a snapshot of its own. Those who hold a snapshot read pages,
// too, so the two must not wait for the same connections.
func (s *snapshots) page(ctx context.Context) querier {
	return func(scan func(store.Row) error, query string, args ...any) error {
		ctx, cancel := context.WithTimeoutCause(ctx, maxReadAge, errReadTooLong)
		defer cancel()
		session, err := s.pages.take(ctx)
		if err != nil {
			return err
		}
		err = session.query(ctx, scan, query, args...)
		s.pages.give(session, true)
		if err != nil && ctx.Err() != nil {
			return cause(ctx)
		}
		return err
	}
}

// whileOpen is ctx, and ends when the store closes.
func (s *snapshots) whileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.alive, func() { cancel(store.ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

// cause is why a context of whileOpen ended: a reason of this package, or ctx's own error.
func cause(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, errReadTooLong) || errors.Is(err, store.ErrClosed) {
		return err
	}
	return ctx.Err()
}
