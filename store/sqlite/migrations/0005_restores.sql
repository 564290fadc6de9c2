-- +goose Up

-- What was put in the place of a store, and when (DUR-5). A restore leaves its row here before the file gets its name; the
-- first start behind it finds an epoch that the log does not know yet, says StoreRestored, and holds what would be sent.
CREATE TABLE restores (
  epoch    INTEGER PRIMARY KEY CHECK (epoch > 1),
  at       INTEGER NOT NULL,                       -- of the restore, by the wall clock
  head     INTEGER NOT NULL CHECK (head >= 0),     -- of the copy
  replaced INTEGER CHECK (replaced >= 0)           -- head of the store that stood there; NULL: there was none that could be read
) STRICT;

CREATE VIEW restores_view (epoch, at, head, replaced) AS
SELECT epoch, strftime('%Y-%m-%dT%H:%M:%S', at / 1000000, 'unixepoch') || printf('.%06dZ', at % 1000000), head, replaced
FROM restores;
