package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// feedStatements runs the statements of a subscriber, each of them alone. watermill-sql begins a transaction, reads, waits
// for the handler and acknowledges in that transaction. On SQLite that livelocks with a handler that writes to the same
// file, or locks it out (L-10). So there is none: a query is a snapshot that ends before the first message is delivered,
// and an acknowledgement goes the way of every write. What the transaction was for, one consumer at a time, the lock of
// the group does.
type feedStatements struct{ *follower }

var (
	_ wsql.Beginner = feedStatements{}
	_ wsql.Tx       = feedStatements{}
)

// BeginTx returns when there is something to read for this consumer.
func (f feedStatements) BeginTx(ctx context.Context, _ *sql.TxOptions) (wsql.Tx, error) {
	return f, f.ready(ctx)
}

func (feedStatements) Commit() error   { return nil }
func (feedStatements) Rollback() error { return nil }

// QueryContext reads a page of the log. If one of its events cannot be read, the page ends before it (L-7), and the error
// comes when that event is the first.
func (f feedStatements) QueryContext(ctx context.Context, query string, args ...any) (wsql.Rows, error) {
	rows := &feedRows{}
	err := f.store.Read(ctx, func(r store.Reader) error {
		q := querier(r.Query)
		stored, err := q.events(feedPage, query, args...)
		if err == nil {
			stored, err = f.withArchived(q, stored)
		}
		if err != nil {
			return err
		}
		rows.events = make([]events.Envelope, 0, len(stored))
		for i := range stored {
			var e events.Envelope
			if err := q.decodeOne(&e, &stored[i], &f.store.nodes); err != nil {
				if i == 0 {
					return err
				}
				break
			}
			rows.events = append(rows.events, e)
		}
		return nil
	})
	if err != nil {
		return nil, doing(err, "read the log")
	}
	if len(rows.events) == 0 {
		f.passedBy()
	}
	return rows, nil
}

// withArchived is a page of the log with what segments hold of it (L-1), of the chosen types.
func (f feedStatements) withArchived(q querier, rows []stored) ([]stored, error) {
	if f.options.Types == nil && len(rows) > 0 && rows[len(rows)-1].position-f.place == events.Position(len(rows)) {
		return rows, nil
	}
	end := f.until
	if len(rows) == feedPage {
		end = rows[len(rows)-1].position
	}
	archived, err := q.between(&f.store.archive, f.place, end)
	if err != nil || len(archived) == 0 {
		return rows, err
	}
	archived = slices.DeleteFunc(archived, func(e stored) bool {
		return f.options.Types != nil && !slices.Contains(f.options.Types, e.kind)
	})
	rows = inOrder(append(archived, rows...))
	return rows[:min(len(rows), feedPage)], nil
}

// bookWithin is how long an acknowledgement may wait for the writer. It is booked also when the subscription has ended
// while the message was handled: what is done must not come again (L-11).
const bookWithin = 5 * time.Second

// ExecContext writes the place of the group.
func (f feedStatements) ExecContext(ctx context.Context, query string, args ...any) (wsql.Result, error) {
	return feedResult{}, f.book(ctx, wsql.Query{Query: query, Args: args})
}

func (f *follower) book(ctx context.Context, q wsql.Query) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bookWithin)
	defer cancel()
	place := f.place
	if err := f.store.write(ctx, q.Query, q.Args...); err != nil {
		return fmt.Errorf("book position %d of group %q: %w", place, f.group, err)
	}
	f.booked, f.bookedAt = place, time.Now()
	return nil
}

// feedResult: nobody asks how many rows were affected.
type feedResult struct{}

func (feedResult) RowsAffected() (int64, error) { return 1, nil }

// feedRows are events that were read, behind the interface of the rows of a query.
type feedRows struct {
	events []events.Envelope
	next   int
}

func (r *feedRows) Next() bool {
	r.next++
	return r.next <= len(r.events)
}

// Scan gives the whole event to the one who knows: feedSchema.
func (r *feedRows) Scan(dest ...any) error {
	e, ok := dest[0].(*events.Envelope)
	if !ok {
		return fmt.Errorf("scan an event into a %T", dest[0])
	}
	*e = r.events[r.next-1]
	return nil
}

func (r *feedRows) Close() error { return nil }
