-- +goose Up

-- Application messages (M-1, M-2, M-12). The tables of the engine lag behind what an application has just committed, so
-- whether a message is there, and whether it is over, is asked of the log: 120 is MessageSubmitted, 121 and 122 are
-- MessageHandled and MessageRejected. To every other event each of these indexes costs a comparison.
CREATE INDEX events_message ON events (data ->> '$.message_id')
WHERE type = 120;

CREATE INDEX events_message_key ON events (stream, data ->> '$.key')
WHERE type = 120 AND data ->> '$.key' IS NOT NULL;

CREATE INDEX events_message_over ON events (data ->> '$.message_id')
WHERE type BETWEEN 121 AND 122;
