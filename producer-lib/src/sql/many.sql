-- Many messages without headers. A function scan keeps the arrays' order and the insert takes rows as they come, so
-- ids rise in the order given, and RETURNING tells them in it.
INSERT INTO "fencepost".outbox
  (message_id, tenant, topic, type, key, partition, content_type, event_time, payload)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::integer[], $7::text[],
                     $8::timestamptz[], $9::bytea[])
RETURNING id, message_id
