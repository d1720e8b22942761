-- Lanes, their leases, and the batch log that fences them.

-- One topic that reads the log later than the rest of its lane (a second cursor).
CREATE TYPE "fencepost".detour AS (
  topic text, lo pg_snapshot, lo_seq0 bigint, up pg_snapshot, up_seq0 bigint, up_seq1 bigint, cursor_id bigint
);

-- Where a lane stands: what lo sees is delivered, the window up to "up" is read to cursor_id. up NULL:
-- the lane stands exactly at lo. Test such values with "x IS NULL", never with "x IS NOT NULL", which is false as soon
-- as one field is null.
CREATE TYPE "fencepost".position AS (
  lo pg_snapshot, lo_seq0 bigint, up pg_snapshot, up_seq0 bigint, up_seq1 bigint, cursor_id bigint,
  detours "fencepost".detour[]
);

-- Small and often updated: room on the page keeps renewals heap-only, and no updated column is indexed.
CREATE TABLE "fencepost".lanes (
  lane             smallint NOT NULL,
  first_slot       smallint NOT NULL,
  last_slot        smallint NOT NULL,
  owner            text,
  generation       bigint NOT NULL DEFAULT 0,
  lease_expires_at timestamptz,
  status           text,
  CONSTRAINT lanes_pkey PRIMARY KEY (lane),
  CONSTRAINT lanes_lane_check CHECK (lane >= 0),
  CONSTRAINT lanes_slots_check CHECK (first_slot >= 0 AND first_slot <= last_slot AND last_slot <= 255),
  CONSTRAINT lanes_slots_excl EXCLUDE USING gist (int4range(first_slot, last_slot, '[]') WITH &&),
  CONSTRAINT lanes_generation_check CHECK (generation >= 0),
  CONSTRAINT lanes_owner_check CHECK (octet_length(owner) BETWEEN 1 AND 255),
  CONSTRAINT lanes_lease_check CHECK ((owner IS NULL) = (lease_expires_at IS NULL))
) WITH (fillfactor = 10);

-- Append-only. The primary key is the fence: one row per number, whoever writes it first.
CREATE TABLE "fencepost".batches (
  lane       smallint NOT NULL,
  n          bigint NOT NULL,
  generation bigint NOT NULL,
  written_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  tag        uuid NOT NULL,
  messages   bigint NOT NULL DEFAULT 0,
  bytes      bigint NOT NULL DEFAULT 0,
  took_ms    integer NOT NULL DEFAULT 0,
  kind       text NOT NULL,
  owner      text,
  pos_after  "fencepost".position NOT NULL,
  -- NULL: the same as pos_after.
  pos_before "fencepost".position,
  eff        bigint,
  open       bigint,
  open_tag   uuid,
  intent     jsonb,
  CONSTRAINT batches_pkey PRIMARY KEY (lane, n),
  CONSTRAINT batches_n_check CHECK (n > 0 OR (n = 0 AND kind = 'init')),
  CONSTRAINT batches_kind_check CHECK (kind IN ('init', 'fence', 'mark', 'prepared', 'resolved')),
  CONSTRAINT batches_owner_check CHECK (kind = 'init' OR (owner IS NOT NULL AND octet_length(owner) BETWEEN 1 AND 255)),
  CONSTRAINT batches_counts_check CHECK (generation >= 0 AND messages >= 0 AND bytes >= 0 AND took_ms >= 0),
  -- Only a prepared row opens a transaction, and only a fence row hands an open one on.
  CONSTRAINT batches_open_check CHECK (CASE kind WHEN 'prepared' THEN open IS NOT NULL AND open = greatest(n, eff + 1)
    WHEN 'fence' THEN true ELSE open IS NULL END AND (eff IS NULL OR open IS NULL OR open > eff)),
  CONSTRAINT batches_open_tag_check CHECK ((open IS NULL) = (open_tag IS NULL)),
  -- Nothing open: nothing to undo, and nothing intended.
  CONSTRAINT batches_closed_check CHECK (open IS NOT NULL OR (pos_before IS NULL AND intent IS NULL)),
  CONSTRAINT batches_pos_after_check CHECK ((pos_after).lo IS NOT NULL AND (pos_after).lo_seq0 IS NOT NULL
    AND (pos_after).lo_seq0 >= 0 AND (pos_after).cursor_id IS NOT NULL AND (pos_after).cursor_id >= 0
    AND ((pos_after).up IS NULL) = ((pos_after).up_seq0 IS NULL)
    AND ((pos_after).up IS NULL) = ((pos_after).up_seq1 IS NULL)
    AND ((pos_after).up IS NOT NULL OR (pos_after).cursor_id = 0)),
  CONSTRAINT batches_pos_before_check CHECK (pos_before IS NULL OR ((pos_before).lo IS NOT NULL AND (pos_before).lo_seq0 IS NOT NULL
    AND (pos_before).lo_seq0 >= 0 AND (pos_before).cursor_id IS NOT NULL AND (pos_before).cursor_id >= 0
    AND ((pos_before).up IS NULL) = ((pos_before).up_seq0 IS NULL)
    AND ((pos_before).up IS NULL) = ((pos_before).up_seq1 IS NULL)
    AND ((pos_before).up IS NOT NULL OR (pos_before).cursor_id = 0)))
);

-- Relay processes that are alive: a heartbeat each.
CREATE TABLE "fencepost".relays (
  owner      text NOT NULL,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT relays_pkey PRIMARY KEY (owner),
  CONSTRAINT relays_owner_check CHECK (octet_length(owner) BETWEEN 1 AND 255)
) WITH (fillfactor = 50);

-- Eight lanes of 32 slots, each before the first message.
INSERT INTO "fencepost".lanes (lane, first_slot, last_slot)
SELECT lane, lane * 32, lane * 32 + 31 FROM generate_series(0, 7) AS lane;

INSERT INTO "fencepost".batches (lane, n, kind, generation, tag, pos_after)
SELECT lane, 0, 'init', 0, gen_random_uuid(), ROW('1:1:', 0, NULL, NULL, NULL, 0, NULL)::"fencepost".position
  FROM "fencepost".lanes;

UPDATE "fencepost".settings SET schema_version = 2;
