-- +goose Up

-- The once-ledger of effects that commit in this file (K-6). It is no projection: it says what has happened outside of the
-- log, so it is not rebuilt, and no row is removed. towline.Once writes it, in the transaction of the effect.
CREATE TABLE IF NOT EXISTS _towline_once (
  key TEXT PRIMARY KEY CHECK (key <> ''),                              -- of the effect, as Post.Key has it
  at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))    -- UTC, for people
) STRICT, WITHOUT ROWID;
