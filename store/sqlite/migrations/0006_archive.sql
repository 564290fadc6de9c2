-- +goose Up

-- Sealed segments (L-1): the events of streams of finished runs, compressed, in the place of their rows in the log. A segment
-- is written in the transaction that takes the rows away, so there is never a moment at which an event is nowhere or twice.
-- They are written from format level 2 on (DUR-7).
CREATE TABLE segments (
  id     INTEGER PRIMARY KEY,                       -- position of the RunsArchived that says so
  events INTEGER NOT NULL CHECK (events > 0),
  plain  INTEGER NOT NULL CHECK (plain > 0),        -- bytes before they were compressed
  hash   BLOB    NOT NULL CHECK (length(hash) = 32), -- SHA-256 over the hashes of its streams
  data   BLOB    NOT NULL                           -- gzip
) STRICT;

-- The head row of each stream in a segment: where it is, and its last version there, for it may continue.
CREATE TABLE archived_streams (
  stream  BLOB    NOT NULL,
  version INTEGER NOT NULL CHECK (version >= 1),
  segment INTEGER NOT NULL REFERENCES segments (id),
  PRIMARY KEY (stream, version)
) STRICT, WITHOUT ROWID;

-- Which segments hold positions of a thousand of the log, so that it is read in order without a look at all segments.
CREATE TABLE segment_pages (
  page    INTEGER NOT NULL,                         -- position / 1000
  segment INTEGER NOT NULL REFERENCES segments (id),
  PRIMARY KEY (page, segment)
) STRICT, WITHOUT ROWID;

-- The log is append-only but for rows that a segment holds.
DROP TRIGGER events_no_delete;

-- +goose StatementBegin
CREATE TRIGGER events_no_delete BEFORE DELETE ON events
WHEN NOT EXISTS (SELECT 1 FROM archived_streams WHERE stream = OLD.stream AND version >= OLD.version)
BEGIN
  SELECT RAISE(ABORT, 'the log is append-only');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER segments_no_update BEFORE UPDATE ON segments
BEGIN
  SELECT RAISE(ABORT, 'a segment is sealed');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER segments_no_delete BEFORE DELETE ON segments
BEGIN
  SELECT RAISE(ABORT, 'a segment is sealed');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER archived_streams_no_update BEFORE UPDATE ON archived_streams
BEGIN
  SELECT RAISE(ABORT, 'a segment is sealed');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER archived_streams_no_delete BEFORE DELETE ON archived_streams
BEGIN
  SELECT RAISE(ABORT, 'a segment is sealed');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER segment_pages_no_update BEFORE UPDATE ON segment_pages
BEGIN
  SELECT RAISE(ABORT, 'a segment is sealed');
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER segment_pages_no_delete BEFORE DELETE ON segment_pages
BEGIN
  SELECT RAISE(ABORT, 'a segment is sealed');
END;
-- +goose StatementEnd

-- What the group waits for may be in a segment: then it is told by the next event that is not.
DROP VIEW feed_groups_view;
CREATE VIEW feed_groups_view (name, position, lag, waiting_since) AS
SELECT g.name,
       g.position,
       max(0, (SELECT coalesce(max(position), 0) FROM events) - g.position),
       (SELECT strftime('%Y-%m-%dT%H:%M:%S', (e.at - e.at % 1000000) / 1000000, 'unixepoch') || printf('.%06dZ', e.at % 1000000)
        FROM events AS e
        WHERE e.position > g.position
        ORDER BY e.position
        LIMIT 1)
FROM feed_groups AS g;
