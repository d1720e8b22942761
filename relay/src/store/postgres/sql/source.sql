-- The log's identity and its sequence: the canary, the sequence's settings, and that it was not set back.
SELECT (SELECT count(*) FROM "fencepost".origin),
       (SELECT bool_and((o.canary::text::bigint & 4294967295) = o.xmin::text::bigint) FROM "fencepost".origin o),
       q.seqcache, q.seqincrement, q.seqcycle, q.seqmin, q.seqtypid = 'bigint'::regtype,
       (SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM "fencepost".outbox_id_seq),
       (SELECT coalesce(max(id), 0) FROM "fencepost".outbox)
  FROM pg_sequence q
 WHERE q.seqrelid = '"fencepost".outbox_id_seq'::regclass
