-- As many.sql, with headers. unnest would flatten an array of arrays, so each row's two lists travel as text in
-- PostgreSQL's array syntax, NULL for a row without headers. Slices of one flat array cost more with each row:
-- they walk it from its start.
INSERT INTO "fencepost".outbox
  (message_id, tenant, topic, type, key, partition, content_type, event_time, payload, header_keys, header_values)
SELECT message_id, tenant, topic, type, key, partition, content_type, event_time, payload,
       header_keys::text[], header_values::bytea[]
  FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::integer[], $7::text[],
              $8::timestamptz[], $9::bytea[], $10::text[], $11::text[])
    AS m (message_id, tenant, topic, type, key, partition, content_type, event_time, payload, header_keys, header_values)
RETURNING id, message_id
