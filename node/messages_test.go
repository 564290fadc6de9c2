package node_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline"
	"github.com/towline-dev/towline/events"
	"github.com/towline-dev/towline/internal/enginetest"
	"github.com/towline-dev/towline/node"
	"github.com/towline-dev/towline/projections"
	"github.com/towline-dev/towline/store/sqlite"
	"github.com/towline-dev/towline/transport"
)

var ada = towline.Actor{Name: "ada"}

const bookings = "booking.made"

// book commits a seat and its message together.
func book(db *sql.DB, seat string) (events.MessageID, error) {
	tx, err := db.Begin()
	if err != nil {
		return events.MessageID{}, err
	}
	defer tx.Rollback()
	if _, err := tx.Exec(`INSERT INTO booking (seat) VALUES ($1)`, seat); err != nil {
		return events.MessageID{}, err
	}
	m := message.NewMessage(watermill.NewULID(), []byte(seat))
	if err := sqlite.Outbox(tx).Publish(bookings, m); err != nil {
		return events.MessageID{}, err
	}
	id, err := events.ParseMessageID(m.UUID)
	return id, errors.Join(err, tx.Commit())
}

const bookingTables = `
	CREATE TABLE IF NOT EXISTS booking (seat TEXT PRIMARY KEY) STRICT;
	CREATE TABLE IF NOT EXISTS invoice (seat TEXT NOT NULL) STRICT`

// invoice is the effect of a booking.
func invoice(_ context.Context, tx *sql.Tx, m *message.Message) error {
	_, err := tx.Exec(`INSERT INTO invoice (seat) VALUES ($1)`, string(m.Payload))
	return err
}

func rows(t *testing.T, n *node.Node, table string) (count int) {
	t.Helper()
	require.NoError(t, n.DB().QueryRow(`SELECT count(*) FROM `+table).Scan(&count))
	return count
}

// inState waits until a message is in a state: with every round of the relay the view is as the log.
func inState(t *testing.T, n *node.Node, id events.MessageID, want projections.MessageState) projections.Message {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		var m projections.Message
		require.NoError(t, n.Engine().Follow(t.Context()))
		require.NoError(t, n.Engine().View(t.Context(), func(v projections.View) (err error) {
			m, _, err = v.Message(id)
			return err
		}))
		if m.State == want {
			return m
		}
		select {
		case <-deadline:
			t.Fatalf("the message is %s, not %s", m.State, want)
		case <-time.After(time.Millisecond): // another goroutine's commit; there is no signal for it
		}
	}
}

// recorder is a Watermill publisher of a program.
type recorder struct {
	mu  sync.Mutex
	got []string
	ids chan string
}

func (r *recorder) Publish(topic string, messages ...*message.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range messages {
		r.got = append(r.got, topic+" "+string(m.Payload))
		r.ids <- m.Metadata.Get(events.MetadataMessageID)
	}
	return nil
}

func (*recorder) Close() error { return nil }

// M-1, WMILL-3: a node without syncs is an outbox alone: from the application's transaction to any publisher of Watermill,
// by a nudge.
func TestANodeIsAnOutboxAlone(t *testing.T) {
	p := &recorder{ids: make(chan string, 10)}
	n := start(t, open(t, node.Config{Publisher: p, Traits: transport.Traits{NilMeansStored: true}}))
	_, err := n.DB().Exec(bookingTables)
	require.NoError(t, err)
	for _, seat := range []string{"12A", "12B"} {
		id, err := book(n.DB(), seat)
		require.NoError(t, err)
		n.Nudge()
		require.Equal(t, id.String(), <-p.ids)
		inState(t, n.Node, id, projections.MessageDispatched)
	}
	_, err = book(n.DB(), "12A")
	require.Error(t, err, "the seat is taken, and its message with it")
	n.Nudge()
	requireGood(t, n.Node)
	n.end()
	require.Equal(t, []string{bookings + " 12A", bookings + " 12B"}, p.got)
}

