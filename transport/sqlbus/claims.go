package sqlbus

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
)

// group is a row of groups.
type group struct {
	id          int64
	topic, name string
}

// delivery is a message that was claimed.
type delivery struct {
	seq, token int64
	tries      int // this one included
	m          *message.Message
}

const (
	insertGroup = `INSERT INTO groups (topic, name) VALUES ($1, $2) ON CONFLICT DO NOTHING`
	selectGroup = `SELECT id FROM groups WHERE topic = $1 AND name = $2`

	// lookForWork is asked without the write lock: has the group something new, and when is something due again?
	lookForWork = `
SELECT EXISTS (SELECT 1 FROM messages WHERE topic = $2 AND seq > g.frontier),
       (SELECT min(until) FROM claims WHERE group_id = $1 AND until IS NOT NULL)
FROM groups AS g
WHERE g.id = $1`

	// selectDue are those whose consumer is gone, and those that were refused and have waited.
	selectDue = `
SELECT c.seq, c.deliveries, m.uuid, m.metadata, m.payload
FROM claims AS c
JOIN messages AS m ON m.seq = c.seq
WHERE c.group_id = $1 AND c.until <= $2
ORDER BY c.until, c.seq
LIMIT $3`
	takeDue = `UPDATE claims SET token = $3, until = $4, deliveries = deliveries + 1 WHERE group_id = $1 AND seq = $2`

	selectFresh = `
SELECT seq, 0, uuid, metadata, payload
FROM messages
WHERE topic = $2 AND seq > (SELECT frontier FROM groups WHERE id = $1)
ORDER BY seq
LIMIT $3`
	takeFresh    = `INSERT INTO claims (group_id, seq, token, until, deliveries) VALUES ($1, $2, $3, $4, 1)`
	moveFrontier = `UPDATE groups SET frontier = max(frontier, $2) WHERE id = $1`

	// The token says that a claim is still this consumer's: a late word of another changes nothing.
	dropClaim  = `DELETE FROM claims WHERE group_id = $1 AND seq = $2 AND token = $3`
	renewClaim = `UPDATE claims SET until = $4 WHERE group_id = $1 AND seq = $2 AND token = $3`
	waitClaim  = `UPDATE claims SET token = 0, until = $4 WHERE group_id = $1 AND seq = $2 AND token = $3`
	giveClaim  = `UPDATE claims SET token = 0, until = $4, deliveries = deliveries - 1 WHERE group_id = $1 AND seq = $2 AND token = $3`
	parkClaim  = `UPDATE claims SET token = 0, until = NULL, parked = $4 WHERE group_id = $1 AND seq = $2 AND token = $3`
	parkDue    = `UPDATE claims SET token = 0, until = NULL, parked = $3 WHERE group_id = $1 AND seq = $2`

	// dropMessage deletes a message that no group owes any more.
	dropMessage = `
DELETE FROM messages
WHERE seq = $1
  AND NOT EXISTS (SELECT 1 FROM claims WHERE seq = $1)
  AND NOT EXISTS (SELECT 1 FROM groups WHERE topic = messages.topic AND frontier < $1)`
)

// join makes the group if it is new. It begins with the oldest message that is still there.
func (g *group) join(s *session) error {
	if _, err := s.exec(insertGroup, g.topic, g.name); err != nil {
		return err
	}
	return s.row([]any{&g.id}, selectGroup, g.topic, g.name)
}

