package sqlbus_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/transport/sqlbus"
	"github.com/towline-dev/towline/transport/transporttest"
)

// hold takes the write lock as another program, until it is let go.
func hold(t testing.TB, path string) (letGo func()) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	require.NoError(t, err)
	tx, err := db.Begin()
	require.NoError(t, err)
	return func() {
		require.NoError(t, tx.Rollback())
		require.NoError(t, db.Close())
	}
}

// stored reads what the file holds, past the bus.
func stored(t testing.TB, path, topic string) (out []*message.Message) {
	t.Helper()
	b, err := sqlbus.Open(context.Background(), path, quick())
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(t, err)
	defer db.Close()
	var n int
	require.NoError(t, db.QueryRow(`SELECT count(*) FROM messages WHERE topic = $1`, topic).Scan(&n))
	in, err := b.Subscriber("looker", n+1).Subscribe(t.Context(), topic)
	require.NoError(t, err)
	for range n {
		out = append(out, <-in)
	}
	for _, m := range out {
		m.Nack()
	}
	return out
}

// O-10, B-8: the bus keeps the laws of all transports. It refuses when it is full, and when another program holds the lock
// of its file until the deadline.
func TestTheBusKeepsTheLaws(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) transporttest.Bench {
		path := filepath.Join(t.TempDir(), "bus.db")
		o := quick()
		o.MaxBytes = 1 << 20
		b := open(t, path, o)
		fill := func() {
			for b.Send(t.Context(), "filler", message.NewMessage("filler", make([]byte, 64<<10))).Err == nil {
				continue
			}
			for b.Send(t.Context(), "filler", message.NewMessage("filler", nil)).Err == nil {
				continue
			}
		}
		return transporttest.Bench{
			Publisher: b, Stored: func(topic string) []*message.Message { return stored(t, path, topic) },
			Refuse: fill,
			Stall:  func() { t.Cleanup(hold(t, path)) },
			Close:  func() { require.NoError(t, b.Close()) },
		}
	})
}