// M-11, M-12, J-3, SC-321: in process a message goes from the transaction to its handler, whose effect commits with the
// record of it; a failure is tried again by the transport alone, and parked at last. Its neighbours pass, and a redrive
// begins a new row of deliveries.
func TestMessagesAreHandledInProcess(t *testing.T) {
	var mu sync.Mutex
	tries := map[string]int{}
	cured := false
	n := start(t, open(t, node.Config{
		Knobs: towline.Knobs{MaxDeliveries: 3},
		Messages: map[string]node.Consumer{bookings: {
			Validate: func(m *message.Message) error {
				if len(m.Payload) != 3 {
					return errors.New("no seat")
				}
				return nil
			},
			Handle: func(ctx context.Context, tx *sql.Tx, m *message.Message) error {
				mu.Lock()
				tries[string(m.Payload)]++
				try := tries[string(m.Payload)]
				bad := string(m.Payload) == "bad" && !cured
				mu.Unlock()
				if err := invoice(ctx, tx, m); err != nil {
					return err
				}
				if bad || string(m.Payload) == "odd" && try < 3 {
					return errors.New("not now")
				}
				return nil
			},
		}},
	}))
	_, err := n.DB().Exec(bookingTables)
	require.NoError(t, err)
	want := map[string]projections.MessageState{
		"12A": projections.MessageHandled, "odd": projections.MessageHandled, "bad": projections.MessageParked, "much too long": projections.MessageRejected,
	}
	ids := map[string]events.MessageID{}
	for seat := range want {
		ids[seat], err = book(n.DB(), seat)
		require.NoError(t, err)
	}
	n.Nudge()
	for seat, state := range want {
		m := inState(t, n.Node, ids[seat], state)
		require.Equal(t, map[string]events.Category{"much too long": events.InvalidPayload}[seat], m.Category)
		if state == projections.MessageParked {
			require.Equal(t, [2]string{"handler_failed", "not now"}, [2]string{m.LastCause, m.LastText})
		}
	}
	require.Equal(t, map[string]int{"12A": 1, "odd": 3, "bad": 3}, tries)
	require.Equal(t, 2, rows(t, n.Node, "invoice"))
	require.Empty(t, enginetest.Only[events.OutboxReleased](logOf(t, n.Node)), "M-11: the outbox publishes once")
	requireGood(t, n.Node)

	mu.Lock()
	cured = true
	mu.Unlock()
	require.NoError(t, n.Engine().Redrive(t.Context(), towline.MessageRegister(ids["bad"]), ada))
	inState(t, n.Node, ids["bad"], projections.MessageHandled)
	require.Equal(t, 4, tries["bad"])
	requireGood(t, n.Node)
	n.end()
}

// REC-11, N-6: what a clean stop leaves in the queue of the process is handled behind the next start.
func TestAStopLosesNoMessage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	blocked, stop := make(chan struct{}), make(chan struct{})
	var once sync.Once
	n := start(t, open(t, node.Config{Store: path, Messages: map[string]node.Consumer{bookings: {
		Handle: func(context.Context, *sql.Tx, *message.Message) error {
			once.Do(func() { close(blocked) })
			<-stop
			return errors.New("stopping")
		},
	}}}))
	_, err := n.DB().Exec(bookingTables)
	require.NoError(t, err)
	id, err := book(n.DB(), "12A")
	require.NoError(t, err)
	n.Nudge()
	<-blocked
	close(stop)
	n.end()

	n = start(t, open(t, node.Config{Store: path, Messages: map[string]node.Consumer{bookings: {Handle: invoice}}}))
	inState(t, n.Node, id, projections.MessageHandled)
	require.Equal(t, 1, rows(t, n.Node, "invoice"))
	requireGood(t, n.Node)
	n.end()
}

