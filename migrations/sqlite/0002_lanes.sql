-- Lanes, their leases, and the batch log that fences them. Times are microseconds since the Unix epoch by SQLite's clock.

CREATE TABLE fencepost_lanes (
  lane             INTEGER NOT NULL PRIMARY KEY,
  first_slot       INTEGER NOT NULL,
  last_slot        INTEGER NOT NULL,
  owner            TEXT,
  generation       INTEGER NOT NULL DEFAULT 0,
  lease_expires_at INTEGER,
  status           TEXT,
  CONSTRAINT fencepost_lanes_lane_check CHECK (lane BETWEEN 0 AND 32767),
  CONSTRAINT fencepost_lanes_slots_check CHECK (first_slot >= 0 AND first_slot <= last_slot AND last_slot <= 255),
  CONSTRAINT fencepost_lanes_generation_check CHECK (generation >= 0),
  CONSTRAINT fencepost_lanes_owner_check CHECK (length(CAST(owner AS BLOB)) BETWEEN 1 AND 255),
  CONSTRAINT fencepost_lanes_lease_check CHECK ((owner IS NULL) = (lease_expires_at IS NULL))
) STRICT;

-- A slot is in one lane at most.
CREATE TRIGGER fencepost_lanes_slots_insert BEFORE INSERT ON fencepost_lanes
  WHEN EXISTS (SELECT 1 FROM fencepost_lanes l WHERE l.first_slot <= NEW.last_slot AND l.last_slot >= NEW.first_slot)
BEGIN
  SELECT RAISE(ABORT, 'fencepost_lanes: a slot would be in two lanes');
END;
CREATE TRIGGER fencepost_lanes_slots_update BEFORE UPDATE OF lane, first_slot, last_slot ON fencepost_lanes
  WHEN EXISTS (SELECT 1 FROM fencepost_lanes l
                WHERE l.lane <> OLD.lane AND l.first_slot <= NEW.last_slot AND l.last_slot >= NEW.first_slot)
BEGIN
  SELECT RAISE(ABORT, 'fencepost_lanes: a slot would be in two lanes');
END;

-- Append-only. The primary key is the fence: one row per number, whoever writes it first. The columns lo to detours are
-- the position after the batch; the columns before_... the one before it, NULL where it is the same. A snapshot has
-- the text form of PostgreSQL's ("xmin:xmax:"), with ids in the place of transaction ids.
CREATE TABLE fencepost_batches (
  lane             INTEGER NOT NULL,
  n                INTEGER NOT NULL,
  generation       INTEGER NOT NULL,
  written_at       INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000),
  tag              BLOB NOT NULL,
  messages         INTEGER NOT NULL DEFAULT 0,
  bytes            INTEGER NOT NULL DEFAULT 0,
  took_ms          INTEGER NOT NULL DEFAULT 0,
  kind             TEXT NOT NULL,
  owner            TEXT,
  lo               TEXT NOT NULL,
  lo_seq0          INTEGER NOT NULL,
  up               TEXT,
  up_seq0          INTEGER,
  up_seq1          INTEGER,
  cursor_id        INTEGER NOT NULL,
  detours          TEXT,
  before_lo        TEXT,
  before_lo_seq0   INTEGER,
  before_up        TEXT,
  before_up_seq0   INTEGER,
  before_up_seq1   INTEGER,
  before_cursor_id INTEGER,
  before_detours   TEXT,
  eff              INTEGER,
  open             INTEGER,
  open_tag         BLOB,
  intent           TEXT,
  CONSTRAINT fencepost_batches_pkey PRIMARY KEY (lane, n),
  CONSTRAINT fencepost_batches_n_check CHECK (n > 0 OR (n = 0 AND kind = 'init')),
  CONSTRAINT fencepost_batches_kind_check CHECK (kind IN ('init', 'fence', 'mark', 'prepared', 'resolved')),
  CONSTRAINT fencepost_batches_owner_check
    CHECK (kind = 'init' OR (owner IS NOT NULL AND length(CAST(owner AS BLOB)) BETWEEN 1 AND 255)),
  CONSTRAINT fencepost_batches_tag_check CHECK (length(tag) = 16),
  CONSTRAINT fencepost_batches_counts_check CHECK (generation >= 0 AND messages >= 0 AND bytes >= 0 AND took_ms >= 0),
  -- Only a prepared row opens a transaction, and only a fence row hands an open one on.
  CONSTRAINT fencepost_batches_open_check CHECK (CASE kind WHEN 'prepared'
      THEN open IS NOT NULL AND open = max(n, coalesce(eff + 1, n)) WHEN 'fence' THEN true ELSE open IS NULL END
    AND (eff IS NULL OR open IS NULL OR open > eff)),
  CONSTRAINT fencepost_batches_open_tag_check CHECK ((open IS NULL) = (open_tag IS NULL)),
  -- Nothing open: nothing to undo, and nothing intended.
  CONSTRAINT fencepost_batches_closed_check CHECK (open IS NOT NULL OR (before_lo IS NULL AND intent IS NULL)),
  CONSTRAINT fencepost_batches_after_check CHECK (lo_seq0 >= 0 AND cursor_id >= 0 AND (up IS NULL) = (up_seq0 IS NULL)
    AND (up IS NULL) = (up_seq1 IS NULL) AND (up IS NOT NULL OR cursor_id = 0)),
  CONSTRAINT fencepost_batches_before_check CHECK ((before_lo IS NULL) = (before_lo_seq0 IS NULL)
    AND (before_lo IS NULL) = (before_cursor_id IS NULL) AND (before_up IS NULL) = (before_up_seq0 IS NULL)
    AND (before_up IS NULL) = (before_up_seq1 IS NULL) AND (before_lo IS NOT NULL OR (before_up IS NULL AND before_detours IS NULL))
    AND (before_lo IS NULL OR (before_lo_seq0 >= 0 AND before_cursor_id >= 0 AND (before_up IS NOT NULL OR before_cursor_id = 0))))
) STRICT, WITHOUT ROWID;

-- Relay processes that are alive: a heartbeat each.
CREATE TABLE fencepost_relays (
  owner      TEXT NOT NULL PRIMARY KEY,
  started_at INTEGER NOT NULL,
  seen_at    INTEGER NOT NULL,
  CONSTRAINT fencepost_relays_owner_check CHECK (length(CAST(owner AS BLOB)) BETWEEN 1 AND 255)
) STRICT;

-- Eight lanes of 32 slots, each before the first message.
INSERT INTO fencepost_lanes (lane, first_slot, last_slot)
VALUES (0, 0, 31), (1, 32, 63), (2, 64, 95), (3, 96, 127), (4, 128, 159), (5, 160, 191), (6, 192, 223), (7, 224, 255);

INSERT INTO fencepost_batches (lane, n, kind, generation, tag, lo, lo_seq0, cursor_id)
SELECT lane, 0, 'init', 0, randomblob(16), '1:1:', 0, 0 FROM fencepost_lanes;

UPDATE fencepost_settings SET schema_version = 2;
