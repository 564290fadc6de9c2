package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/towline-dev/towline/events"
)

const topic = "booking.made"

// box is a store with a table of an application.
func box(t *testing.T) *Store {
	t.Helper()
	return boxWith(t, Options{})
}

func boxWith(t *testing.T, o Options) *Store {
	t.Helper()
	s := open(t, filepath.Join(t.TempDir(), "box.db"), o)
	_, err := s.DB().Exec(`CREATE TABLE booking (seat TEXT PRIMARY KEY) STRICT`)
	require.NoError(t, err)
	return s
}

// inTx runs fn in a transaction of the application, and commits it unless fn returns an error.
func inTx(t *testing.T, s *Store, fn func(*sql.Tx) error) error {
	t.Helper()
	tx, err := s.DB().BeginTx(t.Context(), nil)
	require.NoError(t, err)
	if err := fn(tx); err != nil {
		require.NoError(t, tx.Rollback())
		return err
	}
	return tx.Commit()
}

func publish(t *testing.T, s *Store, topic string, messages ...*message.Message) error {
	t.Helper()
	return inTx(t, s, func(tx *sql.Tx) error { return Outbox(tx).Publish(topic, messages...) })
}

func newMessage(body string, metadata ...string) *message.Message {
	m := message.NewMessage(watermill.NewULID(), []byte(body))
	for i := 0; i < len(metadata); i += 2 {
		m.Metadata.Set(metadata[i], metadata[i+1])
	}
	return m
}

func submitted(t *testing.T, s *Store) (out []events.MessageSubmitted) {
	t.Helper()
	for _, e := range readAll(t, s) {
		if m, ok := e.Event.(events.MessageSubmitted); ok {
			out = append(out, m)
		}
	}
	return out
}

// M-1, WMILL-3, C-33, SC-308: a message commits with the rows of the application's own transaction; a rollback leaves no
// trace of either.
func TestAMessageCommitsWithItsRowsOrNotAtAll(t *testing.T) {
	s := box(t)
	book := func(fail error) error {
		return inTx(t, s, func(tx *sql.Tx) error {
			if _, err := tx.Exec(`INSERT INTO booking (seat) VALUES ($1)`, "12A"); err != nil {
				return err
			}
			if err := Outbox(tx).Publish(topic, newMessage(`{"seat":"12A"}`)); err != nil {
				return err
			}
			return fail
		})
	}
	seats := func() (n int) {
		require.NoError(t, s.DB().QueryRow(`SELECT count(*) FROM booking`).Scan(&n))
		return n
	}
	undone := errors.New("undone")
	require.ErrorIs(t, book(undone), undone)
	require.Zero(t, seats())
	require.Empty(t, readAll(t, s))

	require.NoError(t, book(nil))
	require.Equal(t, 1, seats())
	require.Len(t, readAll(t, s), 1)
}

// L-6, M-1: what an application appends has the next place in the log and in its stream, stands for itself, belongs to no
// incarnation, and is not older than the event before it, whatever its clock shows. The engine's own writer goes on
// behind it.
func TestAMessageHasItsPlaceInTheLog(t *testing.T) {
	s := box(t)
	require.NoError(t, s.Write(context.Background(), appendTo(unit(1), 0, renewed(1), renewed(2))))
	before := readAll(t, s)
	long := events.MicrosOf(time.Unix(1, 0))
	require.NoError(t, inTx(t, s, func(tx *sql.Tx) error {
		box := OutboxAt(tx, func() events.Micros { return long })
		require.NoError(t, box.Publish(topic, newMessage("1"), newMessage("2")))
		require.NoError(t, box.Publish("other", newMessage("3")))
		require.NoError(t, box.Publish(topic))
		require.NoError(t, box.Close())
		return box.Publish(topic, newMessage("4"))
	}))
	require.NoError(t, s.Write(context.Background(), appendTo(unit(1), 2, renewed(3))))

	log := readAll(t, s)
	require.Len(t, log, 7)
	for i, want := range []struct {
		stream  string
		version events.Version
	}{{topic, 1}, {topic, 2}, {"other", 1}, {topic, 3}} {
		e := log[2+i]
		require.Equal(t, events.AppStream(want.stream), e.Stream)
		require.Equal(t, want.version, e.Version)
		require.Equal(t, e.Position, e.Tx)
		require.Equal(t, before[1].At, e.At, "CLK-2")
		require.Equal(t, events.Meta{}, e.Meta)
		body, err := e.Event.(events.MessageSubmitted).Body()
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i+1), string(body))
	}
}

