-- The log: an append-only table of immutable rows, and what identifies its source.
-- Position code relies on three facts here: a row's transaction id is assigned before its id (the
-- data dependency in the default of "id"), the sequence has CACHE 1 and only grows, and nobody but the
-- owner may write "id" or "xid" (the roles step grants columns, not the table).

-- Not owned by the column: TRUNCATE ... RESTART IDENTITY must not set it back.
CREATE SEQUENCE "fencepost".outbox_id_seq AS bigint INCREMENT 1 MINVALUE 1 START 1 CACHE 1 NO CYCLE;

-- UUIDv7 (RFC 9562): 48 bits of Unix milliseconds, then random bits. PostgreSQL has one of its own only
-- from 18 on. A random UUIDv4 differs in two version bits (52 and 53 by bytea's count). The
-- parsed body makes it inlinable in a default and independent of search_path.
CREATE FUNCTION "fencepost".uuid_v7() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
         PLACING substring(int8send(floor(date_part('epoch', clock_timestamp()) * 1000)::bigint) FROM 3)
         FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid;

-- Fixed-width columns first: the relay and the constraints find them without walking the row.
CREATE TABLE "fencepost".outbox (
  id            bigint NOT NULL DEFAULT nextval(CASE WHEN pg_current_xact_id() IS NOT NULL
                                                     THEN '"fencepost".outbox_id_seq'::regclass END),
  xid           xid8 NOT NULL DEFAULT pg_current_xact_id(),
  created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  message_id    uuid NOT NULL DEFAULT "fencepost".uuid_v7(),
  -- docs/adr/0001-slot-expression.md has the figures. Both functions keep their values over
  -- pg_upgrade, because hash indexes do.
  slot          smallint NOT NULL GENERATED ALWAYS AS
                  ((coalesce(hashtext(encode(key, 'hex') COLLATE "C"), uuid_hash(message_id)) & 255)::smallint) STORED,
  partition     integer,
  event_time    timestamptz,
  tenant        text NOT NULL DEFAULT 'default',
  topic         text NOT NULL,
  type          text NOT NULL,
  key           bytea,
  content_type  text,
  header_keys   text[],
  header_values bytea[],
  payload       bytea,
  CONSTRAINT outbox_pkey PRIMARY KEY (id),
  CONSTRAINT outbox_topic_check CHECK (octet_length(topic) BETWEEN 1 AND 249
    AND topic COLLATE "C" !~ '[^a-zA-Z0-9._-]|^[.]{1,2}$'),
  CONSTRAINT outbox_tenant_check CHECK (octet_length(tenant) BETWEEN 1 AND 255),
  CONSTRAINT outbox_type_check CHECK (octet_length(type) BETWEEN 1 AND 255),
  CONSTRAINT outbox_content_type_check CHECK (octet_length(content_type) BETWEEN 1 AND 255),
  CONSTRAINT outbox_partition_check CHECK (partition >= 0),
  -- What RFC 3339 can express in a header.
  CONSTRAINT outbox_event_time_check CHECK (event_time >= '0001-01-01 00:00:00+00' AND event_time < '10000-01-01 00:00:00+00'),
  -- Two lists of one length; a name is never null, a value may be.
  CONSTRAINT outbox_headers_check CHECK ((header_keys IS NULL) = (header_values IS NULL)
    AND (header_keys IS NULL OR (cardinality(header_keys) = cardinality(header_values) AND cardinality(header_keys) <= 128
      AND coalesce(array_ndims(header_keys), 1) = 1 AND coalesce(array_ndims(header_values), 1) = 1
      AND array_position(header_keys, NULL) IS NULL))),
  -- The relay's own names: a producer must not forge a message id or a fence.
  CONSTRAINT outbox_reserved_headers_check CHECK (header_keys IS NULL
    OR array_to_string(header_keys, E'\n') COLLATE "C" !~ '(^|\n)(fencepost-|ce_|content-type(\n|$))')
) WITH (
  -- Deletes come in id order and in bulk; never by a scan that needs statistics.
  autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 50000,
  autovacuum_vacuum_insert_threshold = -1,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000000,
  vacuum_truncate = off
);

-- Stragglers: rows of a transaction that committed after later ids were read.
CREATE INDEX outbox_xid_idx ON "fencepost".outbox (xid);

-- Who this log is. canary = xmin proves that transaction ids still are those of this cluster: false
-- once a dump was restored elsewhere. So the row is inserted outside any savepoint and never updated.
CREATE TABLE "fencepost".origin (
  one       boolean NOT NULL DEFAULT true,
  source_id uuid NOT NULL,
  canary    xid8 NOT NULL DEFAULT pg_current_xact_id(),
  CONSTRAINT origin_pkey PRIMARY KEY (one),
  CONSTRAINT origin_one_check CHECK (one)
);
INSERT INTO "fencepost".origin (source_id) VALUES (gen_random_uuid());

DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM "fencepost".origin
                  WHERE (canary::text::bigint & 4294967295) = xmin::text::bigint) THEN
    RAISE EXCEPTION 'the migration ran inside a savepoint, which would spoil the origin row'
      USING HINT = 'run it outside any savepoint (in psql: \set ON_ERROR_ROLLBACK off)';
  END IF;
END $$;

-- What an installation decides once. schema_version is the newest migration that a relay must know.
CREATE TABLE "fencepost".settings (
  one              boolean NOT NULL DEFAULT true,
  schema_version   integer NOT NULL,
  kafka_cluster_id text,
  keep_delivered   interval NOT NULL DEFAULT '60 seconds',
  CONSTRAINT settings_pkey PRIMARY KEY (one),
  CONSTRAINT settings_one_check CHECK (one),
  CONSTRAINT settings_keep_delivered_check CHECK (keep_delivered >= interval '0')
);
INSERT INTO "fencepost".settings (schema_version) VALUES (1);
