package sqlite

import (
	"errors"
	"io"
)

// maxLent bounds the prepared statements that a session keeps for its callers. They are few in a program that writes
// its queries down; one that builds them loses the cache, not its memory.
const maxLent = 512

// statements are prepared once each. They are kept by permission, too: "COMMIT" is one of our own statements and none
// of a caller's. Our own are few and kept for good.
type statements[S io.Closer] struct {
	prepare func(query string) (S, error)
	own     map[string]S
	lent    map[lent]S
}

type lent struct {
	may   permission
	query string
}

func newStatements[S io.Closer](prepare func(string) (S, error)) *statements[S] {
	return &statements[S]{prepare: prepare, own: map[string]S{}, lent: map[lent]S{}}
}

func (c *statements[S]) get(may permission, query string) (S, error) {
	if may == mayAll {
		if stmt, ok := c.own[query]; ok {
			return stmt, nil
		}
		stmt, err := c.prepare(query)
		if err == nil {
			c.own[query] = stmt
		}
		return stmt, err
	}
	key := lent{may, query}
	if stmt, ok := c.lent[key]; ok {
		return stmt, nil
	}
	stmt, err := c.prepare(query)
	if err != nil {
		return stmt, err
	}
	if len(c.lent) >= maxLent {
		for _, old := range c.lent {
			_ = old.Close() // it was only kept in case
		}
		clear(c.lent)
	}
	c.lent[key] = stmt
	return stmt, nil
}

func (c *statements[S]) close() error {
	var errs []error
	for _, stmt := range c.own {
		errs = append(errs, stmt.Close())
	}
	for _, stmt := range c.lent {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(errs...)
}
