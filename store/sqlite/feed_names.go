package sqlite

import (
	"context"
	"fmt"

	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/store"
)

// feedNames give an event an id that is unique among all stores, and the same at every delivery:
//
//	<store>.<position>, and <store>.<position>.e<epoch> behind a restore
//
// The store is known by its first incarnation. What an application has written before that has the position alone.
//
// A restored store uses positions again that were used in its earlier life, for other events: a consumer that knows the
// ids of that life must not take the new events for doubles (as K-3 has it for messages).
type feedNames struct {
	store    string          // the first incarnation; empty: there was none yet
	since    events.Position // it is in the log
	restores []restore
}

type restore struct {
	position events.Position
	epoch    int
}

// selectRestores goes by the index over streams: those of nodes are few. A restore is told in the stream of the start
// behind it (DUR-5).
const selectRestores = `
	SELECT ` + columns + `
	FROM events
	WHERE stream >= $1 AND stream < $2 AND type = $3
	ORDER BY position`

// selectFirstNode goes the same way.
const selectFirstNode = `
	SELECT ` + columns + `
	FROM events
	WHERE stream >= $1 AND stream < $2 AND type = $3
	ORDER BY position
	LIMIT 1`

// feedNames is asked when a consumer begins to read. No store is restored while it is open.
func (s *Store) feedNames(ctx context.Context) (*feedNames, error) {
	n := &feedNames{}
	err := s.Read(ctx, func(r store.Reader) error {
		nodes := []byte{byte(events.FamilyNode)}
		beyond := []byte{byte(events.FamilyNode) + 1}
		first, err := r.After(0, 1)
		if err == nil && len(first) == 1 && first[0].Stream.Family() != events.FamilyNode {
			first, err = querier(r.Query).read(&s.nodes, 1, selectFirstNode, nodes, beyond, int(events.TypeNodeStarted))
		}
		if err != nil || len(first) == 0 {
			return err
		}
		if id, ok := first[0].Stream.Node(); ok {
			n.store, n.since = id.String(), first[0].Position
		}
		found, err := querier(r.Query).read(&s.nodes, 0, selectRestores, nodes, beyond, int(events.TypeStoreRestored))
		for _, e := range found {
			n.restores = append(n.restores, restore{e.Position, e.Event.(events.StoreRestored).Epoch})
		}
		return err
	})
	return n, doing(err, "read the name of the store")
}

// source is that of an event; empty: it lies before the store had a name.
func (n feedNames) source(p events.Position) string {
	if n.store == "" || p < n.since {
		return ""
	}
	return "/towline/" + n.store
}

func (n feedNames) id(p events.Position) string {
	id := p.String()
	if n.store != "" && p >= n.since {
		id = n.store + "." + id
	}
	for i := len(n.restores) - 1; i >= 0; i-- {
		if r := n.restores[i]; p >= r.position {
			return fmt.Sprintf("%s.e%d", id, r.epoch)
		}
	}
	return id
}