// M-6: a message of a topic that nobody consumes here is refused with the reason; without any consumer, and without a
// publisher, messages wait in the store.
func TestAMessageThatNobodyTakesWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "towline.db")
	n := start(t, open(t, node.Config{Store: path}))
	m, err := n.Engine().Submit(t.Context(), towline.Message{Topic: "t"})
	require.NoError(t, err)
	inState(t, n.Node, m.Message, projections.MessagePending)
	n.end()
	n = start(t, open(t, node.Config{Store: path, Messages: map[string]node.Consumer{"other": {Handle: invoice}}}))
	got := inState(t, n.Node, m.Message, projections.MessageParked)
	require.Contains(t, got.LastText, `no consumer of topic "t"`)
	n.end()
}

// Section 20, O-10: messages go one way, through a publisher that confirms, to consumers that can work.
func TestAWayOfMessagesThatCannotWorkIsNamed(t *testing.T) {
	good := node.Consumer{Handle: invoice}
	confirms := transport.Traits{NilMeansStored: true}
	route := map[events.Kind]transport.Publisher{events.KindMessage: transport.FromWatermill("nats", nil, confirms)}
	for want, c := range map[string]node.Config{
		"NilMeansStored":                    {Publisher: &recorder{}},
		"both take application messages":    {Publisher: &recorder{}, Traits: confirms, Routes: route},
		"handled in this process":           {Publisher: &recorder{}, Traits: confirms, Messages: map[string]node.Consumer{"t": good}},
		"set one of them":                   {Routes: route, Messages: map[string]node.Consumer{"t": good}},
		"handle is missing":                 {Messages: map[string]node.Consumer{"t": {}}},
		"topic":                             {Messages: map[string]node.Consumer{"a b": good}},
		`transport "hope" cannot confirm`:   {Routes: map[events.Kind]transport.Publisher{events.KindMessage: transport.FromWatermill("hope", nil, transport.Traits{})}},
		"so no message could ever be known": {Routes: map[events.Kind]transport.Publisher{events.KindMessage: transport.FromWatermill("hope", nil, transport.Traits{})}},
	} {
		c.Store, c.Logger = filepath.Join(t.TempDir(), "towline.db"), quiet()
		_, err := node.Open(t.Context(), c)
		require.ErrorContains(t, err, want)
	}
}