// claim takes at most n messages: those that are due again first, then new ones. One that was delivered too often is parked,
// and is in parked.
func (g group) claim(s *session, o Options, token int64, n int) (claimed, parked []delivery, err error) {
	now := time.Now()
	until := micros(now.Add(o.Lease))
	due, err := read(s, selectDue, g.id, micros(now), n)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range due {
		if o.MaxDeliveries > 0 && d.tries >= o.MaxDeliveries {
			if _, err := s.exec(parkDue, g.id, d.seq, micros(now)); err != nil {
				return nil, nil, err
			}
			parked = append(parked, d)
			continue
		}
		if _, err := s.exec(takeDue, g.id, d.seq, token, until); err != nil {
			return nil, nil, err
		}
		claimed = append(claimed, d)
	}
	fresh, err := read(s, selectFresh, g.id, g.topic, n-len(claimed))
	if err != nil {
		return nil, nil, err
	}
	for _, d := range fresh {
		if _, err := s.exec(takeFresh, g.id, d.seq, token, until); err != nil {
			return nil, nil, err
		}
	}
	if len(fresh) > 0 {
		if _, err := s.exec(moveFrontier, g.id, fresh[len(fresh)-1].seq); err != nil {
			return nil, nil, err
		}
	}
	claimed = append(claimed, fresh...)
	for i := range claimed {
		claimed[i].token, claimed[i].tries = token, claimed[i].tries+1
	}
	return claimed, parked, nil
}

func read(s *session, query string, args ...any) (out []delivery, err error) {
	err = s.each(func(rows *sql.Rows) error {
		var d delivery
		var uuid, metadata string
		var payload []byte
		if err := rows.Scan(&d.seq, &d.tries, &uuid, &metadata, &payload); err != nil {
			return err
		}
		d.m = message.NewMessage(uuid, payload)
		if err := json.Unmarshal([]byte(metadata), &d.m.Metadata); err != nil {
			return fmt.Errorf("metadata of message %d: %w", d.seq, err)
		}
		out = append(out, d)
		return nil
	}, query, args...)
	return out, err
}

// ack settles a message, and deletes it when it was the last that the group owed. It reports false when the claim is another's.
func (g group) ack(s *session, d delivery) (bool, error) {
	n, err := s.exec(dropClaim, g.id, d.seq, d.token)
	if err != nil || n == 0 {
		return false, err
	}
	_, err = s.exec(dropMessage, d.seq)
	return true, err
}

// nack makes a message wait, or parks it when it was delivered too often.
func (g group) nack(s *session, o Options, d delivery) (mine bool, err error) {
	now := time.Now()
	query, at := waitClaim, micros(now.Add(o.delay(d.tries)))
	if o.parks(d) {
		query, at = parkClaim, micros(now)
	}
	n, err := s.exec(query, g.id, d.seq, d.token, at)
	return n > 0, err
}

// parks: this delivery was the last.
func (o Options) parks(d delivery) bool { return o.MaxDeliveries > 0 && d.tries >= o.MaxDeliveries }

func (o Options) delay(tries int) time.Duration {
	const most = 20 // doublings, far beyond any sensible bound
	delay := o.RetryDelay << min(tries-1, most)
	if delay <= 0 || delay > o.MaxRetryDelay {
		return o.MaxRetryDelay
	}
	return delay
}

// give gives back what was not handed out: it does not count as a delivery.
func (g group) give(s *session, ds []delivery) error {
	for _, d := range ds {
		if _, err := s.exec(giveClaim, g.id, d.seq, d.token, micros(time.Now())); err != nil {
			return err
		}
	}
	return nil
}

// renew prolongs leases, and says which of them are another's by now.
func (g group) renew(s *session, o Options, ds []delivery) (lost []delivery, err error) {
	until := micros(time.Now().Add(o.Lease))
	for _, d := range ds {
		n, err := s.exec(renewClaim, g.id, d.seq, d.token, until)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			lost = append(lost, d)
		}
	}
	return lost, nil
}

// look says whether there is something to claim, and else when something will be due; the zero time: nothing is open.
func (g group) look(s *session) (ready bool, next time.Time, err error) {
	var fresh bool
	var until sql.NullInt64
	err = s.row([]any{&fresh, &until}, lookForWork, g.id, g.topic)
	if errors.Is(err, sql.ErrNoRows) {
		return false, next, fmt.Errorf("group %q of topic %q was removed", g.name, g.topic)
	}
	if until.Valid {
		next = time.UnixMicro(until.Int64)
	}
	return fresh || until.Valid && !next.After(time.Now()), next, err
}
