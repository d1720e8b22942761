-- The source as a whole. The sequence holds the next id until it was used once.
SELECT (SELECT o.source_id FROM "fencepost".origin o LIMIT 1),
       (SELECT max(s.schema_version) FROM "fencepost".settings s),
       (SELECT CASE WHEN q.is_called THEN q.last_value ELSE q.last_value - 1 END FROM "fencepost".outbox_id_seq q),
       (SELECT max(b.lane) FROM "fencepost".batches b)
