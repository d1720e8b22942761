-- Rows of transactions that ran at lo and have ended by up, through the index on xid. "id + 0" keeps the
-- planner from walking the primary key instead. A row of theirs above lo.seq0 ($3) is a fresh one and
-- belongs to the range. Those that rolled back are invisible to the statement itself. $4: see page_range.
SELECT id, slot, message_id, tenant, topic, key, partition, type, content_type, header_keys, header_values,
       payload, event_time, created_at
  FROM "fencepost".outbox
 WHERE xid = ANY ($1::text[]::xid8[])
   AND id + 0 > $2 AND id + 0 <= $3
   AND ($4::bytea IS NULL OR get_bit($4::bytea, slot) = 1)
 ORDER BY id + 0
 LIMIT $5
