-- One message. id and xid come from their defaults, in that order of dependency; a producer may
-- write neither.
INSERT INTO "fencepost".outbox
  (message_id, tenant, topic, type, key, partition, content_type, event_time, payload, header_keys, header_values)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
RETURNING id, message_id
