-- +goose Up

-- The groups that read the log as a topic (WMILL-2). They are no part of the log and no view of it: how far somebody else
-- has read cannot be told from what has happened here.
CREATE TABLE feed_groups (
  id       INTEGER PRIMARY KEY,                              -- names the lock file of the group
  name     TEXT    NOT NULL UNIQUE CHECK (name <> ''),
  position INTEGER NOT NULL CHECK (position >= 0)            -- all up to it is acknowledged, or was passed by
) STRICT;

-- A late acknowledgement cannot move a group back, whoever writes it.
-- +goose StatementBegin
CREATE TRIGGER feed_groups_never_fall BEFORE UPDATE OF position ON feed_groups
WHEN NEW.position < OLD.position
BEGIN
  SELECT RAISE(ABORT, 'the place of a group never falls');
END;
-- +goose StatementEnd

-- For people with a plain SQLite shell. waiting_since is the time of the first event behind the place of the group.
CREATE VIEW feed_groups_view (name, position, lag, waiting_since) AS
SELECT g.name,
       g.position,
       max(0, (SELECT coalesce(max(position), 0) FROM events) - g.position),
       (SELECT strftime('%Y-%m-%dT%H:%M:%S', (e.at - e.at % 1000000) / 1000000, 'unixepoch') || printf('.%06dZ', e.at % 1000000)
        FROM events AS e
        WHERE e.position = g.position + 1)
FROM feed_groups AS g;
