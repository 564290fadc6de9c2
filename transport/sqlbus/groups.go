package sqlbus

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Group is what a group of consumers has before it.
type Group struct {
	Topic, Name string
	Fresh       int       // never handed out
	Claimed     int       // at a consumer, or at one that is gone and whose lease runs
	Refused     int       // they wait to be delivered again
	Parked      int       // delivered too often
	Oldest      time.Time // of what is not parked; zero: nothing
}

const (
	selectGroups = `
SELECT g.topic, g.name,
       (SELECT count(*) FROM messages WHERE topic = g.topic AND seq > g.frontier),
       (SELECT count(*) FROM claims WHERE group_id = g.id AND parked IS NULL AND token <> 0),
       (SELECT count(*) FROM claims WHERE group_id = g.id AND parked IS NULL AND token = 0),
       (SELECT count(*) FROM claims WHERE group_id = g.id AND parked IS NOT NULL),
       min(coalesce((SELECT at FROM messages WHERE topic = g.topic AND seq > g.frontier ORDER BY seq LIMIT 1), 9223372036854775807),
           coalesce((SELECT min(m.at) FROM claims AS c JOIN messages AS m ON m.seq = c.seq WHERE c.group_id = g.id AND c.parked IS NULL), 9223372036854775807))
FROM groups AS g
ORDER BY g.topic, g.name`
	requeue     = `UPDATE claims SET parked = NULL, until = $3, deliveries = 0 WHERE parked IS NOT NULL AND group_id = (SELECT id FROM groups WHERE topic = $1 AND name = $2)`
	dropClaims  = `DELETE FROM claims WHERE group_id = (SELECT id FROM groups WHERE topic = $1 AND name = $2)`
	dropGroup   = `DELETE FROM groups WHERE topic = $1 AND name = $2`
	dropParked  = `DELETE FROM claims WHERE parked < $1 RETURNING seq`
	dropSettled = `
DELETE FROM messages
WHERE topic = $1
  AND EXISTS (SELECT 1 FROM groups WHERE topic = $1)
  AND seq <= (SELECT min(frontier) FROM groups WHERE topic = $1)
  AND NOT EXISTS (SELECT 1 FROM claims WHERE claims.seq = messages.seq)`
)

// Groups lists the groups of all topics.
func (b *Bus) Groups(ctx context.Context) (out []Group, err error) {
	err = b.w.run(ctx, func(s *session) error {
		out = nil
		return s.each(func(rows *sql.Rows) error {
			var g Group
			var oldest int64
			err := rows.Scan(&g.Topic, &g.Name, &g.Fresh, &g.Claimed, &g.Refused, &g.Parked, &oldest)
			if g.Fresh+g.Claimed+g.Refused > 0 {
				g.Oldest = time.UnixMicro(oldest)
			}
			out = append(out, g)
			return err
		}, selectGroups)
	})
	if err != nil {
		return nil, fmt.Errorf("list the groups of %s: %w", b.path, err)
	}
	return out, nil
}

// Requeue delivers the parked messages of a group again, and says how many they are.
func (b *Bus) Requeue(ctx context.Context, topic, group string) (n int64, err error) {
	err = b.w.run(ctx, func(s *session) (err error) {
		n, err = s.exec(requeue, topic, group, micros(time.Now()))
		return err
	})
	return n, err
}

// RemoveGroup forgets a group and what it owes. Its consumers must have ended: one that is left finds it gone, and says so.
func (b *Bus) RemoveGroup(ctx context.Context, topic, group string) error {
	return b.w.run(ctx, func(s *session) error {
		if _, err := s.exec(dropClaims, topic, group); err != nil {
			return err
		}
		if _, err := s.exec(dropGroup, topic, group); err != nil {
			return err
		}
		_, err := s.exec(dropSettled, topic)
		return err
	})
}

// purge deletes what was parked long ago. One that fails is tried again a minute later.
func (n *subscription) purge() {
	_ = n.b.w.run(context.Background(), func(s *session) error {
		var seqs []int64
		err := s.each(func(rows *sql.Rows) error {
			var seq int64
			err := rows.Scan(&seq)
			seqs = append(seqs, seq)
			return err
		}, dropParked, micros(time.Now().Add(-n.b.o.KeepParked)))
		for _, seq := range seqs {
			if err == nil {
				_, err = s.exec(dropMessage, seq)
			}
		}
		return err
	})
}