// M-7: rows of an older table, in another file and in the same one, are read by the columns that a program names.
func TestAnOldTableIsTakenOver(t *testing.T) {
	n := open(t, node.Config{})
	other, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "other.db"))
	require.NoError(t, err)
	table := node.OldTable{
		Name: "old outbox", ID: "key", Topic: "'orders.' || kind", Payload: "body", Metadata: "headers", State: "status",
		AvailableAt: "not_before", ClaimedAt: "locked_at", Attempts: "tries", LastError: "error", MaxAttempts: 5,
		States: map[string]towline.OldState{"0": towline.OldPending, "1": towline.OldInProgress, "2": towline.OldDone},
	}
	for i, db := range []*sql.DB{other, n.DB()} {
		_, err := db.Exec(`
			CREATE TABLE "old outbox" (key TEXT, kind TEXT, body BLOB, headers TEXT, status INTEGER, not_before TEXT, locked_at REAL, tries INTEGER, error TEXT);
			INSERT INTO "old outbox" VALUES
			  ('a', 'made', '{"n":1}', '{"trace":"1"}', 0, NULL, NULL, 0, NULL),
			  ('b', 'made', x'ff', NULL, 0, '2999-01-02 03:04:05', NULL, 0, NULL),
			  ('c', 'made', '3', NULL, 1, NULL, NULL, 1, NULL),
			  ('d', 'made', '4', NULL, 1, NULL, 32472144000.5, 1, NULL),
			  ('e', 'made', '5', NULL, 0, NULL, NULL, 5, 'no route'),
			  ('f', 'made', '6', NULL, 2, NULL, NULL, 9, NULL),
			  ('g', 'made', '7', NULL, 3, NULL, NULL, 0, NULL),
			  ('h', 'made', '8', NULL, 0, 'soon', NULL, 0, NULL),
			  ('i', 'made', '9', '[1]', 0, NULL, NULL, 0, NULL)`)
		require.NoError(t, err)
		table.Name = "old outbox"
		if i == 1 { // the keys of the first import stand for themselves
			_, err := db.Exec(`ALTER TABLE "old outbox" RENAME TO mine`)
			require.NoError(t, err)
			table.Name = "mine"
		}
		for again := range 2 {
			got, err := n.Import(t.Context(), db, table, ada)
			for _, row := range []string{`row "g"`, `row "h"`, `row "i"`} {
				require.ErrorContains(t, err, row)
			}
			want := towline.Imported{Pending: 3, Released: 1, Parked: 1, Done: 1, Refused: 3}
			if again == 1 {
				want = towline.Imported{Known: 5, Done: 1, Refused: 3}
			}
			require.Equal(t, want, got)
		}
	}
	require.NoError(t, n.Engine().View(t.Context(), func(v projections.View) error {
		all, err := v.Messages(events.MessageID{}, 100)
		require.NoError(t, err)
		byKey := map[string]projections.Message{}
		for _, m := range all {
			byKey[m.Key] = m
			require.Equal(t, "orders.made", m.Topic)
		}
		require.Len(t, byKey, 10)
		require.JSONEq(t, `{"n":1}`, string(byKey["mine/a"].Payload))
		require.Equal(t, map[string]string{"trace": "1"}, byKey["old outbox/a"].Metadata)
		body, err := byKey["mine/b"].Body()
		require.NoError(t, err)
		require.Equal(t, "\xff", string(body))
		require.Equal(t, time.Date(2999, 1, 2, 3, 4, 5, 0, time.UTC), byKey["mine/b"].AvailableAt)
		require.Equal(t, 2999, byKey["mine/d"].AvailableAt.Year())
		require.Equal(t, projections.MessageParked, byKey["mine/e"].State)
		require.Contains(t, byKey["mine/e"].LastText, "no route")
		return nil
	}))
	_, err = n.Import(t.Context(), other, node.OldTable{Name: "old outbox"}, ada)
	require.ErrorIs(t, err, towline.ErrInvalid)
	table.Name = "missing"
	_, err = n.Import(t.Context(), other, table, ada)
	require.ErrorContains(t, err, "read table missing")
	require.NoError(t, other.Close())
	requireGood(t, n)
	require.NoError(t, n.Close())
}

// M-7: a row that cannot be read is named, and the others go on, also those behind it: an expression fails at a row, and not
// at the table. A column that is not there is a mistake in the description of the table, and is said once.
func TestARowThatCannotBeReadLeavesTheOthers(t *testing.T) {
	n := open(t, node.Config{})
	_, err := n.DB().Exec(`
		CREATE TABLE old (id TEXT, body TEXT, locked_at INTEGER);
		INSERT INTO old VALUES ('a', '{"topic":"t"}', NULL), ('b', '{"topic":', NULL), ('c', '{"topic":"t"}', NULL),
		  ('ms', '{"topic":"t"}', 1790000000000), ('inf', '{"topic":"t"}', 9e999)`)
	require.NoError(t, err)
	table := node.OldTable{
		Name: "old", ID: "id", Topic: "body ->> '$.topic'", Payload: "body", State: "'new'", AvailableAt: "locked_at",
		States: map[string]towline.OldState{"new": towline.OldPending},
	}
	for _, want := range []towline.Imported{{Pending: 2, Refused: 3}, {Known: 2, Refused: 3}} {
		got, err := n.Import(t.Context(), n.DB(), table, ada)
		require.ErrorContains(t, err, `row "b": `)
		require.ErrorContains(t, err, "malformed JSON")
		require.ErrorContains(t, err, `row "ms": "1790000000000" is no number of seconds`)
		require.ErrorContains(t, err, `row "inf": `)
		require.Equal(t, want, got)
	}
	table.ID = "body ->> '$.topic' || rowid"
	_, err = n.Import(t.Context(), n.DB(), table, ada)
	require.ErrorContains(t, err, `row "rowid 2": `)
	table.ID = "ident"
	got, err := n.Import(t.Context(), n.DB(), table, ada)
	require.ErrorContains(t, err, "read table old: ")
	require.ErrorContains(t, err, "no such column")
	require.Equal(t, towline.Imported{}, got)
	requireGood(t, n)
	require.NoError(t, n.Close())
}