// M-1, HC-49: what is submitted is stored byte for byte; the two options are taken out of the metadata.
func TestAMessageIsStoredAsItWasGiven(t *testing.T) {
	s := box(t)
	at := time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)
	m := newMessage("{\"id\": 1234567890123456789}\n", "trace", "00-4bf9", events.MetadataKey, "k", events.MetadataAvailableAt, at.Format(time.RFC3339Nano))
	require.NoError(t, publish(t, s, topic, m))
	require.Equal(t, "k", m.Metadata.Get(events.MetadataKey), "the caller's message stays as it was")
	got := submitted(t, s)[0]
	require.Equal(t, m.UUID, got.Message.String())
	require.Equal(t, map[string]string{"trace": "00-4bf9"}, got.Metadata)
	require.Equal(t, "k", got.Key)
	require.Equal(t, at, got.AvailableAt.Time())
	body, err := got.Body()
	require.NoError(t, err)
	require.Equal(t, string(m.Payload), string(body))
}

func requireRefused(t *testing.T, field string, err error) {
	t.Helper()
	refused, ok := errors.AsType[*events.MessageError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, field, refused.Field)
}

// M-1, M-2, HC-45: what can never be published, or never be told from another, is refused when it is submitted. The
// transaction goes on as it was.
func TestWhatCannotBeTakenIsRefusedAtOnce(t *testing.T) {
	s := box(t)
	known := newMessage("1")
	require.NoError(t, publish(t, s, topic, known))
	for _, tt := range []struct {
		field, topic string
		m            *message.Message
	}{
		{"topic", "", newMessage("1")},
		{"topic", "a/b", newMessage("1")},
		{"message_id", topic, message.NewMessage(watermill.NewUUID(), []byte("1"))},
		{"message_id", topic, message.NewMessage("", []byte("1"))},
		{"message_id", topic, message.NewMessage(events.MessageID{}.String(), []byte("1"))},
		{"message_id", topic, known},
		{"message_id", "other", known},
		{"payload", topic, newMessage(strings.Repeat("x", events.MaxPayloadBytes+1))},
		{"metadata", topic, newMessage("1", "towline-anything", "1")},
		{"available_at", topic, newMessage("1", events.MetadataAvailableAt, "tomorrow")},
	} {
		good := newMessage("2")
		require.NoError(t, inTx(t, s, func(tx *sql.Tx) error {
			requireRefused(t, tt.field, Outbox(tx).Publish(tt.topic, newMessage("before"), tt.m))
			return Outbox(tx).Publish(topic, good)
		}))
		all := submitted(t, s)
		require.Equal(t, good.UUID, all[len(all)-1].Message.String())
	}
	require.Len(t, submitted(t, s), 11, "of a refused call nothing is added, also not what was good in it")
}

// M-2, SC-323: a key adds one message; the same payload under it is that message, another one is an error. Its scope is
// the topic.
func TestAKeyAddsOneMessage(t *testing.T) {
	s := box(t)
	with := func(body, key string) *message.Message { return newMessage(body, events.MetadataKey, key) }
	require.NoError(t, publish(t, s, topic, with(`{"n":1}`, "a")))
	require.NoError(t, publish(t, s, topic, with(`{"n":1}`, "a")))
	require.Len(t, submitted(t, s), 1)
	requireRefused(t, "key", publish(t, s, topic, with(`{"n":2}`, "a")))
	requireRefused(t, "key", publish(t, s, topic, with(`{"n": 1}`, "a")))
	requireRefused(t, "key", publish(t, s, topic, with("1", "b"), with("2", "b")))
	require.Len(t, submitted(t, s), 1)

	require.NoError(t, publish(t, s, topic, with(`{"n":1}`, "a"), with("1", "b"), with("1", "b"), newMessage("1"), newMessage("1")))
	require.NoError(t, publish(t, s, "other", with(`{"n":2}`, "a")))
	require.Len(t, submitted(t, s), 5)
}

// M-1, M-2: an id stands for one message, also inside of one call and on a connection that is not the store's, which nothing
// else keeps from it. Were both appended, no view could hold them, and the engine would decide nothing any more.
func TestAnIdIsGivenToOneMessageOfACall(t *testing.T) {
	s := box(t)
	plain, err := sql.Open("sqlite", s.Path())
	require.NoError(t, err)
	defer plain.Close()
	for _, db := range []*sql.DB{s.DB(), plain} {
		a := newMessage("1")
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		requireRefused(t, "message_id", Outbox(tx).Publish(topic, a, newMessage("2"), a.Copy()))
		require.NoError(t, Outbox(tx).Publish(topic, a), "the transaction goes on")
		require.NoError(t, tx.Commit())
	}
	require.Len(t, submitted(t, s), 2)
	keyed := newMessage("1", events.MetadataKey, "k")
	require.NoError(t, publish(t, s, topic, keyed, keyed.Copy()), "under a key it is the same message")
	require.Len(t, submitted(t, s), 3)
}

// WMILL-3: an application may use a driver of its own, and most drivers bind by place what SQLite numbers by the first
// appearance of a name: $2 in front of $1 would get the wrong value there.
func TestStatementsOfTheOutboxNumberTheirArgumentsInOrder(t *testing.T) {
	for _, query := range []string{lookUp, insertMessages} {
		next := 1
		for _, name := range regexp.MustCompile(`\$[0-9]+`).FindAllString(query, -1) {
			n, err := strconv.Atoi(name[1:])
			require.NoError(t, err)
			require.LessOrEqual(t, n, next, "%s in %s", name, query)
			if n == next {
				next++
			}
		}
		require.Greater(t, next, 1)
	}
}

