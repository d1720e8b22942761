-- The log in SQLite: an append-only table of immutable rows, and what identifies its source. It lies in the
-- application's own file, so every name begins with "fencepost_". Needs SQLite 3.38 or newer wherever it is written.
-- Position code relies on this: SQLite lets one transaction write at a time, and an id is taken inside it, above every
-- id before it (AUTOINCREMENT). So ids rise in the order of commits, and what a reader sees is all up to an id.

-- A message id may be the 16 bytes of a UUID or its text of 36 characters; key and payload may be bytes or text, which
-- counts as its UTF-8 bytes. The columns that the relay needs least lie last: a large payload has pages of its own.
CREATE TABLE fencepost_outbox (
  id            INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  -- Microseconds since the Unix epoch; SQLite's clock tells milliseconds.
  created_at    INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000),
  -- A UUIDv7 (RFC 9562) as text.
  message_id    ANY NOT NULL DEFAULT (printf('%08x-%04x-7%03x-%x%03x-%012x',
                  CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) >> 16,
                  CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) & 65535,
                  random() & 4095, 8 + (random() & 3), random() & 4095, random() & 281474976710655)),
  partition     INTEGER,
  event_time    INTEGER,
  tenant        TEXT NOT NULL DEFAULT 'default',
  topic         TEXT NOT NULL,
  type          TEXT NOT NULL,
  content_type  TEXT,
  key           ANY,
  -- JSON: names as texts; values as hexadecimal digits, or null.
  header_keys   TEXT,
  header_values TEXT,
  payload       ANY,
  CONSTRAINT fencepost_outbox_message_id_check CHECK (CASE typeof(message_id) WHEN 'blob' THEN length(message_id) = 16
    WHEN 'text' THEN length(message_id) = 36 AND replace(message_id, '-', '') NOT GLOB '*[^0-9a-fA-F]*'
      AND message_id GLOB '????????-????-????-????-????????????' AND length(replace(message_id, '-', '')) = 32
    ELSE false END),
  CONSTRAINT fencepost_outbox_topic_check CHECK (length(topic) BETWEEN 1 AND 249 AND topic NOT GLOB '*[^a-zA-Z0-9._-]*'
    AND topic NOT IN ('.', '..') AND length(CAST(topic AS BLOB)) = length(topic)),
  CONSTRAINT fencepost_outbox_tenant_check CHECK (length(CAST(tenant AS BLOB)) BETWEEN 1 AND 255),
  CONSTRAINT fencepost_outbox_type_check CHECK (length(CAST(type AS BLOB)) BETWEEN 1 AND 255),
  CONSTRAINT fencepost_outbox_content_type_check CHECK (length(CAST(content_type AS BLOB)) BETWEEN 1 AND 255),
  CONSTRAINT fencepost_outbox_partition_check CHECK (partition BETWEEN 0 AND 2147483647),
  -- What RFC 3339 can express in a header: the years 1 to 9999, in microseconds since the Unix epoch.
  CONSTRAINT fencepost_outbox_event_time_check CHECK (event_time >= -62135596800000000 AND event_time < 253402300800000000),
  CONSTRAINT fencepost_outbox_key_check CHECK (typeof(key) IN ('blob', 'text', 'null')),
  CONSTRAINT fencepost_outbox_payload_check CHECK (typeof(payload) IN ('blob', 'text', 'null'))
) STRICT;

-- An id below one that was given out may lie behind every reader's position: such a message would never be sent. Within
-- a statement sqlite_sequence still shows what was given out before it.
CREATE TRIGGER fencepost_outbox_id AFTER INSERT ON fencepost_outbox
  WHEN NEW.id <= (SELECT seq FROM sqlite_sequence WHERE name = 'fencepost_outbox')
BEGIN
  SELECT RAISE(ABORT, 'fencepost_outbox.id is given by the database; leave it out');
END;

CREATE TRIGGER fencepost_outbox_immutable BEFORE UPDATE ON fencepost_outbox
BEGIN
  SELECT RAISE(ABORT, 'messages of fencepost_outbox never change; insert another one');
END;

-- Only for rows that have headers. The reserved names are the relay's own: a producer must not forge a message id or a
-- fence. Half a surrogate pair is no text, so escapes of them are refused altogether.
CREATE TRIGGER fencepost_outbox_headers BEFORE INSERT ON fencepost_outbox
  WHEN NEW.header_keys IS NOT NULL OR NEW.header_values IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'fencepost_outbox: header_keys and header_values must both be JSON arrays, of one length up to 128')
   WHERE NOT coalesce(CASE WHEN json_valid(NEW.header_keys) AND json_valid(NEW.header_values)
     THEN json_type(NEW.header_keys) = 'array' AND json_type(NEW.header_values) = 'array'
      AND json_array_length(NEW.header_keys) = json_array_length(NEW.header_values)
      AND json_array_length(NEW.header_keys) <= 128 END, false);
  SELECT RAISE(ABORT, 'fencepost_outbox: a header name must be a text without NUL and without escaped surrogates')
   WHERE NEW.header_keys GLOB '*\u[dD][89a-fA-F]*'
      OR EXISTS (SELECT 1 FROM json_each(NEW.header_keys) WHERE type <> 'text' OR instr(value, char(0)) > 0);
  SELECT RAISE(ABORT, 'fencepost_outbox: header names "fencepost-...", "ce_..." and "content-type" belong to the relay')
   WHERE EXISTS (SELECT 1 FROM json_each(NEW.header_keys)
                  WHERE value GLOB 'fencepost-*' OR value GLOB 'ce_*' OR value = 'content-type');
  SELECT RAISE(ABORT, 'fencepost_outbox: a header value must be null or an even number of hexadecimal digits')
   WHERE EXISTS (SELECT 1 FROM json_each(NEW.header_values)
                  WHERE NOT (type = 'null' OR (type = 'text' AND length(value) % 2 = 0 AND length(CAST(value AS BLOB)) = length(value)
                                               AND value NOT GLOB '*[^0-9a-fA-F]*')));
END;

-- Who this log is: a random UUIDv4 as text.
CREATE TABLE fencepost_origin (
  one       INTEGER NOT NULL PRIMARY KEY DEFAULT 1,
  source_id TEXT NOT NULL,
  CONSTRAINT fencepost_origin_one_check CHECK (one = 1)
) STRICT;
INSERT INTO fencepost_origin (source_id)
VALUES (printf('%08x-%04x-4%03x-%x%03x-%012x', random() & 4294967295, random() & 65535, random() & 4095,
               8 + (random() & 3), random() & 4095, random() & 281474976710655));

-- What an installation decides once. schema_version is the newest migration that a relay must know.
CREATE TABLE fencepost_settings (
  one               INTEGER NOT NULL PRIMARY KEY DEFAULT 1,
  schema_version    INTEGER NOT NULL,
  kafka_cluster_id  TEXT,
  keep_delivered_us INTEGER NOT NULL DEFAULT 60000000,
  CONSTRAINT fencepost_settings_one_check CHECK (one = 1),
  CONSTRAINT fencepost_settings_keep_delivered_check CHECK (keep_delivered_us >= 0)
) STRICT;
INSERT INTO fencepost_settings (schema_version) VALUES (1);
