-- The completeness audit's findings: windows of a lane in which the log held another number of messages than was
-- delivered. Relays append; an admin who has looked into one closes it with a reason. While one is open, nothing
-- delivered is removed from the log. A finding is named by its lane and the number of the batch row where its
-- window ends; the row itself may have been pruned since.
CREATE TABLE "fencepost".audit_findings (
  lane      smallint NOT NULL,
  to_n      bigint NOT NULL,
  from_n    bigint NOT NULL,
  expected  bigint NOT NULL,
  found     bigint NOT NULL,
  found_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  closed_at timestamptz,
  relay     text NOT NULL,
  closed_by text,
  reason    text,
  ids       bigint[] NOT NULL,
  CONSTRAINT audit_findings_pkey PRIMARY KEY (lane, to_n),
  CONSTRAINT audit_findings_window_check CHECK (from_n >= 0 AND to_n > from_n),
  CONSTRAINT audit_findings_counts_check CHECK (expected >= 0 AND found >= 0 AND found <> expected),
  CONSTRAINT audit_findings_ids_check CHECK (cardinality(ids) <= 20),
  CONSTRAINT audit_findings_relay_check CHECK (octet_length(relay) BETWEEN 1 AND 255),
  CONSTRAINT audit_findings_closed_check CHECK ((closed_at IS NULL) = (closed_by IS NULL)
    AND (closed_at IS NULL) = (reason IS NULL)),
  CONSTRAINT audit_findings_reason_check CHECK (octet_length(closed_by) BETWEEN 1 AND 255
    AND octet_length(reason) BETWEEN 1 AND 2000)
);

-- Asked every few seconds, and almost always empty.
CREATE INDEX audit_findings_open_idx ON "fencepost".audit_findings (found_at, lane) WHERE closed_at IS NULL;

UPDATE "fencepost".settings SET schema_version = 4;
