package projections

import (
	"github.com/towline-dev/towline/decider"
	"github.com/towline-dev/towline/events"
)

// appMessages holds one row per application message, and of its content only the place in the log: payload and metadata are
// stored once (L-12). How far its publish has come is in its register.
//
// armed, in_process and parked are facts of the register. They are here so that the indexes of the scans hold what is owed
// and nothing of what has ended: messages that nobody has armed (REC-11), those that wait in the memory of a process, and
// those that wait for a person.
type appMessages struct{}

func (appMessages) Name() string    { return "messages" }
func (appMessages) Revision() int   { return 3 }
func (appMessages) Tables() []Table { return []Table{{"messages", "message_id"}} }

func (appMessages) Schema() []string {
	return []string{`
CREATE TABLE messages (
  message_id BLOB PRIMARY KEY CHECK (length(message_id) = 16),
  topic      TEXT NOT NULL,
  position   INTEGER NOT NULL,
  key        TEXT,
  status     TEXT NOT NULL CHECK ` + oneOf("status", decider.MessageOpen, decider.MessageHandled, decider.MessageRejected) + `,
  armed      INTEGER NOT NULL,
  in_process BLOB,
  parked     INTEGER NOT NULL DEFAULT 0,
  settled    INTEGER,
  CHECK ((settled IS NULL) = (status = 'open')),
  CHECK (in_process IS NULL OR status = 'open' AND armed = 1),
  CHECK (parked = 0 OR status = 'open' AND armed = 1)
) STRICT, WITHOUT ROWID`,
		`CREATE INDEX messages_keys ON messages (topic, key) WHERE key IS NOT NULL`,
		`CREATE INDEX messages_unarmed ON messages (position) WHERE armed = 0`,
		`CREATE INDEX messages_in_process ON messages (message_id) WHERE in_process IS NOT NULL`,
		`CREATE INDEX messages_parked ON messages (message_id) WHERE parked = 1`,
		`CREATE INDEX messages_rejected ON messages (message_id) WHERE status = 'rejected'`,
		`CREATE VIEW messages_view AS SELECT ` + ulidText("m.message_id") + ` AS message_id, m.topic,
  ` + messageState + ` AS state, m.key, e.data -> '$.payload' AS payload, e.data ->> '$.encoding' AS encoding,
  e.data -> '$.metadata' AS metadata, ` + timeText("e.at") + ` AS submitted_at, ` + timeText("o.available_at") + ` AS available_at,
  coalesce(o.attempts, 0) AS attempts, coalesce(o.lost, 0) AS lost, o.last_cause, o.last_text, ` + timeText("o.last_dispatched_at") + ` AS last_dispatched_at,
  o.transport, s.data ->> '$.category' AS error_category, s.data ->> '$.text' AS error_text, ` + timeText("s.at") + ` AS settled_at
FROM messages AS m
JOIN events AS e ON e.position = m.position
LEFT JOIN outbox AS o ON o.owner = m.message_id AND o.kind = 'message'
LEFT JOIN events AS s ON s.position = m.settled`,
	}
}

// messageState is SQL for J-3: the state of the register until the message is over. A message without one is due.
const messageState = `CASE WHEN m.status <> 'open' THEN m.status WHEN o.status IS NULL THEN 'pending' WHEN o.status = 'idle' THEN 'dispatched' ELSE o.status END`

func (appMessages) Apply(tx Writer, env events.Envelope, before, after decider.State) error {
	switch e := env.Event.(type) {
	case events.MessageSubmitted:
		topic, _ := env.Stream.Topic()
		return tx.Exec(`INSERT INTO messages (message_id, topic, position, key, status, armed) VALUES ($1, $2, $3, $4, 'open', 0)`,
			blob(e.Message), topic, int64(env.Position), text(e.Key))
	case events.MessageHandled:
		return settleMessage(tx, env, e.Message, decider.MessageHandled)
	case events.MessageRejected:
		return settleMessage(tx, env, e.Message, decider.MessageRejected)
	}
	if r, ok := after.(decider.Register); ok && r.Kind == events.KindMessage {
		return applyMessageRegister(tx, env, r)
	}
	return nil
}

func settleMessage(tx Writer, env events.Envelope, id events.MessageID, s decider.MessageStatus) error {
	return tx.Exec(`UPDATE messages SET status = $2, settled = $3, in_process = NULL, parked = 0 WHERE message_id = $1 AND status = 'open'`,
		blob(id), string(s), int64(env.Position))
}

func applyMessageRegister(tx Writer, env events.Envelope, r decider.Register) error {
	switch e := env.Event.(type) {
	case events.OutboxArmed:
		return tx.Exec(`UPDATE messages SET armed = 1, in_process = NULL, parked = 0 WHERE message_id = $1`, blob(r.Owner))
	case events.OutboxParked:
		return tx.Exec(`UPDATE messages SET parked = 1, in_process = NULL WHERE message_id = $1 AND status = 'open'`, blob(r.Owner))
	case events.OutboxDispatched:
		if events.InProcess(e.Transport) { // a consumer may have been faster than the mark
			return tx.Exec(`UPDATE messages SET in_process = $2 WHERE message_id = $1 AND status = 'open'`, blob(r.Owner), blob(env.Node))
		}
	}
	return nil
}
