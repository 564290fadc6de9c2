package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/wire"
)

// Query chooses rows of a list.
type Query struct {
	Where string // in the grammar of every search, such as state:failed -sync:code; empty: all
	At    At
	Page  int // rows of one request, 500 at most; zero: 200
}

const usualPage = 200

func (q Query) values() url.Values {
	v := q.At.into(url.Values{})
	if q.Where != "" {
		v.Set("where", q.Where)
	}
	page := q.Page
	if page == 0 {
		page = usualPage
	}
	v.Set("limit", strconv.Itoa(page))
	return v
}

// List is a list that is read page by page, by key: a row that was there when it began comes exactly once.
type List[T any] struct {
	c     *Client
	path  string
	query url.Values
	seq   events.Position
}

// All reads the list from its beginning. It ends with the first error.
func (l *List[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		q := url.Values{}
		for name, v := range l.query {
			q[name] = v
		}
		for {
			page, err := ask[wire.List[T]](ctx, l.c, get(l.path, q))
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			l.seq = page.Seq
			for _, row := range page.Value.Items {
				if !yield(row, nil) {
					return
				}
			}
			if page.Value.Next == "" {
				return
			}
			q.Set("after", page.Value.Next)
		}
	}
}

// Seq is the position that the last page was read at; zero before the first.
func (l *List[T]) Seq() events.Position { return l.seq }