// M-1: ten thousand messages in one transaction are ten thousand events; each costs the same.
func TestAnApplicationMaySubmitMany(t *testing.T) {
	s := box(t)
	const calls, each = 100, 100
	require.NoError(t, inTx(t, s, func(tx *sql.Tx) error {
		for range calls {
			messages := make([]*message.Message, each)
			for i := range messages {
				messages[i] = newMessage("{}")
			}
			if err := Outbox(tx).Publish(topic, messages...); err != nil {
				return err
			}
		}
		return nil
	}))
	require.Len(t, submitted(t, s), calls*each)
}

// M-1, M-2, M-12: the look-ups of the outbox go by its indexes, and the indexes hold messages only.
func TestTheOutboxLooksUpByIndex(t *testing.T) {
	s := box(t)
	for query, index := range map[string]string{
		lookUp: "USING INDEX events_message_key", insertMessages: "USING COVERING INDEX sqlite_autoindex_events_1", insertHandled: "USING INDEX events_message ", isOver: "USING INDEX events_message_over",
	} {
		rows, err := s.DB().Query(`EXPLAIN QUERY PLAN `+query, make([]any, placeholders(query))...)
		require.NoError(t, err)
		var plan []string
		for rows.Next() {
			var id, parent, x int
			var detail string
			require.NoError(t, rows.Scan(&id, &parent, &x, &detail))
			plan = append(plan, detail)
			require.NotRegexp(t, `SCAN (old|s)\b`, detail, "%s", query)
		}
		require.NoError(t, rows.Err())
		require.NoError(t, rows.Close())
		require.Contains(t, strings.Join(plan, "\n")+" ", index, "%s", query)
	}
	require.NoError(t, s.Write(context.Background(), appendTo(unit(1), 0, renewed(1))))
	var n int
	require.NoError(t, s.DB().QueryRow(`SELECT count(*) FROM events INDEXED BY events_message WHERE type = 120`).Scan(&n))
	require.Zero(t, n)
}

// placeholders is the highest number of a placeholder of a query.
func placeholders(query string) (n int) {
	for i := 1; strings.Contains(query, fmt.Sprintf("$%d", i)); i++ {
		n = i
	}
	return n
}

// C-34: a process that is killed right behind the commit of the application has lost nothing; one that is killed before
// it has left no trace.
func TestAKilledApplicationHasSubmittedWhatItCommitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "box.db")
	c := start(t, "submit", path)
	require.Equal(t, "committed", c.line(t))
	require.Equal(t, "open", c.line(t))
	c.kill(t)
	require.Error(t, c.cmd.Wait())
	s := open(t, path, Options{})
	all := submitted(t, s)
	require.Len(t, all, 1)
	require.JSONEq(t, `{"seat":"12A"}`, string(all[0].Payload))
	var seats int
	require.NoError(t, s.DB().QueryRow(`SELECT count(*) FROM booking`).Scan(&seats))
	require.Equal(t, 1, seats)
}

// submitAndHang is the other process: it commits one message, opens a second transaction and stays in it.
func submitAndHang(path string) error {
	s, err := Open(context.Background(), path, Options{})
	if err != nil {
		return err
	}
	if _, err := s.DB().Exec(`CREATE TABLE booking (seat TEXT PRIMARY KEY) STRICT`); err != nil {
		return err
	}
	book := func(seat string) (*sql.Tx, error) {
		tx, err := s.DB().Begin()
		if err != nil {
			return nil, err
		}
		if _, err := tx.Exec(`INSERT INTO booking (seat) VALUES ($1)`, seat); err != nil {
			return nil, err
		}
		body, err := json.Marshal(map[string]string{"seat": seat})
		if err != nil {
			return nil, err
		}
		return tx, Outbox(tx).Publish(topic, message.NewMessage(watermill.NewULID(), body))
	}
	tx, err := book("12A")
	if err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	fmt.Println("committed")
	if tx, err = book("12B"); err != nil {
		return err
	}
	fmt.Println("open")
	return holdUntilEOF(tx.Rollback)
}

// M-1, WMILL-3: a database that is no store says so in one sentence, also where it has a table of that name.
func TestTheOutboxOfADatabaseThatIsNoStore(t *testing.T) {
	for _, schema := range []string{`CREATE TABLE booking (seat TEXT)`, `CREATE TABLE events (what TEXT)`} {
		db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "other.db"))
		require.NoError(t, err)
		_, err = db.Exec(schema)
		require.NoError(t, err)
		tx, err := db.Begin()
		require.NoError(t, err)
		err = Outbox(tx).Publish(topic, newMessage("{}"))
		require.EqualError(t, err, "outbox: this database is no Towline store; open it with a node first, which makes it one")
		require.NoError(t, tx.Rollback())
		require.NoError(t, db.Close())
	}
}
