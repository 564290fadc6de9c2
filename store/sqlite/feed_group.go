package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/feed"
	"github.com/towline-dev/towline/store"
)

// groupRow is a row of feed_groups. id 0: there is none.
type groupRow struct {
	id       int64
	position events.Position
}

const (
	selectGroup  = `SELECT id, position FROM feed_groups WHERE name = $1`
	selectGroups = `
		SELECT g.name, g.position, coalesce((SELECT e.at FROM events AS e WHERE e.position > g.position ORDER BY e.position LIMIT 1), 0)
		FROM feed_groups AS g
		ORDER BY g.name`
	insertGroup = `
		INSERT INTO feed_groups (name, position)
		VALUES ($1, CASE WHEN $2 THEN (SELECT coalesce(max(position), 0) FROM events) ELSE 0 END)
		ON CONFLICT DO NOTHING`
	deleteGroup = `DELETE FROM feed_groups WHERE name = $1 AND id = $2`
)

// FeedGroups lists the groups of the log as a topic, by name.
func (s *Store) FeedGroups(ctx context.Context) ([]feed.Group, error) {
	var out []feed.Group
	err := s.Read(ctx, func(r store.Reader) error {
		head, _, err := r.Head()
		if err != nil {
			return err
		}
		return r.Query(func(row store.Row) error {
			g := feed.Group{Head: head}
			var waiting events.Micros
			err := row.Scan(&g.Name, &g.Position, &waiting)
			g.WaitingSince = waiting.Time()
			out = append(out, g)
			return err
		}, selectGroups)
	})
	return out, doing(err, "list the groups of the log")
}

// RemoveFeedGroup forgets a group; under the same name a new one may begin. One that does not exist is removed already.
// Errors: one that wraps feed.ErrGroupInUse.
func (s *Store) RemoveFeedGroup(ctx context.Context, name string) error {
	g, err := s.readGroup(ctx, name)
	if err != nil || g.id == 0 {
		return doing(err, "remove group %q of the log", name)
	}
	l, err := s.lockGroup(g)
	if err != nil {
		return fmt.Errorf("remove group %q of the log: %w", name, err)
	}
	err = s.write(ctx, deleteGroup, name, g.id)
	return doing(errors.Join(err, l.release()), "remove group %q of the log", name)
}

func (s *Store) readGroup(ctx context.Context, name string) (g groupRow, err error) {
	err = s.Read(ctx, func(r store.Reader) error {
		return r.Query(func(row store.Row) error { return row.Scan(&g.id, &g.position) }, selectGroup, name)
	})
	return g, err
}

// makeGroup returns the group, which begins at one of the ends of the log if it is new.
func (s *Store) makeGroup(ctx context.Context, name string, fromEnd bool) (groupRow, error) {
	g, err := s.readGroup(ctx, name)
	if err != nil || g.id != 0 {
		return g, err
	}
	if err := s.write(ctx, insertGroup, name, fromEnd); err != nil {
		return g, err
	}
	return s.readGroup(ctx, name)
}

// lockGroup takes what makes one consumer of a group the only one: a lock of the system, which a killed process loses at
// once. A lease would be a row, and would have to be renewed by somebody who is idle.
func (s *Store) lockGroup(g groupRow) (*lock, error) {
	l, err := openLock(s.path + "-group-" + strconv.FormatInt(g.id, 10))
	if err != nil {
		return nil, err
	}
	ok, err := l.try()
	if err == nil && !ok {
		err = feed.ErrGroupInUse
	}
	if err != nil {
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

// write runs one statement on a table of this package, as a transaction of its own. It shares the commit of others, so it
// neither competes with the writer for the file nor costs a sync where the writer is busy. It appends nothing, so nobody
// is nudged.
func (s *Store) write(ctx context.Context, query string, args ...any) error {
	return s.Write(ctx, func(t store.Tx) error { return t.(*tx).execOwn(query, args...) })
}
