-- The cheap poll, and the first and last part of a tick. The statement's snapshot is taken before the
-- scan reads the sequence, whose row is updated in place: last_id is at least what the snapshot can see.
-- A sequence that was never used says 1 and "not called". Backend and sequence settings ride along: a
-- pooler that swaps servers, or a cache that somebody turned on, would break the order unseen.
SELECT pg_current_snapshot()::text,
       CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END,
       pg_backend_pid(),
       (SELECT q.seqcache = 1 AND q.seqincrement = 1 AND NOT q.seqcycle
          FROM pg_sequence q WHERE q.seqrelid = '"fencepost".outbox_id_seq'::regclass)
  FROM "fencepost".outbox_id_seq s