// M-7, M-2: a row whose payload has changed since it was taken over is named, and counted as refused.
func TestAChangedRowIsRefused(t *testing.T) {
	n := open(t, node.Config{})
	_, err := n.DB().Exec(`CREATE TABLE old (id TEXT, body TEXT); INSERT INTO old VALUES ('a', '1'), ('b', '2'), ('c', '3')`)
	require.NoError(t, err)
	table := node.OldTable{
		Name: "old", ID: "id", Topic: "'t'", Payload: "body", State: "'new'", States: map[string]towline.OldState{"new": towline.OldPending},
	}
	got, err := n.Import(t.Context(), n.DB(), table, ada)
	require.NoError(t, err)
	require.Equal(t, towline.Imported{Pending: 3}, got)
	_, err = n.DB().Exec(`UPDATE old SET body = '9' WHERE id = 'b'`)
	require.NoError(t, err)
	got, err = n.Import(t.Context(), n.DB(), table, ada)
	require.ErrorIs(t, err, towline.ErrKeyReused)
	require.ErrorContains(t, err, "row b: ")
	require.Equal(t, towline.Imported{Known: 2, Refused: 1}, got)
	require.NoError(t, n.Close())
}

// M-7: an old table of many pages is read to its end, once.
func TestALongOldTableIsReadInPages(t *testing.T) {
	n := open(t, node.Config{})
	_, err := n.DB().Exec(`
		CREATE TABLE old (id INTEGER PRIMARY KEY, topic TEXT, body TEXT, status TEXT);
		WITH RECURSIVE series(value) AS (SELECT -600 UNION ALL SELECT value + 1 FROM series WHERE value < 600)
		INSERT INTO old SELECT value, 't', '{}', 'new' FROM series`)
	require.NoError(t, err)
	got, err := n.Import(t.Context(), n.DB(), node.OldTable{
		Name: "old", ID: "id", Topic: "topic", Payload: "body", State: "status", States: map[string]towline.OldState{"new": towline.OldPending},
	}, ada)
	require.NoError(t, err)
	require.Equal(t, towline.Imported{Pending: 1201}, got)
	require.NoError(t, n.Close())
}

// L-9, M-12: consumers whose effects need the write lock, an application that commits, and a run with many units share one
// file, and each comes to its end.
func TestConsumersAndUnitsShareTheStore(t *testing.T) {
	n := start(t, open(t, node.Config{
		Syncs: []node.Sync{works(nothingToDo)}, Messages: map[string]node.Consumer{bookings: {Handle: invoice}},
	}))
	_, err := n.DB().Exec(bookingTables)
	require.NoError(t, err)
	const messages = 50
	run := plan(t, n.Node, 20).Run
	var last events.MessageID
	for i := range messages {
		last, err = book(n.DB(), fmt.Sprint(i))
		require.NoError(t, err)
		n.Nudge()
	}
	ended, err := n.Engine().Wait(t.Context(), run)
	require.NoError(t, err)
	require.Equal(t, events.RunSucceeded, ended.Status)
	inState(t, n.Node, last, projections.MessageHandled)
	deadline := time.After(20 * time.Second)
	for rows(t, n.Node, "invoice") < messages {
		select {
		case <-deadline:
			t.Fatal("some effects are missing")
		case <-time.After(time.Millisecond):
		}
	}
	requireGood(t, n.Node)
	n.end()
}
