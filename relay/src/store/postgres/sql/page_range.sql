-- Fresh rows of a window, in id order through the primary key. $1 < id <= $2 bounds the walk whatever
-- was inserted since. The snapshots are sub-selects: parsed once, not per row. $5 has bit s set for each
-- wanted slot s, or is null for all of them.
SELECT id, slot, message_id, tenant, topic, key, partition, type, content_type, header_keys, header_values,
       payload, event_time, created_at
  FROM "fencepost".outbox
 WHERE id > $1 AND id <= $2
   AND NOT pg_visible_in_snapshot(xid, (SELECT $3::text::pg_snapshot))
   AND pg_visible_in_snapshot(xid, (SELECT $4::text::pg_snapshot))
   AND ($5::bytea IS NULL OR get_bit($5::bytea, slot) = 1)
 ORDER BY id
 LIMIT $6
