-- +goose Up

-- The log (L-1, L-6). Nothing in it is ever changed; the two triggers say so, whoever asks. That versions and
-- positions have no gaps is checked by the writer before it inserts and, for the connections of an application, by a
-- trigger of theirs: a trigger here would cost every event a third of its insert.
CREATE TABLE events (
  position INTEGER PRIMARY KEY CHECK (position >= 1),                       -- dense, in commit order
  tx       INTEGER NOT NULL CHECK (tx BETWEEN 1 AND position),              -- position of the transaction's first event
  stream   BLOB    NOT NULL CHECK (length(stream) >= 2),                    -- family byte, then a ULID or text (L-12)
  version  INTEGER NOT NULL CHECK (version >= 1),                           -- dense within the stream
  at       INTEGER NOT NULL CHECK (at > 0),                                 -- microseconds UTC (CLK-5)
  type     INTEGER NOT NULL CHECK (type > 0),
  schema   INTEGER NOT NULL CHECK (schema > 0),
  actor    TEXT    CHECK (actor <> ''),                                     -- null: the node itself
  command  TEXT    CHECK (command <> ''),
  cause    INTEGER CHECK (cause BETWEEN 1 AND position - 1),                -- null: a caller
  node     INTEGER CHECK (node BETWEEN 1 AND position),                     -- position of its NodeStarted; null: none
  data     TEXT    NOT NULL,                                                -- JSON
  UNIQUE (stream, version)
) STRICT;

-- +goose StatementBegin
CREATE TRIGGER events_no_update BEFORE UPDATE ON events
BEGIN
  SELECT RAISE(ABORT, 'the log is append-only');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER events_no_delete BEFORE DELETE ON events
BEGIN
  SELECT RAISE(ABORT, 'the log is append-only');
END;
-- +goose StatementEnd

-- What the readable views need. The names are filled in by each release that opens the store, since a later one knows
-- more of them.
CREATE TABLE event_types (
  type INTEGER PRIMARY KEY,
  name TEXT NOT NULL
) STRICT;

CREATE TABLE stream_families (
  family BLOB    PRIMARY KEY,  -- first byte of a stream key
  prefix TEXT    NOT NULL,
  suffix TEXT    NOT NULL,
  named  INTEGER NOT NULL      -- 1: text follows the byte, 0: a ULID
) STRICT, WITHOUT ROWID;

-- The 26 digits of a ULID. Each is five bits out of two neighbouring hexadecimal digits of its 16 bytes.
CREATE TABLE ulid_digits (
  digit INTEGER PRIMARY KEY,
  hi    INTEGER NOT NULL,  -- 1-based places in hex(id)
  lo    INTEGER NOT NULL,
  shift INTEGER NOT NULL   -- what lies to the right of the five bits
) STRICT;

INSERT INTO ulid_digits (digit, hi, lo, shift)
VALUES ( 1,  1,  2, 5), ( 2,  1,  2, 0), ( 3,  3,  4, 3), ( 4,  4,  5, 2), ( 5,  5,  6, 1),
       ( 6,  6,  7, 0), ( 7,  8,  9, 3), ( 8,  9, 10, 2), ( 9, 10, 11, 1), (10, 11, 12, 0),
       (11, 13, 14, 3), (12, 14, 15, 2), (13, 15, 16, 1), (14, 16, 17, 0), (15, 18, 19, 3),
       (16, 19, 20, 2), (17, 20, 21, 1), (18, 21, 22, 0), (19, 23, 24, 3), (20, 24, 25, 2),
       (21, 25, 26, 1), (22, 26, 27, 0), (23, 28, 29, 3), (24, 29, 30, 2), (25, 30, 31, 1),
       (26, 31, 32, 0);

-- The log for people with a plain SQLite shell. Tokens are secrets and never shown (E-4).
CREATE VIEW log (position, tx, time, stream, version, type, schema, actor, command, cause, node, data) AS
SELECT e.position,
       e.tx,
       strftime('%Y-%m-%dT%H:%M:%S', e.at / 1000000, 'unixepoch') || printf('.%06dZ', e.at % 1000000),
       CASE
         WHEN f.named IS NULL THEN hex(e.stream)
         WHEN f.named THEN f.prefix || CAST(substr(e.stream, 2) AS TEXT) || f.suffix
         ELSE f.prefix || (
           SELECT group_concat(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', 1 + ((((instr('0123456789ABCDEF', substr(h.hex, u.hi, 1)) - 1) << 4 | (instr('0123456789ABCDEF', substr(h.hex, u.lo, 1)) - 1)) >> u.shift) & 31), 1), '')
           FROM (SELECT hex(substr(e.stream, 2)) AS hex) AS h
           CROSS JOIN ulid_digits AS u
         ) || f.suffix
       END,
       e.version,
       coalesce(t.name, 'unknown'),
       e.schema,
       e.actor,
       e.command,
       e.cause,
       CASE WHEN e.node IS NOT NULL THEN (
         SELECT group_concat(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', 1 + ((((instr('0123456789ABCDEF', substr(h.hex, u.hi, 1)) - 1) << 4 | (instr('0123456789ABCDEF', substr(h.hex, u.lo, 1)) - 1)) >> u.shift) & 31), 1), '')
         FROM (SELECT hex(substr(n.stream, 2)) AS hex FROM events AS n WHERE n.position = e.node) AS h
         CROSS JOIN ulid_digits AS u
       ) END,
       CASE WHEN json_valid(e.data) THEN json_replace(e.data, '$.token', '***') ELSE '(unreadable)' END
FROM events AS e
LEFT JOIN event_types AS t ON t.type = e.type
LEFT JOIN stream_families AS f ON f.family = substr(e.stream, 1, 1);
